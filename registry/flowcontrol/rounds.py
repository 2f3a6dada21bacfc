"""How much of one kind of work is done in one iteration of the event loop.

An iteration serves every connection that has something to do. If a thousand of them do the same at once, such as their
TLS handshakes, others would wait for all of these: so only a few continue at a time (`Rounds`), and the loop looks for
other work before the next ones.

Where pieces of work differ in length, their time is counted (`TimedRounds`): requests are parsed, or the ends of
connections are handled, for a few milliseconds at a time, and the tenants take turns, so that what one tenant's
connections send does not delay another's.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final

# What the work of an iteration may take: if other work makes iterations long, more, or it would fall behind. Less than
# a short time is not worth another iteration.
_SECONDS: Final = 0.004
_PART: Final = 0.25
_MOST_SECONDS: Final = 0.02
_SHORT_SECONDS: Final = 0.001

# Watches that are woken in one iteration: a change may have thousands, of which each takes tens of microseconds before
# it lets others run.
WOKEN_AT_ONCE: Final = 32


class Rounds:
    """Lets `most` callers continue in each iteration: the flows round-robin, and first come, first served for each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most
        # By flow. Each returns whether its caller still continues.
        self._waiting: dict[Hashable, deque[Callable[[], bool]]] = {}

    async def turn(self) -> None:
        """Returns at once if few have asked in this iteration, otherwise in a later one."""
        if self._left:
            self._use()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.run(partial(resolve, turn))
        await turn

    def run(self, begin: Callable[[], bool], flow: Hashable = None) -> None:
        """Calls `begin` at once if few have asked in this iteration, otherwise in a later one. It returns whether its
        caller still continues."""
        if self._left:
            self._use()
            begin()
        else:
            self._waiting.setdefault(flow, deque()).append(begin)

    def _use(self) -> None:
        if self._left == self._most:
            asyncio.get_running_loop().call_soon(self._begin)
        self._left -= 1

    def _begin(self) -> None:
        """Begins the next round. It is an empty one if no caller waits, so that the next caller begins another."""
        self._left = self._most
        while self._waiting and self._left:
            flow = next(iter(self._waiting))
            queue = self._waiting.pop(flow)
            if queue.popleft()():
                self._left -= 1
            if queue:
                self._waiting[flow] = queue  # behind the others
        if self._left < self._most:
            asyncio.get_running_loop().call_soon(self._begin)


def resolve(waiter: asyncio.Future[None]) -> bool:
    """Lets the caller that awaits `waiter` continue; returns False if it does not wait any more."""
    if waiter.done():
        return False
    waiter.set_result(None)
    return True


class TimedRounds:
    """Runs work at once while there is time in this iteration, otherwise in a later one: the tenants round-robin, and
    first come, first served for each of them.

    Invariant: the next round is scheduled exactly while work waits or this round has used more than a short time.
    """

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._least = self._limit = seconds
        self._scheduled = 0.0
        self._used = 0.0
        self._is_scheduled = False
        self._waiting: dict[str, deque[Callable[[], None]]] = {}

    def try_run(self, work: Callable[[], None]) -> bool:
        """Runs work, or returns False if it has to wait for its turn: see `wait`."""
        if self._waiting or self._used >= self._limit:
            return False
        self._run(work)
        if self._used > _SHORT_SECONDS:
            self._schedule()
        return True

    def wait(self, tenant: str, work: Callable[[], None]) -> None:
        """Runs work in a later iteration, in the tenant's turn."""
        self._waiting.setdefault(tenant, deque()).append(work)
        self._schedule()

    def _run(self, work: Callable[[], None]) -> None:
        began = time.perf_counter()
        try:
            work()
        finally:
            self._used += time.perf_counter() - began

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled, self._scheduled = True, time.perf_counter()
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        others = time.perf_counter() - self._scheduled
        self._limit = max(self._least, min(others * _PART, _MOST_SECONDS))
        self._is_scheduled, self._used = False, 0.0
        try:
            while self._waiting and self._used < self._limit:
                tenant = next(iter(self._waiting))
                queue = self._waiting.pop(tenant)
                work = queue.popleft()
                if queue:
                    self._waiting[tenant] = queue  # behind those of the others
                self._run(work)
        finally:
            if self._waiting or self._used > _SHORT_SECONDS:
                self._schedule()
            else:
                self._limit = self._least
