"""Deduplicates concurrent work: one task does it, the others wait for its result.

Named after Go's golang.org/x/sync/singleflight. Pure asyncio, of one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from typing import Any, TypeVar

from registry.api.errors import StatusError
from registry.flowcontrol.time_slice import ClientGone, TimeSlice

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


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


async def share(under_way: MutableMapping[K, asyncio.Future[T]], key: K, begin: Callable[[], Awaitable[T]]) -> T:
    """Returns the result of what `begin` starts, a task that all concurrent callers with this `key` wait for.

    It goes on if callers are cancelled. If it ends because the client of the request that began it is gone, another
    caller begins it again.
    """

    def end(done: asyncio.Future[T]) -> None:
        del under_way[key]
        if not done.cancelled():
            done.exception()  # perhaps nobody waits for it any more

    while True:
        task = under_way.get(key)
        if task is None:
            task = under_way[key] = asyncio.ensure_future(begin())
            task.add_done_callback(end)
        try:
            return await asyncio.shield(task)
        except ClientGone:
            TimeSlice.current().raise_if_gone()
        finally:
            del task  # its exception refers to this frame
