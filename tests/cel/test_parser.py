"""The parser: trees, positions, literals, macros, bounds, and agreement with the other readers of the language."""

from __future__ import annotations

import pytest
from celpy.celparser import CELParseError, CELParser
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.cel.syntax import ast
from registry.cel.syntax.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from registry.cel.syntax.diagnosis import syntax_errors
from registry.cel.syntax.errors import display
from registry.cel.syntax.parser import MAX_CODE_POINTS, Parsed, parse
from tests.cel.texts import BROKEN_TEXTS, EXPRESSIONS


def show(node: Expr) -> str:
    """A tree in one line: calls as `function(arguments)`, loops as `fold(...)`."""
    match node:
        case Literal():
            return f"{node.value!r}u" if node.kind is ast.NodeKind.UINT else repr(node.value)
        case Ident():
            return node.name
        case Select():
            return f"{show(node.operand)}.{node.field}{'?' if node.test_only else ''}"
        case Call():
            target = "" if node.target is None else f"{show(node.target)}."
            return f"{target}{node.function}({', '.join(map(show, node.args))})"
        case ListExpr():
            marks = ["?" if i in node.optional_indices else "" for i in range(len(node.elements))]
            return f"[{', '.join(m + show(e) for m, e in zip(marks, node.elements, strict=True))}]"
        case MapExpr():
            return f"{{{', '.join(f'{_mark(e)}{show(e.key)}: {show(e.value)}' for e in node.entries)}}}"
        case StructExpr():
            return f"{node.name}{{{', '.join(f'{_mark(e)}{e.field}: {show(e.value)}' for e in node.entries)}}}"
        case Comprehension():
            variables = ", ".join(filter(None, (node.iter_var, node.iter_var2)))
            return (
                f"fold({variables} in {show(node.iter_range)}; {node.accu_var} = {show(node.accu_init)}; "
                f"{show(node.loop_condition)}; {show(node.loop_step)}; {show(node.result)})"
            )


def _mark(entry: ast.MapEntry | ast.FieldEntry) -> str:
    return "?" if entry.optional else ""


def tree(text: str) -> str:
    parsed = parse(text)
    assert parsed.root is not None, parsed.issues
    return show(parsed.root)


