"""Lists: Kubernetes' isSorted, sum, min, max and (from 1.37 on) includes, and cel-go's lists extension,
version 3; lists as sets: sets.contains, sets.equivalent and sets.intersects.

indexOf and lastIndexOf share their names with strings and are in strings.py.

Follows apiserver pkg/cel/library/lists.go and cel-go ext/{lists,sets}.go.
"""

from __future__ import annotations

from functools import cmp_to_key
from itertools import islice, pairwise
from operator import le
from typing import Any

from registry.budget import spend
from registry.cel.common.values import (
    EvalError,
    Uint,
    Value,
    compare,
    elements,
    equal,
    is_equal,
    is_list,
    is_ordered,
    no_such_overload,
    size_of,
    type_of,
)
from registry.cel.ext.standard import add, is_in
from registry.cel.ext.strings import CHARACTERS
from registry.cel.ext.table import (
    STRING_FACTOR,
    Cost,
    allocation,
    elements_of,
    function,
    list_traversal,
    member,
    refuse_beyond_limit,
)
from registry.codec.sorting import sorted_by


@member("isSorted", 1, cost=list_traversal)
def is_sorted(value: Value) -> bool:
    items = elements_of("isSorted", value)
    spend(len(items))
    kinds = set(map(type, items))
    if kinds == {int} or kinds == {str}:
        return all(map(le, items, islice(items, 1, None)))
    for item in items:
        if not is_ordered(item):
            raise no_such_overload()
    return all(compare(a, b) <= 0 for a, b in pairwise(items))


@member("min", 1, cost=list_traversal)
def minimum(value: Value) -> Value:
    return _extreme(elements_of("min", value), "min", 1)


@member("max", 1, cost=list_traversal)
def maximum(value: Value) -> Value:
    return _extreme(elements_of("max", value), "max", -1)


@member("includes", 2, cost=list_traversal)
def includes(target: Value, item: Value) -> bool:
    """Whether an element of a list, or a value that is not a list, equals `item`. Incomparable values are unequal."""
    if not is_list(target):
        return is_equal(target, item)
    spend(len(target))
    return any(is_equal(element, item) for element in elements(target))


def _extreme(items: list[Value], name: str, worse: int) -> Value:
    if not items:
        raise EvalError(f"{name} called on empty list")
    spend(len(items))
    if set(map(type, items)) in ({int}, {str}):
        return min(items) if worse > 0 else max(items)
    best = items[0]
    for item in items:
        if not is_ordered(item):
            raise no_such_overload()
        if compare(best, item) == worse:
            best = item
    return best


@member("sum", 1, cost=list_traversal)
def total(value: Value) -> Value:
    """The sum. The compiler calls `sum_from` with the zero of the element type, for empty lists."""
    return sum_from(0, value)


def sum_from(zero: Value, value: Value) -> Value:
    items = elements_of("sum", value)
    if not items:
        return zero
    spend(len(items))
    if type(items[0]) in (str, bytes):
        return _concatenation(items)
    result = zero if type(zero) is type(items[0]) else None
    for item in items:
        result = item if result is None else add(result, item)
    return result


def _concatenation(parts: list[Value]) -> Value:
    """Concatenates texts as `+` does, in linear time."""
    kind = type(parts[0])
    for part in parts:
        if type(part) is not kind:
            return add(parts[0], part)  # raises the error
    spend(sum(map(len, parts)) // CHARACTERS)
    return kind().join(parts)


# --- the extension


def _output_cost(arguments: tuple[Value, ...], result: Value) -> int:
    return allocation(size_of(result))


def _comparisons_cost(items: Value) -> int:
    size = size_of(items)
    factor = 2.0
    if size and type(elements(items)[0]) in (str, bytes):
        factor += STRING_FACTOR
    return allocation(size * size, factor)


@member("slice", 3, cost=_output_cost)
def list_slice(value: Value, start: Value, end: Value) -> list[Value]:
    items = elements_of("slice", value, start, end)
    if type(start) is not int or type(end) is not int:
        raise no_such_overload()
    if start < 0 or end < 0:
        raise EvalError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvalError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise EvalError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


@member(
    "flatten",
    1,
    2,
    cost=lambda arguments, result: allocation(size_of(arguments[0]), arguments[1] if len(arguments) == 2 else 1),
)
def flatten(value: Value, *depths: Value) -> list[Value]:
    """Replaces inner lists by their elements, one level deep or as many as given."""
    if not is_list(value):
        others = ", ".join(type_of(given).name for given in depths)
        raise no_such_overload(f"{type_of(value).name}.flatten({others})")
    items, depth = elements(value), depths[0] if depths else 1
    if type(depth) is not int:
        raise no_such_overload()
    if depth < 0:
        raise EvalError("level must be non-negative")
    result: list[Value] = []
    open_lists = [iter(items)]
    while open_lists:
        for item in open_lists[-1]:
            if is_list(item) and len(open_lists) <= depth:
                spend(len(item))
                open_lists.append(iter(elements(item)))
                break
            result.append(item)
        else:
            open_lists.pop()
    return result


@function("lists.range", 1, cost=_output_cost)
def list_range(count: Value) -> list[int]:
    if type(count) is not int:
        raise no_such_overload()
    refuse_beyond_limit(count)
    return list(range(count))


@member("reverse", 1, cost=_output_cost)
def reverse(value: Value) -> list[Value]:
    return elements_of("reverse", value)[::-1]


@member("distinct", 1, cost=lambda arguments, result: _comparisons_cost(arguments[0]))
def distinct(value: Value) -> list[Value]:
    """The first of each group of equal elements, in order."""
    items = elements(value)
    kinds = {type(item) for item in items}
    if kinds <= {str} or kinds <= {int}:
        return list(dict.fromkeys(items))
    refuse_beyond_limit(2 * len(items) * len(items))
    result: list[Value] = []
    for item in items:
        if not any(equal(item, other) for other in result):
            result.append(item)
    return result


@member("sort", 1, cost=lambda arguments, result: _comparisons_cost(arguments[0]))
def sort(value: Value) -> list[Value]:
    items = elements(value, "sort")
    return sort_by(items, items)


@member("@sortByAssociatedKeys", 2, cost=lambda arguments, result: _comparisons_cost(arguments[1]))
def sort_by(value: Value, sort_keys: Value) -> list[Value]:
    """The elements sorted by their keys; the macro sortBy expands to it."""
    items, keys = elements(value), elements(sort_keys)
    if len(items) != len(keys):
        raise EvalError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(items)} and {len(keys)} elements respectively"
        )
    if not items:
        return items
    kind = type(keys[0])
    if not is_ordered(keys[0]):
        raise EvalError("list elements must be comparable")
    if any(type(key) is not kind for key in keys):
        raise EvalError("list elements must have the same type")
    order: Any = keys.__getitem__
    if kind not in (int, str, bytes, bool, Uint):
        order = cmp_to_key(lambda a, b: _less_first(keys[a], keys[b]))
    return [items[position] for position in sorted_by(range(len(keys)), order)]


def _less_first(left: Value, right: Value) -> int:
    try:
        return compare(left, right)
    except EvalError:  # NaN: cel-go treats the result as "not less"
        return 0


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
