"""Fair queuing: a tenant that floods delays only itself."""

from __future__ import annotations

import asyncio

import pytest

from registry.flowcontrol import fair_queue as fairness
from registry.flowcontrol.fair_queue import FairQueue, TooManyRequests
from tests.flowcontrol.queues import NOW, begin, present, rounds, turns_of
from tests.store.writes import eventually


async def test_one_tenant_alone_never_waits() -> None:
    turns = turns_of("a")
    assert all(turns.try_acquire("a", 1.0) for _ in range(1000))


@pytest.mark.parametrize(
    "names, is_shared",
    [
        pytest.param("aaaa", False, id="one tenant"),
        pytest.param("aba", True, id="two tenants"),
        pytest.param("a?a?a", False, id="one tenant, and probes"),
        pytest.param("a?b", True, id="two tenants, and probes"),
        pytest.param("?", False, id="probes alone"),
    ],
)
def test_neighbours_are_authorized_tenants(names: str, is_shared: bool) -> None:
    turns = turns_of("a", "b")
    for name in names:
        turns.try_acquire(name, NOW)
    assert turns.is_shared() is is_shared


async def test_a_request_behind_a_flood_waits_for_one_request() -> None:
    turns = turns_of("flood", "quiet")
    order: list[str] = []
    await begin(turns, "quiet", order)
    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(begin(turns, "flood", order))
        group.create_task(begin(turns, "quiet", order))
    assert order.count("flood") == 50
    assert order.index("quiet", 1) <= 3


async def test_a_seat_expires_after_its_time() -> None:
    now = 1.0
    turns = FairQueue(lambda: now)
    for name in "ba":
        turns.mark_known(name)
        assert turns.try_acquire(name, now)
    assert turns.try_acquire("a", now) is None
    waiting = asyncio.ensure_future(turns.acquire("a"))
    await asyncio.sleep(2 * fairness.SEAT_SECONDS)  # The event loop's timer fires; the queue's clock stands still.
    assert not waiting.done()
    now += 2 * fairness.SEAT_SECONDS
    assert (await asyncio.wait_for(waiting, 60)).tenant == "a"


async def granted(turns: FairQueue, name: str, count: int, held: float = fairness.SEAT_SECONDS) -> list[fairness.Seat]:
    """The seats that so many further requests of a tenant get while nothing else happens."""
    seats: list[fairness.Seat] = []
    for _ in range(count):
        turns.acquire_later(name, seats.append, lambda: False, held)
    await rounds(50)
    return seats


def waiting_for_the_database(turns: FairQueue, *names: str) -> None:
    """Each of the tenants has a request in progress that is no longer short."""
    for seat in present(turns, *names):
        seat.short_until = 0.0


