"""Plans of conversion rules between small schemas, and conversions that must be exact in both directions."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

from registry.api.served import body_of
from registry.codec.json_encode import encode_canonical
from registry.conversion.declarative.complement import ANNOTATION
from registry.conversion.declarative.plan import ConversionPlan
from registry.definitions.conversion import RULES
from registry.schema.compiled import compile_schema

Json = Any
Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
INT: Schema = {"type": "integer"}


def obj(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def root(spec: Schema) -> Schema:
    return obj(spec=spec)


def link(*rules: Json, source: str = "v1", target: str = "v2", **more: Json) -> Json:
    return {"from": source, "to": target, "rules": list(rules), **more}


def definition(links: list[Json], **specs: Schema) -> dict[str, Any]:
    versions = [{"name": name, "schema": {"openAPIV3Schema": root(spec)}} for name, spec in specs.items()]
    text = encode_canonical({"conversions": links})
    return {"metadata": {"annotations": {RULES: text}}, "spec": {"versions": versions}}


def plan(links: list[Json], **specs: Schema) -> ConversionPlan:
    schemas = {name: partial(compile_schema, root(spec)) for name, spec in specs.items()}
    return ConversionPlan("g", encode_canonical({"conversions": links}), schemas)


def thing(version: str, spec: Json, **metadata: Json) -> dict[str, Any]:
    return {"apiVersion": f"g/{version}", "kind": "Thing", "metadata": {"name": "a", **metadata}, "spec": spec}


def body_there(by: ConversionPlan, given: dict[str, Any], target: str) -> None:
    """What lists make of a stored body is what `convert` makes of the object."""
    source = given["apiVersion"].rpartition("/")[2]
    stored = {**given, "metadata": {**given["metadata"], "uid": "u-1"}}
    found = by.bodies("Thing", source, target)(stored["metadata"]["name"], "u-1", body_of(stored))
    if ANNOTATION in stored["metadata"].get("annotations", {}):
        assert found is None
    else:
        assert found == body_of(by.convert(stored, f"g/{target}"))


def there_and_back(by: ConversionPlan, spec: Json, source: str = "v1", target: str = "v2") -> tuple[Json, bool]:
    """What the spec becomes, and whether an annotation came with it; the way back must be exact."""
    given = thing(source, spec)
    before = copy.deepcopy(given)
    became = by.convert(given, f"g/{target}")
    assert given == before
    assert by.convert(became, f"g/{source}") == before
    body_there(by, given, target)
    body_there(by, became, source)
    return became["spec"], ANNOTATION in became["metadata"].get("annotations", {})
