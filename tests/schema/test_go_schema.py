from __future__ import annotations

import json

import pytest

from registry.definitions.types import JSONSchemaProps
from registry.schema.structural.go_schema import GO_NAMES, go_items, go_schema


def test_every_keyword_has_a_go_field() -> None:
    assert set(GO_NAMES) == {field.name for field in JSONSchemaProps.fields}


def test_an_empty_schema() -> None:
    text = go_schema({})
    assert text.startswith('{"ID":"","Schema":"","Ref":null,"Description":"","Type":"","Nullable":false,')
    assert list(json.loads(text)) == list(GO_NAMES.values())


@pytest.mark.parametrize(
    "schema, field, shown",
    [
        pytest.param({"enum": []}, "Enum", [], id="empty list"),
        pytest.param({"enum": [None, 1]}, "Enum", [None, 1], id="list"),
        pytest.param({"default": {"b": 1, "a": 2}}, "Default", {"a": 2, "b": 1}, id="default"),
        pytest.param(
            {"additionalProperties": False}, "AdditionalProperties", {"Allows": False, "Schema": None}, id="false"
        ),
        pytest.param(
            {"dependencies": {"x": ["y"]}},
            "Dependencies",
            {"x": {"Schema": None, "Property": ["y"]}},
            id="dependencies",
        ),
        pytest.param({"externalDocs": {"url": "u"}}, "ExternalDocs", {"Description": "", "URL": "u"}, id="docs"),
        pytest.param(
            {"x-kubernetes-validations": [{"rule": "a<b"}]},
            "XValidations",
            [
                {
                    "Rule": "a<b",
                    "Message": "",
                    "MessageExpression": "",
                    "Reason": None,
                    "FieldPath": "",
                    "OptionalOldSelf": None,
                }
            ],
            id="rules",
        ),
    ],
)
def test_fields(schema: dict[str, object], field: str, shown: object) -> None:
    assert json.loads(go_schema(schema))[field] == shown


def test_items() -> None:
    assert go_items([]) == '{"Schema":null,"JSONSchemas":[]}'
    assert json.loads(go_items({"type": "string"}))["Schema"]["Type"] == "string"


def test_markup_is_escaped_as_go_does() -> None:
    assert '"Description":"\\u003ca\\u003e"' in go_schema({"description": "<a>"})
