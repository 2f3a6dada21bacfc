"""The rules of a schema, checked when its definition is written."""

from __future__ import annotations

import time
from typing import Any

import pytest

from registry.cel.rules.check import MAX_SIZE, RULE_COST_LIMIT, check_rules
from registry.schema.field import forbidden

Schema = dict[str, Any]
STRING: Schema = {"type": "string", "maxLength": 10}
INTEGER: Schema = {"type": "integer"}
SIMPLIFY = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and "
    "strings are declared)"
)


def rules(schema: Schema, *texts: str) -> Schema:
    return {**schema, "x-kubernetes-validations": [{"rule": text} for text in texts]}


def entries(schema: Schema, *listed: Any) -> Schema:
    return {**schema, "x-kubernetes-validations": list(listed)}


def obj(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def array(items: Schema, **keywords: Any) -> Schema:
    return {"type": "array", "items": items, **keywords}


def messages(schema: Schema, **keywords: Any) -> list[str]:
    return [error.message() for error in check_rules(schema, "S", **keywords)]


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(obj(a=STRING), id="no rules"),
        pytest.param(rules(obj(a=STRING), "self.a == 'x'"), id="a field"),
        pytest.param(
            rules(obj(), "self.metadata.name.startsWith('a') && self.kind != ''"), id="the root is a resource"
        ),
        pytest.param(obj(a=rules(STRING, "self == 'x'")), id="a scalar"),
        pytest.param(obj(a=rules(array(STRING), "self.size() > 1")), id="a list"),
        pytest.param(obj(a=array(rules(STRING, "self == 'x'"))), id="items"),
        pytest.param(
            obj(a={"type": "object", "additionalProperties": rules(STRING, "self == 'x'")}), id="values of a map"
        ),
        pytest.param(obj(**{"1st": rules(STRING, "self == 'x'")}), id="a property that has no name in CEL"),
        pytest.param(
            rules(obj(**{"1st": rules(STRING, "self == 'x'")}), "true"), id="such a property below another rule"
        ),
        pytest.param(obj(a=rules(STRING, "self != oldSelf")), id="transition"),
        pytest.param(
            obj(
                a=array(
                    rules(obj(k=STRING), "self.k == oldSelf.k"),
                    maxItems=5,
                    **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
                )
            ),
            id="transition of an item with a key",
        ),
        pytest.param(
            obj(a=entries(STRING, {"rule": "oldSelf.orValue('') == self", "optionalOldSelf": True})),
            id="optional oldSelf",
        ),
        pytest.param(
            obj(a=entries(STRING, {"rule": "self == 'x'", "messageExpression": "'is ' + self"})), id="messageExpression"
        ),
        pytest.param(obj(a=entries(STRING, {"rule": "self ==\n'x'", "message": "m"})), id="rule of two lines"),
        pytest.param(
            entries(obj(a=obj(b=STRING)), {"rule": "true", "fieldPath": ".a.b", "reason": "FieldValueInvalid"}),
            id="fieldPath and reason",
        ),
        pytest.param(
            entries(obj(**{"a.b": STRING}), {"rule": "true", "fieldPath": "['a.b']"}), id="fieldPath in brackets"
        ),
    ],
)
def test_accepted(schema: Schema) -> None:
    assert messages(schema) == []


@pytest.mark.parametrize(
    "entry, expected",
    [
        pytest.param({}, ["rule: Required value: rule is not specified"], id="empty"),
        pytest.param(None, ["rule: Required value: rule is not specified"], id="null"),
        pytest.param({"rule": " \n"}, ["rule: Required value: rule is not specified"], id="blank rule"),
        pytest.param(
            {"rule": "true", "message": " "},
            ['message: Invalid value: " ": must be non-empty if specified'],
            id="blank message",
        ),
        pytest.param(
            {"rule": "true", "message": "a\nb"},
            ['message: Invalid value: "a\\nb": must not contain line breaks'],
            id="message of two lines",
        ),
        pytest.param(
            {"rule": "true &&\ntrue"},
            ["message: Required value: message must be specified if rule contains line breaks"],
            id="rule of two lines without message",
        ),
        pytest.param(
            {"rule": "true", "messageExpression": " "},
            ["messageExpression: Required value: messageExpression must be non-empty if specified"],
            id="blank messageExpression",
        ),
        pytest.param(
            {"rule": "true", "reason": "Wrong"},
            [
                'reason: Unsupported value: "Wrong": supported values: "FieldValueDuplicate", "FieldValueForbidden", '
                '"FieldValueInvalid", "FieldValueRequired"'
            ],
            id="reason",
        ),
        pytest.param(
            {"rule": "true", "fieldPath": " "},
            [
                'fieldPath: Invalid value: " ": must be non-empty if specified',
                'fieldPath: Invalid value: " ": must be a valid path',
            ],
            id="blank fieldPath",
        ),
        pytest.param(
            {"rule": "true", "fieldPath": ".b"},
            ['fieldPath: Invalid value: ".b": must be a valid path'],
            id="fieldPath that does not exist",
        ),
        pytest.param(
            {"rule": "", "message": " ", "reason": ""},
            [
                "rule: Required value: rule is not specified",
                'reason: Unsupported value: "": supported values: "FieldValueDuplicate", "FieldValueForbidden", '
                '"FieldValueInvalid", "FieldValueRequired"',
            ],
            id="several",
        ),
    ],
)
def test_rule_fields(entry: Any, expected: list[str]) -> None:
    assert messages(entries(obj(a=STRING), entry)) == [f"S.x-kubernetes-validations[0].{text}" for text in expected]


