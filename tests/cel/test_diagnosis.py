"""Syntax errors, as ANTLR's runtime finds and words them. The expected texts were checked against that runtime."""

from __future__ import annotations

import pytest

from registry.cel.syntax.errors import display
from registry.cel.syntax.parser import parse

EXPR = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def faults(text: str) -> list[tuple[int, str]]:
    """Columns from 1 and messages, without the words that all have in common."""
    return [(issue.offset + 1, issue.message.removeprefix("Syntax error: ")) for issue in parse(text).issues]


@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param("(a > 1", [(7, "missing ')' at '<EOF>'")], id="bracket not closed"),
        pytest.param("a > 1)", [(6, "extraneous input ')' expecting <EOF>")], id="bracket not opened"),
        pytest.param("a >", [(4, f"mismatched input '<EOF>' expecting {EXPR}")], id="operand missing at the end"),
        pytest.param("> a", [(1, f"extraneous input '>' expecting {EXPR}")], id="operand missing at the start"),
        pytest.param("a + * b", [(5, f"extraneous input '*' expecting {EXPR}")], id="two operators"),
        pytest.param("a b", [(3, "extraneous input 'b' expecting <EOF>")], id="two operands"),
        pytest.param("a b c", [(3, "mismatched input 'b' expecting <EOF>")], id="three operands"),
        pytest.param("a.", [(3, "no viable alternative at input '.'")], id="nothing to select"),
        pytest.param("a. > 1", [(4, "no viable alternative at input '. >'")], id="operator to select"),
        pytest.param("a.true", [(3, "mismatched input 'true' expecting IDENTIFIER")], id="literal to select"),
        pytest.param("a. true", [(4, "no viable alternative at input '. true'")], id="literal behind a blank"),
        pytest.param(
            "a.in",
            [(3, "no viable alternative at input '.in'"), (5, f"mismatched input '<EOF>' expecting {EXPR}")],
            id="in to select",
        ),
        pytest.param(
            "a.?1", [(4, "mismatched input '1' expecting {IDENTIFIER, ESC_IDENTIFIER}")], id="optional number"
        ),
        pytest.param("a ? b", [(6, "mismatched input '<EOF>' expecting ':'")], id="half a ternary"),
        pytest.param("a ? b : ", [(9, f"mismatched input '<EOF>' expecting {EXPR}")], id="ternary without an end"),
        pytest.param("[1, 2", [(6, "mismatched input '<EOF>' expecting {']', ','}")], id="list not closed"),
        pytest.param("[1 2]", [(4, "extraneous input '2' expecting {']', ','}")], id="comma missing"),
        pytest.param("{'a': 1", [(8, "mismatched input '<EOF>' expecting {'}', ','}")], id="map not closed"),
        pytest.param("{'a' 1}", [(6, "missing ':' at '1'")], id="colon missing"),
        pytest.param("{'a'}", [(5, "mismatched input '}' expecting ':'")], id="value missing"),
        pytest.param("f(a,)", [(5, f"mismatched input ')' expecting {EXPR}")], id="comma at the end of arguments"),
        pytest.param(
            "f(,a)",
            [
                (
                    3,
                    "extraneous input ',' expecting {'[', '{', '(', ')', '.', '-', '!', 'true', 'false', "
                    "'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
                )
            ],
            id="comma first",
        ),
        pytest.param(
            "a[]",
            [
                (
                    3,
                    "mismatched input ']' expecting {'[', '{', '(', '.', '-', '!', '?', 'true', 'false', "
                    "'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
                )
            ],
            id="empty index",
        ),
        pytest.param(
            "A{1: 2}",
            [(3, "mismatched input '1' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}")],
            id="number as a field",
        ),
        pytest.param("", [(1, f"mismatched input '<EOF>' expecting {EXPR}")], id="nothing"),
        pytest.param(
            "-)",
            [(2, "no viable alternative at input '-)'"), (2, f"mismatched input ')' expecting {EXPR}")],
            id="sign of nothing",
        ),
        pytest.param("!)", [(2, f"extraneous input ')' expecting {EXPR}")], id="not of nothing"),
        pytest.param(
            "a.all(in, true)",
            [
                (
                    7,
                    "mismatched input 'in' expecting {'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, "
                    "NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
                ),
                (9, f"extraneous input ',' expecting {EXPR}"),
                (15, "extraneous input ')' expecting <EOF>"),
            ],
            id="reading goes on",
        ),
        pytest.param(
            "a..b == 'x\n",
            [
                (3, "no viable alternative at input '..'"),
                (9, "token recognition error at: ''x\n'"),
                (12, f"mismatched input '<EOF>' expecting {EXPR}"),
            ],
            id="errors of tokens and of the grammar",
        ),
    ],
)
def test_grammar(text: str, expected: list[tuple[int, str]]) -> None:
    assert sorted(faults(text), key=lambda fault: fault[0]) == expected


