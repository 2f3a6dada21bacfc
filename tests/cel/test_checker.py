"""The type checker: the types of expressions, the overloads of calls, and what does not fit."""

from __future__ import annotations

import pytest

from registry.cel.checker.checked import Checked
from registry.cel.checker.checker import check
from registry.cel.checker.declarations import FUNCTIONS
from registry.cel.common import types
from registry.cel.syntax import ast
from registry.cel.syntax.ast import Call
from registry.cel.syntax.errors import display
from registry.cel.syntax.parser import parse

ITEM = types.struct("selfType.items.@idx", {"name": types.STRING, "n": types.INT})
SELF = types.struct(
    "selfType",
    {
        "n": types.INT,
        "u": types.UINT,
        "d": types.DOUBLE,
        "s": types.STRING,
        "b": types.BOOL,
        "y": types.BYTES,
        "ts": types.TIMESTAMP,
        "dur": types.DURATION,
        "any": types.DYN,
        "o": ITEM,
        "items": types.list_of(ITEM),
        "li": types.list_of(types.INT),
        "ls": types.list_of(types.STRING),
        "m": types.map_of(types.STRING, types.INT),
        "mm": types.map_of(types.STRING, types.map_of(types.STRING, types.STRING)),
        "__namespace__": types.STRING,
    },
)
VARIABLES = {"self": SELF, "oldSelf": types.optional_of(SELF)}


def checked(text: str) -> Checked:
    return check(parse(text), VARIABLES)


