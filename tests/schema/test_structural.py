from __future__ import annotations

from typing import Any

import pytest

from registry.schema.structural.structural import find_unsupported, validate_structural

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
OBJECT: Schema = {"type": "object"}
EITHER: list[Schema] = [{"type": "integer"}, {"type": "string"}]


def errors_of(schema: Schema) -> list[str]:
    return [error.message() for error in validate_structural(schema, "s")]


def at_a(field: Schema) -> list[str]:
    """The errors of a schema with this property."""
    return [e.replace("s.properties[a]", "A") for e in errors_of({"type": "object", "properties": {"a": field}})]


@pytest.mark.parametrize(
    "schema, errors",
    [
        pytest.param({}, ["s.type: Required value: must not be empty at the root"], id="no type"),
        pytest.param(STRING, ['s.type: Invalid value: "string": must be object at the root'], id="string"),
        pytest.param({"x-kubernetes-preserve-unknown-fields": True}, [], id="preserving"),
        pytest.param({"x-kubernetes-int-or-string": True}, [], id="int or string"),
        pytest.param(
            {**OBJECT, "additionalProperties": True},
            ["s.additionalProperties: Forbidden: must not be used at the root"],
            id="additionalProperties",
        ),
        pytest.param(
            {**OBJECT, "additionalProperties": False},
            ["s.additionalProperties: Forbidden: must not be used at the root"],
            id="additionalProperties false",
        ),
        pytest.param(
            {**OBJECT, "properties": {"kind": {"type": "integer"}, "apiVersion": STRING}},
            ['s.properties[kind].type: Invalid value: "integer": must be string'],
            id="kind",
        ),
        pytest.param(
            {**OBJECT, "properties": {"metadata": STRING}},
            ['s.properties[metadata].type: Invalid value: "string": must be object'],
            id="metadata a string",
        ),
        pytest.param(
            {**OBJECT, "properties": {"metadata": {**OBJECT, "properties": {"name": STRING, "generateName": OBJECT}}}},
            [],
            id="metadata of names",
        ),
    ],
)
def test_root(schema: Schema, errors: list[str]) -> None:
    assert errors_of(schema) == errors


@pytest.mark.parametrize(
    "words",
    [
        pytest.param({"description": "x"}, id="description"),
        pytest.param({"properties": {"labels": OBJECT}}, id="labels"),
        pytest.param({"properties": {"name": STRING, "labels": OBJECT}}, id="name and labels"),
        pytest.param({"required": []}, id="empty required"),
        pytest.param({"maxProperties": 0}, id="pointer to zero"),
        pytest.param({"additionalProperties": False}, id="additionalProperties false"),
        pytest.param({"x-kubernetes-preserve-unknown-fields": True}, id="preserving"),
        pytest.param({"x-kubernetes-validations": []}, id="empty rules"),
        pytest.param({"not": {}}, id="not"),
        pytest.param({"x-kubernetes-list-type": ""}, id="empty list type"),
    ],
)
def test_root_metadata_may_only_restrict_name_and_generate_name(words: Schema) -> None:
    assert errors_of({**OBJECT, "properties": {"metadata": {**OBJECT, **words}}}) == [
        "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata "
        "is "
        "implicitly specified"
    ]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param({"description": "", "nullable": False}, id="zero values"),
        pytest.param({"enum": [], "allOf": [], "items": [], "properties": {}}, id="empty lists that are rebuilt"),
        pytest.param({"default": {"name": "n"}}, id="default"),
    ],
)
def test_root_metadata_with_allowed_keywords(words: Schema) -> None:
    assert errors_of({**OBJECT, "properties": {"metadata": {**OBJECT, **words}}}) == []


