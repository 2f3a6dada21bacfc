"""Turns of tenants, and the rates that a tenant may have: so that one who floods a process slows nobody but himself.

A process answers requests on one thread. Those of one tenant begin as they come. Where another tenant has asked lately,
only a few of each are under way at a time, and they begin tenant by tenant; the others wait for a place of theirs. So a
request waits for a few of each other tenant's, not for all that a flood has brought. A place is given up when the
request is answered, or after a few milliseconds: what waits for the database, for a webhook or for a slow client is in
nobody's way, not even in that of its own tenant. Lists keep theirs for longer: the database has to work for them too.

Long requests go on in slices (registry/flowcontrol/time_slice.py), of which one is done in a round of the event loop.
Before each, the short requests of other tenants that are under way are answered; those that come meanwhile are not
waited for.

Rates are limits that the tenant's object names (spec.quotas), counted in each process by itself. Beyond one the answer
is 429, with the seconds after which it may be tried again.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from registry.flowcontrol.time_slice import SHARED_SLICE_SECONDS, SLICE_SECONDS

# A tenant counts as present this long after its last request.
PRESENT_SECONDS: Final = 0.1
# Requests of a tenant that are under way at a time while several tenants are present, and how long one counts as such.
SEATS_PER_TENANT: Final = 1
SEAT_SECONDS: Final = 0.005
LIST_SEAT_SECONDS: Final = 0.05
# What may wait of one tenant; beyond it the answer is 429 at once.
MAX_WAITING: Final = 2_000
# Tenants with rates that are remembered; one that is dropped while nothing of it is under way begins anew.
MAX_TENANTS: Final = 10_000


class TooManyRequests(Exception):
    def __init__(self, retry_after_seconds: int = 1) -> None:
        super().__init__("too many requests, please try again later")
        self.retry_after_seconds = retry_after_seconds


# No tenant has this name.
_UNKNOWN: Final = "?"


class Seat:
    """What a request has while it counts as under way, and as a short one; until then, by the clock of the requests."""

    __slots__ = ("reads", "short_until", "tenant", "until")

    def __init__(self, tenant: str, now: float, held: float) -> None:
        self.tenant = tenant
        self.reads = True
        self.until = now + held
        self.short_until = now + SEAT_SECONDS  # or until it ends or rests


# Of a request of a tenant that is alone: nothing is counted.
EXEMPT: Final = Seat(_UNKNOWN, 0.0, 0.0)


class _Yielded(NamedTuple):
    before: Sequence[Seat]  # what may be short, and goes before it
    over: asyncio.Future[None]


class FairQueue:
    """The order in which requests begin.

    Tenants are known by their names as requests say them: to find out more would be the work that is to wait. Names
    that nobody has been let in by share the places of one, so that inventing names gains nothing.

    `begins` is asked first, without waiting; where it gives no place, `turn` is awaited. Each place `ends`. `now` is in
    seconds, by `clock`.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._names: set[str] = set()
        # The tenant that asked last, and until when another counts as present.
        self._last: str | None = None
        self._shared_until = 0.0
        # The places that are taken, oldest first. Invariant: neither here nor below is anything empty.
        self._taken: dict[str, list[Seat]] = {}
        # The first tenant is the one whose turn it is.
        self._waiting: OrderedDict[str, deque[tuple[asyncio.Future[Seat], float]]] = OrderedDict()
        self._renewal: asyncio.TimerHandle | None = None
        # Who rests, in the order in which they go on.
        self._resting: deque[_Yielded] = deque()
        self._rousing = False  # in the next round of the event loop
        self._later: asyncio.TimerHandle | None = None

    def mark_known(self, name: str) -> None:
        """A request that named this tenant was let in."""
        if name not in self._names:
            if len(self._names) >= MAX_TENANTS:
                self._names.clear()
            self._names.add(name)

    def try_acquire(self, name: str, now: float, held: float = SEAT_SECONDS) -> Seat | None:
        """The place of a request that may begin at once; it is held for so long at the most."""
        tenant = name if name in self._names else _UNKNOWN
        if tenant == self._last:
            if now > self._shared_until and not self._waiting:
                return EXEMPT
        else:
            if self._last is not None:
                self._shared_until = now + PRESENT_SECONDS
            self._last = tenant
        return None if tenant in self._waiting else self._take_seat(tenant, now, held)

    async def acquire(self, name: str, held: float = SEAT_SECONDS) -> Seat:
        """Waits for a place of the tenant's. Raises TooManyRequests where too many wait already."""
        tenant = name if name in self._names else _UNKNOWN
        queue = self._waiting.get(tenant)
        if queue is None:
            queue = self._waiting[tenant] = deque()
        elif len(queue) >= MAX_WAITING:
            raise TooManyRequests
        future: asyncio.Future[Seat] = asyncio.get_running_loop().create_future()
        queue.append((future, held))
        if self._renewal is None:
            self._renewal = asyncio.get_running_loop().call_later(SEAT_SECONDS, self._grant_seats_again)
        return await future

    def release(self, place: Seat) -> None:
        """The request has been answered, or is one that lasts."""
        place.short_until = 0.0
        taken = self._taken.get(place.tenant)
        if taken is None or place not in taken:
            return
        taken.remove(place)
        if not taken:
            del self._taken[place.tenant]
        if self._resting:
            self._resume_soon()
        if self._waiting:
            # In the next turn of the event loop: what has come meanwhile is read first, and gets its turn.
            asyncio.get_running_loop().call_soon(self._grant_seats)

    async def yield_now(self, name: str, place: Seat, *, for_reads: bool = False) -> float:
        """A long request lets others go on, and goes on itself when it is its turn: for so many seconds."""
        if place is not EXEMPT:
            place.short_until = 0.0
        now = self._clock()
        if now > self._shared_until and not self._resting:
            await asyncio.sleep(0)
            return SLICE_SECONDS
        tenant = name if name in self._names else _UNKNOWN
        others = [
            other
            for taken in self._taken.values()
            for other in taken
            if other.tenant != tenant and (other.reads or not for_reads)
        ]
        rest = _Yielded(others, asyncio.get_running_loop().create_future())
        self._resting.append(rest)
        self._resume_soon()
        await rest.over
        return SHARED_SLICE_SECONDS

    async def wait_for_short_requests(self, place: Seat, *, reads: bool) -> None:
        """Before a request for which the database has to work: waits as a slice does. Then it counts as short again.

        A write waits for reads only: the writes of many tenants are committed together.
        """
        if place is not EXEMPT:
            place.reads = reads
            await self.yield_now(place.tenant, place, for_reads=not reads)
            place.short_until = self._clock() + SEAT_SECONDS

    def _resume_soon(self) -> None:
        if not self._rousing:
            self._rousing = True
            asyncio.get_running_loop().call_soon(self._resume_next)

    def _resume_next(self) -> None:
        """Lets the next of those who rest go on, unless a short request goes before it."""
        self._rousing = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        while self._resting and self._resting[0].over.done():
            self._resting.popleft()  # who rested has gone
        if not self._resting:
            return
        now = self._clock()
        if any(place.short_until >= now for place in self._resting[0].before):
            # It ends, or its time does.
            self._later = asyncio.get_running_loop().call_later(SEAT_SECONDS / 4, self._resume_next)
            return
        self._resting.popleft().over.set_result(None)
        if self._resting:
            self._resume_soon()

    def _take_seat(self, tenant: str, now: float, held: float) -> Seat | None:
        taken = self._taken.get(tenant)
        if taken is None:
            taken = self._taken[tenant] = []
        while taken and taken[0].until < now:
            del taken[0]
        if len(taken) >= SEATS_PER_TENANT:
            return None
        place = Seat(tenant, now, held)
        taken.append(place)
        return place

    def _grant_seats_again(self) -> None:
        """While anything waits: places also become free by time."""
        self._renewal = None
        self._grant_seats()
        if self._waiting:
            self._renewal = asyncio.get_running_loop().call_later(SEAT_SECONDS, self._grant_seats_again)

    def _grant_seats(self) -> None:
        """Gives the places that are free to those who wait, one to each tenant in turn."""
        now = self._clock()
        for tenant in [*self._waiting]:
            queue = self._waiting[tenant]
            while queue and queue[0][0].done():
                queue.popleft()  # who waited has gone
            if queue and (place := self._take_seat(tenant, now, queue[0][1])) is not None:
                queue.popleft()[0].set_result(place)
            if queue:
                self._waiting.move_to_end(tenant)
            else:
                del self._waiting[tenant]
