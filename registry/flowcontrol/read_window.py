"""How much of a TLS connection is read and decrypted at a time.

A peer may put each byte into a record of its own. A record takes some microseconds, so what one read of a socket
returns may take tens of milliseconds, and that on hundreds of connections in one iteration of the event loop. A window
is the size of a read: of the socket where we decrypt ourselves, of decrypted data where the event loop does, which
decrypts until the buffer that it is given is full. It grows while it is filled at little cost. What it costs beyond
that is charged to a share of the event loop (registry/flowcontrol/loop_share.py); while that is used up, windows are
small, except for a connection whose turn it is.
"""

from __future__ import annotations

from typing import Final

from registry.flowcontrol.loop_share import LoopShare

# At first: most requests and answers without a long body.
_FIRST_BYTES: Final = 4096
# What a read of long records takes at most: a hundredth of it for a byte, and so much for a call.
_SECONDS: Final = 1e-4
_BYTE_SECONDS: Final = 1e-7


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
