"""Work takes a limited time in each iteration of the event loop, and the tenants take turns."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from registry.flowcontrol import rounds as rounds_module
from registry.flowcontrol.rounds import TimedRounds

SECONDS = 0.005
PIECE_SECONDS = 0.002


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return Clock.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that the rounds see: it passes only while pieces of work run."""
    monkeypatch.setattr(rounds_module, "time", Clock())


def work(done: list[str], name: str) -> None:
    Clock.now += PIECE_SECONDS
    done.append(name)


def begin(rounds: TimedRounds, done: list[str], tenant: str, name: str) -> None:
    piece = partial(work, done, name)
    if not rounds.try_run(piece):
        rounds.wait(tenant, piece)


async def iterations(done: list[str], count: int) -> list[int]:
    """How much was done in each iteration, until `count` pieces are."""
    found = [len(done)]
    while len(done) < count:
        before = len(done)
        await asyncio.sleep(0)
        found.append(len(done) - before)
    return found


async def test_an_iteration_ends_when_its_time_is_used() -> None:
    rounds, done = TimedRounds(SECONDS), list[str]()
    for i in range(20):
        begin(rounds, done, "a", str(i))
    found = await iterations(done, 20)
    assert max(found) == 3
    assert done == [str(i) for i in range(20)]


async def test_tenants_take_turns() -> None:
    rounds, done = TimedRounds(SECONDS), list[str]()
    for i in range(20):
        begin(rounds, done, "a", f"a{i}")
    for i in range(3):
        begin(rounds, done, "b", f"b{i}")
    await iterations(done, 23)
    last_of_b = done.index("b2")
    assert last_of_b < 10
    assert [name for name in done if name[0] == "a"] == [f"a{i}" for i in range(20)]


async def test_short_work_does_not_wait() -> None:
    rounds, done = TimedRounds(SECONDS), list[int]()
    for i in range(1000):
        assert rounds.try_run(partial(done.append, i))
        if i % 100 == 99:
            await asyncio.sleep(0)
    assert len(done) == 1000


async def test_time_counts_for_one_iteration_only() -> None:
    rounds, done = TimedRounds(SECONDS), list[str]()
    for i in range(10):
        begin(rounds, done, "a", str(i))
        begin(rounds, done, "a", str(i))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(done) == 2 * i + 2


async def test_long_iterations_have_time_for_more() -> None:
    """Otherwise what connections send would wait for minutes while other work makes each iteration long."""
    rounds, done = TimedRounds(SECONDS), list[str]()
    for i in range(12):
        begin(rounds, done, "a", str(i))
    assert len(done) == 3
    Clock.now += 0.05  # other work
    await asyncio.sleep(0)
    assert len(done) == 3 + 7
    await asyncio.sleep(0)
    assert len(done) == 12
    await asyncio.sleep(0)
    for i in range(12):
        begin(rounds, done, "a", str(i))
    assert len(done) == 12 + 3


async def test_work_that_fails_does_not_stop_the_rest() -> None:
    rounds, done, problems = TimedRounds(SECONDS), list[str](), list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _, about: problems.append(str(about["exception"])))
    for i in range(4):
        begin(rounds, done, "a", str(i))

    def fail() -> None:
        raise RuntimeError("a piece of work")

    rounds.wait("a", fail)
    begin(rounds, done, "a", "last")
    await iterations(done, 5)
    assert problems == ["a piece of work"]
    with pytest.raises(RuntimeError, match="a piece"):
        TimedRounds(SECONDS).try_run(fail)
