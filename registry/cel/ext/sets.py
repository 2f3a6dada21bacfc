"""sets.contains, sets.equivalent and sets.intersects: lists as sets.

Follows cel-go ext/sets.go.
"""

from __future__ import annotations

from registry.cel.common.values import Value, elements, size_of
from registry.cel.ext.standard import is_in
from registry.cel.ext.table import Cost, function, refuse_beyond_limit


def _cost(factor: int) -> Cost:
    def cost(arguments: tuple[Value, ...], result: Value) -> int:
        return size_of(arguments[0]) * size_of(arguments[1]) * factor + 1

    return cost


@function("sets.contains", 2, cost=_cost(1))
def sets_contains(whole: Value, part: Value) -> bool:
    """Whether every element of the second list is in the first."""
    items = elements(part, "sets.contains")
    refuse_beyond_limit(len(items) * size_of(whole))
    return all(is_in(item, whole) for item in items)


@function("sets.equivalent", 2, cost=_cost(2))
def sets_equivalent(left: Value, right: Value) -> bool:
    return sets_contains(left, right) and sets_contains(right, left)


@function("sets.intersects", 2, cost=_cost(1))
def sets_intersects(left: Value, right: Value) -> bool:
    items = elements(left, "sets.intersects")
    refuse_beyond_limit(len(items) * size_of(right))
    return any(is_in(item, right) for item in items)
