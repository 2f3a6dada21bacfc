"""Whatever requests arrive, wait, yield, disconnect and hang, in whatever order: the promises of the fair queue hold.

The schedules run on an event loop whose time only passes while nothing is ready, so they are the same on any machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from registry.flowcontrol.fair_queue import (
    EXEMPT,
    LIST_SEAT_SECONDS,
    PRESENT_SECONDS,
    SEAT_SECONDS,
    SEATS,
    FairQueue,
    Seat,
    TooManyRequests,
)
from tests.flowcontrol.idle import assert_idle

TENANTS = ("a", "b", "c", "d", "?")
# Beyond what a schedule justifies: iterations of the loop take no time, but some timers are late by their period.
SLACK_SECONDS = 3 * SEAT_SECONDS


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose time passes at once while nothing is ready."""

    def __init__(self) -> None:
        self.now = 1.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.now


class _Selector(selectors.SelectSelector):
    def __init__(self, loop: _Loop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing will ever happen any more"
        self._loop.now += max(timeout, 0.0)
        return super().select(0)


@dataclass(frozen=True)
class Request:
    """`steps`: how many seconds each part of its work takes, with a yield between two."""

    tenant: str
    at: float
    lists: bool
    # Waits as a get with a plan does: a callback instead of a task.
    is_fast: bool
    steps: tuple[float, ...]
    gone_after: float | None
    # And so many iterations of the event loop: some clients are gone between the grant of a seat and their request.
    gone_iterations: int


TIMES = st.integers(0, 60).map(lambda number: number / 1000)
REQUESTS = st.builds(
    Request,
    tenant=st.sampled_from(TENANTS),
    at=st.integers(0, 40).map(lambda number: number / 2000),
    lists=st.integers(0, 3).map(lambda number: number == 0),
    is_fast=st.booleans(),
    steps=st.lists(TIMES, min_size=1, max_size=4).map(tuple),
    gone_after=st.none() | TIMES,
    gone_iterations=st.integers(0, 3),
)


@dataclass
class Schedule:
    queue: FairQueue
    loop: asyncio.AbstractEventLoop
    # What is in progress, and for how long requests of a tenant that wait may hold a seat.
    seats: list[Seat] = field(default_factory=list)
    waiting: dict[str, list[float]] = field(default_factory=lambda: {tenant: [] for tenant in TENANTS})
    woken: list[int] = field(default_factory=list)
    longest_yield: float = 0.0

    def unexpired(self) -> list[Seat]:
        return [seat for seat in self.seats if seat.until >= self.loop.time()]

    def grant(self, granted: asyncio.Future[Seat], seat: Seat) -> None:
        """A seat is granted that is the tenant's first, or within its share."""
        before = self.unexpired()
        own = [taken for taken in before if taken.tenant == seat.tenant]
        if own:
            tenants = {taken.tenant for taken in before}
            assert sum(taken.width for taken in own) + seat.width <= SEATS // len(tenants)
        self.hold(seat)
        granted.set_result(seat)

    def hold(self, seat: Seat) -> None:
        if seat is not EXEMPT:
            self.seats.append(seat)

    def release(self, seat: Seat) -> None:
        if seat is not EXEMPT:
            self.seats.remove(seat)
            self.queue.release(seat)

    async def serve(self, request: Request) -> None:
        """Runs a request, whose task is cancelled when its client is gone."""
        await asyncio.sleep(request.at)  # it arrives then
        held = LIST_SEAT_SECONDS if request.lists else SEAT_SECONDS
        tenant, asked = request.tenant, self.loop.time()
        # One whose client is gone is noticed when the seats of its tenant expire.
        has_to_wait = tenant in self.queue._waiting or self.waiting[tenant]
        is_first = not any(taken.tenant == tenant for taken in self.unexpired())
        seat = self.queue.try_acquire(tenant, asked, held)
        assert seat is not None or has_to_wait or not is_first, "a tenant's first seat is free at any time"
        if seat is None:
            # Each that waits before it holds its seat until it expires at most, and so do those in progress.
            own = [taken.until - asked for taken in self.unexpired() if taken.tenant == tenant]
            longest = sum(self.waiting[tenant]) + max(own, default=0.0)
            seat = await self._wait(request, held)
            assert self.loop.time() - asked <= longest + SLACK_SECONDS * (len(self.waiting[tenant]) + 1)
        else:
            self.hold(seat)
        try:
            if not request.is_fast:
                await self._yielding(self.queue.wait_for_short_requests(seat, reads=request.lists))
            for seconds in request.steps:
                await asyncio.sleep(seconds)
                await self._yielding(self.queue.yield_now(tenant, seat))
        finally:
            self.release(seat)

    async def _wait(self, request: Request, held: float) -> Seat:
        self.waiting[request.tenant].append(held)
        try:
            if not request.is_fast:
                seat = await self.queue.acquire(request.tenant, held)
                self.hold(seat)
                return seat
            granted: asyncio.Future[Seat] = self.loop.create_future()
            is_gone = False
            self.queue.acquire_later(request.tenant, partial(self.grant, granted), lambda: is_gone, held)
            try:
                return await asyncio.shield(granted)
            except asyncio.CancelledError:
                if granted.done():
                    self.release(granted.result())
                is_gone = True
                raise
        finally:
            self.waiting[request.tenant].remove(held)

    async def _yielding(self, wait: Any) -> None:
        began = self.loop.time()
        await wait
        self.longest_yield = max(self.longest_yield, self.loop.time() - began)

    async def client(self, request: Request) -> None:
        task = asyncio.create_task(self.serve(request))
        if request.gone_after is not None:
            # That is when its client disconnects.
            await asyncio.sleep(request.at + request.gone_after)
            for _ in range(request.gone_iterations):
                await asyncio.sleep(0)
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError, TooManyRequests):
            await task

    async def watches(self, wakes: list[tuple[str, float]]) -> None:
        for number, (tenant, seconds) in enumerate(wakes):
            await asyncio.sleep(seconds)
            self.queue.wake(partial(self.wake, number), tenant)

    def wake(self, number: int) -> bool:
        self.woken.append(number)
        return True


