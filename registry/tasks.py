"""Tasks: run one in the background for the length of a block, end those that are running, and work side by side.

An exception refers to the frames that it has passed through, and so to their variables. A frame that keeps the
exception in a variable, or in a task that it refers to, is a reference cycle, which keeps requests and their bodies
until the garbage collector searches all of the process. So what is raised here is in no variable any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, TypeVar, cast

T = TypeVar("T")


async def cancel(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancels tasks, and returns when they have ended, with or without an error. None is a task never started."""
    started = [task for task in tasks if task is not None]
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Runs `work` as a task that is cancelled when the block ends."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        await cancel(task)


async def gather_all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Runs all of `work` side by side, to its end. Returns the results, or raises the first failure in their order."""
    results = await asyncio.gather(*work, return_exceptions=True)
    _raise_first(results)
    return cast(list[T], results)


class BoundedTasks:
    """Runs work side by side: `most` at a time, whose sizes are `most_size` in all."""

    def __init__(self, most: int, most_size: float = math.inf) -> None:
        self._most = most
        self._most_size = most_size
        self._sizes: dict[asyncio.Task[None], int] = {}
        self._failures: list[BaseException | None] = []

    async def start(self, work: Coroutine[Any, Any, None], size: int = 0) -> None:
        """Starts `work` when there is room."""
        while self._sizes and (len(self._sizes) >= self._most or sum(self._sizes.values()) + size > self._most_size):
            done, _ = await asyncio.wait(self._sizes, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                del self._sizes[task]
                if not self._failures and task.exception() is not None:
                    self._failures.append(task.exception())
        self._sizes[asyncio.create_task(work)] = size

    async def finish(self) -> None:
        """Waits for all of it. Raises the first failure."""
        self._failures += await asyncio.gather(*self._sizes, return_exceptions=True)
        self._sizes.clear()
        _raise_first(self._failures)

    async def cancel(self) -> None:
        await cancel(*self._sizes)


def _raise_first(results: list[Any]) -> None:
    failure = next((result for result in results if isinstance(result, BaseException)), None)
    if failure is None:
        return
    results.clear()
    try:
        raise failure
    finally:
        del failure
