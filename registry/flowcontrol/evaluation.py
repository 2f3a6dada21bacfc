"""Runs pure evaluation for a request: short work on the event loop, long work in a thread beside it.

    result = await evaluate(work)        # work() must be pure except for state that only this request sees

An evaluation usually takes tenths of a millisecond, less than the switch to a thread. Work that is known to be large,
or that belongs to a tenant whose evaluations have recently held the loop for long while others were present, runs in a
thread: one at a time per tenant, round-robin between tenants. It shares the interpreter with the loop, which then
answers others some milliseconds later, rather than after it.

What nevertheless holds the loop for the limit is stopped (registry/flowcontrol/watchdog.py). Its request starts again
beside the loop, where it may take ASIDE_TIMES as long; beyond that the client gets EvaluationStopped as a 503.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, nullcontext
from contextvars import ContextVar, copy_context
from enum import Enum
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from prometheus_client import Counter

from registry.flowcontrol.fair_permits import set_owner
from registry.flowcontrol.fair_queue import MAX_WAITING, TooManyRequests
from registry.flowcontrol.time_slice import TimeSlice
from registry.flowcontrol.watchdog import EvaluationStopped, Section, run_guarded

T = TypeVar("T")

ASIDE: Final = Counter("registry_evaluations_aside", "Evaluations that ran in a thread beside the event loop.")

# Processor time in a thread does not hold up the loop: large definitions take seconds.
ASIDE_TIMES: Final = 20
# Objects and bodies beyond this take milliseconds, whatever is done with them.
LARGE_BYTES: Final = 64 * 1024
# Concurrent evaluations in threads: more would take the interpreter from the loop more often.
_THREADS: Final = 2
# How long one evaluation may hold the loop while other tenants are present, before it starts again beside it.
_SHARED_SECONDS: Final = 0.05
# The total of what a tenant's requests have decoded, of each kind, in bytes of text; the most that one counts for, so
# that two of any size run at once; and what does not count. Decoded, it takes up to a hundred times as much memory.
_DECODED_BYTES: Final = 2 * 1024 * 1024
_MOST_OF_ONE_BYTES: Final = _DECODED_BYTES // 2
COUNTED_BYTES: Final = 16 * 1024
# The queue of one tenant, as for seats; beyond it the answer is 429.
_MAX_WAITING: Final = MAX_WAITING
# What counts as long on the loop; how much of it a tenant may use at once, and per second.
LONG_SECONDS: Final = 0.004
_BURST_SECONDS: Final = 0.02
_SHARE: Final = 0.02
_MAX_DEBT_SECONDS: Final = 0.5
# A reading of the processor time is a system call of 1 to 2 µs: those for short evaluations are at least this far
# apart.
_READING_SECONDS: Final = 0.001


class Large(Enum):
    """What can be large. Only work on an earlier one may enter the context of a later one: none waits for another in a
    circle."""

    BODY = "body"
    PAST = "past"
    ROW = "row"
    CONVERSION = "conversion"
    REVIEW = "review"


class Evaluations:
    """The evaluations of a process. `is_shared` returns whether other tenants have been present lately."""

    def __init__(self, limit_seconds: float = 0.25, is_shared: Callable[[], bool] = lambda: True) -> None:
        self.limit_seconds = limit_seconds
        self._is_shared = is_shared
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="evaluate")
        # Seconds that a tenant has held the loop beyond its share, and the time of that figure.
        self._debts: dict[str, tuple[float, float]] = {}
        self._running: set[str] = set()
        # An entry lives as long as a request holds or waits for a place.
        self._places: WeakValueDictionary[tuple[str, Large], _Places] = WeakValueDictionary()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.clock = LoopClock()

    def begin(self, tenant: str) -> None:
        """Attributes the current task's work to a request of the tenant."""
        _current.set(Evaluation(self, tenant))
        set_owner(tenant)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def charge(self, tenant: str, seconds: float) -> None:
        """Records that the tenant has held the loop for so long."""
        debt = min(self._debt(tenant) + seconds, _MAX_DEBT_SECONDS)
        self._debts[tenant] = (debt, time.monotonic())
        if len(self._debts) > 1000:
            self._debts = {name: debt for name, debt in self._debts.items() if self._debt(name) > 0}

    def places(self, tenant: str, kind: Large) -> _Places:
        return self._places.setdefault((tenant, kind), _Places())

    def loop_seconds(self) -> float:
        """Returns how long an evaluation may hold the loop: less than the limit while others would have to wait."""
        return min(self.limit_seconds, _SHARED_SECONDS) if self._is_shared() else self.limit_seconds

    def owes(self, tenant: str) -> bool:
        if tenant not in self._debts:
            return False
        debt = self._debt(tenant)
        if not debt:
            del self._debts[tenant]
        return debt > _BURST_SECONDS and self._is_shared()

    def _debt(self, tenant: str) -> float:
        debt, at = self._debts.get(tenant, (0.0, 0.0))
        return max(0.0, debt - (time.monotonic() - at) * _SHARE)

    async def run_aside(self, tenant: str, work: Callable[[], T], limit_seconds: float = 0.0) -> T:
        """Returns the result of `work`, run in a thread. Raises TooManyRequests, ClientGone, EvaluationStopped."""
        section = Section(tenant, max(limit_seconds, self.limit_seconds * ASIDE_TIMES), "aside")

        def watched() -> T:
            return run_guarded(section, work)

        try:
            return await self.in_thread(tenant, watched, TimeSlice.current().raise_if_gone)
        except asyncio.CancelledError:
            section.limit_seconds = 0.0  # the result is no longer needed: stop it
            raise

    async def in_thread(self, tenant: str, work: Callable[[], T], check: Callable[[], None] = lambda: None) -> T:
        """Returns the result of `work`, run in a thread in the tenant's turn, unless `check` raises then."""
        await self._enter(tenant)
        try:
            check()
            running = self._threads.submit(copy_context().run, work)
        except BaseException:
            self._leave(tenant)
            raise
        loop = asyncio.get_running_loop()
        running.add_done_callback(lambda _: loop.call_soon_threadsafe(self._leave, tenant))
        ASIDE.inc()
        try:
            return await asyncio.wrap_future(running)
        finally:
            # The traceback of an exception from the thread contains this frame, and `running` the exception: such a
            # cycle would keep what was evaluated alive until the garbage collector finds it.
            del running, work

    async def _enter(self, tenant: str) -> None:
        if tenant not in self._running and len(self._running) < _THREADS and tenant not in self._waiting:
            self._running.add(tenant)
            return
        queue = self._waiting.setdefault(tenant, deque())
        if len(queue) >= _MAX_WAITING:
            raise TooManyRequests
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(tenant)
            raise

    def _leave(self, tenant: str) -> None:
        """Gives the thread to the next waiting tenant that has none."""
        self._running.discard(tenant)
        for name in [*self._waiting]:
            if len(self._running) >= _THREADS:
                return
            if name in self._running:
                continue
            queue = self._waiting[name]
            while queue and queue[0].done():
                queue.popleft()  # its waiter has been cancelled
            if queue:
                self._running.add(name)
                queue.popleft().set_result(None)
            if queue:
                self._waiting.move_to_end(name)
            else:
                del self._waiting[name]


