"""Time slices for long work on the event loop, so that other requests are served in between.

A process serves requests on one thread: while it builds the rows of a long list it does nothing else. A loop over many
objects yields now and then:

    slices = TimeSlice.current()
    for row in rows:
        ...
        if slices.expired():
            await slices.yield_now()

All work for one request shares one TimeSlice. Yielding waits until requests of other tenants have been served
(registry/flowcontrol/fair_queue.py); outside a request it takes one iteration of the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final

# About what a small request takes in total; an iteration of the loop costs a hundredth of it.
SLICE_SECONDS: Final = 0.0005
# While several tenants share the process.
SHARED_SLICE_SECONDS: Final = 0.00025


# The key of an ASGI scope: a function that returns whether the client has hung up.
IS_GONE: Final = "registry.is_gone"


class ClientGone(Exception):
    """The client hung up before its request was answered."""


class TimeSlice:
    """The first slice begins at construction. `give_way` waits for others and returns the seconds of the next slice;
    `is_gone` returns whether the client has hung up."""

    __slots__ = ("_end", "_give_way", "_is_gone")

    def __init__(
        self, give_way: Callable[[], Awaitable[float]] | None = None, is_gone: Callable[[], bool] | None = None
    ) -> None:
        self._end = time.perf_counter() + SLICE_SECONDS
        self._give_way = give_way
        self._is_gone = is_gone

    @staticmethod
    def current() -> TimeSlice:
        """Returns the TimeSlice of the current task's request, or a new one."""
        return _current.get() or TimeSlice()

    def begin(self) -> None:
        """Makes it the current one of this task."""
        _current.set(self)

    def expired(self) -> bool:
        return time.perf_counter() >= self._end

    def begin_next(self) -> None:
        """Begins the next slice, after a wait at the end of which others have had their turn."""
        self._end = time.perf_counter() + SHARED_SLICE_SECONDS

    async def yield_now(self) -> None:
        """Lets other requests run; then the next slice begins."""
        seconds = SLICE_SECONDS
        if self._give_way is not None:
            seconds = await self._give_way()
        else:
            await asyncio.sleep(0)
        self._end = time.perf_counter() + seconds

    async def yield_for_client(self) -> None:
        """Yields before anything has been changed; raises ClientGone if the client has hung up."""
        await self.yield_now()
        self.raise_if_gone()

    def raise_if_gone(self) -> None:
        """Raises ClientGone if the client has hung up."""
        if self._is_gone is not None and self._is_gone():
            raise ClientGone


_current: ContextVar[TimeSlice | None] = ContextVar("slices", default=None)
