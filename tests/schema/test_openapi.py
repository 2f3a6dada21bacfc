from __future__ import annotations

import copy
from typing import Any

import pytest

from registry.schema.openapi import published_v2, published_v3

Schema = dict[str, Any]

OBJECT: Schema = {"type": "object"}
EITHER: list[Schema] = [{"type": "integer"}, {"type": "string"}]
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}


def field_of(published: Schema) -> Schema:
    found: Schema = published["properties"]["a"]
    return found


@pytest.mark.parametrize(
    "field",
    [
        pytest.param({"type": "string", "nullable": True, "default": "x", "enum": ["x"], "pattern": "x"}, id="values"),
        pytest.param({**OBJECT, "anyOf": [{"required": ["x"]}], "not": {"required": ["y"]}}, id="junctors"),
        pytest.param(
            {**OBJECT, "additionalProperties": True, **PRESERVE, "x-kubernetes-map-type": "atomic"}, id="extensions"
        ),
        pytest.param({**OBJECT, "x-kubernetes-validations": [{"rule": "true"}]}, id="rules"),
        pytest.param({**INT_OR_STRING, "anyOf": EITHER}, id="int or string as it should be"),
        pytest.param({**INT_OR_STRING, "allOf": [{"anyOf": EITHER}, {"minimum": 1}]}, id="int or string in all of"),
    ],
)
def test_v3_keeps_every_keyword(field: Schema) -> None:
    schema = {**OBJECT, "properties": {"a": field}}
    before = copy.deepcopy(schema)
    assert field_of(published_v3(schema)) == field
    assert schema == before


@pytest.mark.parametrize(
    "field, published",
    [
        pytest.param(INT_OR_STRING, {**INT_OR_STRING, "anyOf": EITHER}, id="plain"),
        pytest.param(
            {**INT_OR_STRING, "anyOf": [{"minimum": 1}]},
            {**INT_OR_STRING, "anyOf": [{"minimum": 1}], "allOf": [{"anyOf": EITHER}]},
            id="beside any of",
        ),
    ],
)
def test_v3_spells_out_int_or_string(field: Schema, published: Schema) -> None:
    assert field_of(published_v3({**OBJECT, "properties": {"a": field}})) == published


def test_the_root_has_kind_and_metadata() -> None:
    found = published_v3({**OBJECT, "properties": {"metadata": {**OBJECT, "properties": {"name": {"type": "string"}}}}})
    assert list(found["properties"]) == ["apiVersion", "kind", "metadata"]
    assert found["properties"]["metadata"]["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    ]


@pytest.mark.parametrize("convert", [published_v3, published_v2])
def test_an_embedded_resource_has_kind_and_metadata(convert: Any) -> None:
    field = {
        **OBJECT,
        "x-kubernetes-embedded-resource": True,
        "required": ["kind"],
        "properties": {"x": {"type": "string"}},
    }
    found = field_of(convert({**OBJECT, "properties": {"a": field}}))
    assert set(found["properties"]) == {"x", "apiVersion", "kind", "metadata"}
    assert found["required"] == ["kind", "apiVersion"]


@pytest.mark.parametrize(
    "field, published",
    [
        pytest.param(
            {"type": "string", "default": "x", "enum": ["x"]}, {"type": "string", "enum": ["x"]}, id="default"
        ),
        pytest.param({**OBJECT, "anyOf": [{}], "not": {}, "allOf": [{}]}, OBJECT, id="junctors"),
        pytest.param({"type": "string", "nullable": True}, {}, id="nullable"),
        pytest.param({**OBJECT, "nullable": True, "properties": {"x": OBJECT}}, {}, id="nullable object"),
        pytest.param({**OBJECT, **PRESERVE, "properties": {"x": OBJECT}}, PRESERVE, id="preserving"),
        pytest.param({"type": "array", "items": {"type": "string"}, **PRESERVE}, PRESERVE, id="preserving list"),
        pytest.param(
            {**OBJECT, "properties": {"x": {"nullable": True}, "y": OBJECT}, "required": ["x", "y"]},
            {**OBJECT, "properties": {"x": {}, "y": OBJECT}, "required": ["y"]},
            id="required but nullable",
        ),
        pytest.param(
            {**OBJECT, "additionalProperties": {"type": "string", "nullable": True}, "required": ["x"]},
            {**OBJECT, "additionalProperties": {}},
            id="nullable values",
        ),
        pytest.param({**INT_OR_STRING, "anyOf": EITHER}, INT_OR_STRING, id="int or string"),
        pytest.param(
            {**OBJECT, "x-kubernetes-embedded-resource": True, **PRESERVE},
            {"x-kubernetes-embedded-resource": True, **PRESERVE},
            id="preserving resource",
        ),
    ],
)
def test_v2(field: Schema, published: Schema) -> None:
    assert field_of(published_v2({**OBJECT, "properties": {"a": field}})) == published


def test_v2_of_a_preserving_root() -> None:
    assert published_v2({**OBJECT, **PRESERVE, "properties": {"a": OBJECT}}) == OBJECT
