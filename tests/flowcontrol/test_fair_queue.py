"""Fair queuing and rates: a tenant that floods delays only itself; beyond a rate the answer is 429."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from registry.flowcontrol import fair_queue as fairness
from registry.flowcontrol.fair_queue import FairQueue, TooManyRequests
from registry.flowcontrol.rates import Rates
from registry.flowcontrol.rounds import WOKEN_AT_ONCE
from registry.flowcontrol.time_slice import SHARED_SLICE_SECONDS, SLICE_SECONDS
from registry.store.commit import batch
from registry.store.commit.batch import Pending, Waiting
from registry.store.types import DomainId, Guards, Tenant, TenantId, TenantName
from tests.api.client import Client
from tests.api.errors import failure
from tests.store.writes import create, eventually
from tests.tenancy.tenants import CONFIG_MAPS, make

NOW = 1.0


def turns_of(*names: str) -> FairQueue:
    """By a clock that stands still: on a slow machine tenants would cease to be present in the middle of a test."""
    turns = FairQueue(lambda: NOW)
    for name in names:
        turns.mark_known(name)
    return turns


async def begin(turns: FairQueue, name: str, order: list[str]) -> None:
    """A request that waits once in its middle."""
    place = turns.try_acquire(name, NOW) or await turns.acquire(name)
    order.append(name)
    await asyncio.sleep(0)
    turns.release(place)


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


async def rounds(number: int = 20) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def present(turns: FairQueue, *names: str) -> list[fairness.Seat]:
    """Places of tenants that are all there."""
    places = [turns.try_acquire(name, NOW) for name in names]
    return [place for place in places if place is not None]


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


def tenant_with(**rates: int) -> tuple[int, dict[str, int]]:
    return 1, rates


def test_requests_a_second() -> None:
    rates, tenant = Rates(), tenant_with(requestsPerSecond=5)
    for _ in range(5):
        rates.enter(*tenant, 10.0, watch=False)
    with pytest.raises(TooManyRequests) as refused:
        rates.enter(*tenant, 10.0, watch=False)
    assert refused.value.retry_after_seconds == 1
    rates.enter(*tenant, 10.21, watch=False)
    with pytest.raises(TooManyRequests):
        rates.enter(*tenant, 10.22, watch=False)


def test_requests_and_watches_at_a_time() -> None:
    rates, tenant = Rates(), tenant_with(concurrentRequests=2, watches=1)
    first, _ = [rates.enter(*tenant, 1.0, watch=False) for _ in range(2)]
    watching = rates.enter(*tenant, 1.0, watch=True)
    for watch in (False, True):
        with pytest.raises(TooManyRequests):
            rates.enter(*tenant, 1.0, watch=watch)
    assert first is not None
    assert watching is first
    rates.leave(first, watch=False)
    rates.leave(watching, watch=True)
    assert rates.enter(*tenant, 1.0, watch=False) is first
    assert rates.enter(*tenant, 1.0, watch=True) is first


async def test_the_response_has_retry_after(api: Client) -> None:
    acme = await make(api.of_tenant("system"), "acme", quotas={"watches": 0, "requestsPerSecond": 1})
    answers = await asyncio.gather(*(acme.get(CONFIG_MAPS) for _ in range(20)))
    refused = next(answer for answer in answers if answer.code == 429)
    assert failure(refused, 429, "TooManyRequests")["message"] == "too many requests, please try again later"
    assert refused.header("retry-after") == "1"


async def test_tenants_take_turns_in_the_writers_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "MAX_ROWS", 4)
    waiting = Waiting()
    loop = asyncio.get_running_loop()
    for number, name in [(1, f"flood-{i}") for i in range(20)] + [(2, "quiet"), (3, "other")]:
        tenant = Tenant(TenantId(number), TenantName(str(number)), DomainId(number), Guards(0, 0))
        waiting.append(Pending(tenant, create(name), 10, loop.create_future()))
    assert [p.write.key for p in waiting.take()] == ["flood-0", "quiet", "other", "flood-1"]
    assert [p.write.key for p in waiting.take()] == ["flood-2", "flood-3", "flood-4", "flood-5"]
    assert (len(waiting), waiting.size) == (14, 140)
