"""Definitions to test with: one good one, and changes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from registry.definitions.decode import decode_definition
from registry.definitions.defaulting import default_definition
from registry.definitions.strategy import prepare_for_create
from registry.definitions.validation import validate_create
from registry.schema.field import FieldError

Json = dict[str, Any]

GROUP = "g.example.com"


def version(name: str = "v1", schema: Json | None = None, **more: Any) -> Json:
    found = {
        "name": name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"} if schema is None else schema},
    }
    return found | more


def crd(schema: Json | None = None, *, metadata: Json | None = None, **spec: Any) -> Json:
    """A definition as a client sends it; keywords replace what is in spec."""
    body: Json = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [version(schema=schema)],
        },
    }
    return {**body, "spec": body["spec"] | spec, "metadata": body["metadata"] | (metadata or {})}


def prepared(body: Json) -> Json:
    """What a POST of `body` validates."""
    definition = decode_definition(body).value
    default_definition(definition)
    return prepare_for_create(definition)


def errors_of(body: Json) -> list[str]:
    return messages(validate_create(prepared(body)))


def messages(errors: Sequence[FieldError]) -> list[str]:
    return [error.message() for error in errors]


def established(body: Json, **status: Any) -> Json:
    """A stored definition whose names have been accepted."""
    stored = prepared(body)
    stored["metadata"] = {**stored["metadata"], "uid": "u-1", "resourceVersion": "7"}
    conditions = [
        {
            "type": "NamesAccepted",
            "status": "True",
            "lastTransitionTime": "2024-01-01T00:00:00Z",
            "reason": "NoConflicts",
            "message": "no conflicts found",
        },
        {
            "type": "Established",
            "status": "True",
            "lastTransitionTime": "2024-01-01T00:00:00Z",
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]
    stored["status"] = {
        **stored["status"],
        "acceptedNames": stored["spec"]["names"],
        "conditions": conditions,
        **status,
    }
    return stored
