"""Fair queuing across tenants: a tenant that floods the server only delays its own requests.

A process serves requests on one thread. While a tenant is alone its requests are exempt: they start as they arrive.
While several are present, each request holds a seat. A tenant's first one is free for it at any time, so a request
waits for few others, not for a whole flood. Further ones of a tenant, up to its share of all seats, start when the
short requests of other tenants that were in progress have been answered: so a flood lets others go first, and still has
enough in progress to share queries and commits. The others wait for a seat of their tenant. A seat is released when the
request is answered, or after a few milliseconds: a request that waits for the database, a webhook or a slow client
delays no other request, not even of its own tenant. Lists hold seats longer, and several at a time, because they also
load the database.

Long requests run in time slices (registry/flowcontrol/time_slice.py), one per iteration of the event loop. Before each
slice, the short requests of other tenants in progress are answered; later ones are not waited for. Watches that have
something to send are woken in the same order, but only reads go first: most writes wait for the database. What a watch
sends then needs no further slice.

Follows the idea of apiserver pkg/util/flowcontrol/fairqueuing; rates are in registry/flowcontrol/rates.py.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from registry.flowcontrol.rounds import WOKEN_AT_ONCE, Rounds, resolve
from registry.flowcontrol.time_slice import SHARED_SLICE_SECONDS, SLICE_SECONDS

# A tenant counts as present this long after its last request.
PRESENT_SECONDS: Final = 0.1
# For this long after it, long evaluations are kept off the event loop for the tenant's sake.
NEIGHBOUR_SECONDS: Final = 30.0
# Requests in progress while several tenants are present, and how long one counts as that.
SEATS: Final = 16
SEAT_SECONDS: Final = 0.005
# What a list takes of them: beside one of another tenant each has one at a time, and a get.
LIST_SEATS: Final = 7
LIST_SEAT_SECONDS: Final = 0.05
# Waiting requests per tenant; beyond that the answer is 429 at once.
MAX_WAITING: Final = 2_000
# Requests of a tenant that is alone that begin, or that continue, in one iteration of the event loop: another may come.
# As many get the first seats of their tenants.
_STARTS_IN_A_ROW: Final = 16
_SLICES_IN_A_ROW: Final = 4
# Further requests of a tenant that begin in one iteration while several are present.
_MORE_IN_A_ROW: Final = 4
# While several tenants are present: as many as take about a slice together, since most events of watches take far less.
_MOST_RESUMED: Final = 16
# Tenants with rates that are remembered; one that is dropped while it has no requests starts afresh.
MAX_TENANTS: Final = 10_000


class TooManyRequests(Exception):
    def __init__(self, retry_after_seconds: int = 1) -> None:
        super().__init__("too many requests, please try again later")
        self.retry_after_seconds = retry_after_seconds


# No tenant has this name.
_UNKNOWN: Final = "?"


class Seat:
    """A request's seat: until when it counts as in progress, and as a short request, by the queue's clock."""

    __slots__ = ("number", "reads", "short_until", "tenant", "until", "width")

    def __init__(self, tenant: str, now: float, held: float) -> None:
        self.tenant = tenant
        self.reads = True
        self.width = 1 if held <= SEAT_SECONDS else LIST_SEATS
        self.until = now + held
        self.short_until = now + SEAT_SECONDS  # or until it is released or yields
        self.number = 0  # of the seats that count as short, in the order in which they began to


# The seat of a request whose tenant is alone, which is not counted.
EXEMPT: Final = Seat(_UNKNOWN, 0.0, 0.0)


class _Yielded(NamedTuple):
    """A request or watch that waits for short requests of other tenants, up to the seat `number`; `for_reads`: only for
    the reads among them."""

    tenant: str
    number: int
    for_reads: bool
    # Lets it continue; returns whether there is still somebody to continue, or how many there are.
    resume: Callable[[], int]


class _QueuedRequest(NamedTuple):
    """A request that waits for a seat: `grant` starts it, unless it `is_gone`."""

    grant: Callable[[Seat], object]
    is_gone: Callable[[], bool]
    held: float


class FairQueue:
    """The order in which requests start.

    Tenants are identified by the names in requests, since a lookup would be work that has to be queued itself. Names
    under which no request was ever authorized share the seats of one tenant, so that inventing names gains nothing.

    Call `try_acquire` first, which does not wait; if it returns None, `acquire` or `acquire_later` waits. Every seat
    must be released. `now` is in seconds, by `clock`.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._names: set[str] = set()
        self._starts = Rounds(_STARTS_IN_A_ROW)
        self._slices = Rounds(_SLICES_IN_A_ROW)
        self._wakes = Rounds(WOKEN_AT_ONCE)
        # The tenant of the last request, and until when another counts as present.
        self._last: str | None = None
        self._shared_until = 0.0
        # The same, of tenants for which a request has been authorized.
        self._last_known: str | None = None
        self._neighbours_until = 0.0
        # The seats taken, oldest first. Invariant: no entry here or below is empty.
        self._taken: dict[str, list[Seat]] = {}
        # The seats that may count as short, in the order of their numbers; and the last number.
        self._short: deque[Seat] = deque()
        self._number = 0
        # The first tenant is served next.
        self._waiting: OrderedDict[str, deque[_QueuedRequest]] = OrderedDict()
        # Tenants whose further requests wait for short ones of others.
        self._offered: set[str] = set()
        self._granting = False  # in the next iteration of the event loop
        self._renewal: asyncio.TimerHandle | None = None
        # Requests that have yielded, by tenant; the first tenant's first one continues next.
        self._yielded: OrderedDict[str, deque[_Yielded]] = OrderedDict()
        self._resuming = False  # in the next iteration of the event loop
        # How many continue in it, and when those of the last iteration were resumed.
        self._resumed = 1
        self._resumed_at = 0.0
        self._later: asyncio.TimerHandle | None = None

    def is_shared(self) -> bool:
        """Returns whether authorized requests for several tenants have come lately. A probe of the server's health, and
        requests that are not authorized, count for no tenant."""
        return self._clock() < self._neighbours_until

    def mark_known(self, name: str) -> None:
        """Records that a request for this tenant was authorized."""
        if name not in self._names:
            if len(self._names) >= MAX_TENANTS:
                self._names.clear()
            self._names.add(name)

    def owner(self, name: str) -> str:
        """Returns the tenant whose seats requests under this name take."""
        return name if name in self._names else _UNKNOWN

    def try_acquire(self, name: str, now: float, held: float = SEAT_SECONDS) -> Seat | None:
        """Returns the seat of a request that may start at once, for at most `held` seconds; None if it has to wait."""
        tenant = self.owner(name)
        if tenant == self._last:
            if now > self._shared_until and not self._waiting:
                return EXEMPT
        else:
            if self._last is not None:
                self._shared_until = now + PRESENT_SECONDS
            self._last = tenant
            self._note_neighbour(tenant, now)
        return None if tenant in self._waiting else self._take_first(tenant, now, held)

    def _note_neighbour(self, tenant: str, now: float) -> None:
        if tenant == _UNKNOWN or tenant == self._last_known:
            return
        if self._last_known is not None:
            self._neighbours_until = now + PRESENT_SECONDS + NEIGHBOUR_SECONDS
        self._last_known = tenant

    async def begin(self, name: str, now: float, held: float = SEAT_SECONDS) -> Seat:
        """Returns a request's seat as soon as it may start. Raises TooManyRequests."""
        seat = self.try_acquire(name, now, held)
        if seat is None:
            return await self.acquire(name, held)
        if seat is EXEMPT:
            await self._starts.turn()
        return seat

    async def acquire(self, name: str, held: float = SEAT_SECONDS) -> Seat:
        """Waits for a seat of the tenant. Raises TooManyRequests if too many requests are waiting."""
        future: asyncio.Future[Seat] = asyncio.get_running_loop().create_future()
        self.acquire_later(name, future.set_result, future.done, held)
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled():
                self.release(future.result())
            raise

    def acquire_later(
        self, name: str, grant: Callable[[Seat], object], is_gone: Callable[[], bool], held: float = SEAT_SECONDS
    ) -> None:
        """Calls `grant` with a seat of the tenant as soon as there is one, unless the request `is_gone` by then. Raises
        TooManyRequests if too many requests are waiting."""
        tenant = self.owner(name)
        queue = self._waiting.get(tenant)
        if queue is None:
            queue = self._waiting[tenant] = deque()
        elif len(queue) >= MAX_WAITING:
            raise TooManyRequests
        queue.append(_QueuedRequest(grant, is_gone, held))
        self._offer_more(tenant)
        if self._renewal is None:
            self._renewal = asyncio.get_running_loop().call_later(SEAT_SECONDS, self._grant_seats_again)

    def release(self, seat: Seat) -> None:
        """Releases the seat of a request that has been answered, or is long-running."""
        seat.short_until = 0.0
        seats = self._taken.get(seat.tenant)
        if seats is None or seat not in seats:
            return
        seats.remove(seat)
        if not seats:
            del self._taken[seat.tenant]
        if self._yielded:
            self._resume_soon()
        if self._waiting:
            self._grant_soon()

    async def yield_now(self, name: str, seat: Seat, *, for_reads: bool = False) -> float:
        """Lets a long request wait for others; returns for how many seconds it may continue afterwards."""
        if seat is not EXEMPT:
            seat.short_until = 0.0
        now = self._clock()
        if now > self._shared_until and not self._yielded:
            await asyncio.sleep(0)
            await self._slices.turn()
            return SLICE_SECONDS
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._yield(self.owner(name), partial(resolve, over), for_reads=for_reads)
        await over
        return SHARED_SLICE_SECONDS

    def wake(self, resume: Callable[[], bool], name: str) -> None:
        """Calls `resume`, which wakes a watch of this tenant, when the short reads of other tenants that are now in
        progress have been answered. It returns whether there is still somebody to wake."""
        if self._clock() > self._shared_until and not self._yielded:
            self._wakes.run(resume, name)
        else:
            self._yield(self.owner(name), resume, for_reads=True)

    def _yield(self, tenant: str, resume: Callable[[], int], *, for_reads: bool = False) -> None:
        yielded = _Yielded(tenant, self._number, for_reads, resume)
        queue = self._yielded.get(tenant)
        if queue is None:
            self._yielded[tenant] = deque((yielded,))
        else:
            queue.append(yielded)
        self._resume_soon()

    async def wait_for_short_requests(self, seat: Seat, *, reads: bool) -> None:
        """Yields, as a time slice does, before a request that loads the database. Then it counts as short again.

        A write waits only for reads: the writes of many tenants are committed together.
        """
        if seat is EXEMPT:
            return
        seat.reads = reads
        if self._yielded or self._is_preceded(seat.tenant, self._number, not reads, self._clock()):
            await self.yield_now(seat.tenant, seat, for_reads=not reads)
            now = self._clock()
            seat.short_until = now + SEAT_SECONDS
            self._note_short(seat, now)

    def _resume_soon(self) -> None:
        if not self._resuming:
            self._resuming = True
            asyncio.get_running_loop().call_soon(self._resume_next)

    def _resume_next(self) -> None:
        """Resumes the next requests that have yielded, unless a short request goes first."""
        self._resuming = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        now = self._clock()
        if now - self._resumed_at < SHARED_SLICE_SECONDS:
            self._resumed = min(2 * self._resumed, _MOST_RESUMED)
        elif now - self._resumed_at > SLICE_SECONDS:
            self._resumed = max(self._resumed // 2, 1)
        left = self._resumed
        while left > 0 and self._yielded:
            tenant, queue = next(iter(self._yielded.items()))
            if self._is_preceded(*queue[0][:3], now):
                # Try again when it may have ended, or no longer counts as short.
                self._later = asyncio.get_running_loop().call_later(SEAT_SECONDS / 4, self._resume_next)
                return
            first = queue.popleft()
            if queue:
                self._yielded.move_to_end(tenant)
            else:
                del self._yielded[tenant]
            left -= first.resume()
        self._resumed_at = self._clock()
        if self._yielded:
            self._resume_soon()

    def _is_preceded(self, tenant: str, number: int, for_reads: bool, now: float) -> bool:
        """Returns whether short requests of other tenants up to this seat are in progress; `for_reads`: reads."""
        for seat in self._short:
            is_before = seat.number <= number and seat.tenant != tenant
            if is_before and seat.short_until >= now and (seat.reads or not for_reads):
                return True
        return False

    def _note_short(self, seat: Seat, now: float) -> None:
        """Notes a seat that counts as short from now on, and forgets the oldest that no longer do."""
        short = self._short
        while short and short[0].short_until < now:
            short.popleft()
        self._number += 1
        seat.number = self._number
        short.append(seat)

    def _take_first(self, tenant: str, now: float, held: float) -> Seat | None:
        """Returns a seat if the tenant has none."""
        seats = self._taken.get(tenant)
        if seats is not None and any(taken.until >= now for taken in seats):
            return None
        seat = Seat(tenant, now, held)
        self._taken[tenant] = [seat]
        self._note_short(seat, now)
        return seat

    def _take_more(self, tenant: str, now: float, held: float) -> Seat | None:
        """Returns another seat if it is within the share of a tenant that has one."""
        seats = [taken for taken in self._taken.get(tenant, ()) if taken.until >= now]
        if not seats:
            return None
        seat = Seat(tenant, now, held)
        if sum([taken.width for taken in seats]) + seat.width > SEATS // len(self._taken):
            return None
        seat.short_until = 0.0  # others do not wait for it
        self._taken[tenant] = [*seats, seat]
        return seat

    def _offer_more(self, tenant: str) -> None:
        """Grants seats to waiting requests of the tenant when short requests of others, now in progress, are over. With
        many tenants there are no more than the first one of each."""
        if tenant not in self._offered and len(self._taken) <= SEATS // 2:
            self._offered.add(tenant)
            self._yield(tenant, partial(self._grant_more, tenant))

    def _grant_more(self, tenant: str) -> int:
        self._offered.discard(tenant)
        # As few as continue in an iteration: where requests take long, one.
        most = min(self._resumed, _MORE_IN_A_ROW)
        granted = self._grant(tenant, self._clock(), self._take_more, most)
        if granted == most and tenant in self._waiting:
            self._offer_more(tenant)
        return granted

    def _grant(self, tenant: str, now: float, take: Callable[[str, float, float], Seat | None], most: int) -> int:
        """Gives seats to waiting requests of the tenant, and returns to how many."""
        queue, granted = self._waiting.get(tenant), 0
        while queue and granted < most:
            if queue[0].is_gone():
                queue.popleft()
                continue
            seat = take(tenant, now, queue[0].held)
            if seat is None:
                break
            queue.popleft().grant(seat)
            granted += 1
        if queue is not None and not queue:
            del self._waiting[tenant]
        return granted

    def _grant_seats_again(self) -> None:
        """Repeats while requests wait, because seats also expire."""
        self._renewal = None
        if self._waiting:
            self._forget_expired(self._clock())
            self._grant_soon()
            self._renewal = asyncio.get_running_loop().call_later(SEAT_SECONDS, self._grant_seats_again)

    def _forget_expired(self, now: float) -> None:
        """Forgets tenants whose seats have all expired: those whose requests hang do not lessen the share of others."""
        for tenant, seats in [*self._taken.items()]:
            if all(taken.until < now for taken in seats):
                del self._taken[tenant]

    def _grant_soon(self) -> None:
        if not self._granting:
            # In the next iteration of the event loop: requests that have arrived meanwhile are read first.
            self._granting = True
            asyncio.get_running_loop().call_soon(self._grant_seats)

    def _grant_seats(self) -> None:
        """Gives tenants that have no seat one, a few of them in an iteration of the event loop, and offers more. Where
        no other tenant is present any more, requests need none."""
        self._granting = False
        if not self._waiting:
            return
        now = self._clock()
        is_shared = now <= self._shared_until
        left = _STARTS_IN_A_ROW
        most = 1 if is_shared else max(left // len(self._waiting), 1)
        for tenant in [*self._waiting]:
            granted = self._grant(tenant, now, self._take_first if is_shared else _exempt, most)
            left -= granted
            if tenant in self._waiting:
                if granted:
                    self._waiting.move_to_end(tenant)
                if is_shared:
                    self._offer_more(tenant)
            if left <= 0:
                break
        if self._waiting and (left <= 0 or not is_shared):
            self._grant_soon()


def _exempt(_tenant: str, _now: float, _held: float) -> Seat:
    return EXEMPT
