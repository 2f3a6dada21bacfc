from __future__ import annotations

from typing import Any

import pytest

from registry.schema.field import FieldError, invalid
from registry.schema.model import Structural, from_json
from registry.schema.structural.defaults import validate_defaults
from registry.schema.values import Json

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
OBJECT: Schema = {"type": "object"}
RESOURCE: Schema = {**OBJECT, "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}


def no_rules(node: Structural, is_resource: bool, value: Json, path: str) -> list[FieldError]:
    return []


def at_a(field: Schema) -> list[str]:
    schema = from_json({**OBJECT, "properties": {"a": field}})
    return [e.message().replace("s.properties[a]", "A") for e in validate_defaults(schema, "s", no_rules)]


@pytest.mark.parametrize(
    "field, errors",
    [
        pytest.param({**STRING, "default": "x"}, [], id="good"),
        pytest.param(
            {**STRING, "default": 1},
            ['A.default: Invalid value: "integer":  in body must be of type string: "integer"'],
            id="type",
        ),
        pytest.param(
            {**STRING, "pattern": "^a", "default": "b"},
            ["A.default: Invalid value: \"b\":  in body should match '^a'"],
            id="pattern",
        ),
        pytest.param(
            {**OBJECT, "properties": {"x": STRING}, "default": {"x": 1}},
            ['A.default.x: Invalid value: "integer": x in body must be of type string: "integer"'],
            id="field",
        ),
        pytest.param(
            {**OBJECT, "additionalProperties": STRING, "default": {"k": 1}},
            ['A.default.k: Invalid value: "integer": .k in body must be of type string: "integer"'],
            id="map value",
        ),
        pytest.param(
            {"type": "array", "items": STRING, "default": ["a", 1]},
            ['A.default.[1]: Invalid value: "integer": [1] in body must be of type string: "integer"'],
            id="item",
        ),
        pytest.param(
            {**OBJECT, "properties": {"x": {**STRING, "default": 1}}},
            ['A.properties[x].default: Invalid value: "integer":  in body must be of type string: "integer"'],
            id="deep",
        ),
        pytest.param(
            {"type": "array", "items": {**STRING, "default": 1}},
            ['A.items.default: Invalid value: "integer":  in body must be of type string: "integer"'],
            id="of items",
        ),
        pytest.param({**OBJECT, "additionalProperties": {**STRING, "default": 1}}, [], id="below additionalProperties"),
        pytest.param(
            {"type": "integer", "anyOf": [{"format": "odd"}, {"minimum": 9}], "default": 1},
            [
                'A.default: Invalid value: "": "" must validate at least one schema (anyOf)',
                'A.default: Invalid value: "int64":  in body must be of type odd: "int64"',
            ],
            id="excluded by an unknown format",
        ),
        pytest.param({"type": "integer", "format": "odd", "default": 1}, [], id="unknown format of its own"),
        pytest.param(
            {**OBJECT, "properties": {"x": STRING}, "default": {"y": 1}},
            ['A.default: Invalid value: {"y":1}: must not have unknown fields'],
            id="unknown field",
        ),
        pytest.param(
            {**OBJECT, "properties": {"x": STRING}, "default": {"x": 1, "y": 1}},
            [
                'A.default: Invalid value: {"x":1,"y":1}: must not have unknown fields',
                'A.default.x: Invalid value: "integer": x in body must be of type string: "integer"',
            ],
            id="unknown and wrong",
        ),
        pytest.param({"x-kubernetes-int-or-string": True, "default": True}, [], id="int or string takes anything"),
        pytest.param(
            {**OBJECT, "properties": {"x": {"x-kubernetes-int-or-string": True}}, "default": {"x": 1.5}},
            [],
            id="int or string below",
        ),
        pytest.param(
            {**RESOURCE, "default": {"apiVersion": "a/b/c"}},
            [
                "A.default.kind: Required value",
                'A.default.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
            ],
            id="resource",
        ),
        pytest.param(
            {**RESOURCE, "default": {"apiVersion": "v1", "kind": "X", "metadata": {"labels": {"a": 1}}}},
            [
                'A.default.metadata: Invalid value: {"labels":{"a":1}}: json: cannot unmarshal number into Go '
                "struct field "
                "ObjectMeta.labels of type string"
            ],
            id="labels of a resource",
        ),
        pytest.param(
            {**RESOURCE, "properties": {"kind": {**STRING, "default": ""}}},
            [
                'A.properties[kind].default: Invalid value: "": must result in valid metadata: kind: Invalid value: '
                '"": '
                "must not be empty"
            ],
            id="kind of a resource",
        ),
        pytest.param(
            {
                **RESOURCE,
                "properties": {
                    "metadata": {
                        **OBJECT,
                        "properties": {"finalizers": {"type": "array", "items": {**STRING, "default": "no good"}}},
                    }
                },
            },
            [
                'A.properties[metadata].properties[finalizers].items.default: Invalid value: "no good": must result in valid '
                "metadata: "
            ],
            id="item in metadata",
        ),
    ],
)
def test_defaults(field: Schema, errors: list[str]) -> None:
    found = at_a(field)
    assert len(found) == len(errors)
    assert all(f.startswith(e) for f, e in zip(found, errors, strict=True)), found


def test_the_root_is_a_resource() -> None:
    errors = validate_defaults(from_json({**OBJECT, "default": {}}), "s", no_rules)
    assert [e.message() for e in errors] == ["s.default.apiVersion: Required value", "s.default.kind: Required value"]


def test_metadata_in_a_default_is_pruned_in_place() -> None:
    default = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "foo": 1}}
    assert at_a({**RESOURCE, "default": default}) == []
    assert default["metadata"] == {"name": "n"}


def test_rules_are_evaluated_on_valid_defaults_only() -> None:
    asked = []

    def rules(node: Structural, is_resource: bool, value: Json, path: str) -> list[FieldError]:
        asked.append((node.type, is_resource, value, path))
        return [invalid(path, value, "no")]

    schema = from_json(
        {
            **OBJECT,
            "properties": {
                "a": {**STRING, "default": "x"},
                "b": {**STRING, "default": 1},
                "c": {**RESOURCE, "default": {"apiVersion": "v1", "kind": "X"}},
            },
        }
    )
    errors = validate_defaults(schema, "s", rules)
    assert asked == [
        ("string", False, "x", "s.properties[a].default"),
        ("object", True, {"apiVersion": "v1", "kind": "X"}, "s.properties[c].default"),
    ]
    assert len(errors) == 3
