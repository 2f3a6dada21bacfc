"""Who has lately read or written something large: the others do not wait behind their megabytes."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

Who = TypeVar("Who", bound=Hashable)

# For how long after something large the next is expected to be large, too.
_SECONDS: Final = 10.0
# The number of those who are remembered, beyond which they are forgotten when their time is over.
_MANY: Final = 1_000


class LargeLately(Generic[Who]):
    def __init__(self) -> None:
        self._until: dict[Who, float] = {}

    def note(self, who: Who) -> None:
        now = time.monotonic()
        self._until[who] = now + _SECONDS
        if len(self._until) > _MANY:
            self._until = {one: until for one, until in self._until.items() if until > now}

    def __contains__(self, who: Who) -> bool:
        until = self._until.get(who)
        return until is not None and until > time.monotonic()
