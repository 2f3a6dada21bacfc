"""Which checks of a schema keep which others from being made."""

from __future__ import annotations

from typing import Any

import pytest

from registry.definitions.schemas import STRICT, validate_schema
from registry.schema.structural.bounds import MAX_DEPTH
from tests.definitions.crds import messages

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
OBJECT: Schema = {"type": "object"}
RULE = {"rule": "self.size() > 0"}
BAD_RULE = {"rule": "huh"}
COSTLY = {"rule": "self.all(x, self.all(y, x == y))"}


def errors_of(schema: Schema, *, status: bool = False, old: Schema | None = None) -> list[str]:
    return messages(validate_schema({"openAPIV3Schema": schema}, "v", status=status, old=old, leniency=STRICT))


def fields_of(schema: Schema) -> list[str]:
    return [e.partition(": ")[0].removeprefix("v.openAPIV3Schema") for e in errors_of(schema)]


@pytest.mark.parametrize(
    "schema, fields",
    [
        pytest.param(
            {**OBJECT, "properties": {"a": {**STRING, "x-kubernetes-validations": [RULE], "default": "x"}}},
            [],
            id="good",
        ),
        pytest.param(
            {**OBJECT, "properties": {"a": {"id": "x"}}}, [".properties[a].id"], id="structural errors hidden"
        ),
        pytest.param(
            {**OBJECT, "properties": {"a": {}, "b": {**STRING, "default": 1}}},
            [".properties[a].type"],
            id="no defaults where it is not structural",
        ),
        pytest.param(
            {**OBJECT, "properties": {"a": {}, "b": {**STRING, "uniqueItems": True}}},
            [".properties[a].type", ".properties[b].uniqueItems"],
            id="keywords anyway",
        ),
        pytest.param(
            {**OBJECT, "properties": {"a": {**STRING, "x-kubernetes-validations": [BAD_RULE]}, "b": {}}},
            [".properties[b].type"],
            id="no rules where it is not structural",
        ),
        pytest.param(
            {
                **OBJECT,
                "properties": {
                    "l": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "items": {**STRING, "x-kubernetes-validations": [BAD_RULE]},
                        "x-kubernetes-validations": [BAD_RULE],
                    }
                },
            },
            [
                ".properties[l].x-kubernetes-list-map-keys",
                ".properties[l].items.type",
                ".properties[l].items.x-kubernetes-validations[0].rule",
            ],
            id="rules of items, whatever is wrong with their list",
        ),
        pytest.param(
            {
                **OBJECT,
                "properties": {"a": {**STRING, "$ref": "#/a"}},
                "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".b"}],
            },
            [".properties[a].$ref"],
            id="any fieldPath where it cannot be structural",
        ),
        pytest.param(
            {
                **OBJECT,
                "properties": {
                    "a": {**STRING, "x-kubernetes-validations": [BAD_RULE]},
                    "b": {**STRING, "uniqueItems": True},
                },
            },
            [".properties[b].uniqueItems", ".properties[a].x-kubernetes-validations[0].rule"],
            id="rules beside other errors, after them",
        ),
        pytest.param(
            {**OBJECT, "properties": {"a": {**STRING, "x-kubernetes-validations": [RULE], "default": ""}}},
            [".properties[a].default"],
            id="rule on a default",
        ),
        pytest.param({**OBJECT, "nullable": True}, [".nullable"], id="nullable root"),
        pytest.param({**OBJECT, "$schema": "x"}, [""], id="$schema"),
        pytest.param({**OBJECT, "$schema": "x", "uniqueItems": True}, [".uniqueItems"], id="$schema beside others"),
    ],
)
def test_order(schema: Schema, fields: list[str]) -> None:
    assert fields_of(schema) == fields


def test_a_schema_that_is_too_deep_has_one_error() -> None:
    schema: Schema = {"id": "x"}
    for _ in range(MAX_DEPTH):
        schema = {"not": schema}
    assert errors_of(schema) == [f"v.openAPIV3Schema: Forbidden: must not be nested more than {MAX_DEPTH} levels deep"]


@pytest.mark.parametrize(
    "words, refused",
    [
        pytest.param(
            {
                "properties": {"a": STRING},
                "required": ["a"],
                "title": "t",
                "maximum": 1,
                "example": "",
                "x-kubernetes-preserve-unknown-fields": True,
            },
            False,
            id="what loses nothing",
        ),
        pytest.param({"enum": []}, True, id="empty enum"),
        pytest.param({"default": False}, True, id="default"),
        pytest.param({"anyOf": [{}]}, True, id="junctor"),
        pytest.param({"nullable": False, "id": ""}, False, id="zero values"),
        pytest.param({"maxProperties": 0}, True, id="pointer to zero"),
    ],
)
def test_root_with_status(words: Schema, refused: bool) -> None:
    found = [e for e in errors_of({**OBJECT, **words}, status=True) if "if the status subresource is enabled" in e]
    assert bool(found) is refused
    assert all(e.startswith('v.openAPIV3Schema: Invalid value: {"ID":"') for e in found)


def test_root_with_status_must_be_an_object() -> None:
    assert errors_of({**STRING, "enum": ["a"]}, status=True)[0] == (
        'v.openAPIV3Schema.type: Invalid value: "string": only "object" is allowed as the type at the root of the '
        "schema if "
        "the status subresource is enabled"
    )


def test_the_cost_of_an_unchanged_rule_is_accepted() -> None:
    costly = {
        **OBJECT,
        "properties": {
            "a": {"type": "array", "maxItems": 10000, "items": STRING, "x-kubernetes-validations": [COSTLY]}
        },
    }
    assert "estimated rule cost exceeds budget" in errors_of(costly)[0]
    same = errors_of(costly, old={**costly, "required": []})
    assert not any("estimated rule cost exceeds" in e for e in same)
    assert any("estimated rule cost exceeds" in e for e in errors_of(costly, old={**costly, "title": "x"}))


def test_a_valid_schema_is_validated_again_at_another_position() -> None:
    schema = {**OBJECT, "title": "asked twice", "anyOf": [{}]}
    assert errors_of(schema) == errors_of(schema) == []
    assert len(errors_of(schema, status=True)) == 1


def test_defaults_are_decoded_at_each_position() -> None:
    for _ in range(2):
        default = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "foo": 1}}
        resource = {**OBJECT, "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
        assert errors_of({**OBJECT, "properties": {"a": {**resource, "default": default}}}) == []
        assert default["metadata"] == {"name": "n"}


def test_a_costly_unchanged_rule_is_accepted_at_its_old_position_only() -> None:
    schema = {
        **OBJECT,
        "properties": {
            "a": {"type": "array", "maxItems": 1700, "items": {"type": "integer"}, "x-kubernetes-validations": [COSTLY]}
        },
    }
    assert len(errors_of(schema)) == 1
    assert errors_of(schema, old=schema) == []
    assert len(errors_of(schema)) == 1
