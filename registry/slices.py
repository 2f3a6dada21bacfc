"""Long work on the event loop in slices, so that others get their turn in between.

A process answers on one thread: while it makes the rows of a long list it does nothing else. Whoever loops over many
objects rests now and then:

    slices = Slices()
    for row in rows:
        ...
        if slices.over():
            await slices.rest()
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

# About what a small request takes from its bytes to its answer; going round the loop once costs a hundredth of it.
SLICE_SECONDS: Final = 0.0005


class Slices:
    """Begins with the first slice."""

    __slots__ = ("_end",)

    def __init__(self) -> None:
        self._end = time.perf_counter() + SLICE_SECONDS

    def over(self) -> bool:
        return time.perf_counter() >= self._end

    async def rest(self) -> None:
        """Lets all others go on who can; the next slice begins."""
        await asyncio.sleep(0)
        self._end = time.perf_counter() + SLICE_SECONDS