@pytest.mark.parametrize(
    "text, column, token",
    [
        pytest.param("a = 1", 3, "= ", id="single equals"),
        pytest.param("a =", 3, "=", id="single equals at the end"),
        pytest.param("a & b", 3, "& ", id="single and"),
        pytest.param("a |b", 3, "|b", id="single or"),
        pytest.param("a # b", 3, "#", id="no such character"),
        pytest.param("a é", 3, "é", id="letter beyond ASCII"),
        pytest.param("'abc", 1, "'abc", id="string not closed"),
        pytest.param("'a\\q'", 1, "'a\\q", id="no such escape"),
        pytest.param("'a\\x4'", 1, "'a\\x4'", id="escape not ended"),
        pytest.param("'a\\400'", 1, "'a\\4", id="octal out of range"),
        pytest.param("'a\\30'", 1, "'a\\30'", id="octal too short"),
        pytest.param('"a\nb"', 1, '"a\n', id="line break in a string"),
        pytest.param("`a$`", 1, "`a$", id="quoted identifier"),
    ],
)
def test_token(text: str, column: int, token: str) -> None:
    assert (column, f"token recognition error at: '{token}'") in faults(text)


def test_errors_are_limited_to_a_hundred() -> None:
    parsed = parse("@" * 200)
    assert parsed.issues[-1].message == "Syntax error: More than 100 syntax errors"
    assert display(parsed.source, parsed.issues).endswith("\n1 more errors were truncated")


def test_recoveries_are_limited_to_thirty() -> None:
    assert faults("{" + "1 1," * 40 + "}")[-1][1] == "error recovery attempt limit exceeded: 30"


def test_recovery_looks_256_tokens_ahead() -> None:
    assert faults("a " * 500) == [
        (3, "mismatched input 'a' expecting <EOF>"),
        (0, "error recovery token lookahead limit exceeded: 256"),
    ]


def test_too_deep_and_broken() -> None:
    assert faults("a.. + " + "(" * 300)[-1] == (0, "expression recursion limit exceeded: 250")


@pytest.mark.parametrize(
    "text, picture",
    [
        pytest.param(
            "a ==\n b ==",
            "ERROR: <input>:2:6: Syntax error: mismatched input '<EOF>' expecting " + EXPR + "\n |  b ==\n | .....^",
            id="the line of the error",
        ),
        pytest.param(
            "'é' == \tü)",
            "ERROR: <input>:1:9: Syntax error: token recognition error at: 'ü'\n"
            " | 'é' ==  ü)\n | .．......＾\n"
            f"ERROR: <input>:1:10: Syntax error: mismatched input ')' expecting {EXPR}\n"
            " | 'é' ==  ü)\n | .．......．^",
            id="wide characters",
        ),
    ],
)
def test_error_snippet(text: str, picture: str) -> None:
    parsed = parse(text)
    assert display(parsed.source, parsed.issues) == picture
