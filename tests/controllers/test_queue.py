from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable

import pytest

from registry.api.errors import internal_error
from registry.controllers.queue import Requeue, WorkQueue, logger
from registry.logs import RateLimited
from registry.store.database import Database
from registry.store.errors import TenantNotFound, Unavailable
from tests.api.client import eventually


def queue(
    handle: Callable[[str], Awaitable[None]],
    *,
    workers: int = 1,
    limit: int = 20,
    away: str | None = None,
    slow_seconds: float = 3600.0,
) -> WorkQueue[str]:
    """The flow of an item is what precedes a slash."""
    database = Database("")
    database.away = away
    return WorkQueue(
        "the tests",
        handle,
        database,
        flow=lambda work: work.rpartition("/")[0],
        workers=workers,
        max_retry_seconds=0.01,
        limit=limit,
        slow_seconds=slow_seconds,
    )


async def until(condition: Callable[[], bool]) -> None:
    async def look() -> bool:
        return condition()

    await eventually(look)


async def test_items_enqueued_repeatedly_are_handled_once_more() -> None:
    seen: list[str] = []
    hold = asyncio.Event()

    async def handle(work: str) -> None:
        seen.append(work)
        await hold.wait()

    async with queue(handle) as waiting:
        waiting.enqueue("a")
        await until(lambda: seen == ["a"])
        for _ in range(5):
            waiting.enqueue("a")
        hold.set()
        await until(lambda: len(waiting) == 0)
    assert seen == ["a", "a"]


async def test_a_retry_that_has_a_limit_does_not_wait_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace is left when an unavailable server has had its time, not at the next of delays that grow."""
    monkeypatch.setattr("registry.controllers.queue.FIRST_RETRY_SECONDS", 3600.0)
    limits = [0.02, 0.0, -1.0]

    async def handle(work: str) -> None:
        if limits:
            raise Requeue(limits.pop())

    async with queue(handle) as waiting:
        waiting.enqueue("a")
        await until(lambda: len(waiting) == 0)


async def test_failed_and_unfinished_items_are_retried() -> None:
    outcomes: list[Exception | None] = [Requeue(), Unavailable("away"), RuntimeError("a fault"), None]

    async def handle(work: str) -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    async with queue(handle) as waiting:
        waiting.enqueue("a")
        await until(lambda: len(waiting) == 0)
    assert outcomes == []


@pytest.mark.parametrize(
    "away, lines",
    [
        pytest.param(None, ["the tests: 0 is tried again: the database is read-only"], id="PostgreSQL answers"),
        pytest.param("connection refused", [], id="PostgreSQL is away, which is logged elsewhere"),
    ],
)
async def test_many_items_that_fail_for_one_reason_log_one_line(
    away: str | None, lines: list[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.controllers.queue._store_errors", RateLimited(logger))
    failed: set[str] = set()

    async def handle(work: str) -> None:
        if work not in failed:
            failed.add(work)
            raise Unavailable("the database is read-only")

    async with queue(handle, away=away) as waiting:
        for item in range(5):
            waiting.enqueue(str(item))
        await until(lambda: len(waiting) == 0)
    assert [record.getMessage() for record in caplog.records] == lines


async def test_items_that_a_tenant_makes_fail_log_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A hundred thousand objects, whose conversion fails with a long text, are tried again every half minute."""
    failed: set[str] = set()

    async def handle(work: str) -> None:
        if work not in failed:
            failed.add(work)
            raise internal_error("its webhook is away")

    async with queue(handle) as waiting:
        for flow in "ab":
            for item in range(5):
                waiting.enqueue(f"{flow}/{item}")
        await until(lambda: len(waiting) == 0)
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if line.startswith("the tests: a/")] == lines[:1]
    assert [line for line in lines if line.startswith("the tests: b/")] == lines[1:]


async def test_items_of_a_deleted_tenant_are_dropped() -> None:
    async def handle(work: str) -> None:
        raise TenantNotFound("gone")

    async with queue(handle) as waiting:
        waiting.enqueue("a")
        await until(lambda: len(waiting) == 0)


