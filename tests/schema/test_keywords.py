from __future__ import annotations

from typing import Any

import pytest

from registry.schema.structural.keywords import validate_keywords

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
OBJECT: Schema = {"type": "object"}
LIST = "x-kubernetes-list-type"
MAP = "x-kubernetes-map-type"
KEYS = "x-kubernetes-list-map-keys"


def at_a(field: Schema) -> list[str]:
    errors = validate_keywords({"type": "object", "properties": {"a": field}}, "s", types=True, no_default="").errors
    return [e.message().replace("s.properties[a]", "A") for e in errors]


@pytest.mark.parametrize(
    "field, errors",
    [
        pytest.param(
            {"type": "text"},
            [
                'A.type: Unsupported value: "text": supported values: "array", "boolean", '
                '"integer", '
                '"number", "object", "string"'
            ],
            id="type",
        ),
        pytest.param(
            {"type": "null"},
            [
                'A.type: Unsupported value: "null": supported values: "array", "boolean", '
                '"integer", '
                '"number", "object", "string"',
                "A.type: Forbidden: type cannot be set to null, use nullable as an alternative",
            ],
            id="null",
        ),
        pytest.param(
            {"id": "x", "$ref": "", "additionalItems": False, "dependencies": {}},
            [
                "A.id: Forbidden: id is not supported",
                "A.additionalItems: Forbidden: additionalItems is not supported",
                "A.dependencies: Forbidden: dependencies is not supported",
                "A.$ref: Forbidden: $ref is not supported",
            ],
            id="no place for these",
        ),
        pytest.param({"id": "", "patternProperties": {}, "definitions": {}, "items": []}, [], id="empty ones pass"),
        pytest.param(
            {"definitions": {"d": {"id": "x"}}},
            [
                "A.definitions: Forbidden: definitions is not supported",
                "A.definitions[d].id: Forbidden: id is not supported",
            ],
            id="looked into anyway",
        ),
        pytest.param(
            {"items": [{"id": "x"}]},
            [
                "A.items: Forbidden: items must be a schema object and not an array",
                "A.items[0].id: Forbidden: id is not supported",
            ],
            id="items as array",
        ),
        pytest.param(
            {"not": {"uniqueItems": True}},
            [
                "A.not.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity "
                "becomes "
                "quadratic"
            ],
            id="uniqueItems",
        ),
        pytest.param(
            {"properties": {"x": {}}, "additionalProperties": False},
            ["A.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
            id="beside properties",
        ),
        pytest.param({"properties": {"x": {}}, "additionalProperties": True}, [], id="true beside properties"),
        pytest.param(
            {"x-kubernetes-preserve-unknown-fields": False},
            ["A.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
            id="preserve false",
        ),
        pytest.param(
            {**STRING, MAP: "x"},
            [
                f'A.type: Invalid value: "string": must be object if {MAP} is specified',
                f'A.{MAP}: Unsupported value: "x": supported values: "atomic", "granular"',
            ],
            id="map type",
        ),
        pytest.param({LIST: "set"}, [f"A.type: Required value: must be array if {LIST} is specified"], id="list type"),
        pytest.param(
            {"type": "array", LIST: "bag", "items": STRING},
            [f'A.{LIST}: Unsupported value: "bag": supported values: "atomic", "set", "map"'],
            id="unknown list type",
        ),
    ],
)
def test_keywords(field: Schema, errors: list[str]) -> None:
    assert at_a(field) == errors


ATOMIC = "must be atomic as item of a list with x-kubernetes-list-type=set"


@pytest.mark.parametrize(
    "items, errors",
    [
        pytest.param(STRING, [], id="scalar"),
        pytest.param(OBJECT, [f"A.items.{MAP}: Invalid value: null: {ATOMIC}"], id="object"),
        pytest.param({**OBJECT, MAP: "atomic"}, [], id="atomic object"),
        pytest.param({"type": "array"}, [], id="list"),
        pytest.param({"type": "array", LIST: "set"}, [f'A.items.{LIST}: Invalid value: "set": {ATOMIC}'], id="set"),
        pytest.param(
            {**STRING, "nullable": True},
            [f"A.items.nullable: Forbidden: cannot be nullable when {LIST} is set"],
            id="nullable",
        ),
    ],
)
def test_set(items: Schema, errors: list[str]) -> None:
    assert at_a({"type": "array", LIST: "set", "items": items}) == errors


def item(**key: Any) -> Schema:
    return {**OBJECT, "properties": {"k": {"type": "string", **key}}, "required": ["k"]}


@pytest.mark.parametrize(
    "schema, errors",
    [
        pytest.param({KEYS: ["k"], "items": item()}, [], id="good"),
        pytest.param(
            {"items": item()}, [f"A.{KEYS}: Required value: must not be empty if {LIST} is map"], id="no keys"
        ),
        pytest.param(
            {KEYS: ["k"]},
            ["A.items: Required value: must have a schema if x-kubernetes-list-type is map"],
            id="no items",
        ),
        pytest.param(
            {KEYS: ["k"], "items": []},
            [
                'A.items: Invalid value: {"Schema":null,"JSONSchemas":[]}: must only have a single schema if '
                "x-kubernetes-list-type is map"
            ],
            id="items no schema",
        ),
        pytest.param(
            {KEYS: ["k"], "items": STRING},
            ['A.items.type: Invalid value: "string": must be object if parent array\'s x-kubernetes-list-type is map'],
            id="items of strings",
        ),
        pytest.param(
            {KEYS: ["z", "z"], "items": item()},
            [f'A.{KEYS}: Invalid value: ["z","z"]: entries must all be names of item properties'] * 2
            + [f'A.{KEYS}: Invalid value: ["z","z"]: must not contain duplicate entries'],
            id="unknown keys",
        ),
        pytest.param(
            {KEYS: ["k"], "items": item(type="object")},
            [
                'A.items.properties[k].type: Invalid value: "object": must be a scalar type if parent array\'s '
                "x-kubernetes-list-type is map"
            ],
            id="key an object",
        ),
        pytest.param(
            {KEYS: ["k"], "items": {**item(nullable=True), "required": [], "nullable": True}},
            [
                f"A.items.nullable: Forbidden: cannot be nullable when {LIST} is map",
                "A.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so "
                "it "
                "must have a default or be a required property",
                "A.items.properties[k].nullable: Forbidden: this property is in x-kubernetes-list-map-keys, so it "
                "cannot "
                "be nullable",
            ],
            id="nullable and optional",
        ),
        pytest.param({KEYS: ["k"], "items": {**item(default=""), "required": []}}, [], id="a default does"),
    ],
)
def test_map_list(schema: Schema, errors: list[str]) -> None:
    found = at_a({"type": "array", LIST: "map", **schema})
    assert sorted(found) == sorted(errors)


@pytest.mark.parametrize(
    "list_type, error",
    [pytest.param(None, "Required value", id="absent"), pytest.param("set", 'Invalid value: "set"', id="set")],
)
def test_keys_without_map(list_type: str | None, error: str) -> None:
    field = {"type": "array", "items": STRING, KEYS: ["k"]} | ({LIST: list_type} if list_type else {})
    assert at_a(field) == [f"A.{LIST}: {error}: must be map if {KEYS} is non-empty"]


def test_no_defaults_in_metadata_of_the_root() -> None:
    schema = {
        **OBJECT,
        "properties": {
            "kind": {**STRING, "default": "x"},
            "metadata": {**OBJECT, "properties": {"name": {**STRING, "default": "x"}}},
        },
    }
    assert [e.message() for e in validate_keywords(schema, "s", types=True, no_default="").errors] == [
        "s.properties[kind].default: Forbidden: must not be set in top-level kind",
        "s.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata",
    ]


def test_metadata_of_an_embedded_resource() -> None:
    labels = {**OBJECT, "additionalProperties": {**STRING, "default": "x"}}
    field = {
        **OBJECT,
        "x-kubernetes-embedded-resource": True,
        "properties": {
            "metadata": {
                **OBJECT,
                "default": {},
                "x-kubernetes-embedded-resource": True,
                "properties": {"labels": labels},
            }
        },
    }
    assert at_a(field) == [
        "A.properties[metadata].x-kubernetes-embedded-resource: Forbidden: must not be used inside of resource meta",
        "A.properties[metadata].properties[labels].additionalProperties.default: Forbidden: must not be set inside "
        "additionalProperties applying to object metadata",
    ]