def printed(rule: str, message_expression: str = "") -> str:
    return (
        f'{{"Rule":"{rule}","Message":"","MessageExpression":"{message_expression}","Reason":null,"FieldPath":"",'
        '"OptionalOldSelf":null}'
    )


def test_compilation() -> None:
    at = "S.properties[a].x-kubernetes-validations"
    assert messages(obj(a=rules(INTEGER, "self > 'x'", "self", "self < 1", "has(self)"))) == [
        f"{at}[0].rule: Invalid value: {printed(f'self {chr(92)}u003e {chr(39)}x{chr(39)}')}: compilation failed: "
        "ERROR: <input>:1:6: found no matching overload for '_>_' applied to '(int, string)'\n"
        " | self > 'x'\n | .....^",
        f"{at}[1].rule: Invalid value: {printed('self')}: cel expression must evaluate to a bool",
        f"{at}[3].rule: Invalid value: {printed('has(self)')}: compilation failed: "
        "ERROR: <input>:1:5: invalid argument to has() macro\n | has(self)\n | ....^",
    ]


def test_types_are_named_from_the_node_of_the_rule() -> None:
    [message] = messages(obj(spec=rules(obj(o=obj(), l=array(obj(), maxItems=1)), "self == self.o || self.l == 1")))
    assert "applied to '(selfType, selfType.o)'" in message
    assert "applied to '(list(selfType.l.@idx), int)'" in message


@pytest.mark.parametrize(
    "text, fault",
    [
        pytest.param("int('x') == self", "type conversion error from 'string' to 'int'", id="conversion"),
        pytest.param("int(18446744073709551615u) == self", "integer overflow", id="overflow"),
        pytest.param("string(null) == ''", "no such overload: string(null_type)", id="no overload"),
        pytest.param("int(dyn({'a': self})) == 1 || int(dyn({'a': 1})) == 1", "no such overload: int(map)", id="map"),
        pytest.param("string(dyn(type(1))) == ''", "no such overload: string(type)", id="type of a constant"),
        pytest.param("string(dyn(int)) == ''", "no such overload: string(type)", id="type"),
        pytest.param("'a'.find('[a-') == ''", "error parsing regexp: missing closing ]: `[a-`", id="pattern"),
        pytest.param("type(self) == duration", "reference to undefined type: duration", id="name of a type"),
    ],
)
def test_program(text: str, fault: str) -> None:
    [message] = messages(obj(a=rules(INTEGER, text)))
    assert message.endswith(f": program instantiation failed: {fault}")


@pytest.mark.parametrize(
    "text, issue",
    [
        pytest.param("duration('1x') > duration('1s')", "1:10: invalid duration argument", id="duration"),
        pytest.param("timestamp('x') > timestamp(0)", "1:11: invalid timestamp argument", id="timestamp"),
        pytest.param("'a'.matches('[')", "1:13: invalid matches argument", id="pattern"),
        pytest.param("[1, 'a'] == []", "1:5: expected type 'int' but found 'string'", id="mixed list"),
        pytest.param("{1: 'a', 'b': 2} == {}", "1:10: expected type 'int' but found 'string'", id="mixed keys"),
        pytest.param("{1: 1, 2: 'a'} == {}", "1:11: expected type 'int' but found 'string'", id="mixed values"),
        pytest.param(
            "'%d'.format(['a']) == ''",
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
            id="clause",
        ),
        pytest.param(
            "'%s'.format([[optional.of(1)]]) == ''",
            "1:26: error during formatting: string clause can only be used on strings, bools, bytes, ints, "
            "doubles, maps, lists, types, durations, and timestamps, was given optional_type",
            id="element",
        ),
        pytest.param("'%d %d'.format([1]) == ''", "1:15: index 1 out of range", id="too few"),
        pytest.param(
            "'%d'.format([1, 2]) == ''",
            "1:12: too many arguments supplied to string.format (expected 1, got 2)",
            id="too many",
        ),
        pytest.param(
            "'%q'.format([1]) == ''",
            '1:12: could not parse formatting clause: unrecognized formatting clause "q"',
            id="no such clause",
        ),
        pytest.param("'5%'.format([1]) == ''", "1:12: unexpected end of string", id="percent at the end"),
        pytest.param(
            "'%.f'.format([1.0]) == ''",
            "1:13: could not parse formatting clause: error while parsing precision: "
            'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax',
            id="precision",
        ),
    ],
)
def test_literal(text: str, issue: str) -> None:
    [message] = messages(obj(a=rules(INTEGER, text)))
    assert f": compilation failed: ERROR: <input>:{issue}\n" in message


