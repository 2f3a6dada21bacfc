"""Background tasks of a process: run one for the length of a block, and end those that are running."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any


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
