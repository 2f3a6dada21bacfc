"""Each keyword of value validation: which values are valid, and the texts where one is not.

tests/schema/test_combinators.py has anyOf, oneOf, allOf and not. Every case is checked by the fast validator as well.
"""

from typing import Any

import pytest

from registry.schema.field import MAX_ERRORS
from registry.schema.model import from_json
from registry.schema.validation import validate
from tests.emulating import emulating
from tests.schema.field_errors import BOOL, INT, IOS, LIST, NUMBER, STRING, Schema, errors_of, wrong_type


def not_an_integer(what: str = "Checked", how: str = "(default format)") -> str:
    return f'<nil>: Invalid value: "": {what} value must be of type integer {how} in a'


@pytest.mark.parametrize(
    "field, value, errors",
    [
        pytest.param(STRING, "x", [], id="string"),
        pytest.param(STRING, 1, wrong_type("string", "integer"), id="integer for string"),
        pytest.param(STRING, 1.5, wrong_type("string", "number"), id="number for string"),
        pytest.param(STRING, True, wrong_type("string", "boolean"), id="boolean for string"),
        pytest.param(STRING, None, wrong_type("string", "null"), id="null for string"),
        pytest.param(STRING, [], wrong_type("string", "array"), id="array for string"),
        pytest.param(STRING, {}, wrong_type("string", "object"), id="object for string"),
        pytest.param({**STRING, "nullable": True}, None, [], id="nullable"),
        pytest.param(BOOL, False, [], id="boolean"),
        pytest.param(BOOL, 0, wrong_type("boolean", "integer"), id="zero is no boolean"),
        pytest.param(INT, 1, [], id="integer"),
        pytest.param(INT, True, wrong_type("integer", "boolean"), id="true is no integer"),
        pytest.param(INT, 1.0, [], id="an integral float"),
        pytest.param(INT, 1e3, [], id="with an exponent"),
        pytest.param(INT, 1.5, [*wrong_type("integer", "number"), not_an_integer()], id="a fraction"),
        pytest.param(INT, 2.0**60, wrong_type("integer", "number"), id="an integral float above 2^53"),
        pytest.param(INT, 1e20, [*wrong_type("integer", "number"), not_an_integer()], id="beyond int64"),
        pytest.param(NUMBER, 1, [], id="integer for number"),
        pytest.param(NUMBER, -0.5, [], id="number"),
        pytest.param(NUMBER, "1", wrong_type("number", "string"), id="string for number"),
        pytest.param(LIST, [], [], id="list"),
        pytest.param(LIST, {}, wrong_type("array", "object"), id="object for list"),
        pytest.param(
            LIST,
            ["x", 1],
            ['a[1]: Invalid value: "integer": a[1] in body must be of type string: "integer"'],
            id="item",
        ),
        pytest.param({"type": "object"}, [], wrong_type("object", "array"), id="list for object"),
        pytest.param(IOS, 1, [], id="int-or-string an integer"),
        pytest.param(IOS, "x", [], id="int-or-string a string"),
        pytest.param(IOS, 1.0, [], id="int-or-string an integral float"),
        pytest.param(IOS, 1.5, wrong_type("integer,string", "number"), id="int-or-string a fraction"),
        pytest.param(
            {**IOS, "anyOf": [INT, STRING]},
            True,
            [
                *wrong_type("integer,string", "boolean"),
                '<nil>: Invalid value: "": "a" must validate at least one schema (anyOf)',
                *wrong_type("integer", "boolean"),
            ],
            id="int-or-string with the usual anyOf",
        ),
        pytest.param({"x-kubernetes-preserve-unknown-fields": True}, [{"x": None}], [], id="anything"),
    ],
)
def test_types(field: Schema, value: Any, errors: list[str]) -> None:
    assert errors_of(field, value) == errors