@pytest.mark.parametrize("tenants", [2, 4, 5, 16, 40])
async def test_tenants_share_the_seats(tenants: int) -> None:
    """With one request at a time, two tenants that sent as many as they could wrote half as many objects as one."""
    names = [f"t{number}" for number in range(tenants)]
    turns = turns_of(*names)
    waiting_for_the_database(turns, *names)
    more = await granted(turns, "t0", 100)
    assert len(more) + 1 == max(fairness.SEATS // tenants, 1)
    if more:
        turns.release(more[0])
        count = len(more)
        await rounds()
        assert len(more) == count + 1


async def test_requests_that_hang_do_not_lessen_the_share_of_others() -> None:
    """Sixteen of them, each in another tenant, left every tenant one request at a time for as long as they hung."""
    now = NOW
    turns = FairQueue(lambda: now)
    hanging = [f"h{number}" for number in range(fairness.SEATS)]
    for name in (*hanging, "other", "busy"):
        turns.mark_known(name)
    assert len([turns.try_acquire(name, now) for name in hanging]) == fairness.SEATS
    now += 2 * fairness.SEAT_SECONDS
    for name in ("other", "busy"):
        seat = turns.try_acquire(name, now)
        assert seat is not None
        seat.short_until = 0.0
    seats: list[fairness.Seat] = []
    for _ in range(100):
        turns.acquire_later("busy", seats.append, lambda: False)

    async def has_its_share() -> bool:
        return len(seats) + 1 == fairness.SEATS // 2

    await eventually(has_its_share)


async def test_few_tenants_get_their_first_seat_in_an_iteration() -> None:
    """A thousand requests that start in one iteration keep all others waiting until they have."""
    now = NOW
    turns = FairQueue(lambda: now)
    names = [f"t{number}" for number in range(1_000)]
    seats: list[fairness.Seat] = []
    for name in names:
        turns.mark_known(name)
        assert turns.try_acquire(name, now)
        turns.acquire_later(name, seats.append, lambda: False)
    now += 2 * fairness.SEAT_SECONDS
    most = before = 0
    while len(seats) < len(names):
        await asyncio.sleep(0)
        most, before = max(most, len(seats) - before), len(seats)
    assert most <= fairness._STARTS_IN_A_ROW
    assert {seat.tenant for seat in seats} == {*names}


async def test_waiting_tenants_are_looked_at_once_for_all_seats_released_in_an_iteration() -> None:
    """A hundred answers in an iteration looked at a hundred tenants each: 7 ms of the event loop."""
    turns = turns_of(*(f"t{number}" for number in range(100)))
    seats = present(turns, *(f"t{number}" for number in range(100)))
    looks = 0

    def is_gone() -> bool:
        nonlocal looks
        looks += 1
        return False

    for seat in seats:
        for _ in range(3):
            turns.acquire_later(seat.tenant, seats.append, is_gone)
    assert not turns._yielded, "none of them can have a further seat"
    for seat in seats[:16]:
        turns.release(seat)
    await rounds(1)
    assert 0 < looks <= 200


async def test_tenants_take_turns_where_none_sends_any_more() -> None:
    """All clients may wait for answers, so that no tenant counts as present: the one that sent more came first."""
    now = NOW
    turns = FairQueue(lambda: now)
    order: list[str] = []
    for name in ("flood", "quiet"):
        turns.mark_known(name)
        assert turns.try_acquire(name, now)
    for name, count in (("flood", 1_000), ("quiet", 40)):
        for _ in range(count):
            turns.acquire_later(name, lambda _, name=name: order.append(name), lambda: False)  # type: ignore[misc]
    now += 2 * fairness.PRESENT_SECONDS

    async def all_begin() -> bool:
        return len(order) == 1_040

    await eventually(all_begin)
    assert "quiet" not in order[200:]


@pytest.mark.parametrize("reads", [True, False], ids=["reads", "writes"])
async def test_further_requests_wait_for_short_ones_of_others(reads: bool) -> None:
    turns = turns_of("quiet", "flood")
    quiet, first = present(turns, "quiet", "flood")
    quiet.reads = reads
    more = await granted(turns, "flood", 10)
    assert not more
    turns.release(quiet)
    await rounds()
    assert more
    first.short_until = 0.0
    # Others do not wait for them in turn.
    waiting_for_the_database(turns, "quiet")
    assert await granted(turns, "quiet", 1)


async def test_a_tenant_lists_once_at_a_time_and_gets_beside_it() -> None:
    turns = turns_of("other", "a")
    waiting_for_the_database(turns, "other")
    assert turns.try_acquire("a", NOW, fairness.LIST_SEAT_SECONDS)
    assert not await granted(turns, "a", 1, fairness.LIST_SEAT_SECONDS)
    turns = turns_of("other", "a")
    waiting_for_the_database(turns, "other")
    assert turns.try_acquire("a", NOW, fairness.LIST_SEAT_SECONDS)
    assert len(await granted(turns, "a", 5)) == 1


async def test_a_tenant_that_is_alone_again_needs_no_seats() -> None:
    """After a probe of its health, by nobody, a server held its only tenant to seats for as long as it was busy."""
    now = NOW
    turns = FairQueue(lambda: now)
    turns.mark_known("a")
    for name in ("a", "probe"):
        turns.release(turns.try_acquire(name, now) or await turns.acquire(name))
    held = turns.try_acquire("a", now)
    assert held is not None
    waiting = [asyncio.ensure_future(turns.begin("a", now)) for _ in range(100)]
    await rounds()
    assert not all(one.done() for one in waiting)
    now += 2 * fairness.PRESENT_SECONDS
    turns.release(held)
    seats = await asyncio.wait_for(asyncio.gather(*waiting), 60)
    assert seats.count(fairness.EXEMPT) > len(seats) - fairness.SEATS
    assert turns.try_acquire("a", now) is fairness.EXEMPT


async def test_a_request_that_is_gone_gets_no_seat() -> None:
    turns = turns_of("other", "a")
    waiting_for_the_database(turns, "other", "a")
    seats: list[fairness.Seat] = []
    turns.acquire_later("a", seats.append, lambda: True)
    assert len(await granted(turns, "a", 1)) == 1
    assert not seats


async def test_released_seats_are_forgotten() -> None:
    turns = turns_of("a", "b")
    for _ in range(1_000):
        for seat in present(turns, "a", "b"):
            turns.release(seat)
    assert len(turns._short) <= 2
    assert not turns._taken


async def test_a_request_cancelled_as_it_gets_its_seat_releases_it() -> None:
    turns = turns_of("b", "a")
    _, first = present(turns, "b", "a")
    waiting = asyncio.ensure_future(turns.acquire("a"))
    await asyncio.sleep(0)
    turns.release(first)
    turns._grant_seats()
    waiting.cancel()  # the seat is granted, and the task has not run since
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    assert turns.try_acquire("a", NOW)


async def test_a_list_keeps_its_seat_for_longer() -> None:
    now = 1.0
    turns = FairQueue(lambda: now)
    for name in "ba":
        turns.mark_known(name)
        assert turns.try_acquire(name, now, fairness.LIST_SEAT_SECONDS)
    now += 2 * fairness.SEAT_SECONDS
    assert turns.try_acquire("a", now) is None
    now += fairness.LIST_SEAT_SECONDS
    waiting = asyncio.ensure_future(turns.acquire("a", fairness.LIST_SEAT_SECONDS))
    assert (await asyncio.wait_for(waiting, 60)).until == now + fairness.LIST_SEAT_SECONDS


async def test_unknown_tenant_names_share_a_queue() -> None:
    turns = turns_of("quiet")
    order: list[str] = []
    await begin(turns, "quiet", order)
    async with asyncio.TaskGroup() as group:
        for i in range(50):
            group.create_task(begin(turns, f"made-up-{i}", order))
        group.create_task(begin(turns, "quiet", order))
    assert order.index("quiet", 1) <= 3


async def test_a_flood_alone_again_does_not_wait() -> None:
    turns = turns_of("a", "b")
    for name in "ab":
        turns.release(turns.try_acquire(name, 1.0) or await turns.acquire(name))
    later = 1.0 + 2 * fairness.PRESENT_SECONDS
    assert all(turns.try_acquire("b", later) for _ in range(100))


async def test_a_request_cancelled_while_waiting_takes_no_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    now = NOW
    turns = FairQueue(lambda: now)
    for name in "ba":
        turns.mark_known(name)
        assert turns.try_acquire(name, now)
    waiting = [asyncio.ensure_future(turns.acquire("a")) for _ in range(10)]
    await asyncio.sleep(0)
    for task in waiting[:9]:
        task.cancel()
    now += 2 * fairness.SEAT_SECONDS
    await asyncio.wait_for(waiting[9], 60)
    monkeypatch.setattr(fairness, "MAX_WAITING", 0)
    others = [asyncio.ensure_future(turns.acquire("a")) for _ in range(2)]
    await asyncio.sleep(0)
    now += 2 * fairness.SEAT_SECONDS
    answers = await asyncio.gather(*others, return_exceptions=True)
    assert [type(answer) for answer in answers] == [fairness.Seat, TooManyRequests]
