"""A cache for functions of a text that are asked for the same texts again and again: fields that updates leave alone.

Long texts are not kept: a few thousand of them would fill the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

_MAX_LENGTH: Final = 200
_MAX_ENTRIES: Final = 2048

_R = TypeVar("_R")


def cache_by_text(function: Callable[[str], _R]) -> Callable[[str], _R]:
    """Remembers what `function` returned for texts of up to 200 characters. Errors are not remembered."""
    remembered = lru_cache(maxsize=_MAX_ENTRIES)(function)

    @wraps(function)
    def call(text: str) -> _R:
        return remembered(text) if len(text) <= _MAX_LENGTH else function(text)

    return call
