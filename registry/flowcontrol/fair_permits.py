"""Permits for which tenants wait round-robin, and of which none may take all: requests of one delay no other's.

set_owner("acme")                   # where a request begins; what it starts inherits it
...
owner = await permits.acquire()     # in the turn of acme
permits.release(owner)
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from contextvars import ContextVar
from typing import Final

_owner: Final[ContextVar[str]] = ContextVar("owner", default="")


def set_owner(name: str) -> None:
    """Attributes the current task's work to a tenant. The process's own work has no owner."""
    _owner.set(name)


class TooManyWaiting(Exception):
    """So many of one owner wait that there is no use in waiting."""


class FairPermits:
    """A number of permits. Owners take turns; one owner's callers are served first come, first served.

    An owner may hold as many as are still free, so alone half: another one finds some, however long the first keeps
    its own. The process's own work may take all.
    """

    def __init__(self, count: int, most_waiting: int) -> None:
        """`most_waiting` is the limit of callers that wait, for each owner."""
        self._free = count
        self._most_waiting = most_waiting
        self._held: Counter[str] = Counter()
        # The first owner is next; its callers in order. No queue is empty, and no owner that may take a permit waits.
        self._waiting: OrderedDict[str, OrderedDict[asyncio.Future[None], None]] = OrderedDict()

    async def acquire(self) -> str:
        """Takes a permit, and returns the owner, for which it must be released. Raises TooManyWaiting."""
        owner = _owner.get()
        if owner not in self._waiting and self._may_take(owner):
            self._take(owner)
            return owner
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
                self.release(owner)  # it was granted in the same iteration of the event loop
            raise
        return owner

    def release(self, owner: str) -> None:
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        while (following := next(filter(self._may_take, self._waiting), None)) is not None:
            queue = self._waiting[following]
            turn, _ = queue.popitem(last=False)
            if queue:
                self._waiting.move_to_end(following)
            else:
                del self._waiting[following]
            if not turn.cancelled():
                self._take(following)
                turn.set_result(None)

    def _may_take(self, owner: str) -> bool:
        return self._free > (self._held[owner] if owner else 0)

    def _take(self, owner: str) -> None:
        self._free -= 1
        self._held[owner] += 1

    def _forget(self, owner: str, turn: asyncio.Future[None]) -> None:
        """Removes a caller that was cancelled, unless `release` has met it."""
        queue = self._waiting.get(owner)
        if queue is not None and turn in queue:
            del queue[turn]
            if not queue:
                del self._waiting[owner]
