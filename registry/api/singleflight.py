"""Deduplicates concurrent work: one task does it, the others wait for its result.

Named after Go's golang.org/x/sync/singleflight. Pure asyncio, of one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from typing import Any

from registry.api.errors import StatusError


async def singleflight(under_way: MutableMapping[Any, Any], key: Hashable, work: Callable[[], Awaitable[None]]) -> None:
    """Runs `work` once for all concurrent callers with this `key`. All of them raise its StatusError.

    `under_way` has the work in progress, by key. If the task that runs it is cancelled, a waiting one takes over.
    """
    mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    while (others := under_way.setdefault(key, mine)) is not mine:
        await asyncio.wait([others])
        if not others.cancelled():
            try:
                others.result()
            finally:
                del others  # its exception refers to this frame
            return
    try:
        await work()
        mine.set_result(None)
    except StatusError as error:
        mine.set_exception(error)
        mine.exception()  # perhaps no other caller waits for it
        raise
    finally:
        mine.cancel()  # without effect on what has been set
        del under_way[key], mine