@pytest.mark.parametrize(
    "field, value, errors",
    [
        pytest.param({**INT, "minimum": 3}, 3, [], id="minimum"),
        pytest.param(
            {**INT, "minimum": 3},
            2,
            ["a: Invalid value: 2: a in body should be greater than or equal to 3"],
            id="below minimum",
        ),
        pytest.param(
            {**INT, "minimum": 3, "exclusiveMinimum": True},
            3,
            ["a: Invalid value: 3: a in body should be greater than 3"],
            id="exclusive minimum",
        ),
        pytest.param(
            {**INT, "maximum": 3},
            4,
            ["a: Invalid value: 4: a in body should be less than or equal to 3"],
            id="above maximum",
        ),
        pytest.param(
            {**INT, "maximum": 3, "exclusiveMaximum": True},
            3,
            ["a: Invalid value: 3: a in body should be less than 3"],
            id="exclusive maximum",
        ),
        pytest.param({**INT, "maximum": 3}, 3.0, [], id="an integral float at the maximum"),
        pytest.param({**INT, "multipleOf": 5}, 10, [], id="multiple"),
        pytest.param({**INT, "multipleOf": 5}, -15, [], id="negative multiple"),
        pytest.param(
            {**INT, "multipleOf": 5}, 7, ["a: Invalid value: 7: a in body should be a multiple of 5"], id="no multiple"
        ),
        pytest.param(
            {**NUMBER, "multipleOf": 0.5},
            0.3,
            ["a: Invalid value: 0.3: a in body should be a multiple of 0.5"],
            id="multiple of a fraction",
        ),
        pytest.param(
            {**NUMBER, "multipleOf": 2.5},
            5,
            ["a: Invalid value: 5: a in body should be a multiple of 2"],
            id="an integer cuts the factor",
        ),
        pytest.param({**NUMBER, "multipleOf": 0.1}, 0.3, [], id="nearly a multiple"),
        pytest.param({**NUMBER, "multipleOf": 0.01}, 19.99, [], id="nearly a multiple, below it"),
        pytest.param({**NUMBER, "multipleOf": 0.01}, -4.35, [], id="nearly a negative multiple"),
        pytest.param(
            {**NUMBER, "multipleOf": 0.01},
            1e-12,
            ["a: Invalid value: 1e-12: a in body should be a multiple of 0.01"],
            id="nearly nothing",
        ),
        pytest.param(
            {**NUMBER, "multipleOf": 0.5},
            1,
            ["a: Invalid value: 0: factor MultipleOf declared for a must be positive: 0"],
            id="factor cut to zero",
        ),
        pytest.param({**NUMBER, "minimum": 0.5}, 0, [], id="an integer cuts the minimum"),
        pytest.param(
            {**NUMBER, "minimum": 0.5},
            0.25,
            ["a: Invalid value: 0.25: a in body should be greater than or equal to 0.5"],
            id="a fraction does not",
        ),
        pytest.param(
            {**NUMBER, "maximum": 2.25},
            3,
            ["a: Invalid value: 3: a in body should be less than or equal to 2"],
            id="and prints it so",
        ),
        pytest.param(
            {**NUMBER, "maximum": 1e6},
            1e7,
            ["a: Invalid value: 1e+07: a in body should be less than or equal to 1e+06"],
            id="printed by %v",
        ),
        pytest.param(
            {**INT, "minimum": 0.5}, 3, [not_an_integer("Minimum boundary")], id="fractional bound on an integer"
        ),
        pytest.param(
            {**INT, "multipleOf": 1, "minimum": 5, "maximum": 2},
            3,
            [
                "a: Invalid value: 3: a in body should be greater than or equal to 5",
                "a: Invalid value: 3: a in body should be less than or equal to 2",
            ],
            id="minimum before maximum",
        ),
        pytest.param({**INT, "format": "int32"}, 1 << 31, [not_an_integer(how="with format int32")], id="int32"),
        pytest.param({**INT, "format": "int32"}, -1 << 31, [], id="the least int32"),
        pytest.param(
            INT, -(2.0**63), [*wrong_type("integer", "number"), not_an_integer()], id="a float's shortest digits"
        ),
        pytest.param(
            {**INT, "format": "int32"},
            1.5,
            [*wrong_type("int32", "float64"), not_an_integer(how="with format int32")],
            id="int32 a fraction",
        ),
        pytest.param(
            {**INT, "format": "int64"},
            True,
            ['a: Invalid value: "": a in body must be of type int64: ""'],
            id="int64 a boolean",
        ),
        pytest.param({**INT, "format": "int32"}, "1", wrong_type("integer", "string"), id="int32 a string"),
        pytest.param({**INT, "format": "double"}, 1 << 40, [], id="a format of another type is ignored"),
        pytest.param(
            {**NUMBER, "format": "float"},
            1e39,
            ['<nil>: Invalid value: "": Checked value must be of type number with format float in a'],
            id="float",
        ),
        pytest.param({**NUMBER, "format": "float"}, 3.4e38, [], id="a great float32"),
        pytest.param({**NUMBER, "format": "double"}, 1e300, [], id="double"),
        pytest.param(
            {**STRING, "minimum": 3},
            1,
            [*wrong_type("string", "integer"), "a: Invalid value: 1: a in body should be greater than or equal to 3"],
            id="bounds look at any number",
        ),
    ],
)
def test_numbers(field: Schema, value: Any, errors: list[str]) -> None:
    assert errors_of(field, value) == errors


