"""When a row of two commits counts as slower, what that does, and how far one is from its limit."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks import compare, server
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


SLOWER, EQUAL = (1.3, 1.4, 1.2), (1.3, 1.4, 0.9)


@pytest.mark.parametrize(
    "row, measured, code",
    [
        pytest.param("create", [EQUAL], 0, id="not-slower"),
        pytest.param("create", [SLOWER, EQUAL], 0, id="slower-once"),
        pytest.param("create", [SLOWER, SLOWER], 1, id="slower-twice"),
        pytest.param("another", [SLOWER], 0, id="not-guarded"),
    ],
)
def test_a_row_that_is_slower_twice_fails(
    row: str, measured: list[tuple[float, ...]], code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The decision alone: no server runs here."""
    rounds_seen: list[range] = []

    def answer(servers: Sequence[object], rounds: range, requests: int) -> list[Comparison]:
        rounds_seen.append(rounds)
        return [Comparison(row, measured.pop(0))]

    @contextlib.contextmanager
    def nothing(*_: object, **__: object) -> Iterator[Path]:
        yield tmp_path

    async def prepared(_: object) -> None:
        pass

    monkeypatch.setattr(compare, "compare", answer)
    monkeypatch.setattr(compare, "working_tree", nothing)
    monkeypatch.setattr(server, "running", nothing)
    monkeypatch.setattr(server, "folder", nothing)
    monkeypatch.setattr(compare, "prepare", prepared)
    monkeypatch.setattr(compare, "is_here", lambda _: True)
    monkeypatch.setattr(compare, "keep", lambda *_: tmp_path)
    assert compare.main(["--strict", "--rounds", "3"]) == code
    assert measured == []
    assert rounds_seen == [range(3), range(3, 6)][: len(rounds_seen)]


def test_the_baseline_is_a_commit_of_this_history() -> None:
    if not compare.is_here("HEAD~1"):
        pytest.skip("this checkout has no history")
    assert compare.is_here(compare.baseline())


@pytest.mark.parametrize(
    "tls, sql, ratio",
    [pytest.param(20.0, 20.0, 5.0, id="measured"), pytest.param(0.0, 0.0, math.inf, id="too-few-requests")],
)
def test_what_is_above_the_limit(tls: float, sql: float, ratio: float) -> None:
    assert Limit("get", 150.0, 50.0, tls, sql).ratio == ratio