@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param("1", "int", id="int"),
        pytest.param("1u", "uint", id="uint"),
        pytest.param("null", "null", id="null"),
        pytest.param("b'x'", "bytes", id="bytes"),
        pytest.param("self.o", "selfType.items.@idx", id="object"),
        pytest.param("self.namespace", "string", id="reserved word as a field"),
        pytest.param("self.__namespace__", "string", id="reserved word escaped"),
        pytest.param("self.n + 1", "int", id="sum"),
        pytest.param("self.ts - self.ts", "duration", id="difference of timestamps"),
        pytest.param("self.ts + self.dur", "timestamp", id="timestamp and duration"),
        pytest.param("self.n < self.d", "bool", id="numbers of two types are compared"),
        pytest.param("self.li + [1]", "list(int)", id="lists"),
        pytest.param("self.li[0]", "int", id="element"),
        pytest.param("self.m['a']", "int", id="value"),
        pytest.param("self.m.a", "int", id="value by name"),
        pytest.param("self.mm.a.b", "string", id="value of a value"),
        pytest.param("has(self.m.a)", "bool", id="presence"),
        pytest.param("self.?m.?a", "optional_type(int)", id="optional selections do not nest"),
        pytest.param("self.?m.a", "optional_type(int)", id="selection of an optional"),
        pytest.param("self.li[?0].orValue(1)", "int", id="optional index"),
        pytest.param("oldSelf.?o.n.value()", "int", id="optional variable"),
        pytest.param("[1, 2]", "list(int)", id="list"),
        pytest.param("[]", "list(dyn)", id="empty list"),
        pytest.param("[] + [1]", "list(int)", id="an empty list takes the type of the other"),
        pytest.param("[1, 'a']", "list(dyn)", id="mixed list"),
        pytest.param("[?self.?n]", "list(int)", id="optional element"),
        pytest.param("{'a': 1}", "map(string, int)", id="map"),
        pytest.param("{}", "map(dyn, dyn)", id="empty map"),
        pytest.param("self.b ? 1 : 2", "int", id="ternary"),
        pytest.param("self.b ? self.any : 2", "dyn", id="ternary with dyn"),
        pytest.param("self.ts == null", "bool", id="null and a timestamp"),
        pytest.param("self.o == null", "bool", id="null and an object"),
        pytest.param("self.any == 1 && self.any == 'a'", "bool", id="dyn is all types"),
        pytest.param("self.any.a.b", "dyn", id="fields of dyn"),
        pytest.param("self.any + self.any", "dyn", id="sum of dyn"),
        pytest.param("type(1)", "type(int)", id="type"),
        pytest.param("type(self.s) == string", "bool", id="types are compared"),
        pytest.param("google.protobuf.Duration", "type(duration)", id="name of a type with dots"),
        pytest.param("net.IP", "type(net.IP)", id="name of a Kubernetes type"),
        pytest.param("self.items.map(i, i.name)", "list(string)", id="map macro"),
        pytest.param("self.items.filter(i, i.n > 1)", "list(selfType.items.@idx)", id="filter macro"),
        pytest.param("self.m.map(k, self.m[k])", "list(int)", id="keys of a map"),
        pytest.param("self.m.transformMap(k, v, string(v))", "map(string, string)", id="transformMap"),
        pytest.param("self.ls.transformList(i, v, i)", "list(int)", id="index of a list"),
        pytest.param("self.ls.transformMapEntry(i, v, {v: i})", "map(string, int)", id="transformMapEntry"),
        pytest.param("self.items.sortBy(i, i.n)[0].name", "string", id="sortBy"),
        pytest.param("optional.of(1).optMap(x, string(x))", "optional_type(string)", id="optMap"),
        pytest.param("optional.none()", "optional_type(dyn)", id="none"),
        pytest.param("sets.contains(self.li, [1])", "bool", id="namespaced function"),
        pytest.param("self.li.sum() + self.li.max()", "int", id="sum of a list"),
        pytest.param("quantity('1').add(1).asApproximateFloat()", "double", id="quantity"),
        pytest.param("ip('::1').family()", "int", id="member of an ip"),
        pytest.param("cidr('::1/8').ip()", "net.IP", id="ip of a cidr"),
        pytest.param("url('x').getQuery()", "map(string, list(string))", id="url"),
        pytest.param("semver('v1', true).major()", "int", id="semver"),
        pytest.param("format.dns1123Label().validate('a')", "optional_type(list(string))", id="format"),
        pytest.param("'%s'.format([1, 'a'])", "string", id="mixed arguments"),
        pytest.param("google.protobuf.Duration{seconds: 1}", "duration", id="message"),
        pytest.param("[[1], [2]].flatten()", "list(int)", id="flatten"),
        pytest.param("[1, 2].first().value()", "int", id="first"),
    ],
)
def test_type(text: str, expected: str) -> None:
    result = checked(text)
    assert not result.issues
    assert result.result.text == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param("foo", [(1, "undeclared reference to 'foo' (in container '')")], id="no such name"),
        pytest.param("foo(1)", [(4, "undeclared reference to 'foo' (in container '')")], id="no such function"),
        pytest.param("self.foo()", [(9, "undeclared reference to 'foo' (in container '')")], id="no such member"),
        pytest.param(
            "math.abs(1)",
            [
                (1, "undeclared reference to 'math' (in container '')"),
                (9, "undeclared reference to 'abs' (in container '')"),
            ],
            id="no such namespace",
        ),
        pytest.param(
            "request.name", [(1, "undeclared reference to 'request' (in container '')")], id="no such variable"
        ),
        pytest.param("self.x", [(5, "undefined field 'x'")], id="no such field"),
        pytest.param("self.x.y.z", [(5, "undefined field 'x'")], id="one error for what follows from one"),
        pytest.param("self.n.x", [(7, "type 'int' does not support field selection")], id="field of a number"),
        pytest.param("has(self.x)", [(4, "undefined field 'x'")], id="presence of no field"),
        pytest.param(
            "quantity('1').x", [(14, "unexpected failed resolution of 'kubernetes.Quantity'")], id="field of a quantity"
        ),
        pytest.param(
            "self.n == 'a'", [(8, "found no matching overload for '_==_' applied to '(int, string)'")], id="=="
        ),
        pytest.param("self.n + 1.0", [(8, "found no matching overload for '_+_' applied to '(int, double)'")], id="+"),
        pytest.param("-self.s", [(1, "found no matching overload for '-_' applied to '(string)'")], id="sign"),
        pytest.param(
            "self.n in self.ls", [(8, "found no matching overload for '@in' applied to '(int, list(string))'")], id="in"
        ),
        pytest.param(
            "self.b ? 1 : 'a'",
            [(8, "found no matching overload for '_?_:_' applied to '(bool, int, string)'")],
            id="ternary",
        ),
        pytest.param(
            "self.li['a']", [(8, "found no matching overload for '_[_]' applied to '(list(int), string)'")], id="index"
        ),
        pytest.param("size(1)", [(5, "found no matching overload for 'size' applied to '(int)'")], id="function"),
        pytest.param(
            "self.b.size()", [(12, "found no matching overload for 'size' applied to 'bool.()'")], id="member"
        ),
        pytest.param(
            "self.s.startsWith(1, 2)",
            [(18, "found no matching overload for 'startsWith' applied to 'string.(int, int)'")],
            id="arguments",
        ),
        pytest.param(
            "startsWith(self.s, 'a')",
            [(11, "found no matching overload for 'startsWith' applied to '(string, string)'")],
            id="member as function",
        ),
        pytest.param(
            "size(self.any.size) == []",
            [(21, "found no matching overload for '_==_' applied to '(int, list(dyn))'")],
            id="unknown types are dyn",
        ),
        pytest.param("self.n && self.b", [(5, "expected type 'bool' but found 'int'")], id="and"),
        pytest.param(
            "!self.n || 1",
            [
                (1, "found no matching overload for '!_' applied to '(int)'"),
                (12, "expected type 'bool' but found 'int'"),
            ],
            id="or",
        ),
        pytest.param("self.li.all(i, i)", [(16, "expected type 'bool' but found 'int'")], id="predicate"),
        pytest.param(
            "self.n.all(i, true)",
            [(5, "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)")],
            id="range",
        ),
        pytest.param("[?1]", [(3, "expected type 'optional_type(int)' but found 'int'")], id="element is no optional"),
        pytest.param(
            "self.n == null",
            [(8, "found no matching overload for '_==_' applied to '(int, null)'")],
            id="null and a number",
        ),
        pytest.param(
            "self.o == self.items",
            [
                (
                    8,
                    "found no matching overload for '_==_' applied to '(selfType.items.@idx, "
                    "list(selfType.items.@idx))'",
                )
            ],
            id="object and list",
        ),
        pytest.param("Foo{a: 1}", [(4, "undeclared reference to 'Foo' (in container '')")], id="no such message"),
        pytest.param("int{a: 1}", [(4, "'int' is not a message type")], id="no message"),
        pytest.param("self{n: 1}", [(5, "'selfType' is not a type")], id="no type"),
        pytest.param(
            "google.protobuf.Timestamp{seconds: 'a'}",
            [(34, "expected type of field 'seconds' is 'int' but provided type is 'string'")],
            id="type of a field",
        ),
        pytest.param("google.protobuf.Timestamp{hours: 1}", [(32, "undefined field 'hours'")], id="field of a message"),
        pytest.param(
            "self.li.map(x, x) + [x]",
            [(22, "undeclared reference to 'x' (in container '')")],
            id="variables end with their macro",
        ),
    ],
)
def test_issues(text: str, expected: list[tuple[int, str]]) -> None:
    result = checked(text)
    assert sorted((issue.offset + 1, issue.message) for issue in result.issues) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param("self.n + 1", ("add_int64",), id="one"),
        pytest.param("self.any < 1", ("less_int64", "less_uint64_int64", "less_double_int64"), id="several for dyn"),
        pytest.param("self.s.size()", ("string_size",), id="member"),
        pytest.param("size(self.ls)", ("size_list",), id="function"),
        pytest.param("self.any['a']", ("index_map", "optional_map_index_value"), id="index of dyn"),
    ],
)
def test_overloads(text: str, expected: tuple[str, ...]) -> None:
    result = checked(text)
    assert result.overloads[result.root.id] == expected