async def test_the_oldest_pending_item_is_known() -> None:
    free = asyncio.Event()

    async def handle(work: str) -> None:
        if work == "a" and not free.is_set():
            raise Requeue

    async with queue(handle) as waiting:
        assert waiting.oldest() == []
        before = asyncio.get_running_loop().time()
        waiting.enqueue("a")
        [(work, since)] = waiting.oldest()
        assert work == "a"
        assert since >= before
        waiting.enqueue("b")
        await until(lambda: len(waiting) == 1)
        waiting.enqueue("other/b")
        assert [work for work, _ in waiting.oldest()] == ["a", "other/b"]  # of each flow
        await until(lambda: len(waiting) == 1)
        assert waiting.oldest() == [("a", since)]
        free.set()
        await until(lambda: waiting.oldest() == [])


async def test_without_room_enqueue_refuses_and_put_waits() -> None:
    free = asyncio.Event()
    seen: list[str] = []

    async def handle(work: str) -> None:
        await free.wait()
        seen.append(work)

    async with queue(handle, limit=8) as waiting:
        assert [waiting.enqueue(work) for work in "abcd"] == [True] * 4
        assert waiting.enqueue("e") is False
        assert waiting.enqueue("a") is True
        put = asyncio.create_task(waiting.put("f"))
        await asyncio.sleep(0)
        assert not put.done()
        free.set()
        await put
        await until(lambda: len(waiting) == 0)
    assert set(seen) == set("abcdf")


async def test_a_delay_starts_again_with_each_call_and_ends_with_an_enqueue() -> None:
    seen: list[str] = []

    async def handle(work: str) -> None:
        seen.append(work)

    async with queue(handle) as waiting:
        waiting.debounce("late", 60.0)
        waiting.debounce("late", 60.0)
        waiting.debounce("soon", 0.01)
        await until(lambda: seen == ["soon"])
        waiting.enqueue("late")
        await until(lambda: seen == ["soon", "late"])
        assert len(waiting) == 0


async def test_a_burst_is_debounced_until_its_flow_is_quiet() -> None:
    seen: list[str] = []

    async def handle(work: str) -> None:
        seen.append(work)

    async with queue(handle, limit=100) as waiting:
        for number in range(5):
            waiting.debounce_flow(f"busy/{number}", 3600, 3600)
        waiting.debounce_flow("busy/0", 3600, 3600)
        waiting.debounce_flow("calm/0", 0, 3600)
        await until(lambda: seen == ["calm/0"])
        assert len(waiting) == 5
        # Its end is that of the last call.
        waiting.debounce_flow("busy/5", 0, 3600)
        await until(lambda: len(waiting) == 0)
    assert seen == ["calm/0", *(f"busy/{number}" for number in range(6))]


async def test_a_large_burst_is_debounced_longer() -> None:
    seen: list[str] = []

    async def handle(work: str) -> None:
        seen.append(work)

    async with queue(handle) as waiting:
        waiting.debounce_flow("busy/0", 0, 3600, each=3600)
        waiting.debounce_flow("busy/1", 0, 3600, each=3600)
        waiting.debounce_flow("calm/0", 0, 3600, each=3600)
        await until(lambda: seen == ["calm/0"])
        assert len(waiting) == 2
        waiting.debounce_flow("busy/2", 0, 3600)
        await until(lambda: len(waiting) == 0)
    assert seen == ["calm/0", "busy/0", "busy/1", "busy/2"]


async def test_a_burst_is_debounced_for_a_bounded_time() -> None:
    seen: list[str] = []

    async def handle(work: str) -> None:
        seen.append(work)

    async with queue(handle) as waiting:
        waiting.debounce_flow("busy/0", 3600, 0)
        waiting.debounce_flow("busy/1", 3600, 3600)
        await until(lambda: seen == ["busy/0", "busy/1"])
        waiting.debounce_flow("busy/0", 3600, 3600)
        waiting.enqueue("busy/0")
        await until(lambda: len(waiting) == 0)
    assert seen == ["busy/0", "busy/1", "busy/0"]


