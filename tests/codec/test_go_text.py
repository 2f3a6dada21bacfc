"""Characters and numbers in Go's notation."""

from __future__ import annotations

from typing import Any

import pytest

from registry.codec.go_text import go_g, go_quote, go_syntax, quote_rune


@pytest.mark.parametrize(
    "value, expected",
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (0.5, "0.5"),
        (-2.25, "-2.25"),
        (123456.0, "123456"),
        (1000000.0, "1e+06"),
        (1234567.5, "1.2345675e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (12345678901234567890.0, "1.2345678901234567e+19"),
        (5e-324, "5e-324"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
        (100.0, "100"),
    ],
)
def test_floats(value: float, expected: str) -> None:
    assert go_g(value) == expected


@pytest.mark.parametrize(
    "character, expected",
    [
        ("x", "'x'"),
        ("'", "'\\''"),
        ('"', "'\"'"),
        ("\\", "'\\\\'"),
        ("\n", "'\\n'"),
        ("\0", "'\\x00'"),
        ("\x7f", "'\\x7f'"),
        ("\ufeff", "'\\ufeff'"),
        ("é", "'é'"),
        ("\udcff", "'\\xff'"),
        ("\U000e0001", "'\\U000e0001'"),
    ],
)
def test_runes(character: str, expected: str) -> None:
    assert quote_rune(character) == expected


@pytest.mark.parametrize(
    "text, expected",
    [("a", '"a"'), ('say "a"', '"say \\"a\\""'), ("tab\t", '"tab\\t"'), ("it's", '"it\'s"'), ("back\\", '"back\\\\"')],
)
def test_quotes(text: str, expected: str) -> None:
    assert go_quote(text) == expected


@pytest.mark.parametrize(
    "value, expected",
    [
        ("a", '"a"'),
        (1, "1"),
        (True, "true"),
        (2.5, "2.5"),
        (None, "interface {}(nil)"),
        (["a", 1], '[]interface {}{"a", 1}'),
        ({"a": [False]}, 'map[interface {}]interface {}{"a":[]interface {}{false}}'),
    ],
)
def test_go_syntax(value: Any, expected: str) -> None:
    assert go_syntax(value) == expected
