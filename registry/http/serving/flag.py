"""An event that takes a tenth of an asyncio.Event: each connection has one, and each request.

The queue of an asyncio.Event takes 600 bytes even while nothing waits for it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.flow_control import FlowControl

_NOBODY: Final[tuple[asyncio.Future[None], ...]] = ()


class Flag:
    """`wait` returns once it has been set, even if it is cleared again meanwhile."""

    __slots__ = ("_is_set", "_waiting")

    def __init__(self, *, is_set: bool = False) -> None:
        self._is_set = is_set
        self._waiting = _NOBODY

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        if self._waiting:
            for waiter in self._waiting:
                if not waiter.done():
                    waiter.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    async def wait(self) -> None:
        if not self._is_set:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting += (waiter,)
            try:
                await waiter
            finally:
                self._waiting = tuple([other for other in self._waiting if other is not waiter])


class WriteFlow(FlowControl):
    """uvicorn's control of one connection's reads and writes, with a Flag."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.read_paused = self.write_paused = False
        self._is_writable_event = Flag(is_set=True)  # type: ignore[assignment]
