"""Permits for which tenants wait round-robin: hundreds of requests of one delay another's by the current ones only.

set_owner("acme")           # where a request begins; what it starts inherits it
...
await permits.acquire()     # in the turn of acme
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextvars import ContextVar
from typing import Final

_owner: Final[ContextVar[str]] = ContextVar("owner", default="")


def set_owner(name: str) -> None:
    """Attributes the current task's work to a tenant. The process's own work has no owner."""
    _owner.set(name)


class TooManyWaiting(Exception):
    """So many of one owner wait that there is no use in waiting."""


class FairPermits:
    """A number of permits. Owners take turns; one owner's callers are served first come, first served."""

    def __init__(self, count: int, most_waiting: int) -> None:
        """`most_waiting` is the limit of callers that wait, for each owner."""
        self._free = count
        self._most_waiting = most_waiting
        # The first owner is next; its callers in order. No queue is empty, and while a caller waits, no permit is free.
        self._waiting: OrderedDict[str, OrderedDict[asyncio.Future[None], None]] = OrderedDict()

    async def acquire(self) -> None:
        """Takes a permit, which must be released. Raises TooManyWaiting."""
        if self._free:
            self._free -= 1
            return
        owner = _owner.get()
        if len(self._waiting.get(owner, ())) >= self._most_waiting:
            raise TooManyWaiting
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, OrderedDict())[turn] = None
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(owner, turn)
            else:
                self.release()  # it was granted in the same iteration of the event loop
            raise

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        while self._waiting:
            owner, queue = next(iter(self._waiting.items()))
            turn, _ = queue.popitem(last=False)
            if queue:
                self._waiting.move_to_end(owner)
            else:
                del self._waiting[owner]
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._free += 1

    def _forget(self, owner: str, turn: asyncio.Future[None]) -> None:
        """Removes a caller that was cancelled, unless `release` has met it."""
        queue = self._waiting.get(owner)
        if queue is not None and turn in queue:
            del queue[turn]
            if not queue:
                del self._waiting[owner]
