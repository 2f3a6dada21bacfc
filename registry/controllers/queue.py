"""A work queue: each item is handled by one worker at a time, and retried with backoff until finished.

Handlers are idempotent, so an item may be enqueued twice or late. `oldest` is how long the oldest item has waited,
which recovery uses (recovery.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from registry.api.errors import StatusError
from registry.logs import RateLimited
from registry.store.database import Database
from registry.store.errors import StoreError, TenantNotFound

logger = logging.getLogger(__name__)
# Of many items that fail for one reason: PostgreSQL is full, read-only, or about to be found away.
_store_errors: Final = RateLimited(logger)

Work = TypeVar("Work", bound=Hashable)

# The first retry delay, which doubles each time up to the maximum.
FIRST_RETRY_SECONDS: Final = 0.25
# More waiting items than this indicate a fault; dropped ones are found by the leader's sweep or by recovery.
LIMIT: Final = 100_000


class Requeue(Exception):
    """Work remains, but has to wait for others: retry later."""


class WorkQueue(Generic[Work]):
    """Handles enqueued items with `workers` workers between entering and leaving."""

    def __init__(
        self,
        name: str,
        handle: Callable[[Work], Awaitable[None]],
        database: Database,
        *,
        workers: int,
        max_retry_seconds: float,
        limit: int = LIMIT,
    ) -> None:
        self._name = name
        self._handle = handle
        self._database = database
        self._workers = workers
        self._max_retry_seconds = max_retry_seconds
        self._limit = limit
        self._queue: asyncio.Queue[Work] = asyncio.Queue()
        # Invariant: what is queued, in progress or waiting for a retry is in `_since`, in order of arrival, with that
        # time. What is enqueued again while in progress is in `_again`.
        self._since: dict[Work, float] = {}
        self._again: set[Work] = set()
        self._retries: dict[Work, float] = {}
        self._timers: dict[Work, asyncio.TimerHandle] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._room = asyncio.Event()
        self._room.set()

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._work(), name=f"{self._name} {i}") for i in range(self._workers)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def __len__(self) -> int:
        return len(self._since)

    def oldest(self) -> float | None:
        """Returns since when the oldest unfinished item has waited, by the loop's clock."""
        return next(iter(self._since.values()), None)

    def enqueue(self, work: Work) -> bool:
        """Enqueues an item that may need work. False if there is no room."""
        timer = self._timers.pop(work, None)
        if timer is not None:
            timer.cancel()
            self._queue.put_nowait(work)
            return True
        if work in self._since:
            self._again.add(work)
            return True
        if len(self._since) >= self._limit:
            logger.error("too many objects wait for %s: %s is left for later", self._name, work)
            return False
        self._since[work] = asyncio.get_running_loop().time()
        self._queue.put_nowait(work)
        return True

    def delay(self, work: Work, seconds: float) -> None:
        """Enqueues `work` after it has not been requested again for that long."""
        timer = self._timers.pop(work, None)
        if timer is not None:
            timer.cancel()
        elif work in self._since or len(self._since) >= self._limit:
            self.enqueue(work)
            return
        self._since.setdefault(work, asyncio.get_running_loop().time())
        self._start_timer(work, seconds)

    async def put(self, work: Work) -> None:
        """Enqueues as soon as there is room: half of the queue is reserved for work that cannot wait."""
        while len(self._since) >= self._limit // 2 and work not in self._since:
            self._room.clear()
            await self._room.wait()
        self.enqueue(work)

    async def _work(self) -> None:
        while True:
            work = await self._queue.get()
            finished = False
            try:
                await self._handle(work)
                finished = True
            except TenantNotFound:
                finished = True
            except Requeue:
                pass
            except StoreError as error:
                if self._database.away is None:  # which is logged once, for all
                    _store_errors.warn(type(error).__name__, "%s: %s is tried again: %s", self._name, work, error)
            except StatusError as error:
                logger.warning("%s: %s is tried again: %s", self._name, work, error)
            except Exception:
                logger.exception("%s failed for %s", self._name, work)
            self._finish(work, finished)

    def _finish(self, work: Work, finished: bool) -> None:
        again = work in self._again
        self._again.discard(work)
        if finished:
            self._since.pop(work, None)
            self._retries.pop(work, None)
            if not self._room.is_set() and len(self._since) < self._limit // 2:
                self._room.set()
            if again:
                self.enqueue(work)
        elif again:
            self._queue.put_nowait(work)
        else:
            self._later(work)

    def _later(self, work: Work) -> None:
        seconds = self._retries.get(work, FIRST_RETRY_SECONDS)
        self._retries[work] = min(2 * seconds, self._max_retry_seconds)
        self._start_timer(work, seconds)

    def _start_timer(self, work: Work, seconds: float) -> None:
        def again() -> None:
            self._timers.pop(work, None)
            self._queue.put_nowait(work)

        self._timers[work] = asyncio.get_running_loop().call_later(seconds, again)
