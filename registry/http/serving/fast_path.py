"""Lets a connection answer a request without its application.

An application that has answered a request may know how to answer the next one of the same connection at less cost. It
leaves that knowledge in the connection, where every request finds it:

    scope[FAST_PATHS].fast_path = path      # scope.get(FAST_PATHS) is None where the server has no such thing

Each further GET is offered to the path before a task is started for it. What the path does not take, or gives back
later, is served by the application as if it had just arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from registry.http.serving.cycle import Cycle

# The key of the ASGI scope under which a connection is found that takes a path.
FAST_PATHS: Final = "registry.fast_paths"


class FastPath(Protocol):
    def begin(self, cycle: Cycle, give_back: Callable[[], None]) -> bool:
        """Takes a request, or returns False. A request that was taken is either answered by `cycle.answer` or given
        back, once, in a later iteration of the event loop."""


class FastPaths(Protocol):
    """A connection. Its path belongs to it alone, so what it holds is freed with it."""

    fast_path: FastPath | None
