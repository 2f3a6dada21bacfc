"""The registry of library functions, which the compiler looks up.

A function is a Python callable on plain values; the target of `a.f(b)` is its first argument. Expressions may be of
dynamic type, so types are checked at each call: `of` are those of the first arguments, where each has just one. Other
functions check theirs, and raise EvalError with cel-go's text.

A Cost returns the cost of a call from its arguments and its result; calls without one cost 1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

from registry.cel.common.values import CostExceeded, EvalError, MapValue, Value, elements, is_list, size_of, type_of

Implementation = Callable[..., Value]
Cost = Callable[[tuple[Value, ...], Value], int]

# By name and number of arguments, the target included.
GLOBALS: Final[dict[tuple[str, int], Implementation]] = {}
MEMBERS: Final[dict[tuple[str, int], Implementation]] = {}
COSTS: Final[dict[str, Cost]] = {}

# Functions without a Cost whose work does not grow with their arguments. The work of the others is charged.
CONSTANT_TIME: Final = frozenset(
    """
    bool cel.@mapInsert charAt dyn first hasValue last optional.none optional.of optional.ofNonZeroValue size
    type value
    """.split()
)

# The cost limit of one evaluation (celconfig.PerCallLimit). Functions whose work grows faster than their arguments do
# not start what would exceed it.
PER_CALL_LIMIT: Final = 1_000_000

STRING_FACTOR: Final = 0.1  # common.StringTraversalCostFactor
REGEX_FACTOR: Final = 0.25  # common.RegexStringLengthCostFactor
LIST_COST: Final = 10  # common.ListCreateBaseCost
MAP_COST: Final = 30  # common.MapCreateBaseCost

_F = TypeVar("_F", bound=Callable[..., Any])


def function(name: str, *counts: int, of: tuple[type, ...] = (), cost: Cost | None = None) -> Callable[[_F], _F]:
    """Registers a global function, `name(a, b)`, for the given numbers of arguments."""
    return _registration(GLOBALS, name, counts, of, cost)


def member(name: str, *counts: int, of: tuple[type, ...] = (), cost: Cost | None = None) -> Callable[[_F], _F]:
    """Registers a member function, `a.name(b)`; the target counts as an argument."""
    return _registration(MEMBERS, name, counts, of, cost)


def _registration(
    table: dict[tuple[str, int], Implementation],
    name: str,
    counts: tuple[int, ...],
    of: tuple[type, ...],
    cost: Cost | None,
) -> Callable[[_F], _F]:
    def register(implementation: _F) -> _F:
        checked = _checked(implementation, name, of, max(counts)) if of else implementation
        for count in counts:
            table[name, count] = checked
        if cost is not None:
            COSTS[name] = cost
        return implementation

    return register


def _checked(implementation: Implementation, name: str, of: tuple[type, ...], count: int) -> Implementation:
    [first, *_] = of

    @functools.wraps(implementation)
    def call_with_one(argument: Value) -> Value:
        if type(argument) is not first:
            raise mismatch(name, argument)
        return implementation(argument)

    @functools.wraps(implementation)
    def call(*arguments: Value) -> Value:
        for argument, expected in zip(arguments, of, strict=False):
            if type(argument) is not expected:
                raise mismatch(name, *arguments)
        return implementation(*arguments)

    return call_with_one if count == 1 else call


def mismatch(name: str, *arguments: Value) -> EvalError:
    """`no such overload: name(int, string)`: the error of arguments whose types a function does not support."""
    return EvalError(f"no such overload: {name}({', '.join(type_of(a).name for a in arguments)})")


def can_parse(parse: Callable[[str], object], text: str) -> bool:
    """Whether `parse` raises no EvalError."""
    try:
        parse(text)
    except EvalError:
        return False
    return True


def elements_of(name: str, value: Value, *others: Value) -> list[Value]:
    """The elements of the list that `name` is called on. Raises EvalError for anything else."""
    if not is_list(value):
        raise mismatch(name, value, *others)
    return elements(value)


def refuse_beyond_limit(cost: int) -> None:
    if cost > PER_CALL_LIMIT:
        raise CostExceeded


# --- costs shared by several functions


def traversal(factor: float = 1.0) -> Cost:
    """The cost of reading the first argument, a text, `factor` times."""

    def cost(arguments: tuple[Value, ...], result: Value) -> int:
        value = arguments[0]
        return math.ceil((len(value) if type(value) is str else size_of(value)) * factor * STRING_FACTOR)

    return cost


def list_traversal(arguments: tuple[Value, ...], result: Value) -> int:
    """The cost of isSorted, sum, indexOf and others: 1 for each scalar, a tenth of the bytes for each text."""
    return _traversal_cost(arguments[0])


def _traversal_cost(value: Value) -> int:
    kind = type(value)
    if kind is str:
        return int((len(value) if value.isascii() else len(value.encode(errors="replace"))) * STRING_FACTOR)
    if kind is bytes:
        return int(len(value) * STRING_FACTOR)
    if is_list(value):
        return sum(map(_traversal_cost, elements(value)))
    if isinstance(value, MapValue):
        return sum(_traversal_cost(key) + _traversal_cost(value.find(key)) for key in value.all_keys())
    return 1


def search(arguments: tuple[Value, ...], result: Value) -> int:
    """The cost of matching a regular expression: the length of the text times an estimate of the pattern's size."""
    text, pattern = size_of(arguments[0]), size_of(arguments[1])
    return math.ceil((1.0 + text) * STRING_FACTOR) * math.ceil(pattern * REGEX_FACTOR)


def allocation(size: int, factor: float = 1.0) -> int:
    return int(size * factor) + 1 + LIST_COST
