"""Whatever is sent as a definition gets an answer: errors, or a definition that can be served. Never a crash."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.codec.structs.base import GoType
from registry.codec.structs.meta import Time
from registry.codec.structs.scalars import Integer, Number, Raw
from registry.codec.structs.structs import GoMap, GoSlice, OneOf, Pointer, Struct
from registry.definitions import types
from registry.definitions.compiled import compile_definition
from registry.definitions.decode import StructDecodeError, canonical, decode_definition, without_empty_fields
from registry.definitions.defaulting import default_definition
from registry.definitions.discovery import aggregated_discovery
from registry.definitions.naming import NamesInUse, next_status
from registry.definitions.openapi.documents import openapi_v3, openapi_v3_hashes
from registry.definitions.openapi.v2 import openapi_v2
from registry.definitions.strategy import prepare_for_create, prepare_for_update
from registry.definitions.validation import validate_create, validate_update
from registry.definitions.warnings import warnings
from registry.schema.values import same
from tests.definitions.crds import crd

NOW = "2024-05-06T07:08:09Z"

TEXTS = st.sampled_from(
    [
        "",
        "a",
        "v1",
        "string",
        "object",
        "array",
        "integer",
        "map",
        "set",
        "atomic",
        "Namespaced",
        "^a",
        "(",
        ".spec.a",
        ".status.a",
        "https://h/",
        "self.a",
        "date",
        "None",
        "Webhook",
        "ü\x00",
        "2024-01-01T00:00:00Z",
    ]
)
SCALARS = st.none() | st.booleans() | st.integers(-2, 3) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)


def of_type(kind: GoType, depth: int = 0) -> st.SearchStrategy[Any]:
    """Mostly values that decode, so that the checks behind are reached."""
    if isinstance(kind, Pointer):
        return of_type(kind.element, depth)
    if isinstance(kind, Struct):
        if depth > 6:
            return st.just({})
        return st.fixed_dictionaries({}, optional={f.name: of_type(f.type, depth + 1) for f in kind.fields})
    if isinstance(kind, GoSlice):
        return st.lists(of_type(kind.element, depth + 1), max_size=2)
    if isinstance(kind, GoMap):
        return st.dictionaries(TEXTS, of_type(kind.element, depth + 1), max_size=2)
    if isinstance(kind, OneOf):
        return ANY if depth > 4 else st.booleans() | of_type(types.JSONSchemaProps, depth + 1)
    if isinstance(kind, (Integer, Number)):
        return st.integers(-1, 3)
    if isinstance(kind, Raw):
        return ANY
    if isinstance(kind, Time):
        return st.just(NOW)
    return st.booleans() if kind.go == "bool" else TEXTS


SCHEMAS: st.SearchStrategy[Any] = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", "integer", "boolean", "number"]),
            "properties": st.dictionaries(st.sampled_from(["a", "b", "metadata", "kind"]), SCHEMAS, max_size=2),
            "items": SCHEMAS,
            "additionalProperties": SCHEMAS | st.booleans(),
            "default": ANY,
            "nullable": st.booleans(),
            "anyOf": st.lists(SCHEMAS, max_size=2),
            "not": SCHEMAS,
            "required": st.lists(TEXTS, max_size=2),
            "pattern": TEXTS,
            "format": TEXTS,
            "enum": st.lists(ANY, max_size=2),
            "x-kubernetes-preserve-unknown-fields": st.booleans(),
            "x-kubernetes-embedded-resource": st.booleans(),
            "x-kubernetes-int-or-string": st.booleans(),
            "x-kubernetes-list-type": st.sampled_from(["atomic", "set", "map"]),
            "x-kubernetes-list-map-keys": st.lists(st.sampled_from(["a", "b"]), max_size=2),
            "x-kubernetes-validations": st.lists(
                st.fixed_dictionaries({"rule": st.sampled_from(["self.a", "true", "has(self.a)", "("])}), max_size=1
            ),
        },
    )
)


def assert_answer(body: Any) -> None:
    """Goes the whole way that a definition goes."""
    try:
        definition = decode_definition(body).value
    except StructDecodeError:
        return
    default_definition(definition)
    definition = prepare_for_create(definition)
    errors = [error.message() for error in validate_create(definition)]
    assert all(errors)
    stored = canonical(definition)
    assert same(without_empty_fields(definition), stored)
    json.dumps(stored).encode("utf-8", "surrogatepass")
    again = canonical(decode_definition(stored).value)
    assert same(again["spec"], stored["spec"])
    validate_update(prepare_for_update(definition, stored), stored)
    if errors:
        return
    assert all(warnings(definition)) or not warnings(definition)
    for _ in range(3):
        status = next_status(stored, NamesInUse(), NOW)
        stored = {**stored, "status": status or stored["status"]}
    served = compile_definition(stored)
    for version in served.versions.values():
        obj: dict[str, Any] = {
            "apiVersion": f"{served.group}/{version.name}",
            "kind": served.names.kind,
            "metadata": {},
        }
        version.schema().process(obj, [])
        version.schema().validate(obj)
        assert json.dumps(openapi_v3([served], served.group, version.name))
    assert json.dumps([openapi_v2([served]), openapi_v3_hashes([served]), aggregated_discovery([served], core=False)])


quick = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@quick
@given(ANY)
def test_arbitrary_json(body: Any) -> None:
    assert_answer(body)


@pytest.mark.slow
@quick
@given(of_type(types.CustomResourceDefinition))
def test_arbitrary_definitions(body: Any) -> None:
    assert_answer(body)


@pytest.mark.slow
@quick
@given(SCHEMAS)
def test_arbitrary_schemas_of_a_valid_definition(schema: Any) -> None:
    assert_answer(crd({"type": "object", "properties": {"a": schema}}))


@pytest.mark.slow
@quick
@given(st.sampled_from(["spec", "metadata", "status"]), ANY)
def test_arbitrary_parts(part: str, value: Any) -> None:
    assert_answer(crd() | {part: value})
