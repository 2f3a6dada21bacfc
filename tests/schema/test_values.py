"""Strict equality and copying of decoded JSON."""

import json
from typing import Any

import pytest

from registry.schema.values import deep_copy, same, with_sorted_keys


def nested(depth: int, innermost: Any) -> Any:
    value = innermost
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


@pytest.mark.parametrize(
    "a, b, expected",
    [
        pytest.param(1, 1, True, id="integers"),
        pytest.param(1, 1.0, False, id="an integer is no float"),
        pytest.param(1, True, False, id="an integer is no boolean"),
        pytest.param(0, None, False, id="zero is not null"),
        pytest.param("a", "a", True, id="texts"),
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, True, id="keys have no order"),
        pytest.param({"a": 1}, {"a": 1, "b": None}, False, id="a null is something"),
        pytest.param({"a": 1}, {"b": 1}, False, id="other keys"),
        pytest.param([1, 2], [2, 1], False, id="lists have an order"),
        pytest.param([1], [1, 1], False, id="longer list"),
        pytest.param({"a": [{"b": 0}]}, {"a": [{"b": False}]}, False, id="deep inside"),
        pytest.param([], {}, False, id="a list is no object"),
    ],
)
def test_same(a: Any, b: Any, expected: bool) -> None:
    assert same(a, b) is expected
    assert same(b, a) is expected


def test_deep_values_are_compared_without_recursion() -> None:
    assert same(nested(20_000, 1), nested(20_000, 1))
    assert not same(nested(20_000, 1), nested(20_000, 1.0))
    assert same(deep_copy(nested(20_000, "x")), nested(20_000, "x"))


def test_a_copy_is_deep() -> None:
    value = {"a": [{"b": [1]}], "c": {}}
    copy = deep_copy(value)
    copy["a"][0]["b"].append(2)
    copy["c"]["d"] = 1
    assert value == {"a": [{"b": [1]}], "c": {}}


def test_sorted_keys_at_every_depth() -> None:
    value: Any = {"b": [{"d": 1, "c": {"f": 1, "e": 2}}], "a": 1}
    assert json.dumps(with_sorted_keys(value)) == '{"a": 1, "b": [{"c": {"e": 2, "f": 1}, "d": 1}]}'
    assert list(value) == ["b", "a"]
    assert list(value["b"][0]) == ["d", "c"]