@settings(max_examples=300, deadline=None)
@given(
    requests=st.lists(REQUESTS, min_size=1, max_size=60),
    wakes=st.lists(st.tuples(st.sampled_from(TENANTS), TIMES), max_size=20),
)
def test_no_schedule_breaks_the_promises(requests: list[Request], wakes: list[tuple[str, float]]) -> None:
    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(_run(requests, wakes))


async def _run(requests: list[Request], wakes: list[tuple[str, float]]) -> None:
    loop = asyncio.get_running_loop()
    queue = FairQueue(loop.time)
    for tenant in TENANTS[:-1]:
        queue.mark_known(tenant)
    schedule = Schedule(queue, loop)
    async with asyncio.TaskGroup() as group:
        group.create_task(schedule.watches(wakes))
        for request in requests:
            group.create_task(schedule.client(request))
    # Timers end, and tenants cease to be present.
    await asyncio.sleep(PRESENT_SECONDS + SEAT_SECONDS)
    assert sorted(schedule.woken) == [*range(len(wakes))]
    for tenant in TENANTS:
        own = [number for number in schedule.woken if wakes[number][0] == tenant]
        assert own == sorted(own)
    # It waits for requests that were in progress as it yielded, each of which counts as short for a time only.
    assert schedule.longest_yield <= SEAT_SECONDS + SLACK_SECONDS
    assert schedule.seats == []
    assert_idle(queue, loop.time())
    queue.try_acquire("a", loop.time())
    # The other tenants have ceased to be present.
    await asyncio.sleep(PRESENT_SECONDS + SEAT_SECONDS)
    assert queue.try_acquire("a", loop.time()) is EXEMPT
