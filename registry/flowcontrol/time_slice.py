"""Long work on the event loop in slices, so that others get their turn in between.

A process answers on one thread: while it makes the rows of a long list it does nothing else. Whoever loops over many
objects rests now and then:

    slices = Slices.current()
    for row in rows:
        ...
        if slices.over():
            await slices.rest()

All that is done for one request are slices of one work. Its rest lasts until others have had their turn
(registry/flowcontrol/fair_queue.py); elsewhere a rest is one round of the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final

# About what a small request takes from its bytes to its answer; going round the loop once costs a hundredth of it.
SLICE_SECONDS: Final = 0.0005
# While tenants share the process.
SHARED_SLICE_SECONDS: Final = 0.00025


# The key of an ASGI scope: a function that says whether the client has hung up.
IS_GONE: Final = "registry.is_gone"


class ClientGone(Exception):
    """The client hung up before its request was answered."""


class TimeSlice:
    """Begins with the first slice. `rest` lets others go on, and gives the seconds of the next slice; `is_gone` says
    whether the client has hung up."""

    __slots__ = ("_end", "_is_gone", "_rest")

    def __init__(
        self, rest: Callable[[], Awaitable[float]] | None = None, is_gone: Callable[[], bool] | None = None
    ) -> None:
        self._end = time.perf_counter() + SLICE_SECONDS
        self._rest = rest
        self._is_gone = is_gone

    @staticmethod
    def current() -> TimeSlice:
        """Those of the request that this task serves."""
        return _current.get() or TimeSlice()

    def begin(self) -> None:
        """From here on they are the current ones of this task."""
        _current.set(self)

    def expired(self) -> bool:
        return time.perf_counter() >= self._end

    async def yield_now(self) -> None:
        """Lets others go on; the next slice begins."""
        seconds = SLICE_SECONDS
        if self._rest is not None:
            seconds = await self._rest()
        else:
            await asyncio.sleep(0)
        self._end = time.perf_counter() + seconds

    async def rest_for_client(self) -> None:
        """`rest` where nothing has been changed yet: raises ClientGone where there is nobody to answer any more."""
        await self.yield_now()
        if self._is_gone is not None and self._is_gone():
            raise ClientGone


_current: ContextVar[TimeSlice | None] = ContextVar("slices", default=None)
