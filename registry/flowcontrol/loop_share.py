"""A tenant's share of the event loop for what its servers send, and what is sent to them.

Hundreds of streams of one tenant could keep the loop busy for seconds before it serves another client: a server needs a
few bytes to cause work here, such as chunks of one byte. So work is charged to the tenant when it is done, and the
tenant's next piece of work waits until its share has covered that. Others are served meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

# The fraction of the loop's time that one tenant may use, and the seconds that it may use at once.
_SHARE: Final = 0.3
_BURST_SECONDS: Final = 0.01
# The resolution of an event loop's timers: with uvloop, a shorter one ends at once, before its time.
_TIMER_SECONDS: Final = 0.001
# What is not measured: TLS on both sides, and passing a piece on.
BYTE_SECONDS: Final = 4e-9
PIECE_SECONDS: Final = 1e-4
HANDSHAKE_SECONDS: Final = 2e-3


class LoopShare:
    """First come, first served."""

    def __init__(self) -> None:
        self._debt, self._at = 0.0, time.monotonic()
        self._waiting: deque[Callable[[], None]] = deque()
        self._timer: asyncio.Handle | None = None

    @property
    def is_free(self) -> bool:
        """Whether work may be done at once. Nothing overtakes what waits."""
        return not self._waiting and self._current_debt() <= _BURST_SECONDS

    def charge(self, seconds: float) -> None:
        self._debt = self._current_debt() + seconds
        self._at = time.monotonic()

    def when_free(self, work: Callable[[], None]) -> None:
        """Calls `work` in its turn."""
        self._waiting.append(work)
        if self._timer is None:
            self._schedule()

    async def turn(self) -> None:
        """Waits until work may be done."""
        if self.is_free:
            return
        turn = asyncio.get_running_loop().create_future()
        # A waiter that was cancelled leaves its place to the next.
        self.when_free(lambda: None if turn.done() else turn.set_result(None))
        await turn

    def _current_debt(self) -> float:
        return max(0.0, self._debt - (time.monotonic() - self._at) * _SHARE)

    def _schedule(self) -> None:
        seconds = (self._current_debt() - _BURST_SECONDS) / _SHARE
        loop = asyncio.get_running_loop()
        # The one that has just been called is charged before the next one is called.
        wait = max(seconds, _TIMER_SECONDS)
        self._timer = loop.call_soon(self._next) if seconds <= 0 else loop.call_later(wait, self._next)

    def _next(self) -> None:
        self._timer = None
        if self._current_debt() <= _BURST_SECONDS:
            self._waiting.popleft()()
        if self._waiting and self._timer is None:
            self._schedule()
