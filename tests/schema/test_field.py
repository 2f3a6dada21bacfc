"""How Go prints values in error texts."""

from typing import Any

import pytest

from registry.codec.go_text import GoText, go_float, go_g, go_json
from registry.schema.field import (
    MAX_PATH,
    MAX_TEXT,
    FieldError,
    child,
    go_value,
    index,
    invalid,
    join_shortened,
    key,
    not_supported,
    required,
    shorten,
    too_long,
    too_many,
)


@pytest.mark.parametrize(
    "number, by_json, by_v",
    [
        (0.0, "0", "0"),
        (-0.0, "-0", "-0"),
        (0.5, "0.5", "0.5"),
        (-2.25, "-2.25", "-2.25"),
        (100.0, "100", "100"),
        (999999.0, "999999", "999999"),
        (1e6, "1000000", "1e+06"),
        (1234567.5, "1234567.5", "1.2345675e+06"),
        (0.0001, "0.0001", "0.0001"),
        (0.00001, "0.00001", "1e-05"),
        (1e-6, "0.000001", "1e-06"),
        (1e-7, "1e-7", "1e-07"),
        (2.0**63, "9223372036854776000", "9.223372036854776e+18"),
        (1e20, "100000000000000000000", "1e+20"),
        (1e21, "1e+21", "1e+21"),
        (1.5e300, "1.5e+300", "1.5e+300"),
        (5e-324, "5e-324", "5e-324"),
    ],
    ids=str,
)
def test_floats(number: float, by_json: str, by_v: str) -> None:
    assert (go_float(number), go_g(number)) == (by_json, by_v)


@pytest.mark.parametrize(
    "value, expected",
    [
        (None, "null"),
        (True, "true"),
        (1, "1"),
        (1.0, "1"),
        ('a"\n', '"a\\"\\n"'),
        ("ä", '"ä"'),
        ("\x00", '"\\x00"'),
        ({}, "{}"),
        ([], "[]"),
        ({"b": [1, 2.5, None], "a": {"x": "<&>"}}, '{"a":{"x":"\\u003c\\u0026\\u003e"},"b":[1,2.5,null]}'),
        ([[], [{}], "\u2028"], '[[],[{}],"\\u2028"]'),
        (GoText("{as it stands}"), "{as it stands}"),
    ],
)
def test_bad_values(value: Any, expected: str) -> None:
    assert go_value(value) == expected


def test_deep_values_are_printed_without_recursion() -> None:
    value: Any = 1
    for _ in range(20_000):
        value = [{"a": value}]
    assert go_json(value) == '[{"a":' * 20_000 + "1" + "}]" * 20_000


@pytest.mark.parametrize(
    "error, message",
    [
        (required("a.b"), "a.b: Required value"),
        (required("a", "why"), "a: Required value: why"),
        (invalid("a", "x", "is bad"), 'a: Invalid value: "x": is bad'),
        (invalid("<nil>", None, "all"), "<nil>: Invalid value: null: all"),
        (not_supported("a", "x", ["y", "z"]), 'a: Unsupported value: "x": supported values: "y", "z"'),
        (too_long("a", 1), "a: Too long: may not be more than 1 byte"),
        (too_long("a", 5), "a: Too long: may not be more than 5 bytes"),
        (too_many("a", 3, 1), "a: Too many: 3: must have at most 1 item"),
        (too_many("a", 3, 2), "a: Too many: 3: must have at most 2 items"),
    ],
)
def test_messages(error: FieldError, message: str) -> None:
    assert error.message() == message


@pytest.mark.parametrize(
    "value, beginning",
    [
        ("x" * (MAX_TEXT + 1), '"xxx'),
        (["a"] * MAX_TEXT, '["a","a"'),
        ({f"k{i:06}": 1 for i in range(MAX_TEXT)}, '{"k000000"'),
        (GoText("g" * (MAX_TEXT + 1)), "ggg"),
        ([["b"] * MAX_TEXT], '[["b"'),
    ],
    ids=["text", "list", "object", "Go text", "nested"],
)
def test_long_values_are_shortened(value: Any, beginning: str) -> None:
    text = go_value(value)
    assert text.startswith(beginning)
    assert text.endswith("...")
    assert len(text) <= MAX_TEXT + 10


def test_the_longest_value_that_is_not_shortened() -> None:
    assert go_value("x" * MAX_TEXT) == f'"{"x" * MAX_TEXT}"'
    assert go_value(["x" * (MAX_TEXT - 4)]) == f'["{"x" * (MAX_TEXT - 4)}"]'
    assert shorten("abc", 3) == "abc"


def test_long_details_are_shortened() -> None:
    assert len(invalid("a", 1, "d" * 10 * MAX_TEXT).message()) < 2 * MAX_TEXT
    assert len(not_supported("a", "x", ["v" * 100] * MAX_TEXT).detail) < 2 * MAX_TEXT
    assert join_shortened(["a", "b", "c"], ", ", 1) == "a, ..."
    assert join_shortened(["a", "b", "c"], ", ") == "a, b, c"


def test_long_paths_are_shortened() -> None:
    path = key("spec", "k" * MAX_PATH)
    assert path.startswith("spec[kkk")
    assert path.endswith("k...")
    assert len(path) == MAX_PATH + 3
    assert child(child(path, "a"), "b") == path + ".b"
    assert index(path, 1) == path + "[1]"
