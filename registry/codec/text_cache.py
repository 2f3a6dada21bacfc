"""Caches for pure functions of a text, for fields that repeated updates do not change.

Long texts are not cached: a few thousand of them would fill the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

_R = TypeVar("_R")


def cache_short(longest: int, maxsize: int) -> Callable[[Callable[[str], _R]], Callable[[str], _R]]:
    """Caches `maxsize` results of a function, of texts of up to `longest` characters. Errors are not cached."""

    def decorate(function: Callable[[str], _R]) -> Callable[[str], _R]:
        remembered = lru_cache(maxsize)(function)

        @wraps(function)
        def call(text: str) -> _R:
            return remembered(text) if len(text) <= longest else function(text)

        return call

    return decorate
