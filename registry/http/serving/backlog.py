"""What a connection holds of a body, and all of a process for requests that are not complete or not yet consumed.

A body has limits of framing and time. Beyond the limit of the process, connections whose heads or pipelined requests
take much are refused, those first whose heads have been unfinished for longest; and bodies are not read further. A body
is never a reason to refuse a request: what of it has not been read stays with the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from uvicorn.protocols.http.flow_control import FlowControl

from registry.http.serving.heads import HeadRefused

LIMIT_BYTES = 64 * 1024 * 1024
# A connection that holds no more, bodies apart, is never refused.
SMALL_BYTES: Final = 16 * 1024
# So much is read of a body before the application asks for it, and a piece of what has been received (PIECE_BYTES): a
# request that waits for its turn holds little, so that waiting requests of one tenant leave room for those of others.
UNASKED_BODY_BYTES: Final = 4 * 1024


class Backlog:
    def __init__(self) -> None:
        self.bytes = 0
        # How to refuse the connections that have received much of a head which is not complete, the oldest first.
        self._unfinished_heads: dict[Callable[[], None], None] = {}

    @property
    def is_full(self) -> bool:
        return self.bytes > LIMIT_BYTES

    def begin_head(self, refuse: Callable[[], None]) -> None:
        """Notes a connection with a large unfinished head, unless it is noted."""
        self._unfinished_heads[refuse] = None

    def end_head(self, refuse: Callable[[], None]) -> None:
        """The head is complete, or its connection is lost."""
        self._unfinished_heads.pop(refuse, None)

    def refuse_oldest_head(self) -> bool:
        """Refuses the large head that has been unfinished for longest. Returns False if there is none.

        One that comes as fast as it can is complete before it is the oldest.
        """
        refuse = next(iter(self._unfinished_heads), None)
        if refuse is not None:
            refuse()
        return refuse is not None


# All of a process.
BACKLOG: Final = Backlog()


# For a body, which has at most 3 MiB: kube-apiserver allows a minute for a whole request.
BODY_SECONDS = 60.0
# A body that sends less than this in such a time is stalled: others need the memory that it holds.
BODY_STALL_SECONDS = 15.0
BODY_STALL_BYTES = 1024
# By how much the framing of a chunked body may exceed what such a body needs (net/http/internal/chunked.go).
EXCESS_LIMIT_BYTES = 16 * 1024
CHUNK_ALLOWANCE_BYTES = 18
# Each chunk of a body takes some microseconds on the event loop. So many are free; beyond that they must have this many
# bytes on average. Clients that stream a body send chunks of kilobytes.
FREE_CHUNKS = 4096
SMALL_CHUNK_BYTES = 64
# So much is dropped of a body that is not read, as its answer has been sent; then the connection is closed.
UNREAD_LIMIT_BYTES = 4 * 1024 * 1024


class ReceivedBody:
    """What has been received of a body, from its first byte or chunk on.

    Invariant: `timer` is armed while the body is incomplete that did not come with its head.
    """

    size = 0
    # What came after the answer.
    unread_bytes = 0
    _chunks = 0
    _excess_bytes = 0
    # The size and the number of chunks at the end of the data before.
    _last_size = 0
    _last_chunks = 0
    timer: asyncio.TimerHandle | None = None
    # The size when the timer was armed, and the seconds that remain.
    _timed_size = 0
    _seconds = 0.0

    def count_chunk(self) -> None:
        """Raises HeadRefused if there are too many for the size."""
        self._chunks += 1
        if self._chunks > FREE_CHUNKS + self.size // SMALL_CHUNK_BYTES:
            raise HeadRefused(400, "chunked encoding has too many chunks")

    def end_data(self, count: int) -> bool:
        """Returns False if framing has taken too much of the `count` bytes of data that have been parsed: 0 for data
        in which the body began."""
        if count:
            needed = 3 * (self.size - self._last_size) + CHUNK_ALLOWANCE_BYTES * (self._chunks - self._last_chunks)
            self._excess_bytes = max(0, self._excess_bytes + count - needed)
        self._last_size, self._last_chunks = self.size, self._chunks
        return self._excess_bytes <= EXCESS_LIMIT_BYTES

    def limit_time(self, flow: FlowControl, when_late: Callable[[], object]) -> None:
        """Calls `when_late` if the body takes too long or stalls, unless that has been arranged. What the server itself
        does not read is not late."""
        if self.timer is None:
            self._seconds = BODY_SECONDS
            self._arm(flow, when_late)

    def end(self) -> None:
        """Ends the limit of its time."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _arm(self, flow: FlowControl, when_late: Callable[[], object]) -> None:
        self._timed_size = self.size
        seconds = min(BODY_STALL_SECONDS, self._seconds)
        self.timer = asyncio.get_running_loop().call_later(seconds, self._check, seconds, flow, when_late)

    def _check(self, seconds: float, flow: FlowControl, when_late: Callable[[], object]) -> None:
        """Runs every BODY_STALL_SECONDS; `seconds` is the time since the last check."""
        self.timer = None
        self._seconds = BODY_SECONDS if flow.read_paused else self._seconds - seconds
        if flow.read_paused or (self._seconds > 0 and self.size - self._timed_size >= BODY_STALL_BYTES):
            self._arm(flow, when_late)
        else:
            when_late()
