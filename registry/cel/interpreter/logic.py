"""Code for `&&`, `||`, `!`, `?:`, equality, order and `in`, the operators that most rules consist of.

`&&` and `||` short-circuit, and an error on one side is ignored if the other side decides the result.

Follows cel-go interpreter/interpretable.go and runtimecost.go.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from registry.cel.common.values import (
    NO_SUCH_OVERLOAD,
    EvalError,
    Value,
    compare,
    equal,
    is_equal,
    is_ordered,
    no_such_overload,
    size_of,
)
from registry.cel.ext.standard import is_in
from registry.cel.ext.table import STRING_FACTOR
from registry.cel.interpreter.code import Code, Counting, Frame, Run, charge, value_of

# Up to this length, comparing two texts costs 1.
_CHEAP = 10


# --- and, or, not, ?:


def both(terms: list[Code]) -> Code:
    """`a && b && …`"""
    return _short_circuit(terms, False)


def either(terms: list[Code]) -> Code:
    """`a || b || …`"""
    return _short_circuit(terms, True)


def _short_circuit(terms: list[Code], decisive: bool) -> Code:
    """The first term equal to `decisive` decides; if there is none, the first error is raised."""
    runs = [value_of(term) for term in terms]
    cost = sum(term.cost for term in terms)
    if len(runs) == 2:
        return Code(_short_circuit_two(runs[0], runs[1], decisive), cost)
    otherwise = not decisive

    def run(frame: Frame) -> Value:
        failure: str | None = None
        for term in runs:
            try:
                value = term(frame)
            except EvalError as error:
                failure = failure or str(error)
                continue
            if value is decisive:
                return decisive
            if value is not otherwise:
                failure = failure or NO_SUCH_OVERLOAD
        if failure is not None:
            raise EvalError(failure)
        return otherwise

    return Code(run, cost)


def _short_circuit_two(left: Run, right: Run, decisive: bool) -> Run:
    otherwise = not decisive

    def run(frame: Frame) -> Value:
        try:
            value = left(frame)
        except EvalError as error:
            failure = str(error)
        else:
            if value is decisive:
                return decisive
            if value is otherwise:
                value = right(frame)
                if value is True or value is False:
                    return value
                raise no_such_overload()
            failure = NO_SUCH_OVERLOAD
        # Only a right side that decides makes up for the failure of the left one.
        try:
            if right(frame) is decisive:
                return decisive
        except EvalError:
            pass
        raise EvalError(failure)

    return run


def negation(operand: Code) -> Code:
    """`!a`"""
    run = value_of(operand)

    def negate(frame: Frame) -> bool:
        value = run(frame)
        if value is True:
            return False
        if value is False:
            return True
        raise no_such_overload()

    return Code(negate, operand.cost)


def conditional(condition: Code, truthy: Code, falsy: Code) -> Code:
    """`condition ? truthy : falsy`"""
    test = value_of(condition)
    same = truthy.view is falsy.view
    yes, no = (truthy.run, falsy.run) if same else (value_of(truthy), value_of(falsy))

    def choose(frame: Frame) -> Value:
        value = test(frame)
        if value is True:
            return yes(frame)
        if value is False:
            return no(frame)
        raise no_such_overload()

    cost = condition.cost + max(truthy.cost, falsy.cost)
    return Code(choose, cost, truthy.view if same else None, attribute=True)


# --- equality


def comparison_cost(left: Value, right: Value) -> int:
    return math.ceil(min(size_of(left), size_of(right)) * STRING_FACTOR)


def equality(left: Code, right: Code, counting: Counting, wanted: bool) -> Code:
    """`left == right`, or with `wanted` False `left != right`: values that cannot be compared are not equal."""
    if not counting.exact and (right.constant or left.constant):
        known, other = (right, left) if right.constant else (left, right)
        literal = known.run([])
        if type(literal) in (str, int, bool):
            return _equals_constant(other, literal, wanted, left is known)
    a, b, same = value_of(left), value_of(right), equal if wanted else is_equal

    def equals(frame: Frame) -> bool:
        x, y = a(frame), b(frame)
        kind = type(x)
        if kind is type(y) and (kind is int or kind is bool or (kind is str and len(x) <= _CHEAP)):
            return (x == y) is wanted
        charge(frame, comparison_cost(x, y))
        return same(x, y) is wanted

    def equals_exactly(frame: Frame) -> bool:
        x, y = a(frame), b(frame)
        charge(frame, comparison_cost(x, y))
        return same(x, y) is wanted

    if counting.exact:
        return Code(equals_exactly, left.cost + right.cost)
    return Code(equals, left.cost + right.cost + 1)


def _equals_constant(other: Code, literal: Any, wanted: bool, flipped: bool) -> Code:
    run, kind, same = value_of(other), type(literal), equal if wanted else is_equal

    def equals_constant(frame: Frame) -> bool:
        value = run(frame)
        if type(value) is kind:
            return (value == literal) is wanted
        return (same(literal, value) if flipped else same(value, literal)) is wanted

    return Code(equals_constant, other.cost + max(1, comparison_cost(literal, literal)))


# --- order

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}


def ordering(name: str, left: Code, right: Code, counting: Counting) -> Code:
    """`left < right` and the other comparisons."""
    a, b, exact = value_of(left), value_of(right), counting.exact
    test = _ORDERS[name]

    def slowly(frame: Frame, x: Value, y: Value) -> bool:
        if exact or size_of(x) > _CHEAP:
            charge(frame, comparison_cost(x, y) if type(x) in (str, bytes) else 1)
        if not is_ordered(x):
            raise no_such_overload(name)
        return test(compare(x, y), 0)

    if exact:
        return Code(lambda frame: slowly(frame, a(frame), b(frame)), left.cost + right.cost)
    if right.constant:
        literal = right.run([])
        if type(literal) is int:
            return Code(_to_constant(a, test, literal, slowly), left.cost + 1)
    return Code(_of_two(a, b, test, slowly), left.cost + right.cost + 1)


_Slow = Callable[[Frame, Value, Value], bool]


def _to_constant(a: Run, test: Callable[[Any, Any], bool], literal: int, slowly: _Slow) -> Run:
    def order(frame: Frame) -> bool:
        value = a(frame)
        return test(value, literal) if type(value) is int else slowly(frame, value, literal)

    return order


def _of_two(a: Run, b: Run, test: Callable[[Any, Any], bool], slowly: _Slow) -> Run:
    def order(frame: Frame) -> bool:
        x, y = a(frame), b(frame)
        return test(x, y) if type(x) is int and type(y) is int else slowly(frame, x, y)

    return order


# --- membership


def membership(needle: Code, haystack: Code) -> Code:
    """`needle in haystack`"""
    item, cost = value_of(needle), needle.cost + haystack.cost
    if haystack.constant:
        items = haystack.run([])
        if type(items) is list and items and all(type(i) is str for i in items):
            return _in_constant(item, items, cost + len(items))
    view = haystack.view
    if view is not None and view.kind == "map":
        entries = haystack.run

        def in_map(frame: Frame) -> bool:
            key = item(frame)
            if type(key) is not str:
                raise no_such_overload()
            return key in entries(frame)

        return Code(in_map, cost + 1)
    run = value_of(haystack)

    def is_member(frame: Frame) -> bool:
        x, items = item(frame), run(frame)
        result = is_in(x, items)
        charge(frame, size_of(items) if type(items) is list or hasattr(items, "raw") else 1)
        return result

    return Code(is_member, cost)


def _in_constant(item: Run, items: list[str], cost: int) -> Code:
    known = frozenset(items)

    def in_constant(frame: Frame) -> bool:
        value = item(frame)
        return value in known if type(value) is str else is_in(value, items)

    return Code(in_constant, cost)