@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param("1 + 2 * 3 - 4", "_-_(_+_(1, _*_(2, 3)), 4)", id="products before sums"),
        pytest.param("a * b % c / d", "_/_(_%_(_*_(a, b), c), d)", id="to the left"),
        pytest.param("a + b < c == d", "_==_(_<_(_+_(a, b), c), d)", id="sums before relations"),
        pytest.param("a in b && !c", "_&&_(@in(a, b), !_(c))", id="relations before and"),
        pytest.param("a || b && c || d", "_||_(_||_(a, _&&_(b, c)), d)", id="and before or"),
        pytest.param("a && b && c && d", "_&&_(_&&_(a, b), _&&_(c, d))", id="chains are balanced"),
        pytest.param("a && b && c", "_&&_(_&&_(a, b), c)", id="a chain of three"),
        pytest.param("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))", id="ternaries nest to the right"),
        pytest.param("a || b ? c && d : e", "_?_:_(_||_(a, b), _&&_(c, d), e)", id="ternary of logic"),
        pytest.param("(a ? b : c) ? d : e", "_?_:_(_?_:_(a, b, c), d, e)", id="ternary as condition"),
        pytest.param("!!a", "a", id="two nots are none"),
        pytest.param("!!!a", "!_(a)", id="three nots are one"),
        pytest.param("!(!a)", "!_(!_(a))", id="parentheses keep nots"),
        pytest.param("--1", "1", id="two signs are none"),
        pytest.param("-a.b", "-_(a.b)", id="sign of a selection"),
        pytest.param("1-2", "_-_(1, 2)", id="minus without blanks"),
        pytest.param("1--2", "_-_(1, -2)", id="minus a negative"),
        pytest.param("a.b.c(d).e[f]", "_[_](a.b.c(d).e, f)", id="members"),
        pytest.param("a.?b[?c].d", "_[?_](_?._(a, 'b'), c).d", id="optional members"),
        pytest.param(".a.b", ".a.b", id="leading dot"),
        pytest.param(".f(1)", ".f(1)", id="leading dot of a call"),
        pytest.param("[1, ?b, 3,]", "[1, ?b, 3]", id="list"),
        pytest.param("[,] == []", "_==_([], [])", id="lists of a comma"),
        pytest.param("{'a': 1, ?b: c,}", "{'a': 1, ?b: c}", id="map"),
        pytest.param("{,}", "{}", id="map of a comma"),
        pytest.param("a.b.C{x: 1, ?y: z}", "a.b.C{x: 1, ?y: z}", id="message"),
        pytest.param("a.b.C{}.d", "a.b.C{}.d", id="field of a message"),
        pytest.param("self.namespace.for", "self.namespace.for", id="reserved words as fields"),
        pytest.param("a // b\n + c", "_+_(a, c)", id="comment"),
        pytest.param("f()\t\r\n\f", "f()", id="blanks"),
    ],
)
def test_tree(text: str, expected: str) -> None:
    assert tree(text) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param("9223372036854775807", 2**63 - 1, id="greatest int"),
        pytest.param("-9223372036854775808", -(2**63), id="least int"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("-0x1f", -31, id="negative hexadecimal"),
        pytest.param("18446744073709551615u", 2**64 - 1, id="greatest uint"),
        pytest.param("0xFu", 15, id="hexadecimal uint"),
        pytest.param("1.5e3", 1500.0, id="double"),
        pytest.param(".5", 0.5, id="double without a whole"),
        pytest.param("-1e-1", -0.1, id="double without a fraction"),
        pytest.param("'a\\n\\t\\\"\\'\\\\\\?\\`'", "a\n\t\"'\\?`", id="simple escapes"),
        pytest.param("'\\a\\b\\f\\r\\v'", "\a\b\f\r\v", id="more escapes"),
        pytest.param("'\\x41\\X42\\103\\u0044\\U00000045'", "ABCDE", id="numbered escapes"),
        pytest.param("'\\u00ff\\xff'", "ÿÿ", id="escapes of strings are code points"),
        pytest.param("r'a\\n'", "a\\n", id="raw"),
        pytest.param('R"\\"', "\\", id="raw with a backslash at the end"),
        pytest.param("'''a\n'b''c'''", "a\n'b''c", id="triple"),
        pytest.param('"""a\r\nb\rc"""', "a\nb\nc", id="line ends become line feeds"),
        pytest.param("r'''\\'''", "\\", id="raw triple"),
        pytest.param("''", "", id="empty"),
        pytest.param("''''''", "", id="empty triple"),
        pytest.param("b'a\\xff\\377ÿ'", b"a\xff\xff\xc3\xbf", id="bytes"),
        pytest.param("bR'\\x'", b"\\x", id="raw bytes"),
        pytest.param("true", True, id="true"),
        pytest.param("null", None, id="null"),
    ],
)
def test_literal(text: str, expected: object) -> None:
    root = parse(text).root
    assert isinstance(root, Literal)
    assert root.value == expected
    assert type(root.value) is type(expected)


@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param("has(a.b)", "a.b?", id="has"),
        pytest.param(
            "a.all(x, x > 1)",
            "fold(x in a; @result = True; @not_strictly_false(@result); _&&_(@result, _>_(x, 1)); @result)",
            id="all",
        ),
        pytest.param(
            "a.exists(x, x)",
            "fold(x in a; @result = False; @not_strictly_false(!_(@result)); _||_(@result, x); @result)",
            id="exists",
        ),
        pytest.param(
            "a.exists_one(x, x)",
            "fold(x in a; @result = 0; True; _?_:_(x, _+_(@result, 1), @result); _==_(@result, 1))",
            id="exists_one",
        ),
        pytest.param("a.map(x, y)", "fold(x in a; @result = []; True; _+_(@result, [y]); @result)", id="map"),
        pytest.param(
            "a.map(x, p, y)",
            "fold(x in a; @result = []; True; _?_:_(p, _+_(@result, [y]), @result); @result)",
            id="map with filter",
        ),
        pytest.param(
            "a.filter(x, p)",
            "fold(x in a; @result = []; True; _?_:_(p, _+_(@result, [x]), @result); @result)",
            id="filter",
        ),
        pytest.param(
            "a.all(i, v, v)",
            "fold(i, v in a; @result = True; @not_strictly_false(@result); _&&_(@result, v); @result)",
            id="all with two variables",
        ),
        pytest.param(
            "a.transformList(i, v, p, v)",
            "fold(i, v in a; @result = []; True; _?_:_(p, _+_(@result, [v]), @result); @result)",
            id="transformList",
        ),
        pytest.param(
            "a.transformMap(k, v, v)",
            "fold(k, v in a; @result = {}; True; cel.@mapInsert(@result, k, v); @result)",
            id="transformMap",
        ),
        pytest.param(
            "a.transformMapEntry(k, v, {v: k})",
            "fold(k, v in a; @result = {}; True; cel.@mapInsert(@result, {v: k}); @result)",
            id="transformMapEntry",
        ),
        pytest.param(
            "a.optMap(x, x)",
            "_?_:_(a.hasValue(), optional.of(fold(#unused in []; x = a.value(); False; x; x)), optional.none())",
            id="optMap",
        ),
        pytest.param(
            "a.optFlatMap(x, x)",
            "_?_:_(a.hasValue(), fold(#unused in []; x = a.value(); False; x; x), optional.none())",
            id="optFlatMap",
        ),
        pytest.param("a.all(x)", "a.all(x)", id="all with one argument is a call"),
        pytest.param("all(a, x, y)", "all(a, x, y)", id="all without target is a call"),
        pytest.param("a.existsOne(x, y)", "a.existsOne(x, y)", id="existsOne with one variable is a call"),
        pytest.param("cel.bind(x, 1, x)", "cel.bind(x, 1, x)", id="bind is a call"),
    ],
)
def test_macro(text: str, expected: str) -> None:
    assert tree(text) == expected


