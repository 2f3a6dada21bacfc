"""Cancels a request whose client has disconnected, so that it holds nothing while it waits for a webhook, for memory or
for others.

    with Interruption() as interruption:
        ...  # interruption.request() cancels this: the block raises ClientGone

A statement in progress is finished first: to break it off costs a cancel request or a new connection, far more than
what most statements take, and they have limits of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Any, Final

from registry.flowcontrol.time_slice import ClientGone

# The key of an ASGI scope: a function that takes what is to be called when the client disconnects, or None.
WHEN_GONE: Final = "registry.when_gone"

WhenGone = Callable[[Callable[[], None] | None], None]


class Interruption:
    """Within its `with` it is that of the current request, whose task it cancels as asyncio.timeout does, without its
    coroutines.

    Invariant: within the block, once requested, the task is cancelled or is about to be, or `_deferrals` is positive.
    """

    __slots__ = ("_cancelling", "_deferrals", "_is_cancelled", "_is_requested", "_soon", "_task", "_token")

    _token: Token[Interruption]

    def __init__(self) -> None:
        """Outside of its block it cancels nothing."""
        self._task: asyncio.Task[Any] | None = None
        self._soon: asyncio.Handle | None = None
        self._cancelling = self._deferrals = 0
        self._is_requested = self._is_cancelled = False

    def __enter__(self) -> Interruption:
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        self._token = _current.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        # Tasks that the request has started may go on.
        task, self._task = self._task, None
        _current.reset(self._token)
        del self._token  # it refers to the task's context
        if self._soon is None:
            return
        self._soon.cancel()
        self._soon = None
        assert task is not None
        # If others have cancelled the task as well, it is theirs.
        if self._is_cancelled and task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise ClientGone from error

    def request(self) -> None:
        self._is_requested = True
        self._expire()

    def defer(self) -> None:
        """Lets the task run until `allow` has been called as often."""
        self._deferrals += 1

    def allow(self) -> None:
        self._deferrals -= 1
        if self._is_requested:
            self._expire()

    def _expire(self) -> None:
        if self._task is not None and not self._deferrals and self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._is_cancelled = True
            self._task.cancel()


_NONE: Final = Interruption()
_current: ContextVar[Interruption] = ContextVar("interruption", default=_NONE)


def current_interruption() -> Interruption:
    """Returns the Interruption of the request; outside of requests one that cancels nothing."""
    return _current.get()
