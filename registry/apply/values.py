"""Equality of decoded values in structured merge: 1 equals 1.0, but not true.

Follows structured-merge-diff value/value.go (Equals). Safe at any depth.
"""

from __future__ import annotations

from itertools import repeat
from typing import Final

from registry.schema.model import Json

_MISSING: Final = object()


def equal(left: Json, right: Json) -> bool:
    """Python's `==` is a fast necessary condition; where it holds, numbers and booleans must be distinguished."""
    if left is right:
        return True
    kind = type(left)
    if kind is str:
        return bool(left == right)
    if kind is dict or kind is list:
        if kind is not type(right) or len(left) != len(right):
            return False
        return _equal_containers(left, right)
    return bool(left == right) and (kind is bool) is (type(right) is bool)


def _equal_containers(left: Json, right: Json) -> bool:
    stack: list[tuple[Json, Json]] = [(left, right)]
    while stack:
        left, right = stack.pop()
        others = right if type(left) is list else map(right.get, left, repeat(_MISSING))
        for one, other in zip(left if type(left) is list else left.values(), others, strict=True):
            if one is other:
                continue
            kind = type(one)
            if kind is dict or kind is list:
                if kind is not type(other) or len(one) != len(other):
                    return False
                stack.append((one, other))
            elif one != other or (kind is bool) is not (type(other) is bool):
                return False
    return True
