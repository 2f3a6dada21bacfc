"""Lets a connection answer a request without its application.

An application that has answered a request may be able to answer further ones of the same connection at less cost. It
then stores a fast path in the connection, which every request has in its scope:

    scope[FAST_PATHS].fast_path = path      # scope.get(FAST_PATHS) is None if the server does not support fast paths

Each further GET is offered to the path before a task is started for it. A request that the path does not take, or gives
back later, is served by the application as if it had just arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from registry.http.serving.cycle import Cycle

# The key of the connection in the ASGI scope, if it supports fast paths.
FAST_PATHS: Final = "registry.fast_paths"


class FastPath(Protocol):
    def begin(self, cycle: Cycle, give_back: Callable[[], None]) -> bool:
        """Takes a request, or returns False. A request that was taken is either answered by `cycle.answer` or given
        back, once, in a later iteration of the event loop."""


class FastPaths(Protocol):
    """A connection. Its path belongs to it alone, so what it holds is freed with it.

    `tenant` is the one that its last request counted for, "" before the first: what the connections of one tenant send
    does not delay those of another.
    """

    fast_path: FastPath | None
    tenant: str

    def count_for(self, tenant: str) -> None:
        """Counts the connection for the tenant whose user's request has been authorized. Raises TooManyRequests if the
        tenant has too many connections: then this one ends with the answer."""
