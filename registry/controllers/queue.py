"""A work queue: each item is handled by one worker at a time, and retried with backoff until finished.

Handlers are idempotent, so an item may be enqueued twice or late. `oldest` is how long the oldest item of each flow
has waited, which recovery uses (garbage/collector.py).

Workers and room are shared fairly between flows, which are tenants here: a tenant whose namespaces take minutes to
empty, or whose deletions have a hundred thousand dependents, delays its own work only. Items are taken round-robin by
flow, and a flow may have as many workers, and as much room, as are still free: alone half of them (the dynamic
thresholds of registry/flowcontrol/byte_shares.py). So a few flows in concert could have all workers: an item that takes
longer than a second gives its worker back and goes on without one. It still counts for its flow, which may have four of
these, and has its turn after flows with nothing in progress. If too many go on in this way, the one that has done so
for longest, of the flow with most, is cancelled and retried.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, NamedTuple, Self, TypeVar

from registry.api.errors import StatusError
from registry.logs import RateLimited
from registry.store.database import Database
from registry.store.errors import StoreError, TenantNotFound
from registry.tasks import cancel

logger = logging.getLogger(__name__)
# Of many items that fail for one reason: PostgreSQL is full, read-only, or about to be found away.
_store_errors: Final = RateLimited(logger)
# Of a tenant's: its webhook fails, say.
_failures: Final = RateLimited(logger)
_full: Final = RateLimited(logger)

Work = TypeVar("Work", bound=Hashable)

# The first retry delay, which doubles each time up to the maximum.
FIRST_RETRY_SECONDS: Final = 0.25
# However soon an item is to be retried.
_SHORTEST_RETRY_SECONDS: Final = 0.01
# How long an item has a worker at most, and how many go on without one, of a flow and in all: as many as no few tenants
# have together, and each may hold some megabytes.
SLOW_SECONDS: Final = 1.0
_SLOW_OF_FLOW: Final = 4
_SLOW: Final = 256
# Items that wait, are in progress or will be retried, of which a flow has at most half. Dropped ones are found by the
# leader's sweep or by recovery.
LIMIT: Final = 200_000


class Requeue(Exception):
    """Work remains, but has to wait for others: retry later, within so many seconds at most."""

    def __init__(self, within: float = math.inf) -> None:
        super().__init__()
        self.within = within


class WorkQueue(Generic[Work]):
    """Handles enqueued items with `workers` workers, of which a flow has at most half, between entering and leaving.

    Items that take longer than `slow_seconds` leave their workers to others.
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[Work], Awaitable[None]],
        database: Database,
        *,
        flow: Callable[[Work], Hashable],
        workers: int,
        max_retry_seconds: float,
        limit: int = LIMIT,
        slow_seconds: float = SLOW_SECONDS,
    ) -> None:
        self._name = name
        self._handle = handle
        self._database = database
        self._max_retry_seconds = max_retry_seconds
        self._limit = limit
        self._flow = flow
        self._backlog: _Backlog[Work] = _Backlog(flow, workers, self._start, self._interrupt)
        self._slow_seconds = slow_seconds
        # Invariant: what is queued, in progress or waiting for a retry is in `_since`, by flow, in order of arrival,
        # with that time, and counted in `_count`. What is enqueued again while in progress is in `_again`.
        self._since: dict[Hashable, dict[Work, float]] = {}
        self._count = 0
        self._again: set[Work] = set()
        self._retries: dict[Work, float] = {}
        self._timers: dict[Work, asyncio.TimerHandle] = {}
        # Invariant: a debounced item is in `_since`, and nowhere else.
        self._debounced: dict[Hashable, _Debounced[Work]] = {}
        self._tasks: dict[Work, asyncio.Task[None]] = {}
        self._interrupted: set[Work] = set()
        # Items are not handled on behalf of the request that has enqueued them, within its budget.
        self._context = contextvars.copy_context()
        self._room = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._context = contextvars.copy_context()
        self._backlog.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._backlog.close()
        for timer in self._timers.values():
            timer.cancel()
        for debounced in self._debounced.values():
            debounced.timer.cancel()
        self._interrupted.clear()
        await cancel(*self._tasks.values())

    def __len__(self) -> int:
        return self._count

    def __contains__(self, work: Work) -> bool:
        """Whether the item is queued, in progress, or will be retried."""
        return work in self._since.get(self._flow(work), ())

    def age(self, work: Work) -> float:
        """Returns for how many seconds an unfinished item has waited."""
        return asyncio.get_running_loop().time() - self._since[self._flow(work)][work]

    def oldest(self) -> list[tuple[Work, float]]:
        """Returns the oldest unfinished item of each flow, and since when it has waited, by the loop's clock."""
        return [next(iter(since.items())) for since in self._since.values()]

    def enqueue(self, work: Work) -> bool:
        """Enqueues an item that may need work. False if there is no room."""
        timer = self._timers.pop(work, None)
        if timer is not None:
            timer.cancel()
            self._backlog.put(work)
            return True
        debounced = self._debounced.get(self._flow(work))
        if debounced is not None and debounced.works.pop(work, False):
            self._backlog.put(work)
            return True
        if work in self:
            self._again.add(work)
            return True
        if not self._has_room(work):
            _full.warn(self._name, "too many objects wait for %s: %s is left for later", self._name, work)
            return False
        self._begin(work)
        self._backlog.put(work)
        return True

    def debounce(self, work: Work, seconds: float) -> None:
        """Enqueues `work` after it has not been requested again for that long."""
        timer = self._timers.pop(work, None)
        if timer is not None:
            timer.cancel()
        elif work in self or not self._has_room(work):
            self.enqueue(work)
            return
        else:
            self._begin(work)
        self._start_timer(work, seconds)

    def debounce_flow(self, work: Work, seconds: float, max_seconds: float, *, each: float = 0.0) -> None:
        """Enqueues `work` once nothing of its flow has been requested by this method for that long, and `each` longer
        for each other item, but at most `max_seconds` after the first: what a burst of changes makes due is done when
        the burst is over."""
        flow = self._flow(work)
        debounced = self._debounced.get(flow)
        if debounced is None or work not in debounced.works:
            if work in self or not self._has_room(work):
                self.enqueue(work)
                return
            self._begin(work)
        loop = asyncio.get_running_loop()
        now = loop.time()
        if debounced is None:
            works, until = {}, now + max_seconds
        else:
            works, until = debounced.works, debounced.until
            debounced.timer.cancel()
        works[work] = True
        timer = loop.call_at(min(now + seconds + each * (len(works) - 1), until), self._flush, flow)
        self._debounced[flow] = _Debounced(works, until, timer)

    def _flush(self, flow: Hashable) -> None:
        for work in self._debounced.pop(flow).works:
            self._backlog.put(work)

    async def put(self, work: Work) -> None:
        """Enqueues as soon as there is room: a part of each flow's is reserved for work that cannot wait."""
        while not self._has_room(work, reserved=2) and work not in self:
            self._room.clear()
            await self._room.wait()
        self.enqueue(work)

    def _has_room(self, work: Work, reserved: int = 1) -> bool:
        return len(self._since.get(self._flow(work), ())) < (self._limit - self._count) // reserved

    def _begin(self, work: Work) -> None:
        self._since.setdefault(self._flow(work), {})[work] = asyncio.get_running_loop().time()
        self._count += 1

    def _end(self, work: Work) -> None:
        flow = self._flow(work)
        del self._since[flow][work]
        if not self._since[flow]:
            del self._since[flow]
        self._count -= 1
        self._room.set()

    def _start(self, work: Work) -> None:
        task = asyncio.create_task(self._work(work), name=self._name, context=self._context.copy())
        self._tasks[work] = task

    def _interrupt(self, work: Work) -> None:
        """Cancels an item in progress, to be retried."""
        self._interrupted.add(work)
        self._tasks[work].cancel()

    async def _work(self, work: Work) -> None:
        finished, within = False, math.inf
        slow = asyncio.get_running_loop().call_later(self._slow_seconds, self._backlog.leave_worker, work)
        try:
            await self._handle(work)
            finished = True
        except TenantNotFound:
            finished = True
        except asyncio.CancelledError:
            if work not in self._interrupted:
                raise
        except Requeue as requeue:
            within = requeue.within
        except StoreError as error:
            if self._database.away is None:  # which is logged once, for all
                _store_errors.warn(type(error).__name__, "%s: %s is tried again: %s", self._name, work, error)
        except StatusError as error:
            kind = f"{self._name} {self._flow(work)}"
            _failures.warn(kind, "%s: %s is tried again: %s", self._name, work, error)
        except Exception:
            logger.exception("%s failed for %s", self._name, work)
        finally:
            slow.cancel()
        self._interrupted.discard(work)
        del self._tasks[work]
        self._finish(work, finished, within)
        self._backlog.release(work)

    def _finish(self, work: Work, finished: bool, within: float) -> None:
        again = work in self._again
        self._again.discard(work)
        if finished:
            self._end(work)
            self._retries.pop(work, None)
            if again:
                self.enqueue(work)
        elif again:
            self._backlog.put(work)
        else:
            self._later(work, within)

    def _later(self, work: Work, within: float) -> None:
        seconds = self._retries.get(work, FIRST_RETRY_SECONDS)
        self._retries[work] = min(2 * seconds, self._max_retry_seconds)
        self._start_timer(work, min(seconds, max(within, _SHORTEST_RETRY_SECONDS)))

    def _start_timer(self, work: Work, seconds: float) -> None:
        def again() -> None:
            self._timers.pop(work, None)
            self._backlog.put(work)

        self._timers[work] = asyncio.get_running_loop().call_later(seconds, again)


