"""How much of a TLS connection is decrypted at a time.

A peer may put each byte into a record of its own. A record takes some microseconds, so what one read of a socket
returns may take tens of milliseconds, and that on hundreds of connections in one round of the event loop. TLS decrypts
until the buffer that it is given is full: the window is its size. It grows while it is filled at little cost. What it
costs beyond that is charged to a share of the event loop (registry/flowcontrol/loop_share.py); while that is used up,
windows are small, except for a connection whose turn it is.
"""

from __future__ import annotations

import time
from typing import Final

from registry.flowcontrol.loop_share import LoopShare

# At first: most requests and answers without a long body.
_FIRST_BYTES: Final = 4096
# While the share is used up, and after a read of small records.
_SMALL_BYTES: Final = 128
# What a read of long records takes at most: a hundredth of it for a byte, and so much for a call.
_SECONDS: Final = 1e-4
_BYTE_SECONDS: Final = 1e-7


class ReadWindow:
    """The window of one connection: `begin` before each read, and `end` after it."""

    __slots__ = ("_began", "_has_turn", "_most_bytes", "_offered", "_share", "_size")

    def __init__(self, share: LoopShare, most_bytes: int) -> None:
        self._share = share
        self._most_bytes = most_bytes
        self._size = _FIRST_BYTES
        self._offered = 0
        self._began = 0.0
        self._has_turn = False

    def begin(self) -> int:
        """Returns how many bytes may be decrypted now."""
        self._offered = self._size if self._has_turn or self._share.is_free else min(self._size, _SMALL_BYTES)
        self._has_turn = False
        # Not the time that passes: threads and programs that run meanwhile would make a fast read look slow.
        self._began = time.thread_time()
        return self._offered

    def end(self, count: int) -> bool:
        """Charges a read that has returned `count` bytes; returns whether they came in small records."""
        seconds = time.thread_time() - self._began
        is_slow = seconds > _SECONDS + count * _BYTE_SECONDS
        if is_slow:
            self._share.charge(seconds)
            self._size = _SMALL_BYTES
        elif count == self._offered == self._size:
            self._size = min(2 * self._size, self._most_bytes)
        elif self._size > _FIRST_BYTES:
            self._size = _FIRST_BYTES
        return is_slow

    def take_turn(self) -> None:
        """Lets the next read have its whole window, since the share is the connection's now."""
        self._has_turn = True