@pytest.mark.parametrize(
    "field, errors",
    [
        pytest.param({}, ["A.type: Required value: must not be empty for specified object fields"], id="no type"),
        pytest.param({"type": "array"}, ["A.items: Required value: must be specified"], id="array without items"),
        pytest.param(
            {"type": "array", "items": []}, ["A.items: Required value: must be specified"], id="items no schema"
        ),
        pytest.param(
            {"type": "array", "items": {}},
            ["A.items.type: Required value: must not be empty for specified array items"],
            id="item without type",
        ),
        pytest.param(
            {**OBJECT, "additionalProperties": {}},
            ["A.additionalProperties.type: Required value: must not be empty for specified object fields"],
            id="value without type",
        ),
        pytest.param(
            {**OBJECT, "properties": {"metadata": {**STRING, "title": "t"}}}, [], id="metadata is a word here"
        ),
        pytest.param(
            {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
            [
                "A.x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if "
                "x-kubernetes-int-or-string is true"
            ],
            id="int or string, preserving",
        ),
        pytest.param(
            {"x-kubernetes-embedded-resource": True},
            [
                "A.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields",
                "A.type: Required value: must be object if x-kubernetes-embedded-resource is true",
            ],
            id="embedded",
        ),
        pytest.param(
            {
                **STRING,
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
                "additionalProperties": True,
            },
            [
                "A.additionalProperties: Forbidden: must not be used if x-kubernetes-embedded-resource is set",
                'A.type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true',
            ],
            id="embedded string",
        ),
        pytest.param(
            {**STRING, "pattern": "["},
            [
                'A.pattern: Invalid value: "[": must be a valid regular expression, but isn\'t: error parsing '
                "regexp: "
                "missing closing ]: `[`"
            ],
            id="pattern",
        ),
    ],
)
def test_field(field: Schema, errors: list[str]) -> None:
    assert at_a(field) == errors


@pytest.mark.parametrize(
    "clause, errors",
    [
        pytest.param(
            {"minLength": 1, "pattern": "a", "enum": ["a"], "format": "x", "required": ["a"]}, [], id="values"
        ),
        pytest.param({"type": "string"}, ["type: Forbidden: must be empty to be structural"], id="type"),
        pytest.param({"default": False}, ["default: Forbidden: must be undefined to be structural"], id="default"),
        pytest.param(
            {"title": "", "description": "d"},
            ["description: Forbidden: must be empty to be structural"],
            id="description",
        ),
        pytest.param({"nullable": True}, ["nullable: Forbidden: must be false to be structural"], id="nullable"),
        pytest.param({"additionalProperties": False}, [], id="additionalProperties false"),
        pytest.param(
            {"additionalProperties": {}},
            ["additionalProperties: Forbidden: must be undefined to be structural"],
            id="additionalProperties",
        ),
        pytest.param(
            {"x-kubernetes-list-type": ""},
            ["x-kubernetes-list-type: Forbidden: must be undefined to be structural"],
            id="list type",
        ),
        pytest.param({"x-kubernetes-list-map-keys": []}, [], id="empty keys"),
        pytest.param(
            {"x-kubernetes-validations": [{}]},
            ["x-kubernetes-validations: Forbidden: must be empty to be structural"],
            id="rules",
        ),
        pytest.param(
            {"properties": {"metadata": {}}},
            ["properties[metadata]: Forbidden: must not be specified in a nested context"],
            id="metadata",
        ),
        pytest.param(
            {"properties": {"x": {"items": {"type": "x"}}}},
            ["properties[x].items.type: Forbidden: must be empty to be structural"],
            id="deep",
        ),
        pytest.param(
            {"not": {"pattern": "("}},
            [
                'not.pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: error parsing '
                "regexp: missing closing ): `(`"
            ],
            id="pattern in not",
        ),
    ],
)
@pytest.mark.parametrize("junctor", ["allOf", "anyOf", "oneOf", "not"])
def test_junctor(junctor: str, clause: Schema, errors: list[str]) -> None:
    field = {**OBJECT, junctor: clause if junctor == "not" else [clause]}
    where = "A.not" if junctor == "not" else f"A.{junctor}[0]"
    assert at_a(field) == [f"{where}.{error}" for error in errors]


@pytest.mark.parametrize(
    "field, wrong",
    [
        pytest.param({"anyOf": EITHER}, False, id="any of"),
        pytest.param({"anyOf": EITHER, "type": "string"}, False, id="beside a type"),
        pytest.param({"allOf": [{"anyOf": EITHER, "minimum": 1}, {"minimum": 2}]}, False, id="first of all of"),
        pytest.param({"anyOf": EITHER[::-1]}, True, id="other order"),
        pytest.param({"anyOf": [*EITHER, {}]}, True, id="one more"),
        pytest.param({"anyOf": [{**EITHER[0], "minimum": 1}, EITHER[1]]}, True, id="more in it"),
        pytest.param({"anyOf": [{**EITHER[0], "properties": {}}, EITHER[1]]}, True, id="empty properties in it"),
        pytest.param({"allOf": [{}, {"anyOf": EITHER}]}, True, id="second of all of"),
        pytest.param({"oneOf": EITHER}, True, id="one of"),
    ],
)
def test_int_or_string(field: Schema, wrong: bool) -> None:
    assert bool(at_a({"x-kubernetes-int-or-string": True, **field})) is wrong


@pytest.mark.parametrize(
    "schema, errors",
    [
        pytest.param(
            {"anyOf": [{"properties": {"z": {}}}]},
            ["s.properties[z]: Required value: because it is defined in s.anyOf[0].properties[z]"],
            id="property",
        ),
        pytest.param(
            {"properties": {"a": OBJECT}, "not": {"properties": {"a": {"items": {}}}}},
            ["s.properties[a].items: Required value: because it is defined in s.not.properties[a].items"],
            id="items",
        ),
        pytest.param(
            {"properties": {"a": STRING}, "allOf": [{"oneOf": [{"properties": {"a": {}, "b": {}}}]}]},
            ["s.properties[b]: Required value: because it is defined in s.allOf[0].oneOf[0].properties[b]"],
            id="nested junctors",
        ),
        pytest.param(
            {"properties": {"a": {**OBJECT, "anyOf": [{"properties": {"z": {}}}]}}}, [], id="not below the root"
        ),
    ],
)
def test_properties_in_junctors_of_the_root_must_be_declared(schema: Schema, errors: list[str]) -> None:
    assert errors_of({**OBJECT, **schema}) == errors


def test_errors_are_sorted_by_text() -> None:
    assert at_a({**OBJECT, "properties": {"b": {}, "B": {}, "ä": {}, "a": {}}}) == [
        f"A.properties[{name}].type: Required value: must not be empty for specified object fields"
        for name in ("B", "a", "b", "ä")
    ]


@pytest.mark.parametrize(
    "schema, text",
    [
        pytest.param(
            {"properties": {"a": {"$schema": "x"}}}, "OpenAPIV3Schema 'schema' is not supported", id="$schema"
        ),
        pytest.param({"not": {"id": "x"}}, "OpenAPIV3Schema 'id' is not supported", id="id"),
        pytest.param(
            {"additionalItems": False}, "OpenAPIV3Schema 'additionalItems' is not supported", id="additionalItems"
        ),
        pytest.param({"items": [{}]}, "OpenAPIV3Schema 'items' must be a schema, but is an array", id="items"),
        pytest.param({"id": "", "definitions": {}, "dependencies": {}, "$ref": ""}, None, id="empty ones"),
        pytest.param(
            {"anyOf": [{"x-kubernetes-preserve-unknown-fields": False}]},
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined",
            id="false",
        ),
    ],
)
def test_unsupported(schema: Schema, text: str | None) -> None:
    assert find_unsupported(schema) == text
