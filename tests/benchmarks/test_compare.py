"""When a row of two commits counts as slower."""

from __future__ import annotations

import pytest

from benchmarks.compare import Comparison


@pytest.mark.parametrize(
    "ratios, slower",
    [
        pytest.param((1.2, 1.3, 1.25), True, id="in-every-round"),
        pytest.param((1.2, 1.3, 0.9), False, id="not-in-every-round"),
        pytest.param((1.1, 1.12, 1.3), False, id="within-the-limit-at-the-median"),
        pytest.param((1.5, 1.5), False, id="too-few-rounds"),
        pytest.param((0.8, 0.9, 0.7), False, id="faster"),
    ],
)
def test_a_row_is_slower_where_noise_is_ruled_out(ratios: tuple[float, ...], slower: bool) -> None:
    assert Comparison("get", ratios).is_slower() is slower
