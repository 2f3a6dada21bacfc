"""Types and sizes from schemas."""

from __future__ import annotations

from typing import Any

import pytest

from registry.cel.checker.schema_types import MAX_REQUEST_BYTES, Declared, declare
from registry.schema.model import from_json

STRING = {"type": "string"}
LONGEST = MAX_REQUEST_BYTES - 2


def declared(schema: dict[str, Any], root: bool = False) -> Declared | None:
    return declare(from_json(schema), root)


@pytest.mark.parametrize(
    "schema, expected",
    [
        pytest.param({"type": "integer"}, ("int", 0, 1), id="integer"),
        pytest.param({"type": "integer", "format": "int32"}, ("int", 0, 1), id="integer with a format"),
        pytest.param({"type": "number"}, ("double", 0, 1), id="number"),
        pytest.param({"type": "boolean"}, ("bool", 0, 4), id="boolean"),
        pytest.param(STRING, ("string", LONGEST, 2), id="string"),
        pytest.param({**STRING, "nullable": True}, ("string", LONGEST, 2), id="nullable"),
        pytest.param({**STRING, "maxLength": 5}, ("string", 20, 2), id="maxLength"),
        pytest.param({**STRING, "maxLength": -5}, ("string", 0, 2), id="negative maxLength"),
        pytest.param({**STRING, "enum": ["a", "äbc"]}, ("string", 4, 2), id="enum"),
        pytest.param({**STRING, "enum": ["a"], "maxLength": 3}, ("string", 12, 2), id="enum and maxLength"),
        pytest.param({**STRING, "format": "byte"}, ("bytes", LONGEST, 2), id="byte"),
        pytest.param({**STRING, "format": "byte", "maxLength": 5}, ("bytes", 5, 2), id="byte with maxLength"),
        pytest.param({**STRING, "format": "duration", "maxLength": 5}, ("duration", 32, 3), id="duration"),
        pytest.param({**STRING, "format": "date"}, ("timestamp", 12, 12), id="date"),
        pytest.param({**STRING, "format": "date-time"}, ("timestamp", 32, 21), id="date-time"),
        pytest.param({**STRING, "format": "uuid"}, ("string", LONGEST, 2), id="other format"),
        pytest.param({"x-kubernetes-int-or-string": True}, ("dyn", LONGEST, 1), id="int or string"),
        pytest.param({"x-kubernetes-int-or-string": True, "maxLength": 3}, ("dyn", 12, 1), id="int or short string"),
        pytest.param({"type": "array", "items": STRING}, ("list(string)", LONGEST // 3, 2), id="list"),
        pytest.param({"type": "array", "items": STRING, "maxItems": 7}, ("list(string)", 7, 2), id="maxItems"),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "integer"}},
            ("map(string, int)", LONGEST // 7, 2),
            id="map",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 7},
            ("map(string, int)", 7, 2),
            id="maxProperties",
        ),
        pytest.param({"type": "object"}, ("selfType", 0, 2), id="object"),
        pytest.param({"type": "object", "additionalProperties": True}, ("selfType", 0, 2), id="anything goes"),
        pytest.param(
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, ("selfType", 0, 2), id="unknown fields"
        ),
        pytest.param(
            {
                "type": "object",
                "maxProperties": 3,
                "required": ["ab", "c", "d"],
                "properties": {"ab": STRING, "c": {"type": "integer", "default": 1}, "e": STRING},
            },
            ("selfType", 0, 2 + 2 + 2 + 4),
            id="required properties without a default count",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "object", "properties": {"a": STRING}}},
            ("list(selfType.@idx)", LONGEST // 3, 2),
            id="list of objects",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "object"}},
            ("map(string, selfType.@elem)", LONGEST // 8, 2),
            id="map of objects",
        ),
    ],
)
def test_declared(schema: dict[str, Any], expected: tuple[str, int, int]) -> None:
    found = declared(schema)
    assert found is not None
    assert (found.type.text, found.max_elements, found.min_bytes) == expected


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"x-kubernetes-preserve-unknown-fields": True}, id="no type"),
        pytest.param({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}, id="list of no type"),
        pytest.param(
            {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}},
            id="map of no type",
        ),
        pytest.param({"type": "array"}, id="list of nothing"),
    ],
)
def test_undeclared(schema: dict[str, Any]) -> None:
    assert declared(schema) is None
    parent = declared({"type": "object", "properties": {"a": schema, "b": STRING}})
    assert parent is not None
    assert list(parent.fields or ()) == ["b"]


def test_names_are_escaped() -> None:
    found = declared(
        {
            "type": "object",
            "properties": dict.fromkeys(
                ("my-prop", "a.b", "a/b", "a__b", "namespace", "1st", "with blank", "é"), STRING
            ),
        }
    )
    assert found is not None
    assert set(found.type.fields or ()) == {
        "my__dash__prop",
        "a__dot__b",
        "a__slash__b",
        "a__underscores__b",
        "__namespace__",
    }
    assert found.property("my-prop") is not None
    assert found.property("1st") is None


@pytest.mark.parametrize(
    "schema, metadata",
    [
        pytest.param({"type": "object"}, ["name", "generateName"], id="nothing said"),
        pytest.param(
            {
                "type": "object",
                "properties": {"metadata": {"type": "object", "properties": {"name": {**STRING, "maxLength": 3}}}},
            },
            ["name", "generateName"],
            id="only the name",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {
                    "kind": STRING,
                    "apiVersion": STRING,
                    "metadata": {"type": "object", "properties": {"name": STRING, "generateName": STRING, "x": STRING}},
                },
            },
            ["name", "generateName", "x"],
            id="all of them, and more",
        ),
    ],
)
def test_resource(schema: dict[str, Any], metadata: list[str]) -> None:
    found = declared(schema, root=True)
    assert found is not None
    assert found.fields is not None
    assert {"kind", "apiVersion", "metadata"} <= set(found.fields)
    assert list(found.fields["metadata"].fields or ()) == metadata


def test_embedded_resource() -> None:
    schema = {"type": "array", "items": {"type": "object", "x-kubernetes-embedded-resource": True}}
    found = declared(schema)
    assert found is not None
    assert found.element is not None
    assert set(found.element.fields or ()) == {"kind", "apiVersion", "metadata"}
