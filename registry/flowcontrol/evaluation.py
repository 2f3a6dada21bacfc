"""Where pure evaluation for a request runs: on the event loop where it is short, in a thread beside it where it is not.

    result = await evaluate(work)        # work() is pure but for what only this request sees

An evaluation takes tenths of a millisecond as a rule, less than the way to a thread. What is known to be large, or what
belongs to a tenant whose evaluations have held the loop for long lately while others were there, runs in a thread: one
at a time for each tenant, in turn between tenants. It shares the interpreter with the loop, which then answers others
some milliseconds later, not after it.

What has held the loop for the limit all the same is stopped (registry/flowcontrol/watchdog.py). Its request begins
again beside the loop, where it may take ASIDE_TIMES as long; beyond that EvaluationStopped goes to the client as a 503.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from contextvars import ContextVar, copy_context
from typing import Final, TypeVar

from prometheus_client import Counter

from registry.flowcontrol.fair_queue import MAX_WAITING, TooManyRequests
from registry.flowcontrol.time_slice import TimeSlice
from registry.flowcontrol.watchdog import EvaluationStopped, Section, guarded

T = TypeVar("T")

ASIDE: Final = Counter("registry_evaluations_aside", "Evaluations that ran in a thread beside the event loop.")

# Processor time in a thread is no time of the loop: large definitions take seconds.
ASIDE_TIMES: Final = 20
# Objects and bodies beyond this take milliseconds, whatever is done with them.
LARGE_BYTES: Final = 64 * 1024
# Evaluations of tenants at the same time: more would take the interpreter from the loop more often.
_THREADS: Final = 2
# What one evaluation may hold the loop for while other tenants are there, before it begins again beside it.
_SHARED_SECONDS: Final = 0.05
# Requests of a tenant with bodies beyond VERY_LARGE_BYTES that are under way at a time.
_LARGE_REQUESTS: Final = 2
VERY_LARGE_BYTES: Final = 256 * 1024
# What may wait of one tenant, as before its turn; beyond it the answer is 429.
_MAX_WAITING: Final = MAX_WAITING
# What counts as long on the loop; how much of it a tenant may have at once, and how much of each second.
LONG_SECONDS: Final = 0.004
_BURST_SECONDS: Final = 0.02
_SHARE: Final = 0.02
_MAX_DEBT_SECONDS: Final = 0.5


class Evaluations:
    """Of one process. `is_shared` says whether other tenants than the one that asks have been there lately."""

    def __init__(self, limit_seconds: float = 0.25, is_shared: Callable[[], bool] = lambda: True) -> None:
        self.limit_seconds = limit_seconds
        self._is_shared = is_shared
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="evaluate")
        # Seconds that a tenant has held the loop beyond its share, and when that was so.
        self._debts: dict[str, tuple[float, float]] = {}
        self._running: set[str] = set()
        self._queues: dict[str, _Queue] = {}
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    def begin(self, tenant: str) -> None:
        """From here on this task evaluates for a request of the tenant."""
        _current.set(Evaluation(self, tenant))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def charge(self, tenant: str, seconds: float) -> None:
        """The tenant has held the loop for so long."""
        debt = min(self._debt(tenant) + seconds, _MAX_DEBT_SECONDS)
        self._debts[tenant] = (debt, time.monotonic())
        if len(self._debts) > 1000:
            self._debts = {name: debt for name, debt in self._debts.items() if self._debt(name) > 0}

    @asynccontextmanager
    async def large(self, tenant: str) -> AsyncIterator[None]:
        """For a request with a large body: it takes a hundred times as much memory once it is decoded, so that few of a
        tenant are under way at a time."""
        queue = self._queues.get(tenant)
        if queue is None:
            queue = self._queues[tenant] = _Queue()
        queue.users += 1
        try:
            async with queue.semaphore:
                yield
        finally:
            queue.users -= 1
            if not queue.users:
                del self._queues[tenant]

    def loop_seconds(self) -> float:
        """What an evaluation may take on the loop: less than the limit while others would have to wait for it."""
        return min(self.limit_seconds, _SHARED_SECONDS) if self._is_shared() else self.limit_seconds

    def owes(self, tenant: str) -> bool:
        return tenant in self._debts and self._debt(tenant) > _BURST_SECONDS and self._is_shared()

    def _debt(self, tenant: str) -> float:
        debt, at = self._debts.get(tenant, (0.0, 0.0))
        return max(0.0, debt - (time.monotonic() - at) * _SHARE)

    async def run_aside(self, tenant: str, work: Callable[[], T], limit_seconds: float = 0.0) -> T:
        """The result of `work`, from a thread. Raises TooManyRequests, ClientGone, EvaluationStopped."""
        section = Section(tenant, max(limit_seconds, self.limit_seconds * ASIDE_TIMES), "aside")

        def watched() -> T:
            return guarded(section, work)

        try:
            return await self.in_thread(tenant, watched, TimeSlice.current().raise_if_gone)
        except asyncio.CancelledError:
            section.limit_seconds = 0.0  # nobody waits for it: it is stopped
            raise

    async def in_thread(self, tenant: str, work: Callable[[], T], check: Callable[[], None] = lambda: None) -> T:
        """The result of `work`, from a thread in the tenant's turn, if `check` raises nothing then."""
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
            # What was raised in the thread has this frame in its traceback, and `running` has what was raised: such a
            # cycle would keep what was evaluated until the garbage collector finds it.
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
        """Gives the thread to the next tenant that waits and has none."""
        self._running.discard(tenant)
        for name in [*self._waiting]:
            if len(self._running) >= _THREADS:
                return
            if name in self._running:
                continue
            queue = self._waiting[name]
            while queue and queue[0].done():
                queue.popleft()  # the one that waited has gone
            if queue:
                self._running.add(name)
                queue.popleft().set_result(None)
            if queue:
                self._waiting.move_to_end(name)
            else:
                del self._waiting[name]