class _Debounced(NamedTuple, Generic[Work]):
    """The debounced items of a flow, in order of arrival; `until` is the latest they wait for, by the loop's clock."""

    works: dict[Work, bool]
    until: float
    timer: asyncio.TimerHandle


class _Backlog(Generic[Work]):
    """The items that wait for a worker, by flow, and how many each flow has in progress. `start` is called with each
    item that gets a worker, `interrupt` with one that has to make room.

    Invariant: no flow without items is in `_waiting`, `_with_worker` or `_slow`.
    """

    def __init__(
        self,
        flow: Callable[[Work], Hashable],
        workers: int,
        start: Callable[[Work], None],
        interrupt: Callable[[Work], None],
    ) -> None:
        self._flow = flow
        self._workers = workers
        self._of_flow = math.ceil(workers / 2)
        self._start = start
        self._interrupt = interrupt
        self._is_open = False
        # The first flow is served next.
        self._waiting: OrderedDict[Hashable, deque[Work]] = OrderedDict()
        self._with_worker: Counter[Hashable] = Counter()
        # Items that have left their workers, in that order, and those of them that were interrupted and have not ended.
        self._slow: dict[Hashable, dict[Work, None]] = {}
        self._slow_count = 0
        self._ending: set[Work] = set()

    def open(self) -> None:
        self._is_open = True
        self._assign()

    def close(self) -> None:
        """Starts nothing from now on."""
        self._is_open = False

    def put(self, work: Work) -> None:
        self._waiting.setdefault(self._flow(work), deque()).append(work)
        self._assign()

    def leave_worker(self, work: Work) -> None:
        """Leaves the worker of an item in progress to others, unless too many of its flow go on without one."""
        flow = self._flow(work)
        if len(self._slow.get(flow, ())) >= _SLOW_OF_FLOW:
            return
        if self._slow_count >= _SLOW:
            _, most = max(self._slow.items(), key=lambda one: len(one[1]))
            oldest = next(iter(most))
            self._leave_slow(oldest)
            self._ending.add(oldest)
            self._interrupt(oldest)
        self._slow.setdefault(flow, {})[work] = None
        self._slow_count += 1
        self._release_worker(flow)

    def release(self, work: Work) -> None:
        """Ends an item in progress."""
        flow = self._flow(work)
        if work in self._ending:
            self._ending.discard(work)
        elif work in self._slow.get(flow, ()):
            self._leave_slow(work)
        else:
            self._release_worker(flow)
            return
        self._assign()

    def _leave_slow(self, work: Work) -> None:
        flow = self._flow(work)
        del self._slow[flow][work]
        self._slow_count -= 1
        if not self._slow[flow]:
            del self._slow[flow]

    def _release_worker(self, flow: Hashable) -> None:
        self._with_worker[flow] -= 1
        if not self._with_worker[flow]:
            del self._with_worker[flow]
        self._assign()

    def _assign(self) -> None:
        while self._is_open and (flow := self._next()) is not None:
            items = self._waiting[flow]
            self._with_worker[flow] += 1
            self._start(items.popleft())
            if items:
                self._waiting.move_to_end(flow)
            else:
                del self._waiting[flow]

    def _next(self) -> Hashable | None:
        """Returns the flow that has the next worker: the first with nothing in progress, so that it does not wait for
        the slow items of others, or else the first that may have another. Looks at no more flows than have items in
        progress, and one."""
        most = min(self._workers - self._with_worker.total(), self._of_flow)
        if most <= 0:
            return None
        first = None
        for flow in self._waiting:
            count = self._with_worker[flow] + len(self._slow.get(flow, ()))
            if not count:
                return flow
            if first is None and count < most:
                first = flow
        return first