def test_sort_by_binds_its_list_once() -> None:
    assert tree("a.sortBy(x, x.k)").count("in []; @__sortBy_input__ = a;") == 1


@pytest.mark.parametrize(
    "text, column, message",
    [
        pytest.param("has(self)", 5, "invalid argument to has() macro", id="has of a name"),
        pytest.param("a.all(1, true)", 7, "argument must be a simple name", id="all without a name"),
        pytest.param("a.map(x.y, true)", 8, "argument is not an identifier", id="map without a name"),
        pytest.param("a.filter('x', true)", 10, "argument is not an identifier", id="filter without a name"),
        pytest.param(
            "a.all(__result__, true)", 7, "iteration variable overwrites accumulator variable", id="accumulator"
        ),
        pytest.param("a.all(x, x, true)", 10, "duplicate variable name: x", id="two variables of one name"),
        pytest.param("a.all(x, 1, true)", 10, "argument must be a simple name", id="second variable is no name"),
        pytest.param("a.optMap(1, 2)", 10, "optMap() variable name must be a simple identifier", id="optMap"),
        pytest.param(
            "1.sortBy(x, x)",
            1,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            id="sortBy of a literal",
        ),
        pytest.param("1 + while", 5, "reserved identifier: while", id="reserved word"),
        pytest.param("as(1)", 1, "reserved identifier: as", id="reserved function"),
        pytest.param("9223372036854775808", 1, "invalid int literal", id="int too great"),
        pytest.param("1 == -9223372036854775809", 6, "invalid int literal", id="int too small"),
        pytest.param("18446744073709551616u", 1, "invalid uint literal", id="uint too great"),
        pytest.param("1e999", 1, "invalid double literal", id="double too great"),
        pytest.param("'\\ud800'", 1, "invalid unicode code point", id="surrogate"),
        pytest.param("'\\UFFFFFFFF'", 1, "invalid unicode code point", id="beyond Unicode"),
        pytest.param("b'\\u0041'", 1, "unable to unescape string", id="code point in bytes"),
    ],
)
def test_error(text: str, column: int, message: str) -> None:
    parsed = parse(text)
    assert parsed.root is None
    assert [(issue.offset + 1, issue.message) for issue in parsed.issues] == [(column, message)]


@pytest.mark.usefixtures("as_1_36")
@pytest.mark.parametrize("text", ["A{`b`: 1}", "a.`b`"])
def test_quoted_names_in_1_36(text: str) -> None:
    parsed = parse(text)
    assert parsed.root is None
    assert [(issue.offset + 1, issue.message) for issue in parsed.issues] == [(3, "unsupported syntax: '`'")]


def test_invalid_macro_arguments_are_errors() -> None:
    assert [issue.message for issue in parse("[1].map(var, 1)").issues] == [
        "reserved identifier: var",
        "argument is not an identifier",
    ]
    assert [issue.message for issue in parse("has(has(a))").issues] == ["invalid argument to has() macro"] * 2


def test_all_errors_are_found() -> None:
    parsed = parse("has(a) && 99999999999999999999 > while")
    assert display(parsed.source, parsed.issues) == (
        "ERROR: <input>:1:5: invalid argument to has() macro\n"
        " | has(a) && 99999999999999999999 > while\n"
        " | ....^\n"
        "ERROR: <input>:1:11: invalid int literal\n"
        " | has(a) && 99999999999999999999 > while\n"
        " | ..........^\n"
        "ERROR: <input>:1:34: reserved identifier: while\n"
        " | has(a) && 99999999999999999999 > while\n"
        " | .................................^"
    )