class _Queue:
    """Requests of a tenant with large bodies, running and waiting."""

    def __init__(self) -> None:
        self.semaphore = asyncio.Semaphore(_LARGE_REQUESTS)
        self.users = 0


class Evaluation:
    """How one request is evaluated. `aside` once it has been found to take long."""

    __slots__ = ("_evaluations", "_may_begin_again", "aside", "largest", "tenant")

    def __init__(self, evaluations: Evaluations, tenant: str) -> None:
        self._evaluations = evaluations
        self.tenant = tenant
        self.aside = False
        self.largest = 0
        self._may_begin_again = False

    def begin_again(self) -> bool:
        """Whether an evaluation was stopped on the loop, and the request may begin again: says yes once."""
        found, self._may_begin_again = self._may_begin_again, False
        return found

    def large(self) -> AbstractAsyncContextManager[None]:
        return self._evaluations.large(self.tenant)

    async def run_aside(self, work: Callable[[], T]) -> T:
        return await self._evaluations.run_aside(self.tenant, work)

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await self._evaluations.in_thread(self.tenant, work)

    async def run(self, work: Callable[[], T], size: int, *, repeatable: bool, limit_seconds: float) -> T:
        evaluations, tenant = self._evaluations, self.tenant
        if self.aside or size > LARGE_BYTES or self.largest > LARGE_BYTES or evaluations.owes(tenant):
            return await evaluations.run_aside(tenant, work, limit_seconds)
        began = time.thread_time()
        try:
            return guarded(Section(tenant, evaluations.loop_seconds()), work)
        except EvaluationStopped:
            self.aside = True
            if not repeatable:
                self._may_begin_again = True
                raise
        finally:
            took = time.thread_time() - began
            if took > LONG_SECONDS:
                evaluations.charge(tenant, took)
        return await evaluations.run_aside(tenant, work, limit_seconds)


async def evaluate(work: Callable[[], T], size: int = 0, *, repeatable: bool = False, limit_seconds: float = 0.0) -> T:
    """The result of `work`. `size` is that of what it works on, in bytes; `repeatable` says that it changes nothing, so
    that it can be run again where the event loop has no more time for it. `limit_seconds` is what it may take beside
    the loop where that is more than others may.

    Raises what `work` raises; EvaluationStopped, TooManyRequests and ClientGone where it is not finished.
    """
    current = _current.get()
    if current is None:
        return work()
    return await current.run(work, size, repeatable=repeatable, limit_seconds=limit_seconds)


async def aside(work: Callable[[], T], background: Executor | None = None) -> T:
    """The result of `work` for this request, which is pure and known to take long: from a thread, in the turn of the
    request's tenant; from one of `background` where there is no request.

    Raises as `evaluate` does.
    """
    current = _current.get()
    if current is None:
        return await asyncio.get_running_loop().run_in_executor(background, work)
    return await current.run_aside(work)


async def shared_aside(work: Callable[[], T]) -> T:
    """As `aside`, for what all requests of the tenant wait for: it is finished, even if the first of them has gone.

    Raises what `work` raises, and TooManyRequests.
    """
    current = _current.get()
    return await (asyncio.to_thread(work) if current is None else current.in_thread(work))


def large_request(size: int) -> AbstractAsyncContextManager[None]:
    """What a request whose body has so many bytes is to be served in."""
    current = _current.get()
    return nullcontext() if current is None or size <= VERY_LARGE_BYTES else current.large()


def note_size(size: int) -> None:
    """The request works on something of so many bytes."""
    current = _current.get()
    if current is not None and size > current.largest:
        current.largest = size


def begins_again() -> bool:
    """Whether the request may begin again beside the loop, since its evaluation was stopped on it; says yes once."""
    current = _current.get()
    return current is not None and current.begin_again()


_current: ContextVar[Evaluation | None] = ContextVar("evaluation", default=None)
