"""How memory is kept: what large requests have freed goes back to the system, and few searches for cycles are long.

By default glibc raises the size from which it maps a text by itself, up to 32 MiB, once such a text has been freed.
Smaller ones then stay in heaps, one for each of up to eight threads per core, which shrink only at their ends. After
requests with large bodies a process had twice as much resident as it used. What is free between texts that are still
used is returned every few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

# mallopt(3).
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8

# Texts from here on are mapped, and unmapped when they are freed. A list is sent in smaller parts.
MAPPED_BYTES: Final = 256 * 1024
# What may be free at the end of a heap.
_SPARE_BYTES: Final = 8 * 1024 * 1024
# The event loop's heap, and one for the threads, of which one at a time has the interpreter.
_HEAPS: Final = 2

# gc.set_threshold. Nearly all objects of requests are freed by reference counting. Whichever thread searches holds the
# interpreter, so each search is to be short: the first of these costs a millisecond, the second 3 ms, where 10,000 and
# 50,000 young objects cost 4 and 37 ms in a thread that decodes a large definition. What survives the second is exempt:
# a third would search what thousands of watches have changed since the last one, which took up to 65 ms, and would
# empty Python's free lists.
_NEVER: Final = 2**31 - 1
_THRESHOLDS: Final = (2_000, 2, _NEVER)

# An event leaves its watch with new objects to wait in, for as many that are freed. The collector counts only the
# difference: thousands of watches had 50,000 new objects when it searched, which took 30 ms. So it also searches after
# so many events.
_EVENTS: Final = 500

# How often the heaps are looked at. How much has to be freed until they are trimmed, which takes some 20 ms beside the
# event loop; and how much the process must have grown since the last search for cycles that growth has caused, and at
# how many looks in a row.
_CHECK_SECONDS: Final = 5.0
_TRIM_BYTES: Final = 32 * 1024 * 1024
_COLLECT_BYTES: Final = 128 * 1024 * 1024
_COLLECT_LOOKS: Final = 12
# A process is idle that has used less than this part of a processor since the last look.
_IDLE_PART: Final = 0.1
# By how much the number of exempt objects must have grown for a search of all of them while the process is busy:
# 600,000 take 0.4 s, in which nothing else runs. It takes more of them where short searches have found little: ten
# thousand watches are a million objects, none of them garbage.
_MANY_OBJECTS: Final = 1_000_000
_MOST_OBJECTS: Final = 4_000_000
_MUCH_GARBAGE: Final = 100_000
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class _MallInfo(ctypes.Structure):
    """mallinfo2(3)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def return_freed_memory() -> None:
    """Makes the process keep little of what it has freed. Other C libraries than glibc are left as they are."""
    mallopt = _function("mallopt")
    if mallopt is None:
        return
    for parameter, value in (
        (_M_MMAP_THRESHOLD, MAPPED_BYTES),
        (_M_TRIM_THRESHOLD, _SPARE_BYTES),
        (_M_ARENA_MAX, _HEAPS),
    ):
        mallopt(parameter, value)


@contextlib.contextmanager
def short_searches() -> Iterator[None]:
    """Within the block a search for cycles takes no longer than what is new requires, however much the caches hold.

    What has survived two of them is exempt from later ones, as is all that exists at the start. That is freed by
    reference counting, as nearly all objects are; cycles that become garbage later are found when the process has grown
    (`return_free_memory`). With the usual thresholds a tenth of a create's time is spent on searches.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.callbacks.append(_SEARCHES.note_search)
    _SEARCHES.events_left = _EVENTS
    gc.enable()
    try:
        yield
    finally:
        gc.callbacks.remove(_SEARCHES.note_search)
        gc.set_threshold(*before)
        _SEARCHES.events_left = math.inf


class _Searches:
    """How many events may be sent until new objects are searched."""

    def __init__(self) -> None:
        self.events_left: float = math.inf

    def note_search(self, phase: str, search: dict[str, int]) -> None:
        if phase == "stop":
            self.events_left = _EVENTS
            if search["generation"]:
                gc.freeze()  # the survivors are exempt


_SEARCHES: Final = _Searches()


def note_event() -> None:
    """Notes that a watch has sent events: within `short_searches`, new objects are searched after some hundred."""
    _SEARCHES.events_left -= 1
    if _SEARCHES.events_left <= 0:
        gc.collect(1 if gc.get_count()[1] > _THRESHOLDS[1] else 0)


async def return_free_memory(is_shared: Callable[[], bool], check_seconds: float = _CHECK_SECONDS) -> None:
    """Returns to the system what has been freed, again and again until it is cancelled. Only with glibc 2.33 or newer.

    Reference cycles are searched for, too, when the process has grown, however few objects have caused it. Exempt
    objects take part if they have become many and are probably garbage, or if hardly anybody would have to wait: the
    process is idle, and `is_shared` does not return that several tenants have been present lately.
    """
    trim, heaps = _function("malloc_trim"), _function("mallinfo2")
    if trim is None or heaps is None:
        return
    heaps.restype = _MallInfo
    await asyncio.sleep(check_seconds)
    # What was free when the heaps were last trimmed, less what has been used again since.
    returned = 0
    collected, grown, exempt, found = _resident_bytes(), 0, gc.get_freeze_count(), _garbage_objects()
    used = time.process_time()
    while True:
        used, before = time.process_time(), used
        grown = grown + 1 if _resident_bytes() > collected + _COLLECT_BYTES else 0
        is_whole = False
        if grown >= _COLLECT_LOOKS:
            most = _MANY_OBJECTS if _garbage_objects() > found + _MUCH_GARBAGE else _MOST_OBJECTS
            is_idle = used - before < check_seconds * _IDLE_PART and not is_shared()
            is_whole = is_idle or gc.get_freeze_count() > exempt + most
            if is_whole:
                gc.unfreeze()
            gc.collect()
        if is_whole:
            exempt, found = gc.get_freeze_count(), _garbage_objects()
        free = (await asyncio.to_thread(heaps)).fordblks
        if free > returned + _TRIM_BYTES:
            await asyncio.to_thread(trim, 0)
            returned = free
        returned = min(returned, free)
        collected = _resident_bytes() if is_whole else min(collected, _resident_bytes())
        await asyncio.sleep(check_seconds)


def _garbage_objects() -> int:
    """Returns how many objects all searches for cycles have found."""
    return sum([generation["collected"] for generation in gc.get_stats()])


def _resident_bytes() -> int:
    """Returns 0 where the system does not say it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def _function(name: str) -> Any:
    """Returns a function of glibc; None if the C library has none of that name."""
    try:
        return getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
