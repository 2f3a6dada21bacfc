"""How much of one kind of work is done in one iteration of the event loop.

An iteration serves every connection that has something to do. If a thousand of them do the same at once, such as their
TLS handshakes, others would wait for all of these: so only a few continue at a time, and the loop looks for other work
before the next ones.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Rounds:
    """Lets `most` callers continue in each iteration, first come, first served."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Returns at once if few have asked in this iteration, otherwise in a later one."""
        if self._left:
            if self._left == self._most:
                asyncio.get_running_loop().call_soon(self._begin)
            self._left -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _begin(self) -> None:
        """Begins the next round. It is an empty one if nobody waits, so that the next caller begins another."""
        self._left = self._most
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            if not turn.done():  # else its client has gone
                turn.set_result(None)
                self._left -= 1
        if self._left < self._most:
            asyncio.get_running_loop().call_soon(self._begin)
