"""Texts and lines of events, kept with their change so that all its watchers share them, within bounds for the process.

They are of use for the moment in which a change goes to its watchers; the ring keeps changes for far longer, and counts
only what they were read with. So the oldest go first, and what is large is made for each watcher instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from sys import getsizeof
from typing import Any, Final

# Of all changes of a process.
MAX_BYTES: Final = 16 << 20
LARGE_BYTES: Final = 64 * 1024


class EventForms:
    """Invariant: `held_bytes` is the sum over `_kept`."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: deque[tuple[dict[Any, Any], Hashable, int]] = deque()
        self.held_bytes = 0

    def keep(self, forms: dict[Any, Any], key: Hashable, form: str | bytes, *, is_needed: bool = False) -> None:
        """Puts a form into those of a change, for some time; not where it is large, unless it `is_needed` there."""
        size = getsizeof(form)
        if size > LARGE_BYTES and not is_needed:
            return
        forms[key] = form
        self._kept.append((forms, key, size))
        self.held_bytes += size
        while self.held_bytes > self._max_bytes and not is_needed:
            old, old_key, size = self._kept.popleft()
            old.pop(old_key, None)
            self.held_bytes -= size


EVENT_FORMS: Final = EventForms()
