"""What takes too long is stopped, wherever it runs, and nothing else is."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from types import SimpleNamespace

import pytest

from registry.flowcontrol import evaluation, watchdog
from registry.flowcontrol.evaluation import (
    ASIDE_TIMES,
    LARGE_BYTES,
    Evaluations,
    Large,
    LoopClock,
    aside,
    begins_again,
    evaluate,
    large,
    note_size,
    shared_aside,
)
from registry.flowcontrol.fair_queue import TooManyRequests
from registry.flowcontrol.time_slice import ClientGone, TimeSlice
from registry.flowcontrol.watchdog import EvaluationStopped, Section, Watchdog, run_guarded
from tests.api.client import eventually

LIMIT_SECONDS = 0.1


@pytest.fixture(autouse=True)
def watching() -> Iterator[None]:
    loop = asyncio.new_event_loop()
    dog = Watchdog(loop, 60.0)
    dog.start()
    yield
    dog.stop()
    loop.close()


def use_processor(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_the_clock_counts_processor_time_and_not_the_time_that_passes() -> None:
    clock = LoopClock()
    began = clock.begin()
    time.sleep(0.05)  # as if the system ran another program
    assert clock.since(began) < 0.02
    began = clock.begin()
    use_processor(0.05)
    assert 0.045 < clock.since(began) < 0.06


def test_the_clock_reads_the_processor_time_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    readings: list[float] = []
    read = time.thread_time

    def reading() -> float:
        readings.append(read())
        return readings[-1]

    monkeypatch.setattr(time, "thread_time", reading)
    clock = LoopClock()
    until = time.perf_counter() + 0.02
    count = 0
    while time.perf_counter() < until:
        clock.since(clock.begin())
        count += 1
    assert len(readings) <= 2 * 20 + 1 + 2
    assert count > 3 * len(readings)


def for_ever() -> None:
    while True:
        pass


def for_ever_catching() -> None:
    while True:
        try:
            for_ever()
        except Exception:
            pass


def deep(levels: int = 100) -> None:
    if levels:
        deep(levels - 1)
    for_ever()


@pytest.mark.parametrize("work", [for_ever, for_ever_catching, deep], ids=["loop", "catches errors", "deep"])
def test_long_evaluations_are_stopped(work: Callable[[], None]) -> None:
    with pytest.raises(EvaluationStopped, match="more than 100 ms of processor time"):
        run_guarded(Section("t", LIMIT_SECONDS), work)


async def test_the_watchdog_of_an_idle_process_sleeps_until_something_is_evaluated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watchdog, "QUIET_SECONDS", 3600.0)
    looks = 0
    look = Watchdog._look_at_loop

    def count(self: Watchdog) -> bool:
        nonlocal looks
        looks += self is dog
        return look(self)

    monkeypatch.setattr(Watchdog, "_look_at_loop", count)
    dog = Watchdog(asyncio.get_running_loop(), 60.0)
    dog.start()

    async def is_quiet() -> bool:
        before = looks
        await asyncio.sleep(10 * watchdog.POLL_SECONDS)  # in which it would look ten times
        return looks == before

    try:
        await eventually(is_quiet)
        before = looks
        run_guarded(Section("shop", LIMIT_SECONDS), partial(use_processor, LIMIT_SECONDS / 2))
        assert looks > before
    finally:
        dog.stop()


def test_nothing_is_stopped_after_its_end() -> None:
    """Evaluations that end at about their limit: an exception that comes late would come out of here."""
    ended = stopped = 0

    def about_the_limit() -> None:
        section.began = -1e9  # the next look finds it over its limit
        for _ in range(rounds):
            pass

    for i in range(60):
        rounds = 40_000 * (1 + i % 30)
        section = Section("t", 0.0)
        try:
            run_guarded(section, about_the_limit)
            ended += 1
        except EvaluationStopped:
            stopped += 1
        for _ in range(1000):
            pass
    assert ended + stopped == 60
    assert not watchdog._sections


def test_code_that_fills_a_shared_cache_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "SHIELDED", ("test_evaluation.py",))
    monkeypatch.setattr(watchdog, "_TRIES", 3)
    kept = []

    def keeps() -> None:
        clock = threading.Event()
        for _ in range(3_000_000):
            pass
        kept.append(clock)

    run_guarded(Section("t", 0.001), keeps)
    assert kept


def run(
    make: Callable[[Evaluations], Awaitable[None]], *, is_shared: bool = True, limit_seconds: float = LIMIT_SECONDS
) -> None:
    async def main() -> None:
        evaluations = Evaluations(limit_seconds, lambda: is_shared)
        evaluations.begin("tenant")
        try:
            await make(evaluations)
        finally:
            evaluations.close()

    asyncio.run(main())


def where() -> str:
    return threading.current_thread().name


async def is_aside(size: int = 0) -> bool:
    return (await evaluate(where, size)).startswith("evaluate")


def test_small_work_runs_on_the_event_loop_and_large_work_in_a_thread() -> None:
    async def check(_: Evaluations) -> None:
        assert not await is_aside()
        assert await is_aside(LARGE_BYTES + 1)
        note_size(LARGE_BYTES + 1)
        assert await is_aside()

    run(check)


@pytest.mark.parametrize("is_shared", [True, False], ids=["others are there", "alone"])
def test_work_of_a_tenant_that_held_the_loop_runs_in_a_thread(is_shared: bool) -> None:
    async def check(evaluations: Evaluations) -> None:
        evaluations.charge("tenant", 0.2)
        assert await is_aside() is is_shared
        evaluations.begin("another")
        assert not await is_aside()

    run(check, is_shared=is_shared)


def set_time(monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    """Stops the clock by which debts are paid."""
    clocks = SimpleNamespace(monotonic=lambda: now, perf_counter=time.perf_counter, thread_time=time.thread_time)
    monkeypatch.setattr(evaluation, "time", clocks)


def test_time_on_the_loop_is_paid_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(evaluations: Evaluations) -> None:
        set_time(monkeypatch, 100.0)
        evaluations.charge("tenant", 0.1)
        set_time(monkeypatch, 103.0)
        assert evaluations.owes("tenant")
        set_time(monkeypatch, 105.0)
        assert not evaluations.owes("tenant")

    run(check)


def busy(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@pytest.mark.parametrize("is_shared", [True, False], ids=["others are there", "alone"])
def test_many_short_evaluations_of_a_request_let_others_run(monkeypatch: pytest.MonkeyPatch, is_shared: bool) -> None:
    set_time(monkeypatch, 0.0)  # no debt is paid by the time in which the system runs other programs
    iterations = 0

    async def count_iterations() -> None:
        nonlocal iterations
        while True:
            iterations += 1
            await asyncio.sleep(0)

    async def check(evaluations: Evaluations) -> None:
        other = asyncio.create_task(count_iterations())
        for _ in range(40):
            await evaluate(partial(busy, 0.002))
        other.cancel()
        assert iterations >= 12
        assert evaluations.owes("tenant") is is_shared

    run(check, is_shared=is_shared)


@pytest.mark.parametrize("is_shared, on_the_loop", [(True, "50 ms"), (False, "100 ms")], ids=["others", "alone"])
def test_work_stopped_on_the_loop_restarts_once_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, is_shared: bool, on_the_loop: str
) -> None:
    monkeypatch.setattr(evaluation, "ASIDE_TIMES", 2)

    async def check(_: Evaluations) -> None:
        assert not begins_again()
        with pytest.raises(EvaluationStopped, match=on_the_loop):
            await evaluate(for_ever)
        assert begins_again()
        with pytest.raises(EvaluationStopped, match="200 ms"):
            await evaluate(for_ever)
        assert not begins_again()

    run(check, is_shared=is_shared)


def test_repeatable_work_restarts_in_a_thread() -> None:
    def slow_on_the_loop() -> str:
        if where() == "MainThread":
            for_ever()
        return where()

    async def check(_: Evaluations) -> None:
        assert (await evaluate(slow_on_the_loop, repeatable=True)).startswith("evaluate")
        assert not begins_again()

    run(check)


def test_errors_are_propagated() -> None:
    async def check(_: Evaluations) -> None:
        for size in (0, LARGE_BYTES + 1):
            with pytest.raises(ZeroDivisionError):
                await evaluate(lambda: 1 // 0, size)

    run(check)


def test_a_tenant_has_one_thread_and_a_bounded_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_MAX_WAITING", 3)
    gate, running = threading.Event(), []

    def wait(name: str) -> None:
        running.append(name)
        gate.wait(20)

    async def check(evaluations: Evaluations) -> None:
        first = [asyncio.create_task(evaluations.run_aside("a", lambda: wait("a"))) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await evaluations.run_aside("a", lambda: wait("a"))
        other = asyncio.create_task(evaluations.run_aside("b", lambda: wait("b")))
        while running != ["a", "b"]:  # noqa: ASYNC110 - it is a list that threads fill
            await asyncio.sleep(0.001)
        first[1].cancel()
        gate.set()
        await asyncio.gather(*first[2:], first[0], other)
        assert sorted(running) == ["a", "a", "a", "b"]
        assert not evaluations._running
        assert not evaluations._waiting

    run(check)


def test_abandoned_work_delays_no_other() -> None:
    async def check(evaluations: Evaluations) -> None:
        begun = threading.Event()

        def work() -> None:
            begun.set()
            for_ever()

        task = asyncio.create_task(evaluations.run_aside("tenant", work))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        place = await asyncio.wait_for(evaluations.run_aside("tenant", where), 60)
        assert place.startswith("evaluate")

    run(check, limit_seconds=2 * 60 / ASIDE_TIMES)  # it would run for two minutes


@pytest.mark.parametrize("beside_loop", [aside, shared_aside])
def test_work_of_a_tenant_does_not_delay_another(beside_loop: Callable[[Callable[[], str]], Awaitable[str]]) -> None:
    """Bodies, policies and catalogs: while all that one tenant has sent waits, that of another is worked on."""
    gate = threading.Event()

    def wait() -> str:
        gate.wait(120)
        return where()

    async def ask(evaluations: Evaluations, tenant: str, work: Callable[[], str]) -> str:
        evaluations.begin(tenant)
        return await beside_loop(work)

    async def check(evaluations: Evaluations) -> None:
        try:
            flood = [asyncio.create_task(ask(evaluations, "hostile", wait)) for _ in range(50)]
            await asyncio.sleep(0)
            place = await asyncio.wait_for(asyncio.create_task(ask(evaluations, "other", where)), 60)
            assert place.startswith("evaluate")
        finally:
            gate.set()
        await asyncio.gather(*flood)

    run(check)


def test_shared_work_is_finished_after_its_first_caller_left() -> None:
    async def check(_: Evaluations) -> None:
        TimeSlice(is_gone=lambda: True).begin()
        with pytest.raises(ClientGone):
            await aside(where)
        assert (await shared_aside(where)).startswith("evaluate")

    run(check)


class Evaluated:
    """Stands for what is evaluated."""


def fail(_: Evaluated) -> None:
    raise ValueError("it is wrong")


def never_end(_: Evaluated) -> None:
    for_ever()


@pytest.mark.parametrize("size", [0, LARGE_BYTES + 1], ids=["on the loop", "aside"])
@pytest.mark.parametrize("work", [fail, never_end])
def test_failures_are_freed_without_the_garbage_collector(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[Evaluated], None], size: int
) -> None:
    """The traceback of a failure names what was evaluated."""
    monkeypatch.setattr(evaluation, "ASIDE_TIMES", 2)

    async def evaluated() -> weakref.ref[Evaluated]:
        given = Evaluated()
        try:
            await evaluate(partial(work, given), size)
        except (ValueError, EvaluationStopped):
            pass
        return weakref.ref(given)

    async def check(_: Evaluations) -> None:
        gc.disable()
        try:
            found = await evaluated()
            async with asyncio.timeout(60):
                while found() is not None:  # noqa: ASYNC110 - the thread may not have ended yet
                    await asyncio.sleep(0.01)
        finally:
            gc.enable()

    run(check)


def entered(evaluations: Evaluations, size: int, order: list[int], go: asyncio.Event) -> asyncio.Task[None]:
    async def work() -> None:
        evaluations.begin("acme")
        async with large(Large.ROW, size):
            order.append(size)
            await go.wait()

    return asyncio.create_task(work())


KIB = 1024


@pytest.mark.parametrize(
    "sizes, at_once",
    [
        pytest.param([8 * KIB] * 1000, 1000, id="small ones do not count"),
        pytest.param([256 * KIB] * 20, 8, id="2 MiB in all"),
        pytest.param([9 << 20] * 5, 2, id="two of any size"),
        pytest.param([9 << 20, 1 << 20, 8 << 20, 20 * KIB], 2, id="small ones do not overtake"),
    ],
)
async def test_a_tenant_decodes_so_much_at_once(sizes: list[int], at_once: int) -> None:
    evaluations, order, go = Evaluations(), list[int](), asyncio.Event()
    tasks = [entered(evaluations, size, order, go) for size in sizes]
    for _ in range(5):
        await asyncio.sleep(0)
    assert order == sizes[:at_once]
    go.set()
    await asyncio.gather(*tasks)
    assert order == sizes
    evaluations.close()


async def test_one_that_stops_waiting_leaves_its_place_to_the_next() -> None:
    evaluations, order, go = Evaluations(), list[int](), asyncio.Event()
    first = entered(evaluations, 1 << 20, order, go)
    await asyncio.sleep(0)
    waiting = entered(evaluations, 2 << 20, order, go)
    await asyncio.sleep(0)
    gone = entered(evaluations, 3 << 20, order, go)
    await asyncio.sleep(0)
    last = entered(evaluations, 20 * KIB, order, go)
    await asyncio.sleep(0)
    gone.cancel()
    go.set()
    await asyncio.gather(first, waiting, last)
    assert gone.cancelled()
    assert order == [1 << 20, 2 << 20, 20 * KIB]
    evaluations.close()


async def test_one_that_stops_waiting_when_all_places_become_free_ends_as_cancelled() -> None:
    evaluations, order, go = Evaluations(), list[int](), asyncio.Event()
    holding = [entered(evaluations, 1 << 20, order, go) for _ in range(2)]
    await asyncio.sleep(0)
    gone = entered(evaluations, 1 << 20, order, go)
    await asyncio.sleep(0)
    go.set()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await asyncio.gather(*holding)
    await entered(evaluations, 1 << 20, order, go)
    assert order == [1 << 20] * 3
    evaluations.close()
