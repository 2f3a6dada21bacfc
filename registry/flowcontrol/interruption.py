"""Cancels a request whose client has disconnected, so that it holds nothing while it waits for a webhook, for memory or
for others.

    async with asyncio.timeout(None) as timer:
        with Interruption(timer) as interruption:
            ...  # interruption.request() cancels this, which ends as at a deadline

A statement in progress is finished first: to break it off costs a cancel request or a new connection, far more than
what most statements take, and they have limits of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Final

# The key of an ASGI scope: a function that takes what is to be called when the client disconnects, or None.
WHEN_GONE: Final = "registry.when_gone"

WhenGone = Callable[[Callable[[], None] | None], None]


class Interruption:
    """Within its `with`, which is in the timer's block, it is that of the current request.

    Invariant: once requested, the timer has expired or `_deferrals` is positive.
    """

    __slots__ = ("_deferrals", "_timer", "_token", "is_requested")

    _token: Token[Interruption]

    def __init__(self, timer: asyncio.Timeout | None) -> None:
        """Without a timer nothing is ever cancelled."""
        self._timer = timer
        self._deferrals = 0
        self.is_requested = False

    def __enter__(self) -> Interruption:
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        # Tasks that the request has started may go on.
        self._timer = None
        _current.reset(self._token)
        del self._token  # it refers to the task's context

    def request(self) -> None:
        self.is_requested = True
        self._expire()

    def defer(self) -> None:
        """Lets the task run until `allow` has been called as often."""
        self._deferrals += 1

    def allow(self) -> None:
        self._deferrals -= 1
        if self.is_requested:
            self._expire()

    def _expire(self) -> None:
        if self._timer is not None and not self._deferrals and not self._timer.expired():
            self._timer.reschedule(0)


_NONE: Final = Interruption(None)
_current: ContextVar[Interruption] = ContextVar("interruption", default=_NONE)


def current_interruption() -> Interruption:
    """Returns the Interruption of the request; outside of requests one that cancels nothing."""
    return _current.get()