@pytest.mark.parametrize(
    "field, value, errors",
    [
        pytest.param({**STRING, "maxLength": 3}, "äöü", [], id="length in characters"),
        pytest.param({**STRING, "maxLength": 3}, "abcd", ["a: Too long: may not be more than 3 bytes"], id="too long"),
        pytest.param(
            {**STRING, "minLength": 2},
            "x",
            ['a: Invalid value: "x": a in body should be at least 2 chars long'],
            id="too short",
        ),
        pytest.param(
            {**STRING, "minLength": 2, "maxLength": 1, "pattern": "^b"},
            "a",
            ['a: Invalid value: "a": a in body should be at least 2 chars long'],
            id="only the first",
        ),
        pytest.param({**STRING, "pattern": "^a"}, "ab", [], id="pattern"),
        pytest.param({**STRING, "pattern": "b"}, "abc", [], id="a pattern is not anchored"),
        pytest.param(
            {**STRING, "pattern": "^a$"},
            "a\n",
            ["a: Invalid value: \"a\\n\": a in body should match '^a$'"],
            id="no match before a newline",
        ),
        pytest.param(
            {**STRING, "pattern": r"^\d$"},
            "٣",
            ["a: Invalid value: \"٣\": a in body should match '^\\d$'"],
            id="digits are ASCII",
        ),
        pytest.param(
            {**STRING, "pattern": "(?=a)"},
            "a",
            [
                "a: Invalid value: \"a\": a in body should match '(?=a), but pattern is invalid: invalid perl operator: (?='"
            ],
            id="an invalid pattern",
        ),
        pytest.param({**STRING, "format": "ipv4"}, "10.0.0.1", [], id="format"),
        pytest.param(
            {**STRING, "format": "ipv4"},
            "x",
            ['a: Invalid value: "x": a in body must be of type ipv4: "x"'],
            id="wrong format",
        ),
        pytest.param(
            {**STRING, "format": "date-time"},
            "x",
            ['a: Invalid value: "x": a in body must be of type date-time: "x"'],
            id="dashes stay in the text",
        ),
        pytest.param(
            {**STRING, "format": "ipv4"},
            5,
            ['a: Invalid value: "int64": a in body must be of type ipv4: "int64"'],
            id="an integer for a format",
        ),
        pytest.param(
            {**STRING, "format": "ipv4"},
            {},
            ['a: Invalid value: "": a in body must be of type ipv4: ""'],
            id="an object for a format",
        ),
        pytest.param({**STRING, "format": "ipv4"}, ["x"], [], id="an array passes"),
        pytest.param({**STRING, "format": "IPv4"}, "x", [], id="an unknown format is ignored"),
        pytest.param({**STRING, "enum": ["a", "b"]}, "b", [], id="enum"),
        pytest.param(
            {**STRING, "enum": ["a", "b"]},
            "c",
            ['a: Unsupported value: "c": supported values: "a", "b"'],
            id="not in enum",
        ),
        pytest.param(
            {**STRING, "maxLength": 1, "format": "ipv4", "enum": ["a"]},
            "xx",
            [
                "a: Too long: may not be more than 1 bytes".replace("1 bytes", "1 byte"),
                'a: Invalid value: "xx": a in body must be of type ipv4: "xx"',
                'a: Unsupported value: "xx": supported values: "a"',
            ],
            id="length, format, enum",
        ),
        pytest.param(
            {**INT, "enum": [1, 2]}, 3, ['a: Unsupported value: 3: supported values: "1", "2"'], id="integer enum"
        ),
        pytest.param({**INT, "enum": [1, 2]}, 2, [], id="in integer enum"),
        pytest.param({**INT, "enum": [1, 2]}, 2.0, [], id="a float in integer enum"),
        pytest.param({**NUMBER, "enum": [2]}, 2.5, [], id="a fraction is cut before it is compared"),
        pytest.param(
            {**NUMBER, "enum": [2.5]}, 2, ['a: Unsupported value: 2: supported values: "2.5"'], id="but no integer"
        ),
        pytest.param({**IOS, "enum": ["a"]}, 97, [], id="97 is the character a"),
        pytest.param(
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "enum": [{"x": 1}]},
            {"x": 1.0},
            ['a: Unsupported value: {"x":1}: supported values: "{\\"x\\":1}"'],
            id="inside, types count",
        ),
        pytest.param(
            {**STRING, "nullable": True, "enum": ["a", None]},
            None,
            ['a: Unsupported value: null: supported values: "a", "null"'],
            id="null is never in an enum",
        ),
    ],
)
def test_texts_and_enums(field: Schema, value: Any, errors: list[str]) -> None:
    assert errors_of(field, value) == errors