def test_formatted_lists_may_be_mixed() -> None:
    rule = "'%s %d %.2f %%'.format(['a', self, 1.5]) == 'a' || '%s'.format([[1, 'a']]) == 'b'"
    assert messages(obj(a=rules(INTEGER, rule))) == []


def test_message_expression() -> None:
    schema = obj(
        a=entries(
            INTEGER,
            {"rule": "self > 1", "messageExpression": "self"},
            {"rule": "self ><", "messageExpression": "1 +"},
            {"rule": "true", "messageExpression": "1 +"},
        )
    )
    found = check_rules(schema, "S")
    assert [error.field[-len("[0].messageExpression") :] for error in found] == [
        "[0].messageExpression",
        "s-validations[1].rule",
        "[2].messageExpression",
    ]
    assert found[0].detail == "messageExpression must evaluate to a string"
    assert found[2].detail.startswith("messageExpression compilation failed: ERROR: <input>:1:4: Syntax error")


@pytest.mark.parametrize(
    "schema, expected",
    [
        pytest.param(
            obj(a=array(rules(STRING, "self != oldSelf"), maxItems=5)),
            [
                'S.properties[a].items.x-kubernetes-validations[0].rule: Invalid value: "self != oldSelf": oldSelf '
                "cannot be used on the uncorrelatable portion of the schema within S.properties[a]"
            ],
            id="items",
        ),
        pytest.param(
            array(obj(a=array(obj(b=rules(STRING, "oldSelf == ''")), **{"x-kubernetes-list-type": "map"}))),
            [
                "S.items.properties[a].items.properties[b].x-kubernetes-validations[0].rule: Invalid value: "
                "\"oldSelf == ''\": oldSelf cannot be used on the uncorrelatable portion of the schema within S"
            ],
            id="a map in a list",
        ),
        pytest.param(
            obj(a=array(obj(b=array(rules(STRING, "self != oldSelf"), maxItems=5)), maxItems=5)),
            [
                "S.properties[a].items.properties[b].items.x-kubernetes-validations[0].rule: Invalid value: "
                '"self != oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within '
                "S.properties[a]"
            ],
            id="items of lists in items",
        ),
        pytest.param(
            obj(a=array(rules(STRING, "[1].filter(oldSelf, true) == []"), maxItems=5)),
            [
                'S.properties[a].items.x-kubernetes-validations[0].rule: Invalid value: "[1].filter(oldSelf, true) '
                '== []": oldSelf cannot be used on the uncorrelatable portion of the schema within S.properties[a]'
            ],
            id="a variable of that name counts",
        ),
        pytest.param(
            obj(a=entries(STRING, {"rule": "self == ''", "optionalOldSelf": False})),
            [
                "S.properties[a].x-kubernetes-validations[0].optionalOldSelf: Invalid value: false: may not be set "
                "if oldSelf is not used in rule"
            ],
            id="optionalOldSelf without oldSelf",
        ),
    ],
)
def test_old_self(schema: Schema, expected: list[str]) -> None:
    assert messages(schema) == expected


def test_node_without_a_type() -> None:
    schema = obj(a=rules({"x-kubernetes-preserve-unknown-fields": True}, "true"))
    assert messages(schema) == [
        "S.properties[a].x-kubernetes-validations: Internal error: internal error: failed to construct type "
        "information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations"
    ]


def test_schema_errors_stop_compilation_at_and_above_them() -> None:
    schema = rules(obj(a=rules(obj(x=STRING), "1"), ab=rules(STRING, "2")), "3")
    errors = [forbidden("S.properties[a].properties[x].type", "")]
    assert [error.field for error in check_rules(schema, "S", faulty=[error.field for error in errors])] == [
        "S.properties[ab].x-kubernetes-validations[0].rule"
    ]
    assert check_rules(schema, "S", compiles=False) == []


