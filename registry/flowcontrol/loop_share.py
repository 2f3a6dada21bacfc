"""A tenant's share of the event loop for what its servers send, and what is sent to them.

Hundreds of streams of one tenant could keep the loop busy for seconds before it serves another client: a server needs a
few bytes to cause work here, such as chunks of one byte. So work is charged to the tenant when it is done, and the
tenant's next piece of work waits until its share has covered that. Others are served meanwhile.

A peer may also put each byte into a TLS record of its own. A record takes some microseconds, so what one read of a
socket returns may take tens of milliseconds, and that on hundreds of connections in one iteration. So each connection
has a window, the size of a read: of the socket where we decrypt ourselves, of decrypted data where the event loop does,
which decrypts until the buffer that it is given is full. It grows while it is filled at little cost, and what it costs
beyond that is charged to the share; while that is used up, windows are small, except for a connection whose turn it is.
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

# At first: most requests and answers without a long body.
_FIRST_BYTES: Final = 4096
# What a read of long records takes at most: a hundredth of it for a byte, and so much for a call.
_SECONDS: Final = 1e-4
_BYTE_SECONDS: Final = 1e-7


class LoopShare:
    """First come, first served."""

    def __init__(self) -> None:
        self._debt, self._at = 0.0, time.monotonic()
        self._waiting: deque[Callable[[], None]] = deque()
        self._timer: asyncio.Handle | None = None
        # What the next handshake probably takes. Of the first ones nothing is known: two may begin at once.
        self._handshake_seconds = _BURST_SECONDS

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

    async def handshake_turn(self) -> None:
        """Waits until a TLS handshake may begin, and charges it: as much as one of these has just taken, so that no
        others begin before its cost is known."""
        await self.turn()
        self.charge(self._handshake_seconds)
        self._handshake_seconds = max(HANDSHAKE_SECONDS, self._handshake_seconds / 2)

    def charge_handshake(self, seconds: float) -> None:
        """Charges a step of a handshake when it has been made."""
        self.charge(seconds)
        self._handshake_seconds = max(self._handshake_seconds, seconds)

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


class ReadWindow:
    """The window of one connection: `begin` before each read, and `end` when it is decrypted. It has `small_bytes`
    while the share is used up, and after a read of small records."""

    __slots__ = ("_has_turn", "_most_bytes", "_offered", "_share", "_size", "_small_bytes")

    def __init__(self, share: LoopShare, small_bytes: int, most_bytes: int) -> None:
        self._share = share
        self._small_bytes, self._most_bytes = small_bytes, most_bytes
        self._size = _FIRST_BYTES
        self._offered = 0
        self._has_turn = False

    def begin(self) -> int:
        """Returns how many bytes may be read now."""
        self._offered = self._size if self._has_turn or self._share.is_free else min(self._size, self._small_bytes)
        self._has_turn = False
        return self._offered

    def end(self, read: int, decrypted: int, seconds: float) -> bool:
        """Charges the decryption of so many bytes; returns whether they came in small records."""
        is_slow = seconds > _SECONDS + decrypted * _BYTE_SECONDS
        if is_slow:
            self._share.charge(seconds)
            self._size = self._small_bytes
        elif read == self._offered == self._size:
            self._size = min(2 * self._size, self._most_bytes)
        elif self._size > _FIRST_BYTES:
            self._size = _FIRST_BYTES
        return is_slow

    def take_turn(self) -> None:
        """Lets the next read have its whole window, since the share is the connection's now."""
        self._has_turn = True
