"""Code for function calls and for list and map literals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from registry.budget import spend
from registry.cel.common.maps import Map
from registry.cel.common.times import Duration
from registry.cel.common.values import (
    CostExceeded,
    EvalError,
    ListValue,
    MapValue,
    Optional,
    Uint,
    Value,
    no_such_overload,
)
from registry.cel.ext.lists import sum_from
from registry.cel.ext.maps import key_text
from registry.cel.ext.regex import matcher
from registry.cel.ext.strings import CHARACTERS
from registry.cel.ext.table import PER_CALL_LIMIT, REGEX_FACTOR, STRING_FACTOR, Implementation
from registry.cel.interpreter.code import COST, Code, Frame, Run, charge, failing, value_of


def plain_call(implementation: Implementation, arguments: list[Code]) -> Code:
    cost = sum(a.cost for a in arguments)
    runs = [value_of(a) for a in arguments]
    if len(runs) == 1:
        first = runs[0]
        return Code(lambda frame: implementation(first(frame)), cost)
    if len(runs) == 2:
        first, second = runs
        return Code(lambda frame: implementation(first(frame), second(frame)), cost)
    return Code(lambda frame: implementation(*[run(frame) for run in runs]), cost)


def costed_call(
    implementation: Implementation, arguments: list[Code], cost_of: Callable[[tuple[Value, ...], Value], int]
) -> Code:
    """A call whose cost depends on its arguments."""
    runs = tuple(value_of(a) for a in arguments)
    cost = sum(a.cost for a in arguments)
    if len(runs) == 2:
        first, second = runs

        def call_binary(frame: Frame) -> Value:
            values = (first(frame), second(frame))
            try:
                result = implementation(*values)
            except EvalError:
                _add_input_work(values)  # no cost is added, and a loop may absorb the error and call again
                raise
            total = frame[COST] + cost_of(values, result)
            frame[COST] = total
            if total > PER_CALL_LIMIT:
                raise CostExceeded
            return result

        return Code(call_binary, cost)

    def call(frame: Frame) -> Value:
        values = tuple([run(frame) for run in runs])
        try:
            result = implementation(*values)
        except EvalError:
            _add_input_work(values)
            raise
        charge(frame, cost_of(values, result))
        return result

    return Code(call, cost)


def matches_constant(arguments: list[Code]) -> Code:
    """`text.matches('…')`, with the pattern compiled once."""
    pattern = arguments[1].run([])
    text = value_of(arguments[0])
    try:
        test = matcher(pattern)
    except EvalError as error:
        return failing(error, arguments[0].cost)
    weight = math.ceil(len(pattern) * REGEX_FACTOR)

    def matches(frame: Frame) -> bool:
        value = text(frame)
        if type(value) is not str:
            raise no_such_overload()
        charge(frame, math.ceil((1.0 + len(value)) * STRING_FACTOR) * weight)
        return test(value)

    return Code(matches, arguments[0].cost)


def with_input_work(implementation: Implementation) -> Implementation:
    """Wraps a function whose cost does not grow with its input: the input's size is charged as work before the call.

    kube-apiserver's costs ignore it: double('1111…') costs 1.
    """

    def call(*arguments: Value) -> Value:
        _add_input_work(arguments)
        return implementation(*arguments)

    return call


def _add_input_work(arguments: tuple[Value, ...]) -> None:
    for value in arguments:
        kind = type(value)
        if kind is str or kind is bytes:
            spend(len(value) // CHARACTERS)
        elif kind is list or isinstance(value, _SIZED):
            spend(len(value))


_SIZED: Final = (ListValue, MapValue)

_ZEROS: Final[Mapping[str, Any]] = {"double": 0.0, "uint": Uint(0), "duration": Duration(0)}


def typed_sum(overloads: tuple[str, ...]) -> Implementation:
    """sum() of an empty list is the zero of its element type."""
    zero = next((value for name, value in _ZEROS.items() if any(f"_{name}_sum" in o for o in overloads)), 0)
    return lambda items: sum_from(zero, items)


def alternative(name: str, optional: Code, other: Code) -> Code:
    """`a.or(b)` and `a.orValue(b)`: b is only evaluated if a has no value. What is no optional is the result."""
    first, second, whole = value_of(optional), value_of(other), name == "or"

    def choose(frame: Frame) -> Value:
        value = first(frame)
        if type(value) is not Optional:
            return value
        if value.present:
            return value if whole else value.get()
        return second(frame)

    return Code(choose, optional.cost + other.cost)


# --- literals


def list_of(items: list[Code], optional: frozenset[int]) -> Run:
    runs = [value_of(item) for item in items]
    if not optional:
        return lambda frame: [run(frame) for run in runs]

    def build(frame: Frame) -> Value:
        result = []
        for position, run in enumerate(runs):
            value = run(frame)
            if position in optional:
                if type(value) is not Optional:
                    raise EvalError(f"cannot initialize optional list element from non-optional value {value}")
                if not value.present:
                    continue
                value = value.get()
            result.append(value)
        return result

    return build


def map_of(frame: Frame, pairs: list[tuple[Run, Run, bool]]) -> Map:
    result = Map()
    for key_run, value_run, optional in pairs:
        key, value = key_run(frame), value_run(frame)
        if type(key) is bytes:  # the original panics
            raise EvalError("internal error: runtime error: hash of unhashable type types.Bytes")
        if optional:
            if type(value) is not Optional:
                raise EvalError(f"cannot initialize optional entry '{key_text(key)}' from non-optional value {value}")
            if not value.present:
                continue
            value = value.get()
        result.insert(key, value)  # the last of two equal keys wins
    return result
