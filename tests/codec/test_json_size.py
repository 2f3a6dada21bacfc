"""How many values a text may make, without decoding it; how long the text of a value would be, without encoding it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.codec.json_size import has_more_containers, has_more_keys, has_more_values, is_longer

# The text, how many values and keys it has, how many objects and lists, and how many keys.
TEXTS = {
    "object": (b'{"a": [1, "b,c"]}', 5, 2, 1),
    "empty": (b"{}", 2, 1, 0),
    "string": (b'"a:b,[c]"', 1, 0, 0),
    "escapes": (rb'["\"", "\\", "a,\":,"]', 4, 1, 0),
    "keys": (rb'{"a\":": {":": ":"}, "b": 1}', 7, 2, 3),
    "unterminated": (rb'["a,,,,\",,,', 2, 1, 0),
    "lists": (b"[" + b"[]," * 99 + b"[]]", 201, 101, 0),
    "lists between texts": (b'["",[""],[["["]]]', 7, 4, 0),
    "lists after a text": (b'"["[[', 3, 2, 0),
}


@pytest.mark.parametrize("data, values, containers, keys", TEXTS.values(), ids=TEXTS)
def test_values_are_counted(data: bytes, values: int, containers: int, keys: int) -> None:
    assert has_more_values(data, values - 1)
    assert not has_more_values(data, values)
    assert has_more_containers(data, containers - 1)
    assert not has_more_containers(data, containers)
    assert has_more_keys(data, keys - 1)
    assert not has_more_keys(data, keys)


@pytest.mark.parametrize(
    "text", [b'["' + b"1," * 2_000_000 + b'"]', b'["' + b'\\",' * 1_000_000 + b'"]'], ids=["commas", "escaped quotes"]
)
def test_commas_in_strings_are_not_counted(text: bytes) -> None:
    assert not has_more_values(text, 100)


@pytest.mark.parametrize(
    "value, characters",
    [
        ("abc", 3),
        (12345, 1),
        (None, 1),
        ([], 16),
        ([1, "ab"], 16 + 2 + 1 + 2),
        ({}, 16),
        ({"key": ["a"]}, 16 + 3 + 2 + 16 + 1 + 1),
    ],
)
def test_the_characters_of_a_value_are_counted(value: Any, characters: int) -> None:
    assert is_longer(value, characters - 1)
    assert not is_longer(value, characters)


def test_a_value_that_is_contained_many_times_is_counted_as_often() -> None:
    value: Any = "x" * 1000
    for _ in range(40):
        value = [value, {"a": value}]
    assert is_longer(value, 1 << 23)


def test_no_value_is_counted_as_longer_than_its_text() -> None:
    items = [{"name": f"n{i}", "value": str(i), "on": True, "size": i} for i in range(1000)]
    assert not is_longer(items, len(json.dumps(items, separators=(",", ":"))))