def test_invalid_rules_stop_compilation() -> None:
    schema = rules(obj(a=entries(STRING, {"rule": ""}, {"rule": "1"})), "2")
    assert messages(schema) == [
        "S.properties[a].x-kubernetes-validations[0].rule: Required value: rule is not specified"
    ]


def test_children_come_before_their_parents() -> None:
    schema = rules(obj(b=rules(array(rules(STRING, "1")), "2"), a=rules(STRING, "3")), "4")
    assert [error.field.removesuffix(".x-kubernetes-validations[0].rule") for error in check_rules(schema, "S")] == [
        "S.properties[a]",
        "S.properties[b].items",
        "S.properties[b]",
        "S",
    ]


def test_rules_below_junctors() -> None:
    assert messages({**obj(), "allOf": [obj(a=entries({}, {"rule": ""}))]}) == [
        "S.allOf[0].properties[a].x-kubernetes-validations[0].rule: Required value: rule is not specified"
    ]


SQUARE = "self.all(a, self.all(b, a <= b || a > b))"  # costs about nine times the square of the length


@pytest.mark.parametrize(
    "length, factor",
    [
        pytest.param(1000, None, id="cheap enough"),
        pytest.param(1100, "1.089550x", id="a little too expensive"),
        pytest.param(2000, "3.6x", id="too expensive"),
        pytest.param(None, "more than 100x", id="without a limit"),
    ],
)
def test_cost_of_a_rule(length: int | None, factor: str | None) -> None:
    limit = {} if length is None else {"maxItems": length}
    found = messages(obj(a=rules(array(INTEGER, **limit), SQUARE)))
    if factor is None:
        assert found == []
        return
    assert found[0] == (
        "S.properties[a].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds "
        f"budget by factor of {factor} {SIMPLIFY}"
    )


@pytest.mark.parametrize(
    "length, expected", [pytest.param(100, False, id="limited"), pytest.param(None, True, id="without a limit")]
)
def test_rules_count_for_each_value(length: int | None, expected: bool) -> None:
    """The rule itself costs about 90,000."""
    limit = {} if length is None else {"maxItems": length}
    schema = obj(a=array(rules(array(INTEGER, maxItems=100), SQUARE), **limit))
    assert bool(messages(schema)) is expected


def test_cost_of_all_rules() -> None:
    listed = rules(array(INTEGER, maxItems=1000), *[SQUARE] * 12, "true")
    assert messages(obj(a=listed)) == [
        *[
            f"S.properties[a].x-kubernetes-validations[{i}].rule: Forbidden: contributed to estimated rule cost total "
            "exceeding cost limit for entire OpenAPIv3 schema"
            for i in range(4)
        ],
        "S: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget "
        f"by factor of 1.080600x {SIMPLIFY}",
    ]


def test_unchanged_rules_have_no_cost_limit() -> None:
    schema = obj(a=rules(array(INTEGER, maxItems=2000), SQUARE))
    assert check_rules(schema, "S", unchanged=True) == []
    assert len(check_rules(schema, "S")) == 1
    assert RULE_COST_LIMIT == 10_000_000


def test_cost_of_a_message() -> None:
    schema = obj(a=entries(INTEGER, {"rule": "true", "messageExpression": "'is ' + string(self)"}))
    assert messages(schema)[0] == (
        "S.properties[a].x-kubernetes-validations[0].messageExpression: Forbidden: "
        "estimated messageExpression cost exceeds budget by factor of more than 100x " + SIMPLIFY
    )


@pytest.mark.slow
def test_size_of_all_rules() -> None:
    rule = "[" + "1," * 40_000 + "].size() > 1"
    found = messages(obj(a=rules(INTEGER, *[rule] * 50)))
    assert found == [
        "S.properties[a].x-kubernetes-validations[2]: Forbidden: the expressions of the schema are too "
        f"large to be checked: they have more than {MAX_SIZE} nodes"
    ]


def test_a_hundred_rules_are_checked_soon() -> None:
    """It is about 20 ms of processor time; the bound is for busy machines."""
    schema = obj(
        **{
            f"p{i}": rules(
                obj(a=STRING, b=array(STRING, maxItems=5)), f"self.a.startsWith('{i}') || self.b.all(x, x != self.a)"
            )
            for i in range(100)
        }
    )
    start = time.process_time()
    check_rules(schema, "S")
    assert time.process_time() - start < 5
