from __future__ import annotations

import random

import pytest

from registry.codec.sorting import RUN_LENGTH, sorted_keys


@pytest.mark.parametrize("count", [0, 1, 5, RUN_LENGTH, RUN_LENGTH + 1, 3 * RUN_LENGTH + 7, 41 * RUN_LENGTH])
def test_keys_are_in_order(count: int) -> None:
    keys = [f"{number:x}é" for number in random.Random(1).sample(range(10**9), count)]
    expected = sorted(keys)
    assert list(sorted_keys(dict.fromkeys(keys))) == expected
    assert list(sorted_keys(expected)) == expected
    assert list(sorted_keys(expected[1:] + expected[:1])) == expected
    assert list(sorted_keys(expected[::-1])) == expected
