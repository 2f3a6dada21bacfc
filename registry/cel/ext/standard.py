"""The operators and functions of the standard library, except for times.

`&&`, `||`, `?:`, indexing, comparison and equality have compilers of their own; the functions here are strict.

Follows cel-go common/stdlib, common/types and common/types/overflow.go.
"""

from __future__ import annotations

import math
from typing import Any

from registry.budget import spend
from registry.cel.common.times import Duration, Timestamp, duration, timestamp
from registry.cel.common.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    EvalError,
    ListValue,
    MapValue,
    Missing,
    Uint,
    Value,
    contains,
    no_such_overload,
    size_of,
)
from registry.cel.ext.table import STRING_FACTOR, function, member, traversal

# --- arithmetic


def check_int(number: int) -> int:
    if INT_MIN <= number <= INT_MAX:
        return number
    raise EvalError("integer overflow")


def check_uint(number: int) -> Uint:
    if 0 <= number <= UINT_MAX:
        return Uint(number)
    raise EvalError("unsigned integer overflow")


def add(left: Value, right: Value) -> Value:
    """`left + right`"""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            total = left + right
            if INT_MIN <= total <= INT_MAX:
                return total
            raise EvalError("integer overflow")
        if kind is str or kind is float or kind is bytes:
            return left + right
        if kind is list:
            spend(len(left) + len(right))
            return left + right
        if kind is Uint:
            return check_uint(int(left) + int(right))
        if kind is Duration:
            return duration(left.nanoseconds + right.nanoseconds)
    if kind is list and isinstance(right, ListValue):
        spend(len(left) + len(right))
        return left + right.elements()
    if isinstance(left, ListValue):
        return left.plus(right)
    if kind is Timestamp and type(right) is Duration:
        return timestamp(left.nanoseconds + right.nanoseconds, left.offset)
    if kind is Duration and type(right) is Timestamp:
        return timestamp(left.nanoseconds + right.nanoseconds, right.offset)
    raise _unfit(left, "_+_", kind in _ADDERS)


def subtract(left: Value, right: Value) -> Value:
    """`left - right`"""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return check_int(left - right)
        if kind is float:
            return left - right
        if kind is Uint:
            return check_uint(int(left) - int(right))
        if kind is Duration or kind is Timestamp:
            return duration(left.nanoseconds - right.nanoseconds)
    if kind is Timestamp and type(right) is Duration:
        return timestamp(left.nanoseconds - right.nanoseconds, left.offset)
    raise _unfit(left, "_-_", kind in _NUMBERS or kind is Duration or kind is Timestamp)


def multiply(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return check_int(left * right)
        if kind is float:
            return left * right
        if kind is Uint:
            return check_uint(int(left) * int(right))
    raise _unfit(left, "_*_", kind in _NUMBERS)


def divide(left: Value, right: Value) -> Value:
    """Integers are truncated towards zero; doubles divide as in IEEE 754."""
    kind = type(left)
    if kind is type(right):
        if kind is float:
            return _divide_doubles(left, right)
        if kind is int or kind is Uint:
            if right == 0:
                raise EvalError("division by zero")
            quotient = abs(int(left)) // abs(int(right))
            if kind is Uint:
                return Uint(quotient)
            return check_int(quotient if (left < 0) == (right < 0) else -quotient)
    raise _unfit(left, "_/_", kind in _NUMBERS)


def _divide_doubles(left: float, right: float) -> float:
    if right == 0:
        if left == 0 or left != left:
            return math.nan
        return math.inf if (left > 0) == (math.copysign(1.0, right) > 0) else -math.inf
    return left / right


def modulo(left: Value, right: Value) -> Value:
    """The remainder has the sign of the left operand."""
    kind = type(left)
    if kind is type(right) and (kind is int or kind is Uint):
        if right == 0:
            raise EvalError("modulus by zero")
        if kind is Uint:
            return Uint(int(left) % int(right))
        if left == INT_MIN and right == -1:
            raise EvalError("integer overflow")
        rest = abs(left) % abs(right)
        return rest if left >= 0 else -rest
    raise _unfit(left, "_%_", kind is int or kind is Uint)


def negate(value: Value) -> Value:
    kind = type(value)
    if kind is int:
        return check_int(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return duration(-value.nanoseconds)
    raise _unfit(value, "-_", kind is bool)


_NUMBERS: set[Any] = {int, Uint, float}
_RECEIVERS: set[Any] = {str, Duration, Timestamp}
_ADDERS: set[Any] = {int, Uint, float, str, bytes, list, Duration, Timestamp}


def _unfit(left: Value, operator: str, fits: bool) -> EvalError:
    """cel-go names the operator only if the left operand neither supports it nor receives calls."""
    return no_such_overload() if fits or type(left) in _RECEIVERS else no_such_overload(operator)


# --- membership and size


def is_in(needle: Value, haystack: Value) -> bool:
    """`needle in haystack`"""
    if type(haystack) is list:
        return contains(haystack, needle)
    if isinstance(haystack, MapValue):
        return not isinstance(haystack.find(needle), Missing)
    if isinstance(haystack, ListValue):
        return haystack.contains(needle)
    raise no_such_overload()


@member("size", 1)
@function("size", 1)
def size(value: Value) -> int:
    """Characters of a string, bytes, elements or entries."""
    kind = type(value)
    if kind is str or kind is list or kind is bytes or isinstance(value, (ListValue, MapValue)):
        return len(value)
    raise no_such_overload("size")


# --- strings


@member("startsWith", 2, cost=traversal())
def starts_with(text: Value, prefix: Value) -> bool:
    if type(text) is str and type(prefix) is str:
        return text.startswith(prefix)
    raise no_such_overload()


@member("endsWith", 2, cost=traversal())
def ends_with(text: Value, suffix: Value) -> bool:
    if type(text) is str and type(suffix) is str:
        return text.endswith(suffix)
    raise no_such_overload()


def _contains_cost(arguments: tuple[Value, ...], result: Value) -> int:
    return math.ceil(size_of(arguments[0]) * STRING_FACTOR) * math.ceil(size_of(arguments[1]) * STRING_FACTOR)


@member("contains", 2, cost=_contains_cost)
def string_contains(text: Value, part: Value) -> bool:
    if type(text) is str and type(part) is str:
        return part in text
    raise no_such_overload()
