"""Single flight: concurrent callers of the same work share one execution."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from registry.api.errors import StatusError, bad_request
from registry.api.singleflight import singleflight


class Work:
    """What is to be done: it waits to be allowed, and counts how often it has been begun."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> None:
        self.begun += 1
        await self.may_end.wait()
        if self.error is not None:
            raise self.error


async def all_wait() -> None:
    """Every task has come as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def started(
    count: int, under_way: dict[Any, Any], work: Callable[[], Awaitable[None]]
) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(singleflight(under_way, "key", work)) for _ in range(count)]
    await all_wait()
    return tasks


async def test_concurrent_calls_share_one_execution() -> None:
    work, under_way = Work(), dict[Any, Any]()
    tasks = await started(3, under_way, work)
    assert (work.begun, len(under_way)) == (1, 1)
    work.may_end.set()
    await asyncio.gather(*tasks)
    assert (work.begun, under_way) == (1, {})
    await singleflight(under_way, "key", work)
    assert work.begun == 2


async def test_other_work_does_not_wait_for_it() -> None:
    work, under_way = Work(), dict[Any, Any]()
    [task] = await started(1, under_way, work)
    done = Work()
    done.may_end.set()
    await singleflight(under_way, "another", done)
    assert (done.begun, task.done()) == (1, False)
    work.may_end.set()
    await task


async def test_all_waiters_get_the_failure() -> None:
    work, under_way = Work(), dict[Any, Any]()
    work.error = bad_request("no")
    tasks = await started(3, under_way, work)
    work.may_end.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(r) for r in results if isinstance(r, StatusError)] == [str(work.error)] * 3
    assert (work.begun, under_way) == (1, {})


async def test_another_takes_over_from_one_that_is_cancelled() -> None:
    work, under_way = Work(), dict[Any, Any]()
    first, *others = await started(3, under_way, work)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await all_wait()
    work.may_end.set()
    await asyncio.gather(*others)
    assert (work.begun, under_way) == (2, {})


async def test_one_that_waits_may_be_cancelled() -> None:
    work, under_way = Work(), dict[Any, Any]()
    first, second = await started(2, under_way, work)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    work.may_end.set()
    await first
    assert work.begun == 1


async def test_an_unexpected_error_is_raised_in_its_own_caller_only() -> None:
    """The one that runs into it gets the error; the others try for themselves."""
    work, under_way = Work(), dict[Any, Any]()
    work.error = KeyError("x")
    tasks = await started(2, under_way, work)
    work.may_end.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(r) for r in results] == [KeyError, KeyError]
    assert (work.begun, under_way) == (2, {})
