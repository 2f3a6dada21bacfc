"""A definition whose fields are of every kind that a reporting view knows, and the name of its view."""

from __future__ import annotations

from typing import Any

from tests.reporting.reports import definition

TEXT = {"type": "string"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


SPEC = of(
    phase={"type": "string", "description": "What it's doing; DROP TABLE"},
    replicas={"type": "integer"},
    weight={"type": "number"},
    on={"type": "boolean"},
    at={"type": "string", "format": "date-time"},
    day={"type": "string", "format": "date"},
    port={"x-kubernetes-int-or-string": True},
    labels={"type": "object", "additionalProperties": TEXT},
    list={"type": "array", "items": TEXT},
    parts={"type": "array", "items": of(name=TEXT, sizes={"type": "array", "items": of(size={"type": "integer"})})},
)


CONDITIONS = of(
    conditions={
        "type": "array",
        "items": of(type=TEXT, status=TEXT, reason=TEXT, lastTransitionTime={"type": "string", "format": "date-time"}),
    }
)


CRD = definition("crontabs", {"spec": SPEC, "status": CONDITIONS}, selectableFields=[{"jsonPath": ".spec.phase"}])


VIEW = "crontabs_example_com"
