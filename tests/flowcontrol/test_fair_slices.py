"""Long requests and watches continue between the short requests of other tenants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from registry.flowcontrol import fair_queue as fairness
from registry.flowcontrol.fair_queue import FairQueue
from registry.flowcontrol.rounds import WOKEN_AT_ONCE
from registry.flowcontrol.time_slice import SHARED_SLICE_SECONDS, SLICE_SECONDS
from tests.flowcontrol.queues import NOW, present, rounds, turns_of


async def test_a_slice_does_not_wait_for_each_of_a_thousand_busy_tenants() -> None:
    """Where iterations are long, one request continues in each: a slice waited for the first seats of all tenants."""
    now = NOW
    turns = FairQueue(lambda: now)
    names = [f"t{number}" for number in range(1_000)]
    taken: list[fairness.Seat] = []
    for name in (*names, "quiet"):
        turns.mark_known(name)
        seat = turns.try_acquire(name, now)
        assert seat is not None
        taken.append(seat)
    for name in 2 * names:
        turns.acquire_later(name, taken.append, lambda: False)
    slicing = asyncio.create_task(turns.yield_now("quiet", taken.pop()))
    iterations = 0
    while not slicing.done():
        await asyncio.sleep(0)
        now += 0.002
        iterations += 1
        answered, taken[:] = taken[:], []
        for seat in answered:
            turns.release(seat)
            turns.acquire_later(seat.tenant, taken.append, lambda: False)
    assert iterations < 20


async def test_a_slice_waits_for_the_short_requests_of_others() -> None:
    turns = turns_of("quiet", "flood")
    quiet, flood = present(turns, "quiet", "flood")
    resting = asyncio.ensure_future(turns.yield_now("flood", flood))
    await rounds()
    assert not resting.done()
    turns.release(quiet)
    await asyncio.wait_for(resting, 60)


async def test_a_slice_does_not_wait_for_its_own_tenant_or_for_paused_requests() -> None:
    turns = turns_of("other", "flood")
    other, flood = present(turns, "other", "flood")
    both = [
        asyncio.ensure_future(turns.yield_now("other", other)),
        asyncio.ensure_future(turns.yield_now("flood", flood)),
    ]
    await asyncio.wait_for(asyncio.gather(*both), 60)
    assert turns.try_acquire("flood", NOW) is None  # its place is still taken
    assert await asyncio.wait_for(turns.yield_now("flood", flood), 60) == SHARED_SLICE_SECONDS


async def test_a_single_tenant_yields_for_one_round_and_less_often() -> None:
    turns = turns_of("a")
    assert turns.try_acquire("a", NOW)
    assert await turns.yield_now("a", fairness.EXEMPT) == SLICE_SECONDS > SHARED_SLICE_SECONDS


async def test_a_slice_does_not_wait_for_later_requests() -> None:
    turns = turns_of("quiet", "another", "flood")
    quiet, flood = present(turns, "quiet", "flood")
    resting = asyncio.ensure_future(turns.yield_now("flood", flood))
    await rounds()
    assert turns.try_acquire("another", NOW)
    turns.release(quiet)
    assert turns.try_acquire("quiet", NOW)
    await asyncio.wait_for(resting, 60)


async def test_a_slice_waits_for_a_time_only() -> None:
    now = NOW
    turns = FairQueue(lambda: now)
    for name in ("quiet", "flood"):
        turns.mark_known(name)
    _, flood = (turns.try_acquire(name, now) for name in ("quiet", "flood"))
    assert flood is not None
    resting = asyncio.ensure_future(turns.yield_now("flood", flood))
    await asyncio.sleep(2 * fairness.SEAT_SECONDS)  # The event loop's timer fires; the queue's clock stands still.
    assert not resting.done()
    now += 2 * fairness.SEAT_SECONDS
    await asyncio.wait_for(resting, 60)


async def test_watches_are_woken_between_short_reads() -> None:
    turns = turns_of("quiet", "writes", "flood")
    quiet, writes = present(turns, "quiet", "writes")
    writes.reads = False
    woken: list[str] = []
    turns.wake(waker(woken, "flood"), "flood")
    turns.wake(waker(woken, "gone", waits=False), "flood")
    await rounds()
    assert not woken
    turns.release(quiet)
    await rounds()
    assert woken == ["flood", "gone"]


async def test_tenants_take_turns_when_watches_are_woken() -> None:
    turns = turns_of("quiet", "flood")
    for place in present(turns, "quiet", "flood"):
        turns.release(place)
    woken: list[str] = []
    for _ in range(100):
        turns.wake(waker(woken, "flood"), "flood")
    turns.wake(waker(woken, "quiet"), "quiet")
    await rounds(200)
    assert len(woken) == 101
    assert woken.index("quiet") <= 1


async def test_a_tenant_alone_has_some_watches_woken_at_once() -> None:
    turns = turns_of("a")
    assert turns.try_acquire("a", NOW)
    woken: list[str] = []
    for _ in range(2 * WOKEN_AT_ONCE):
        turns.wake(waker(woken, "a"), "a")
    assert len(woken) == WOKEN_AT_ONCE
    await rounds(2)
    assert len(woken) == 2 * WOKEN_AT_ONCE


def waker(woken: list[str], name: str, *, waits: bool = True) -> Callable[[], bool]:
    def wake() -> bool:
        woken.append(name)
        return waits

    return wake


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(SHARED_SLICE_SECONDS, 1), (SHARED_SLICE_SECONDS / 5, 8), (0.0, 16)],
    ids=["slices", "events", "nothing"],
)
async def test_a_round_has_slices_for_about_half_a_millisecond(seconds: float, expected: int) -> None:
    now = NOW
    turns = FairQueue(lambda: now)
    for name in ("b", "a"):
        turns.mark_known(name)
    for place in present(turns, "b", "a"):
        turns.release(place)
    done: list[int] = []

    async def work(number: int) -> None:
        nonlocal now
        for _ in range(3):
            await turns.yield_now("a", fairness.EXEMPT)
            now += seconds
            done.append(number)

    most = 0
    async with asyncio.TaskGroup() as group:
        for number in range(40):
            group.create_task(work(number))
        while len(done) < 120:
            before = len(done)
            await asyncio.sleep(0)
            most = max(most, len(done) - before)
    assert most == expected
    assert done == [*range(40)] * 3


async def test_a_request_cancelled_while_paused_blocks_no_other() -> None:
    turns = turns_of("quiet", "flood")
    quiet, flood = present(turns, "quiet", "flood")
    gone, stays = (asyncio.ensure_future(turns.yield_now("flood", flood)) for _ in range(2))
    await rounds()
    gone.cancel()
    turns.release(quiet)
    await asyncio.wait_for(stays, 60)
    assert gone.cancelled()


async def test_a_list_begins_between_short_requests_and_is_short_then() -> None:
    turns = turns_of("quiet", "flood")
    quiet, flood = present(turns, "quiet", "flood")
    begins = asyncio.ensure_future(turns.wait_for_short_requests(flood, reads=True))
    await rounds()
    assert (begins.done(), flood.short_until) == (False, 0.0)
    turns.release(quiet)
    await asyncio.wait_for(begins, 60)
    assert flood.short_until > NOW
    await turns.wait_for_short_requests(fairness.EXEMPT, reads=True)
    assert fairness.EXEMPT.short_until < NOW


async def test_a_write_begins_between_reads_but_beside_writes() -> None:
    turns = turns_of("quiet", "other", "flood")
    other, flood = present(turns, "other", "flood")
    other.reads = flood.reads = False
    for place in (other, flood):
        await asyncio.wait_for(turns.wait_for_short_requests(place, reads=False), 60)  # there are writes only
    turns.release(flood)
    quiet, flood = present(turns, "quiet", "flood")
    begins = asyncio.ensure_future(turns.wait_for_short_requests(flood, reads=False))
    await rounds()
    assert not begins.done()
    turns.release(quiet)
    await asyncio.wait_for(begins, 60)