async def test_debounced_items_take_room_and_are_handled_once_more_if_they_are_handled() -> None:
    hold = asyncio.Event()
    seen: list[str] = []

    async def handle(work: str) -> None:
        seen.append(work)
        await hold.wait()

    async with queue(handle, limit=4) as waiting:
        waiting.enqueue("a/0")
        await until(lambda: seen == ["a/0"])
        waiting.debounce_flow("a/0", 3600, 3600)
        waiting.debounce_flow("a/1", 0, 3600)
        for number in range(2, 9):
            waiting.debounce_flow(f"a/{number}", 3600, 3600)
        assert len(waiting) == 2
        hold.set()
        await until(lambda: len(waiting) == 0)
    assert sorted(seen) == ["a/0", "a/0", "a/1"]


async def test_a_flow_leaves_workers_and_room_to_others() -> None:
    """A tenant whose items never end, and many more of them than fit, delays its own only."""
    seen: list[str] = []
    hold = asyncio.Event()

    async def handle(work: str) -> None:
        if work.startswith("bad/"):
            await hold.wait()
        else:
            seen.append(work)

    async with queue(handle, workers=4, limit=40) as waiting:
        accepted = [waiting.enqueue(f"bad/{i}") for i in range(100)]
        assert accepted.count(True) == 20
        put = asyncio.create_task(waiting.put("bad/more"))
        for i in range(10):
            assert waiting.enqueue(f"good/{i}")
        await until(lambda: len(seen) == 10)
        await waiting.put("good/more")
        await until(lambda: len(seen) == 11)
        assert not put.done()
        hold.set()
        await put
        await until(lambda: len(waiting) == 0)


async def test_flows_are_served_round_robin() -> None:
    seen: list[str] = []
    hold = asyncio.Event()

    async def handle(work: str) -> None:
        await hold.wait()
        seen.append(work)

    waiting = queue(handle)
    for work in ("a/1", "a/2", "a/3", "b/1", "b/2", "c/1"):
        waiting.enqueue(work)
    async with waiting:
        hold.set()
        await until(lambda: len(waiting) == 0)
    assert seen == ["a/1", "b/1", "c/1", "a/2", "b/2", "a/3"]


async def test_a_flow_has_half_of_the_workers() -> None:
    busy: set[str] = set()
    most = 0
    hold = asyncio.Event()

    async def handle(work: str) -> None:
        nonlocal most
        busy.add(work)
        most = max(most, len(busy))
        await hold.wait()
        busy.remove(work)

    async with queue(handle, workers=8) as waiting:
        for i in range(8):
            waiting.enqueue(f"a/{i}")
        await until(lambda: len(busy) == 4)
        waiting.enqueue("b/1")
        await until(lambda: "b/1" in busy)
        hold.set()
        await until(lambda: len(waiting) == 0)
    assert most == 5


async def test_flows_in_concert_leave_workers_to_others() -> None:
    """Items that never end, of more flows than there are workers."""
    seen: list[str] = []
    in_progress: set[str] = set()
    hold = asyncio.Event()

    async def handle(work: str) -> None:
        in_progress.add(work)
        if not work.startswith("good/"):
            await hold.wait()
        seen.append(work)
        in_progress.remove(work)

    async with queue(handle, workers=8, limit=10_000, slow_seconds=0.01) as waiting:
        for flow in range(20):
            for item in range(20):
                waiting.enqueue(f"bad{flow}/{item}")
        for item in range(20):
            waiting.enqueue(f"good/{item}")
        await until(lambda: len(seen) == 20)
        assert all(work.startswith("good/") for work in seen)
        # None has more in progress than one has alone.
        await until(lambda: all(sum(work.startswith(f"bad{i}/") for work in in_progress) == 4 for i in range(20)))
        hold.set()
        await until(lambda: len(waiting) == 0)
    assert len(seen) == 420


