"""A cache for pure functions of a text, for fields that repeated updates do not change.

Long texts are not cached: a few thousand of them would fill the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

_MAX_LENGTH: Final = 200
_MAX_ENTRIES: Final = 2048

_R = TypeVar("_R")


def cache_by_text(function: Callable[[str], _R]) -> Callable[[str], _R]:
    """Caches the results of `function` for texts of up to 200 characters. Errors are not cached."""
    remembered = lru_cache(maxsize=_MAX_ENTRIES)(function)

    @wraps(function)
    def call(text: str) -> _R:
        return remembered(text) if len(text) <= _MAX_LENGTH else function(text)

    return call
