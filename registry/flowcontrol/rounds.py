"""How much of one kind of work is done in one iteration of the event loop.

An iteration serves every connection that has something to do. If a thousand of them do the same at once, such as their
TLS handshakes, others would wait for all of these: so only a few continue at a time, and the loop looks for other work
before the next ones.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Rounds:
    """Lets `most` callers continue in each iteration, first come, first served."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most
        # Each returns whether its caller still continues.
        self._waiting: deque[Callable[[], bool]] = deque()

    async def turn(self) -> None:
        """Returns at once if few have asked in this iteration, otherwise in a later one."""
        loop = asyncio.get_running_loop()
        if self._left:
            if self._left == self._most:
                loop.call_soon(self._begin)
            self._left -= 1
            return
        turn = loop.create_future()

        def begin() -> bool:
            if turn.done():  # its client has gone
                return False
            turn.set_result(None)
            return True

        self._waiting.append(begin)
        await turn

    def _begin(self) -> None:
        """Begins the next round. It is an empty one if no caller waits, so that the next caller begins another."""
        self._left = self._most
        while self._waiting and self._left:
            if self._waiting.popleft()():
                self._left -= 1
        if self._left < self._most:
            asyncio.get_running_loop().call_soon(self._begin)
