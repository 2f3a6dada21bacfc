"""Long work on the event loop in time slices, so that other requests are served in between.

A process answers on one thread: while it makes the rows of a long list it does nothing else. A loop over many objects
yields now and then:

    slices = TimeSlice.current()
    for row in rows:
        ...
        if slices.expired():
            await slices.yield_now()

All work for one request shares one TimeSlice. To yield is to wait until requests of other tenants have been served
(registry/flowcontrol/fair_queue.py); outside a request it is one iteration of the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final

# About what a small request takes from its bytes to its answer; an iteration of the loop costs a hundredth of it.
SLICE_SECONDS: Final = 0.0005
# While tenants share the process.
SHARED_SLICE_SECONDS: Final = 0.00025


# The key of an ASGI scope: a function that says whether the client has hung up.
IS_GONE: Final = "registry.is_gone"


class ClientGone(Exception):
    """The client hung up before its request was answered."""


class TimeSlice:
    """The first slice begins when it is made. `give_way` waits for others and returns the seconds of the next slice;
    `is_gone` says whether the client has hung up."""

    __slots__ = ("_end", "_give_way", "_is_gone")

    def __init__(
        self, give_way: Callable[[], Awaitable[float]] | None = None, is_gone: Callable[[], bool] | None = None
    ) -> None:
        self._end = time.perf_counter() + SLICE_SECONDS
        self._give_way = give_way
        self._is_gone = is_gone

    @staticmethod
    def current() -> TimeSlice:
        """That of the request which this task serves."""
        return _current.get() or TimeSlice()

    def begin(self) -> None:
        """Makes it the current one of this task."""
        _current.set(self)

    def expired(self) -> bool:
        return time.perf_counter() >= self._end

    async def yield_now(self) -> None:
        """Lets others go on; the next slice begins."""
        seconds = SLICE_SECONDS
        if self._give_way is not None:
            seconds = await self._give_way()
        else:
            await asyncio.sleep(0)
        self._end = time.perf_counter() + seconds

    async def yield_for_client(self) -> None:
        """Yields where nothing has been changed yet: raises ClientGone where the client has hung up."""
        await self.yield_now()
        self.raise_if_gone()

    def raise_if_gone(self) -> None:
        """Raises ClientGone where there is nobody to answer any more."""
        if self._is_gone is not None and self._is_gone():
            raise ClientGone


_current: ContextVar[TimeSlice | None] = ContextVar("slices", default=None)
