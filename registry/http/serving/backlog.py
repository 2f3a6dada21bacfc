"""What the connections of a process hold for requests that the application has not consumed, or that are not complete.

Beyond the limit, connections whose heads or pipelined requests take much are refused, those first whose heads have been
unfinished for longest; and bodies are not read further. A body is never a reason to refuse a request: what of it has
not been read stays with the client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

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
