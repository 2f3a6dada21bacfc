"""The static cost of expressions. They were worked out by hand from the reference's rules."""

from __future__ import annotations

from typing import Any

import pytest

from registry.cel.checker.cost_ranges import LIMIT, add, multiply, times
from registry.cel.checker.schema_types import declare
from registry.cel.rules.expressions import MESSAGE, RULE, compile_expression
from registry.schema.model import from_json

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "any": {"x-kubernetes-int-or-string": True, "maxLength": 10},
        "s": {"type": "string", "maxLength": 10},
        "long": {"type": "string"},
        "bytes": {"type": "string", "format": "byte", "maxLength": 40},
        "l": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 10}},
        "li": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
        "items": {
            "type": "array",
            "maxItems": 4,
            "items": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}},
        },
        "m": {"type": "object", "maxProperties": 3, "additionalProperties": {"type": "string", "maxLength": 10}},
    },
}
DECLARED = declare(from_json(SCHEMA))


def cost(text: str) -> int:
    """The cost of an expression of any type: that of a rule that ends with comparing it."""
    assert DECLARED is not None
    compiled = compile_expression(text, DECLARED, RULE)
    if compiled.error:
        compiled = compile_expression(text, DECLARED, MESSAGE)
    assert not compiled.error, compiled.error
    return compiled.cost


@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param("true", 0, id="literal"),
        pytest.param("self.n > 1", 3, id="name, field and comparison"),
        pytest.param("self.n == 1", 2, id="numbers have no size"),
        pytest.param("has(self.n)", 1, id="presence is free"),
        pytest.param("has(self.n) ? self.n > 1 : self.n < 2 || self.n > 3", 1 + 6, id="the dearer side of a ternary"),
        pytest.param("self.n > 1 && self.n > 2", 6, id="both sides of and"),
        pytest.param("self.s == 'abc'", 2 + 1, id="the shorter string counts"),
        pytest.param("self.s == self.s", 4 + 4, id="a tenth of four bytes a character"),
        pytest.param("self.s < self.long", 4 + 4, id="order of strings"),
        pytest.param("self.s.startsWith(self.s)", 4 + 4, id="startsWith"),
        pytest.param("self.s.contains('0123456789')", 2 + 4 * 1, id="contains multiplies"),
        pytest.param("self.s.matches('0123456789')", 2 + 5 * 3, id="matches multiplies"),
        pytest.param("self.s.find('0123456789') == ''", 2 + 5 * 3 + 0, id="find multiplies"),
        pytest.param("self.s + self.s == 'a'", 4 + 8 + 1, id="concatenation"),
        pytest.param("self.n in [1, 2, 3]", 2 + 10 + 3, id="in a list"),
        pytest.param("self.s in self.l", 4 + 5, id="in a field"),
        pytest.param("self.l.all(x, x == 'a')", 2 + 5 * (2 + 1 + 1 + 1) + 1, id="all"),
        pytest.param("self.l.exists(x, x == 'a')", 2 + 5 * (2 + 1 + 1 + 1 + 1) + 1, id="exists"),
        pytest.param("self.items.all(i, i.name == 'a')", 2 + 4 * (2 + 1 + 2 + 1) + 1, id="field of an item"),
        pytest.param("self.m.all(k, self.m[k] == 'a')", 2 + 3 * (2 + 1 + 2 + 1 + 1 + 1) + 1, id="value of a map"),
        pytest.param("self.m.all(k, v, v == k)", 2 + 3 * (2 + 1 + 2 + 0) + 1, id="keys have no size"),
        pytest.param(
            "self.li.all(a, self.li.all(b, a <= b || a > b))",
            2 + 1 + 5 * (2 + 1 + 1 + 2 + 5 * (2 + 1 + 6)),
            id="nested",
        ),
        pytest.param("self.li.map(x, x + 1).size() == 5", 2 + 10 + 5 * (1 + 1 + 1 + 1 + 10) + 1 + 1 + 1, id="map"),
        pytest.param("self.l.isSorted()", 2 + 5 * 5, id="each string is read"),
        pytest.param("self.li.sum() == 1", 2 + 5 + 1, id="each number costs one"),
        pytest.param("self.s.indexOf('a') == 1", 2 + 4 + 1, id="indexOf of a string"),
        pytest.param("self.l.join(',') == ''", 2 + 21 + 0, id="join"),
        pytest.param("self.s.replace('a', 'bcd') == 'x'", 2 + 8 + 1, id="replace"),
        pytest.param("self.s.split(',').size() == 1", 2 + 8 + 1 + 1, id="split"),
        pytest.param("self.l.distinct().size() == 1", 2 + (50 + 11) + 1 + 1, id="distinct"),
        pytest.param("self.li.sort() == [1]", 2 + (50 + 11) + 10 + 1, id="sort"),
        pytest.param("sets.contains(self.li, [1, 2])", 2 + 10 + 11, id="sets"),
        pytest.param("lists.range(3).size() == 3", 14 + 1 + 1, id="range"),
        pytest.param("quantity(self.s).isGreaterThan(quantity('1'))", 2 + 4 + 1 + 1, id="quantity"),
        pytest.param("ip(self.s) == ip('::1')", 2 + 4 + 1 + 1, id="equal addresses"),
        pytest.param("cidr(self.s).containsIP('::1')", 2 + 4 + 4 + 1, id="containsIP"),
        pytest.param("format.uuid().validate(self.s).hasValue()", 1 + 2 + 4 * 32 + 1, id="format"),
        pytest.param("url(self.s).getHost() == 'a'", 2 + 4 + 1 + 1, id="url"),
        pytest.param("string(self.n)", 3, id="conversion"),
        pytest.param("'%d'.format([self.n])", 12 + 1, id="format"),
        pytest.param("dyn(self.n) == 1", 3 + 0, id="dyn costs one"),
        pytest.param("self.any == 'a'", 2 + 1, id="int or string"),
        pytest.param("self.?s.orValue('') == ''", 2 + 1 + 0, id="optional"),
        pytest.param("[self.s].all(x, x == 'a')", 2 + 10 + 5, id="sizes of a list that is made here"),
    ],
)
def test_cost(text: str, expected: int) -> None:
    assert cost(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "'n is ' + string(self.n)",
        "type(self.n) == type(self.n)",
        "self.items.filter(i, i.name != 'a').all(i, i.name.contains('b'))",
        "lists.range(self.n).size() == 1",
    ],
)
def test_unknown_sizes_are_too_much(text: str) -> None:
    assert cost(text) > 10**18


def test_arithmetic_stops_at_the_limit() -> None:
    assert add((1, LIMIT), (2, 5)) == (3, LIMIT)
    assert add((LIMIT, LIMIT), (LIMIT, LIMIT)) == (LIMIT, LIMIT)
    assert multiply((3, 2**40), (4, 2**40)) == (12, LIMIT)
    assert times((0, LIMIT), 2.0) == (0, LIMIT)
    assert times((11, 19), 0.1) == (2, 2)
