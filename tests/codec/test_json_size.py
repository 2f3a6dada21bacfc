"""How many values a text may make, without decoding it."""

from __future__ import annotations

import pytest

from registry.codec.json_size import has_more_containers, has_more_keys, has_more_values

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
