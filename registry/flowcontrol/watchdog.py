"""Stops pure evaluation that takes too much processor time: the safety net below all budgets.

Evaluation for clients is metered as it runs (registry/budget.py); this is for what was overlooked. A thread checks
every POLL_SECONDS what is being evaluated, on the event loop and in the threads beside it, and raises an exception in a
thread that has exceeded its limit. While the process does nothing, it sleeps until something is evaluated:

    run_guarded(Section(tenant, limit_seconds), work)     # the result of `work`, or EvaluationStopped

The exception can occur at any bytecode of `work`, so only pure code may run under it: its results are dropped with it.
Code that keeps state for others (SHIELDED) may finish first. It never occurs after `run_guarded` has returned.
C code is not interrupted: its inputs are bounded.

The thread also detects when anything else holds the event loop: that cannot be stopped, but it is counted, and logged
with what was running.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Final, TypeVar

from prometheus_client import Counter

logger = logging.getLogger("registry.watchdog")

T = TypeVar("T")

# A check costs some 20 µs: a thousandth of the processor.
POLL_SECONDS: Final = 0.02
# How long it sleeps while nothing is evaluated, before it looks whether the event loop is busy.
QUIET_SECONDS: Final = 1.0

STOPPED: Final = Counter(
    "registry_evaluations_stopped", "Evaluations that took too much processor time, by where they ran.", ["place"]
)
STALLS: Final = Counter("registry_event_loop_stalls", "Times that the event loop was held by what cannot be stopped.")

# Code that must not be interrupted: caches that count what they hold, locks, and imports.
SHIELDED: Final = (
    "/registry/caches.py", "/registry/flowcontrol/", "/prometheus_client/", "/logging/", "/threading.",
    "<frozen importlib",
)  # fmt: skip
# How often a thread within such code is checked again, a millisecond apart.
_TRIES: Final = 200
# Frames of a stack in a log line, innermost first.
_FRAMES: Final = 6


class EvaluationStopped(Exception):
    """The evaluation exceeded its processor time. Nothing has been changed."""

    def __init__(self, limit_seconds: float) -> None:
        super().__init__(
            f"evaluating the request took more than {limit_seconds * 1000:.0f} ms of processor time and was stopped: "
            "send less at once, or simplify the schema, rules or policies that apply to it"
        )


class _Stop(BaseException):
    """Raised in the thread; no evaluation catches it."""


@dataclass(slots=True, eq=False)
class Section:
    """One evaluation. `began` is by the clock of its thread, at the first check."""

    tenant: str
    limit_seconds: float
    place: str = "loop"
    began: float | None = None
    stopping: bool = False
    done: bool = False


# By thread. A thread adds and removes only its own section.
_sections: dict[int, Section] = {}
# Set when a section is added: they end the sleep of a watchdog.
_asleep: set[threading.Event] = set()
# Held while an exception is sent.
_sending = threading.Lock()


def run_guarded(section: Section, work: Callable[[], T]) -> T:
    """Returns the result of `work`, which must be pure. Raises EvaluationStopped beyond the limit of the section."""
    thread = threading.get_ident()
    if thread in _sections:
        return work()  # within another
    try:
        _sections[thread] = section
        if _asleep:
            for alarm in [*_asleep]:
                alarm.set()
        try:
            return work()
        finally:
            section.done = True
            _sections.pop(thread, None)
            if section.stopping:
                with _sending:
                    _send(thread, None)  # it may have been sent already
    except _Stop:
        _sections.pop(thread, None)
    # Outside the handler: its traceback would keep alive all that was being evaluated.
    raise EvaluationStopped(section.limit_seconds)


def _send(thread: int, exception: type[BaseException] | None) -> None:
    """Raises `exception` in the thread asynchronously; None cancels one that has not been raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if exception is None else ctypes.py_object(exception)
    )


class Watchdog:
    """The thread that checks. `loop` is the event loop of the thread that creates it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stall_seconds: float) -> None:
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._stall_seconds = stall_seconds
        self._ending = threading.Event()
        self._alarm = threading.Event()
        self._tick_requested = False  # for a tick
        self._tick_requested_at = 0.0  # by the clock of the loop's thread
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._alarm.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(POLL_SECONDS):
            for thread, section in [*_sections.items()]:
                used = _cpu_seconds(thread)
                if section.began is None:
                    section.began = used
                elif used - section.began >= section.limit_seconds and not section.stopping:
                    self._stop(thread, section)
            if self._look_at_loop():
                self._sleep()

    def _sleep(self) -> None:
        self._alarm.clear()
        _asleep.add(self._alarm)
        if not _sections and not self._ending.is_set():
            self._alarm.wait(QUIET_SECONDS)
        _asleep.discard(self._alarm)

    def _stop(self, thread: int, section: Section) -> None:
        for _ in range(_TRIES):
            time.sleep(0.001)  # what follows runs before another thread does
            stack = _stack(thread)
            if section.done:
                return
            if _is_shielded(stack):
                continue
            with _sending:
                section.stopping = True
                if not section.done:
                    _send(thread, _Stop)
            STOPPED.labels(section.place).inc()
            fields = {"tenant": section.tenant, "place": section.place, "at": _format_stack(stack)}
            logger.warning("an evaluation took too long and was stopped", extra={"fields": fields})
            return

    def _look_at_loop(self) -> bool:
        """Asks a busy loop for a sign of life, and reports one that gives none. Returns whether it has done little."""
        used = _cpu_seconds(self._loop_thread)
        if self._tick_requested:
            if used - self._tick_requested_at >= self._stall_seconds:
                self._tick_requested_at = float("inf")  # once
                STALLS.inc()
                at = _format_stack(_stack(self._loop_thread))
                logger.warning("the event loop is held", extra={"fields": {"at": at}})
            return False
        if used - self._tick_requested_at > POLL_SECONDS / 2 and self._loop_thread not in _sections:
            self._tick_requested, self._tick_requested_at = True, used
            try:
                self._loop.call_soon_threadsafe(self._tick)
            except RuntimeError:  # it has been closed
                self._ending.set()
            return False
        self._tick_requested_at = used
        return True

    def _tick(self) -> None:
        self._tick_requested, self._tick_requested_at = False, _cpu_seconds(self._loop_thread)


def _cpu_seconds(thread: int) -> float:
    """Returns the processor time of a live thread."""
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


def _stack(thread: int) -> list[FrameType]:
    """Returns the frames of a thread, innermost first, up to the section's."""
    frames: list[FrameType] = []
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code is not run_guarded.__code__:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _is_shielded(stack: list[FrameType]) -> bool:
    return any(part in frame.f_code.co_filename for frame in stack for part in SHIELDED)


def _format_stack(stack: list[FrameType]) -> str:
    """Formats a stack as `json_patch.py:120 _insert < patch.py:75 apply`."""
    places = [
        f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} {frame.f_code.co_name}"
        for frame in stack[:_FRAMES]
    ]
    return " < ".join(places)