async def test_a_flow_does_not_wait_for_the_turns_of_slow_ones() -> None:
    """Each of their items has a worker for as long as `slow_seconds`, and they have many."""
    begun: list[str] = []
    hold = asyncio.Event()

    async def handle(work: str) -> None:
        begun.append(work)
        if not work.startswith("good"):
            await hold.wait()

    async with queue(handle, workers=4, limit=10_000, slow_seconds=0.1) as waiting:
        for item in range(4):
            for flow in range(20):
                waiting.enqueue(f"bad{flow}/{item}")
        await until(lambda: len(begun) >= 24)  # each has one in progress, and others wait
        before = len(begun)
        for flow in range(3):
            waiting.enqueue(f"good{flow}/a")
        await until(lambda: sum(work.startswith("good") for work in begun) == 3)
        assert {work.partition("/")[0][:4] for work in begun[before : before + 3]} == {"good"}
        hold.set()
        await until(lambda: len(waiting) == 0)


async def test_items_without_workers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.controllers.queue._SLOW", 5)
    in_progress: set[str] = set()
    seen: set[str] = set()
    most = 0
    hold = asyncio.Event()

    async def handle(work: str) -> None:
        nonlocal most
        seen.add(work)
        in_progress.add(work)
        most = max(most, len(in_progress))
        try:
            if not work.startswith("good/"):
                await hold.wait()
        finally:
            in_progress.remove(work)

    async with queue(handle, workers=4, limit=10_000, slow_seconds=0.01) as waiting:
        for flow in range(20):
            for item in range(20):
                waiting.enqueue(f"{flow}/{item}")
        await until(lambda: len(seen) > 50)  # all but the newest are interrupted
        assert most <= 10
        # An item of another flow is handled meanwhile, though there are more flows than have room.
        waiting.enqueue("good/1")
        await until(lambda: "good/1" in seen)
        hold.set()
        await until(lambda: len(waiting) == 0)
    assert len(seen) == 401


async def test_an_interrupted_item_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes room for another, of a flow with fewer slow items, and it is the oldest of its flow."""
    monkeypatch.setattr("registry.controllers.queue._SLOW", 3)
    interrupted: list[str] = []
    hold = asyncio.Event()
    seen: set[str] = set()

    async def handle(work: str) -> None:
        try:
            await hold.wait()
        except asyncio.CancelledError:
            interrupted.append(work)
            raise
        seen.add(work)

    async with queue(handle, workers=8, slow_seconds=0.05) as waiting:
        waiting.enqueue("good/1")
        for item in range(2):
            waiting.enqueue(f"bad/{item}")
        await until(lambda: waiting._backlog._slow_count == 3)
        waiting.enqueue("another/1")
        await until(lambda: bool(interrupted))
        assert interrupted == ["bad/0"]
        hold.set()
        await until(lambda: len(waiting) == 0)
    assert seen == {"good/1", "bad/0", "bad/1", "another/1"}


async def test_a_slow_item_is_handled_again() -> None:
    """It has left its worker, fails, and is enqueued again while it is in progress."""
    seen: list[str] = []
    hold = asyncio.Event()

    async def handle(work: str) -> None:
        seen.append(work)
        if work == "slow/1":
            await hold.wait()
            hold.clear()
            if seen.count(work) == 1:
                raise Requeue

    async with queue(handle, slow_seconds=0.01) as waiting:
        waiting.enqueue("slow/1")
        waiting.enqueue("fast/1")
        await until(lambda: "fast/1" in seen)
        hold.set()
        await until(lambda: seen.count("slow/1") == 2)
        waiting.enqueue("slow/1")
        hold.set()
        await until(lambda: seen.count("slow/1") == 3)
        hold.set()
        await until(lambda: len(waiting) == 0)
    assert seen.count("slow/1") == 3


async def test_items_are_not_handled_within_what_enqueues_them() -> None:
    owner: contextvars.ContextVar[str] = contextvars.ContextVar("owner", default="nobody")
    seen: list[str] = []

    async def handle(work: str) -> None:
        seen.append(owner.get())
        owner.set(work)

    async with queue(handle) as waiting:
        owner.set("a request")
        waiting.enqueue("a")
        await until(lambda: len(waiting) == 0)
        waiting.enqueue("b")
        await until(lambda: len(waiting) == 0)
    assert seen == ["nobody", "nobody"]
