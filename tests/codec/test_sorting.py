from __future__ import annotations

import random

import pytest

from registry.codec import sorting
from registry.codec.sorting import RUN_LENGTH, sorted_by, sorted_keys


@pytest.mark.parametrize("count", [0, 1, 5, RUN_LENGTH, RUN_LENGTH + 1, 3 * RUN_LENGTH + 7, 41 * RUN_LENGTH])
def test_keys_are_in_order(count: int) -> None:
    keys = [f"{number:x}é" for number in random.Random(1).sample(range(10**9), count)]
    expected = sorted(keys)
    assert list(sorted_keys(dict.fromkeys(keys))) == expected
    assert list(sorted_keys(expected)) == expected
    assert list(sorted_keys(expected[1:] + expected[:1])) == expected
    assert list(sorted_keys(expected[::-1])) == expected


@pytest.mark.parametrize("count", [0, 1, 2_000, 2_001, 150_000])
def test_items_are_in_the_order_of_their_ranks(count: int) -> None:
    """Those of one rank keep their order."""
    numbers = random.Random(2)
    items = [(numbers.randrange(1 + count // 3), position) for position in range(count)]
    assert sorted_by(items, lambda item: -item[0]) == sorted(items, key=lambda item: -item[0])


@pytest.mark.parametrize("count", [20_000, 500_000])
def test_little_is_merged_at_once(count: int) -> None:
    values = random.Random(3).sample(range(10**9), count)
    parts = [*sorting._merge([sorted(values[i : i + 2_000]) for i in range(0, count, 2_000)])]
    assert [value for part in parts for value in part] == sorted(values)
    assert max(map(len, parts)) <= 2_000 + 2 * count // 64