@pytest.mark.parametrize(
    "text, offsets",
    [
        pytest.param("ab + cd", {"_+_": 3, "ab": 0, "cd": 5}, id="operator"),
        pytest.param("f (a)", {"f": 2, "a": 3}, id="the bracket of a call"),
        pytest.param("a .b", {".b": 2, "a": 0}, id="the dot of a selection"),
        pytest.param("a [1]", {"_[_]": 2, "1": 3}, id="the bracket of an index"),
        pytest.param("a ? b : c", {"_?_:_": 2}, id="the question mark"),
        pytest.param(" - a", {"-_": 1}, id="the sign"),
        pytest.param(".a", {".a": 1}, id="the name behind a dot"),
        pytest.param("- 1", {"-1": 0}, id="the sign of a literal"),
    ],
)
def test_offset(text: str, offsets: dict[str, int]) -> None:
    root = parse(text).root
    assert root is not None
    found = {_label(node): node.offset for node in ast.walk(root)}
    assert {label: found[label] for label in offsets} == offsets


def _label(node: Expr) -> str:
    match node:
        case Call():
            return node.function
        case Select():
            return f".{node.field}"
        case _:
            return show(node)


def test_ids_are_unique_also_after_copies() -> None:
    root = parse("a.optMap(x, x).optMap(y, [y, {1: has(y.z)}]).optFlatMap(z, z) == optional.none()").root
    assert root is not None
    ids = [node.id for node in ast.walk(root)]
    assert len(ids) == len(set(ids))


DEEP = "expression recursion limit exceeded: 250"


@pytest.mark.parametrize(
    "text, message",
    [
        pytest.param("(" * 249 + "1" + ")" * 249, None, id="249 brackets"),
        pytest.param("(" * 250 + "1" + ")" * 250, DEEP, id="250 brackets"),
        pytest.param("1" + "+1" * 248, None, id="248 sums"),
        pytest.param("1" + "+1" * 249, DEEP, id="249 sums"),
        pytest.param("1" + "<1" * 249, DEEP, id="249 relations"),
        pytest.param("a" + ".a" * 249, None, id="249 selections"),
        pytest.param("a" + ".a" * 250, DEEP, id="250 selections"),
        pytest.param("f(" * 249 + "1" + ")" * 249, None, id="249 calls"),
        pytest.param("[" * 251 + "]" * 251, DEEP, id="251 lists"),
        pytest.param("true ? 1 : " * 249 + "1", None, id="249 ternaries"),
        pytest.param("true ? 1 : " * 250 + "1", DEEP, id="250 ternaries"),
        pytest.param("a && " * 5000 + "a", None, id="and as long as one likes"),
        pytest.param("(" * 5000 + "1" + ")" * 4999, DEEP, id="too deep comes before not closed"),
        pytest.param("a" + ".optMap(x, x)" * 100, DEEP, id="copies of copies"),
        pytest.param(
            "a" * (MAX_CODE_POINTS + 1),
            "expression code point size exceeds limit: size: 100001, limit 100000",
            id="too long",
        ),
    ],
)
def test_bound(text: str, message: str | None) -> None:
    issues = parse(text).issues
    assert [issue.message for issue in issues] == ([] if message is None else [message])
    if message is not None:
        assert display(parse(text).source, issues) == f"ERROR: <input>:-1:0: {message}"


@pytest.fixture(scope="module")
def cel_python() -> CELParser:
    return CELParser()


@pytest.mark.slow
@given(EXPRESSIONS)
@settings(max_examples=150, deadline=None)
def test_parses_what_cel_python_parses(cel_python: CELParser, text: str) -> None:
    """Generated from the grammar that both know."""
    assert parse(text).root is not None, text
    try:
        cel_python.parse(text)
    except CELParseError as error:
        raise AssertionError(text) from error


@pytest.mark.slow
@given(BROKEN_TEXTS)
@settings(max_examples=300, deadline=None)
def test_parser_and_diagnosis_agree(text: str) -> None:
    parsed = parse(text)
    if _has_syntax_error(parsed):
        assert list(parsed.issues) == list(syntax_errors(text))
    else:
        assert syntax_errors(text) == ()


def _has_syntax_error(parsed: Parsed) -> bool:
    return any("Syntax error" in issue.message for issue in parsed.issues)


@given(st.text(max_size=100))
@settings(max_examples=100, deadline=None)
def test_arbitrary_text_is_a_tree_or_errors(text: str) -> None:
    parsed = parse(text)
    assert (parsed.root is None) == bool(parsed.issues)
    display(parsed.source, parsed.issues)