@pytest.mark.parametrize(
    "field, value, errors",
    [
        pytest.param(
            {**LIST, "minItems": 2},
            ["x"],
            ["a: Invalid value: 1: a in body should have at least 2 items"],
            id="minItems",
        ),
        pytest.param({**LIST, "maxItems": 1}, ["x", "y"], ["a: Too many: 2: must have at most 1 item"], id="maxItems"),
        pytest.param(
            {**LIST, "maxItems": 1},
            [1, "y"],
            [
                'a[0]: Invalid value: "integer": a[0] in body must be of type string: "integer"',
                "a: Too many: 2: must have at most 1 item",
            ],
            id="items before sizes",
        ),
        pytest.param(
            {"type": "object", "properties": {}, "minProperties": 1},
            {},
            ["a: Invalid value: 0: a in body should have at least 1 properties"],
            id="minProperties",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": STRING, "maxProperties": 1},
            {"x": "", "y": ""},
            ["a: Too many: 2: must have at most 1 item"],
            id="maxProperties",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": STRING},
            {"x y": 1},
            ['a.x y: Invalid value: "integer": a.x y in body must be of type string: "integer"'],
            id="map value",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": False},
            {"k": 1},
            ['a: Invalid value: "k": a.k in body is a forbidden property'],
            id="forbidden property",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": False, "properties": {"k": INT}},
            {"k": 1},
            [],
            id="a named property is not forbidden",
        ),
        pytest.param(
            {"type": "object", "required": ["y", "x"], "properties": {"x": INT, "y": INT, "z": INT}},
            {"z": ""},
            [
                'a.z: Invalid value: "string": a.z in body must be of type integer: "string"',
                "a.y: Required value",
                "a.x: Required value",
            ],
            id="required after children, in its own order",
        ),
        pytest.param(
            {"type": "object", "required": ["x"], "properties": {"x": {**INT, "nullable": True}}},
            {"x": None},
            [],
            id="null is there",
        ),
    ],
)
def test_containers(field: Schema, value: Any, errors: list[str]) -> None:
    assert errors_of(field, value) == errors


def test_paths_at_the_root_and_below_status() -> None:
    schema = from_json({"type": "object", "required": ["spec"], "additionalProperties": INT})
    assert [e.message() for e in validate(schema, {"a": ""})] == [
        'a: Invalid value: "string": .a in body must be of type integer: "string"',
        "spec: Required value",
    ]
    status = from_json({"type": "object", "properties": {"n": {**INT, "anyOf": [{"minimum": 5}]}}})
    assert [e.message() for e in validate(status, {"n": 1}, prefix="status")] == [
        'status: Invalid value: "": "n" must validate at least one schema (anyOf)',
        "status.n: Invalid value: 1: n in body should be greater than or equal to 5",
    ]
    assert [e.message() for e in validate(status, "x", prefix="status")] == [
        'status: Invalid value: "string":  in body must be of type object: "string"'
    ]


def test_the_number_of_errors_is_bounded() -> None:
    errors = validate(from_json({"type": "object", "properties": {"a": LIST}}), {"a": [1] * 100_000})
    assert len(errors) == MAX_ERRORS + 1


@pytest.mark.parametrize("value", [19.99, -4.35])
def test_multiples_of_fractions_in_1_36(value: float) -> None:
    with emulating("1.36"):
        assert errors_of({**NUMBER, "multipleOf": 0.01}, 0.3) == []
        text = "a in body should be a multiple of 0.01"
        assert errors_of({**NUMBER, "multipleOf": 0.01}, value) == [f"a: Invalid value: {value}: {text}"]
