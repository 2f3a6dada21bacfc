"""Values of an object through its schema: types, formats, null and absent fields, sets and map lists."""

from __future__ import annotations

from typing import Any

import pytest

from registry.schema.model import from_json
from registry.schema.values import same
from tests.cel.evaluation import on_self, outcome_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "i": {"type": "integer"},
        "n": {"type": "number"},
        "s": {"type": "string"},
        "b": {"type": "boolean"},
        "ios": {"x-kubernetes-int-or-string": True},
        "du": {"type": "string", "format": "duration"},
        "da": {"type": "string", "format": "date"},
        "dt": {"type": "string", "format": "date-time"},
        "by": {"type": "string", "format": "byte"},
        "nu": {"type": "string", "nullable": True},
        "li": {"type": "array", "items": {"type": "integer"}},
        "ln": {"type": "array", "items": {"type": "string", "nullable": True}},
        "ld": {"type": "array", "items": {"type": "string", "format": "date"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "lm": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
        },
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "mo": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "string"}}}},
        "o": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
        "pu": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"known": {"type": "integer"}},
        },
        "x-dash.ed/name": {"type": "integer"},
        "a__b": {"type": "integer"},
        "namespace": {"type": "string"},
        "em": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    },
}
STRUCTURAL = from_json(SCHEMA)
INT_ERROR = "error: invalid data, expected int, got float64"


