"""Texts and lines of events, cached with their change for all its watches, within bounds for the process.

They are of use while a change is sent to its watches; the ring keeps changes for far longer, and counts only their
size when read. So the oldest are evicted first, and large ones are made for each watch instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from sys import getsizeof
from typing import Any, Final

# The limit for all changes of a process.
MAX_BYTES: Final = 16 << 20
LARGE_BYTES: Final = 64 * 1024


class EventForms:
    """Invariant: `held_bytes` is the sum over `_entries`."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._entries: deque[tuple[dict[Any, Any], Hashable, int]] = deque()
        self.held_bytes = 0

    def keep(self, forms: dict[Any, Any], key: Hashable, form: str | bytes, *, is_needed: bool = False) -> None:
        """Caches a form with a change, until evicted; not a large one, unless it `is_needed` there."""
        size = getsizeof(form)
        if size > LARGE_BYTES and not is_needed:
            return
        forms[key] = form
        self._entries.append((forms, key, size))
        self.held_bytes += size
        while self.held_bytes > self._max_bytes and not is_needed:
            old, old_key, size = self._entries.popleft()
            old.pop(old_key, None)
            self.held_bytes -= size


EVENT_FORMS: Final = EventForms()