class LoopClock:
    """Measures how long evaluations hold the thread of the event loop, in processor time.

    One that is over within a millisecond is measured by the time that passes. For a longer one, during which another
    thread or program may have run, the processor time since the last reading counts, if it is less: that was at most a
    millisecond before the evaluation began.
    """

    __slots__ = ("_read_at", "_used")

    def __init__(self) -> None:
        self._read_at = -_READING_SECONDS
        self._used = 0.0

    def begin(self) -> float:
        """Returns the time at which an evaluation begins, for `since`."""
        now = time.perf_counter()
        if now - self._read_at > _READING_SECONDS:
            self._used = time.thread_time()
            self._read_at = now
        return now

    def since(self, began: float) -> float:
        """Returns the seconds for which the evaluation that began then has held the thread."""
        now = time.perf_counter()
        passed = now - began
        if passed < _READING_SECONDS:
            return passed
        used, before = time.thread_time(), self._used
        self._used, self._read_at = used, now
        return min(passed, used - before)


class _Places:
    """What a tenant's requests have decoded of one kind, in bytes of text, and those that wait to decode more.

    First come, first served: a large one is not overtaken by small ones. Invariant: `_free_bytes` is never negative.
    """

    def __init__(self) -> None:
        self._free_bytes = _DECODED_BYTES
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    def is_free(self, size: int) -> bool:
        return not self._waiting and min(size, _MOST_OF_ONE_BYTES) <= self._free_bytes

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        await self.take(size)
        try:
            yield
        finally:
            self.release(size)

    async def take(self, size: int) -> None:
        """Waits for places; `release` must follow, with the same size."""
        count = min(size, _MOST_OF_ONE_BYTES)
        if self.is_free(count):
            self._free_bytes -= count
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, count))
        try:
            await turn
        except asyncio.CancelledError:
            self.release(0 if turn.cancelled() else count)
            raise

    def release(self, size: int) -> None:
        self._free_bytes += min(size, _MOST_OF_ONE_BYTES)
        while self._waiting:
            turn, wanted = self._waiting[0]
            if not turn.done():
                if wanted > self._free_bytes:
                    return
                self._free_bytes -= wanted
                turn.set_result(None)
            self._waiting.popleft()