@pytest.mark.parametrize(
    "expression, obj, expected",
    [
        pytest.param(*row, id=row[0] + " on " + str(row[1]))
        for row in [
            ("self.i + 1", {"i": 2}, "3"),
            ("self.i", {"i": 3.0}, INT_ERROR),
            ("self.li[0]", {"li": [3.0]}, INT_ERROR),
            ("self.li.all(x, x > 0)", {"li": [1, 3.0]}, INT_ERROR),
            ("self.li.exists(x, x == 1)", {"li": [3.0, 1]}, "true"),
            ("1 in self.li", {"li": [3.0, 1]}, "true"),
            ("2 in self.li", {"li": [3.0, 1]}, INT_ERROR),
            ("self.n / 2.0", {"n": 3}, "1.5"),
            ("type(self.n) == double", {"n": 3}, "true"),
            ("self.i", {}, "error: no such key: i"),
            ("has(self.i)", {}, "false"),
            ("has(self.i) && has(self.b)", {"i": 0, "b": False}, "true"),
            ("has(self.nu)", {"nu": None}, "false"),
            ("self.nu == 'x'", {"nu": None}, "error: no such key: nu"),
            ("self.ln.map(x, x == null)", {"ln": ["a", None]}, "[false, true]"),
            ("self.ln[1] == null", {"ln": ["a", None]}, "true"),
            ("type(self.ios) == string ? self.ios == '5%' : self.ios == 5", {"ios": 5}, "true"),
            ("type(self.ios) == string ? self.ios == '5%' : self.ios == 5", {"ios": "5%"}, "true"),
            ("self.ios + 1", {"ios": "5"}, "error: no such overload"),
            ("self.du + duration('1s')", {"du": "2 hours"}, "7201s"),
            ("self.du.getHours()", {"du": "1w"}, "168"),
            ("self.da.getDate()", {"da": "2024-02-29"}, "29"),
            ("self.dt < timestamp('2025-01-01T00:00:00Z')", {"dt": "2024-02-29T00:00:00+01:00"}, "true"),
            (
                "self.dt.getHours()",
                {"dt": "2024-02-29t00:00:00z"},
                'error: Invalid date-time formatted string 2024-02-29t00:00:00z: parsing time "2024-02-29t00:00:00z" as '
                '"2006-01-02T15:04:05": cannot parse "t00:00:00z" as "T"',
            ),
            ("has(self.dt)", {"dt": "2024-02-29t00:00:00z"}, "true"),
            ("self.ld.all(d, d.getMonth() == 1)", {"ld": ["2024-02-01", "2024-02-02"]}, "true"),
            ("self.by == b'abc' && size(self.by) == 3", {"by": "YWJj"}, "true"),
            (
                "self.by",
                {"by": "ab+c"},
                "error: Invalid byte formatted string ab+c: illegal base64 data at input byte 2",
            ),
            ("self.set == ['b', 'a']", {"set": ["a", "b"]}, "true"),
            ("['b', 'a'] == self.set", {"set": ["a", "b"]}, "false"),
            ("self.set + ['b', 'c']", {"set": ["a", "b"]}, "['a', 'b', 'c']"),
            ("['c', 'a'] + self.set", {"set": ["a", "b"]}, "['c', 'a', 'a', 'b']"),
            ("(self.set + ['c']) == ['c', 'b', 'a']", {"set": ["a", "b"]}, "true"),
            ("self.set != self.set + ['z']", {"set": ["a"]}, "true"),
            ("self.lm.map(e, e.v)", {"lm": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}, "[1, 2]"),
            (
                "self.lm == self.lm.filter(e, e.k == 'b') + self.lm.filter(e, e.k == 'a')",
                {"lm": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]},
                "true",
            ),
            ("(self.lm + self.lm).size()", {"lm": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}, "2"),
            ("self.m['a'] + self.m.b", {"m": {"a": 1, "b": 2}}, "3"),
            ("'a' in self.m && !('c' in self.m) && has(self.m.a)", {"m": {"a": 1}}, "true"),
            ("self.m.c", {"m": {"a": 1}}, "error: no such key: c"),
            *(
                (f"self.ios[self.{name}]", {"ios": 1, name: value}, f"error: invalid qualifier type: {go_type}")
                for name, value, go_type in [
                    ("li", [1], "*common.unstructuredList"),
                    ("set", ["a"], "*common.unstructuredSetList"),
                    ("lm", [{"k": "a"}], "*common.unstructuredMapList"),
                    ("m", {"a": 1}, "*common.unstructuredMap"),
                    ("o", {"a": 1}, "*common.unstructuredMap"),
                    ("by", "aGk=", "types.Bytes"),
                    ("du", "1h", "types.Duration"),
                    ("dt", "2024-01-01T00:00:00Z", "types.Timestamp"),
                ]
            ),
            ("dyn(self.li)[self.li]", {"li": [1]}, "error: invalid qualifier type: *common.unstructuredList"),
            ("self.ios[?self.li]", {"ios": 1, "li": [1]}, "error: invalid qualifier type: *common.unstructuredList"),
            *[
                (f"{operand}[{index}]", {"li": [4, 5], "set": ["a", "b"]}, f"error: {error}")
                for operand in ("self.li", "dyn(self.li)", "dyn(self).li", "self.set", "(true ? self.li : self.li)")
                for index, error in (
                    ("dyn(1.0)", "unsupported index: 1"),
                    ("dyn(1u)", "unsupported index: 1"),
                    ("dyn(7u)", "index out of bounds: 7"),
                    ("dyn(1e6)", "index out of bounds: 1e+06"),
                    ("dyn(1.5)", "unsupported index value 1.5 in list"),
                    ("dyn('1')", "unsupported index type 'string' in list"),
                )
            ],
            ("self.li[?dyn(1.0)].value() + self.?li[dyn(1u)].value()", {"li": [4, 5]}, "10"),
            ("self.ios[self.s]", {"ios": 1, "s": "a"}, "error: no such key: a"),
            ("self.m == self.ios", {"m": {}, "ios": 1}, "error: no such overload"),
            ("self.m != self.ios", {"m": {}, "ios": 1}, "true"),
            ("self.li != self.ios", {"li": [], "ios": "a"}, "true"),
            ("dyn(self.m) != 1", {"m": {}}, "true"),
            ("dyn(quantity('1')) != self.m", {"m": {}}, "true"),
            ("size({self.li: 1})", {"li": [1]}, "1"),
            ("self.m.map(k, self.m[k])", {"m": {"a": 1, "b": 2}}, "[1, 2]"),
            ("self.m.all(k, v, k != '' && v > 0)", {"m": {"a": 1, "b": 2}}, "true"),
            ("self.m == {'a': 1}", {"m": {"a": 1}}, "true"),
            ("self.mo.all(k, self.mo[k].x == k)", {"mo": {"a": {"x": "a"}}}, "true"),
            ("self.o == self.o && size(self.mo) == 0 && type(self.o) == map", {"o": {"a": 1}, "mo": {}}, "true"),
            ("self.?o.a.orValue(5) + self.?o.b.orValue(7)", {"o": {"a": 1}}, "8"),
            ("self.x__dash__dash__dot__ed__slash__name", {"x-dash.ed/name": 4}, "4"),
            ("self.a__underscores__b + size(self.__namespace__)", {"a__b": 1, "namespace": "ns"}, "3"),
            ("self.x__dash__dash__dot__ed__slash__name", {}, "error: no such key: x__dash__dash__dot__ed__slash__name"),
            ("self.em.kind + self.em.metadata.name", {"em": {"kind": "K", "metadata": {"name": "n", "x": 1}}}, "'Kn'"),
            ("self.pu == self.pu", {"pu": {"known": 1, "unknown": {"a": [1.5]}}}, "true"),
            ("'%s'.format([self.o])", {"o": {"b": 2, "a": 1}}, '\'{"a":1, "b":2}\''),
            ("optional.ofNonZeroValue(self.li).hasValue()", {"li": []}, "true"),
        ]
    ],
)
def test_values(expression: str, obj: dict[str, Any], expected: str) -> None:
    compiled = on_self(expression, STRUCTURAL)
    assert outcome_of(compiled, obj, obj) == expected
    assert outcome_of(compiled.exact(), obj, obj) == expected


@pytest.mark.parametrize(
    "schema, value, expected",
    [
        ({"type": "integer"}, 5, "5"),
        ({"type": "string", "format": "duration"}, "90s", "90s"),
        ({"type": "array", "items": {"type": "string"}}, ["a"], "['a']"),
        ({"x-kubernetes-int-or-string": True}, "5%", "'5%'"),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            "error: invalid data, expected XIntOrString value to be either a string or integer",
        ),
        ({"type": "string"}, 5, "error: invalid data, expected string, got int64"),
        ({"type": "boolean"}, "true", "error: invalid data, expected bool, got string"),
    ],
)
def test_self(schema: dict[str, Any], value: Any, expected: str) -> None:
    assert outcome_of(on_self("self", schema), value, value) == expected


@pytest.mark.parametrize(
    "left, right, expected",
    [
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, True),
        (1, 1.0, False),
        (1, True, False),
        ([1], [1, 2], False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": None}, {}, False),
    ],
)
def test_same_json(left: Any, right: Any, expected: bool) -> None:
    assert same(left, right) is expected
