"""anyOf, oneOf, allOf and not: which values are valid, and the texts where one is not."""

from typing import Any

import pytest

from tests.schema.field_errors import INT, STRING, Schema, errors_of, wrong_type


def whole(text: str) -> str:
    return f'<nil>: Invalid value: "": {text}'


@pytest.mark.parametrize(
    "field, value, errors",
    [
        pytest.param({**STRING, "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]}, "b", [], id="anyOf"),
        pytest.param(
            {**STRING, "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]},
            "c",
            [
                whole('"a" must validate at least one schema (anyOf)'),
                "a: Invalid value: \"c\": a in body should match '^a'",
            ],
            id="anyOf shows the first of equally bad branches",
        ),
        pytest.param(
            {
                "type": "object",
                "properties": {"x": INT, "y": INT},
                "anyOf": [{"required": ["x", "y"]}, {"properties": {"x": {"minimum": 5}}, "required": ["x"]}],
            },
            {"x": 1},
            [
                whole('"a" must validate at least one schema (anyOf)'),
                "a.x: Invalid value: 1: a.x in body should be greater than or equal to 5",
            ],
            id="anyOf shows the branch in which most held",
        ),
        pytest.param(
            {**INT, "oneOf": [{"minimum": 5}, {"maximum": 2}]},
            3,
            [
                whole('"a" must validate one and only one schema (oneOf). Found none valid'),
                "a: Invalid value: 3: a in body should be greater than or equal to 5",
            ],
            id="oneOf none",
        ),
        pytest.param(
            {**INT, "oneOf": [{"minimum": 1}, {"maximum": 5}, {"minimum": 9}]},
            3,
            [whole('"a" must validate one and only one schema (oneOf). Found 2 valid alternatives')],
            id="oneOf two",
        ),
        pytest.param({**INT, "oneOf": [{"minimum": 1}, {"minimum": 9}]}, 3, [], id="oneOf"),
        pytest.param(
            {**INT, "allOf": [{"minimum": 5}, {"maximum": 10}]},
            3,
            [
                "a: Invalid value: 3: a in body should be greater than or equal to 5",
                whole('"a" must validate all the schemas (allOf)'),
            ],
            id="allOf",
        ),
        pytest.param(
            {**INT, "allOf": [{"minimum": 5}, {"minimum": 7}]},
            3,
            [
                "a: Invalid value: 3: a in body should be greater than or equal to 5",
                "a: Invalid value: 3: a in body should be greater than or equal to 7",
                whole('"a" must validate all the schemas (allOf). None validated'),
            ],
            id="allOf none",
        ),
        pytest.param(
            {**INT, "allOf": [{"minimum": 5}], "minimum": 5},
            3,
            [
                "a: Invalid value: 3: a in body should be greater than or equal to 5",
                whole('"a" must validate all the schemas (allOf). None validated'),
            ],
            id="equal texts are given once",
        ),
        pytest.param(
            {**STRING, "not": {"pattern": "^a"}}, "ab", [whole('"a" must not validate the schema (not)')], id="not"
        ),
        pytest.param({**STRING, "not": {"pattern": "^a"}}, "b", [], id="not a"),
        pytest.param({**STRING, "nullable": True, "not": {"pattern": "^a"}}, None, [], id="nulls are not looked at"),
        pytest.param({**STRING, "not": {"enum": ["x"]}}, 3, wrong_type("string", "integer"), id="not of a wrong type"),
        pytest.param(
            {
                "type": "object",
                "properties": {"x": {"type": "object", "properties": {"y": INT}}},
                "anyOf": [{"properties": {"x": {"required": ["y"]}}}],
            },
            {"x": {}},
            [whole('"a" must validate at least one schema (anyOf)'), "a.x.y: Required value"],
            id="nested branches",
        ),
        pytest.param(
            {**STRING, "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}, "::1", [], id="formats in branches"
        ),
        pytest.param({**INT, "anyOf": [{"enum": [1, 2]}, {"multipleOf": 7}]}, 14, [], id="other keywords in branches"),
    ],
)
def test_combinators(field: Schema, value: Any, errors: list[str]) -> None:
    assert errors_of(field, value) == errors