def test_every_value_has_a_type_and_every_call_an_overload() -> None:
    result = checked(
        "self.items.exists(i, sets.contains(self.ls, [i.name]) "
        "&& google.protobuf.Duration == type(self.any)) "
        "|| optional.of(self.li.map(x, x > 1, [x])).optMap(y, y.size()).hasValue()"
    )
    assert not result.issues
    for node in result.nodes():
        assert node.id in result.types
        if isinstance(node, Call):
            assert result.overloads[node.id]
    assert set(result.idents.values()) == {"google.protobuf.Duration", "optional.of", "sets.contains"}


def test_no_type_is_left_open() -> None:
    result = checked("[].map(x, [x]) == [[]] && {}.exists(k, k == '') && optional.none().or(optional.none()) == null")
    assert all(not of.open for of in result.types.values())


def test_issues_of_the_parser_are_returned() -> None:
    result = checked("1 +")
    assert display(result.parsed.source, result.issues).startswith("ERROR: <input>:1:4: Syntax error: mismatched input")


def test_deep_trees() -> None:
    """Within Python's own limit on frames."""
    assert checked("[" * 249 + "1" + "]" * 249).result.text.startswith("list(list(")
    assert checked("size([" * 120 + "1" + "])" * 120).result is types.INT
    assert checked("!(" * 240 + "true" + ")" * 240).result is types.BOOL


def test_many_open_types() -> None:
    assert checked(f"[{'[],' * 2000}[1]]").result.text == "list(list(int))"


def test_types_have_a_bound() -> None:
    """Each macro doubles the type."""
    result = checked("[1]" + ".map(a, {a: a})" * 100)
    assert [issue.message for issue in result.issues] == ["a type consists of more than 1000 types"]


def test_operators_of_the_tree_are_declared() -> None:
    """Nothing that the parser makes is unknown to the checker."""
    operators = [value for name, value in vars(ast).items() if name.isupper() and isinstance(value, str)]
    assert [name for name in operators if name not in FUNCTIONS] == [ast.ACCUMULATOR]
