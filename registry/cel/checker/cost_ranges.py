"""Ranges of costs and sizes: pairs (least, most) of integers that saturate at 2**64-1.

Follows the arithmetic of cel-go checker/cost.go.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

Range: TypeAlias = tuple[int, int]

LIMIT: Final = 2**64 - 1
FREE: Final[Range] = (0, 0)
ONE: Final[Range] = (1, 1)
UNKNOWN: Final[Range] = (0, LIMIT)

TRAVERSAL: Final = 0.1  # for each character of a string that is read once
REGEX: Final = 0.25  # for each character of a pattern


def fixed(value: int) -> Range:
    return value, value


def add(one: Range, other: Range) -> Range:
    most = one[1] + other[1]
    if most > LIMIT:
        return min(one[0] + other[0], LIMIT), LIMIT
    return one[0] + other[0], most


def multiply(one: Range, other: Range) -> Range:
    most = one[1] * other[1]
    if most > LIMIT:
        return min(one[0] * other[0], LIMIT), LIMIT
    return one[0] * other[0], most


def union(one: Range, other: Range) -> Range:
    return min(one[0], other[0]), max(one[1], other[1])


def times(of: Range, factor: float) -> Range:
    """Multiplies both ends in floating point and rounds up."""
    return _times(of[0], factor), _times(of[1], factor)


def traversal(size: Range) -> Range:
    """The cost of reading a string of this size once."""
    return times(size, TRAVERSAL)


def _times(value: int, factor: float) -> int:
    product = math.ceil(float(value) * factor)
    return min(product, LIMIT)
