from __future__ import annotations

import random

import pytest

from registry.codec.sorting import RUN_LENGTH, sorted_keys


@pytest.mark.parametrize("count", [0, 1, 5, RUN_LENGTH, RUN_LENGTH + 1, 3 * RUN_LENGTH + 7])
def test_keys_are_in_order(count: int) -> None:
    keys = [f"{number:x}é" for number in random.Random(1).sample(range(10**9), count)]
    assert list(sorted_keys(dict.fromkeys(keys))) == sorted(keys)
