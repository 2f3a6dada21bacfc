from __future__ import annotations

import pytest

from registry.schema.regexp_errors import MAX_PATTERN_LENGTH, Patterns, regexp_error


@pytest.mark.parametrize(
    "pattern, why",
    [
        pytest.param("[a-z", "missing closing ]: `[a-z`", id="class"),
        pytest.param("x(", "missing closing ): `x(`", id="group"),
        pytest.param("x)y", "unexpected ): `x)y`", id="closing"),
        pytest.param("^(?!x)", "invalid or unsupported Perl syntax: `(?!`", id="lookahead"),
        pytest.param("a(?<=b)c", "invalid named capture: `(?<=b)c`", id="lookbehind"),
        pytest.param("(?<!a)>", "invalid named capture: `(?<!a)>`", id="lookbehind and an angle"),
        pytest.param("(?P<n", "invalid named capture: `(?P<n`", id="name"),
        pytest.param("(?P=n)", "invalid or unsupported Perl syntax: `(?P`", id="backreference by name"),
        pytest.param("*a", "missing argument to repetition operator: `*`", id="nothing to repeat"),
        pytest.param("a**", "invalid nested repetition operator: `**`", id="repeated twice"),
        pytest.param("a{1001}", "invalid repeat count: `{1001}`", id="count"),
        pytest.param("a{99999999999}", "invalid repeat count: `{99999999999}`", id="count beyond an int"),
        pytest.param(r"\y", r"invalid escape sequence: `\y`", id="escape"),
        pytest.param(r"a\C", r"invalid escape sequence: `\C`", id="any byte"),
        pytest.param(r"\1", r"invalid escape sequence: `\1`", id="backreference"),
        pytest.param("[z-a]", "invalid character class range: `z-a`", id="range"),
        pytest.param(r"\p{Foo}", r"invalid character class range: `\p{Foo}`", id="script"),
        pytest.param("a\\", "trailing backslash at end of expression: ``", id="backslash"),
        pytest.param("\ud800", "invalid UTF-8: `\ud800`", id="surrogate"),
        pytest.param("(" * 1001 + ")" * 1001, f"expression nests too deeply: `{'(' * 1001 + ')' * 1001}`", id="depth"),
        pytest.param(r"\pL" * 1000, "expression too large: `" + r"\pL" * 1000 + "`", id="program"),
        pytest.param(
            "a" * (MAX_PATTERN_LENGTH + 1),
            f"expression too large: it has more than {MAX_PATTERN_LENGTH} characters",
            id="length",
        ),
    ],
)
def test_refused(pattern: str, why: str) -> None:
    assert regexp_error(pattern) == f"error parsing regexp: {why}"


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "^[a-z]+$",
        r"\p{Greek}",
        "(?P<n>a)",
        "(?<n>a)",
        "(?i:a)",
        r"\Q(\C\E",
        r"[\](]",
        "a{,2}",
        "a{b}",
        r"\(?",
        r"[(]{5}",
        "[[:alpha:]]",
        "a{000000001000}",
    ],
)
def test_accepted(pattern: str) -> None:
    assert regexp_error(pattern) is None


def test_all_patterns_of_a_schema_have_one_budget() -> None:
    patterns = Patterns()
    errors = [patterns.error(rf"\pL{{{999 - i}}}") for i in range(20)]
    assert errors[0] == r"error parsing regexp: expression too large: `\pL{999}`"
    assert errors[-1] == "error parsing regexp: expression too large: all patterns of the schema together are"
    assert Patterns().error("a") is None
