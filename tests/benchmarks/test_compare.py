"""When a row of two commits counts as slower, and how far one is from its limit."""

from __future__ import annotations

import math

import pytest

from benchmarks.compare import Comparison
from benchmarks.limits import Limit


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


@pytest.mark.parametrize(
    "tls, sql, ratio",
    [pytest.param(20.0, 20.0, 5.0, id="measured"), pytest.param(0.0, 0.0, math.inf, id="too-few-requests")],
)
def test_what_is_above_the_limit(tls: float, sql: float, ratio: float) -> None:
    assert Limit("get", 150.0, 50.0, tls, sql).ratio == ratio
