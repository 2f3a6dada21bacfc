"""How memory is kept: what large requests have freed goes back to the system, and few searches for cycles are long.

By default glibc raises the size from which it maps a text by itself, up to 32 MiB, once such a text has been freed.
Smaller ones then stay in heaps, one for each of up to eight threads per core, which shrink only at their ends. After
requests with large bodies a process had twice as much resident as it used.
"""

from __future__ import annotations

import ctypes
from typing import Final

# mallopt(3).
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8

# Texts from here on are mapped, and unmapped when they are freed. A list is sent in smaller parts. The buffer that the
# event loop keeps for each TLS connection is of this size: mapped, it takes only what the connection has used of it,
# while in a heap it may take the place of a large text that has been freed.
MAPPED_BYTES: Final = 256 * 1024
# What may be free at the end of a heap.
_SPARE_BYTES: Final = 8 * 1024 * 1024
# The event loop's heap, and one for the threads, of which one at a time has the interpreter.
_HEAPS: Final = 2

# gc.set_threshold. Nearly all objects of requests are freed by reference counting. Whichever thread searches holds the
# interpreter, so each search is to be short: the first of these costs a millisecond, the second 3 ms, where 10,000 and
# 50,000 young objects cost 4 and 37 ms in a thread that decodes a large definition. A create takes 1% longer with it.
COLLECTOR_THRESHOLDS: Final = (2_000, 2, 5_000)


def return_freed_memory() -> None:
    """Makes the process keep little of what it has freed. Other C libraries than glibc are left as they are."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for parameter, value in (
        (_M_MMAP_THRESHOLD, MAPPED_BYTES),
        (_M_TRIM_THRESHOLD, _SPARE_BYTES),
        (_M_ARENA_MAX, _HEAPS),
    ):
        mallopt(parameter, value)