class Evaluation:
    """Evaluates for one request. `aside` is set once an evaluation of it has taken too long."""

    __slots__ = ("_evaluations", "_held_seconds", "_may_begin_again", "aside", "largest", "tenant")

    def __init__(self, evaluations: Evaluations, tenant: str) -> None:
        self._evaluations = evaluations
        self.tenant = tenant
        self.aside = False
        self.largest = 0
        # On the loop, by all evaluations since it last yielded.
        self._held_seconds = 0.0
        self._may_begin_again = False

    def begin_again(self) -> bool:
        """Returns True once if an evaluation was stopped on the loop, and the request may start again."""
        may, self._may_begin_again = self._may_begin_again, False
        return may

    def places(self, kind: Large) -> _Places:
        return self._evaluations.places(self.tenant, kind)

    async def run_aside(self, work: Callable[[], T]) -> T:
        return await self._evaluations.run_aside(self.tenant, work)

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await self._evaluations.in_thread(self.tenant, work)

    async def run(self, work: Callable[[], T], size: int, *, repeatable: bool, limit_seconds: float) -> T:
        evaluations, tenant = self._evaluations, self.tenant
        if self._held_seconds > LONG_SECONDS:
            self._held_seconds = 0.0
            await TimeSlice.current().yield_for_client()
        if self.aside or size > LARGE_BYTES or self.largest > LARGE_BYTES or evaluations.owes(tenant):
            return await evaluations.run_aside(tenant, work, limit_seconds)
        began = evaluations.clock.begin()
        try:
            return run_guarded(Section(tenant, evaluations.loop_seconds()), work)
        except EvaluationStopped:
            self.aside = True
            if not repeatable:
                self._may_begin_again = True
                raise
        finally:
            # A thousand short ones hold it as a long one does.
            self._held_seconds += evaluations.clock.since(began)
            if self._held_seconds > LONG_SECONDS:
                evaluations.charge(tenant, self._held_seconds)
        return await evaluations.run_aside(tenant, work, limit_seconds)


def evaluate(
    work: Callable[[], T], size: int = 0, *, repeatable: bool = False, limit_seconds: float = 0.0
) -> Coroutine[Any, Any, T]:
    """Returns the result of `work`. `size` is that of its input in bytes; `repeatable` says that it has no side
    effects, so that it can be run again if it exceeds its time on the event loop. `limit_seconds` is its time limit
    beside the loop if longer than the default.

    Raises what `work` raises; EvaluationStopped, TooManyRequests and ClientGone if it does not finish.
    """
    current = _current.get()
    if current is None:
        return _run(work)
    return current.run(work, size, repeatable=repeatable, limit_seconds=limit_seconds)


async def _run(work: Callable[[], T]) -> T:
    return work()


async def aside(work: Callable[[], T], background: Executor | None = None) -> T:
    """Returns the result of `work` for this request, which is pure and known to take long: from a thread, in the turn
    of the request's tenant; from one of `background` if there is no request.

    Raises as `evaluate` does.
    """
    current = _current.get()
    if current is None:
        return await asyncio.get_running_loop().run_in_executor(background, work)
    return await current.run_aside(work)


async def shared_aside(work: Callable[[], T]) -> T:
    """Like `aside`, for work that all requests of the tenant wait for: it finishes even if the first of them is
    cancelled.

    Raises what `work` raises, and TooManyRequests.
    """
    current = _current.get()
    return await (asyncio.to_thread(work) if current is None else current.in_thread(work))


def large(kind: Large, size: int) -> AbstractAsyncContextManager[None]:
    """Returns the context for work on `size` bytes of text: it waits while the tenant's other requests have decoded too
    much of that kind."""
    current = _current.get()
    return nullcontext() if current is None or size <= COUNTED_BYTES else current.places(kind).hold(size)


async def load_large(kind: Large, load: Callable[[], Awaitable[T]], size: Callable[[T], int], held: ExitStack) -> T:
    """Returns what `load` returns, of `size` bytes, in the context of `large`, which ends with `held`.

    It is not kept while it waits for that, but loaded again.
    """
    loaded = await load()
    count = size(loaded)
    current = _current.get()
    if current is None or count <= COUNTED_BYTES:
        return loaded
    places = current.places(kind)
    is_free = places.is_free(count)
    if not is_free:
        del loaded
    await places.take(count)
    held.callback(places.release, count)
    return loaded if is_free else await load()


def note_size(size: int) -> None:
    """Records that the request works on something of so many bytes."""
    current = _current.get()
    if current is not None and size > current.largest:
        current.largest = size


def noted_size() -> int:
    """Returns the size of the largest that the request works on, as far as it was noted."""
    current = _current.get()
    return current.largest if current is not None else 0


def begins_again() -> bool:
    """Returns True once if the request may start again beside the loop, after its evaluation was stopped on it."""
    current = _current.get()
    return current is not None and current.begin_again()


_current: ContextVar[Evaluation | None] = ContextVar("evaluation", default=None)
