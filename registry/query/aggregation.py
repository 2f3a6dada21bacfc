"""Grouping and aggregation of objects: count, sum, min, max, avg, percentiles, distinct values.

    groups = Groups(keys=[Reading(spec.team)], aggregates=[Aggregate("total", Function.SUM, Reading(spec.size))])
    groups.add(("storage",), (3,))
    groups.rows()                      # [("storage", 3)]

As in SQL, values that are absent count for nothing: the sum, least, greatest, average and percentiles of none are null,
and their count is 0. Absent keys are one group. Without keys there is one group, of no objects perhaps. Sums and
averages are exact, and then rounded once, so the order of objects does not matter.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from typing import Final, Protocol

from registry.cel.common.values import INT_MAX, INT_MIN
from registry.codec.sorting import sorted_by
from registry.query.values import BinaryQuantity, Reading, Value, ValueType

# Limits of one query: its groups, and the values held by all its distinct counts and percentiles.
MAX_GROUPS: Final = 10_000
MAX_HELD: Final = 200_000


class AggregateFunction(enum.Enum):
    COUNT = "Count"
    COUNT_DISTINCT = "CountDistinct"
    SUM = "Sum"
    AVG = "Avg"
    MIN = "Min"
    MAX = "Max"
    PERCENTILE = "Percentile"


class AggregateError(ValueError):
    """The text says what cannot be computed, for the client."""


class TooManyGroups(AggregateError):
    pass


# The types that can be summed.
SUMMABLE: Final = frozenset({ValueType.INTEGER, ValueType.NUMBER, ValueType.DURATION, ValueType.QUANTITY})


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`input` None counts objects. `fraction` is that of a percentile, from 0 to 1."""

    name: str
    function: AggregateFunction
    input: Reading | None = None
    fraction: Fraction = Fraction(0)

    @property
    def type(self) -> ValueType:
        if self.input is None or self.function in (AggregateFunction.COUNT, AggregateFunction.COUNT_DISTINCT):
            return ValueType.INTEGER
        if self.function is AggregateFunction.AVG and self.input.type is ValueType.INTEGER:
            return ValueType.NUMBER
        return self.input.type


class Groups:
    """`binary` has the columns in which a quantity was written with a binary suffix."""

    def __init__(self, keys: Sequence[Reading], aggregates: Sequence[Aggregate]) -> None:
        self._keys = keys
        self._aggregates = aggregates
        self._held = 0
        self._groups: dict[tuple[Value | None, ...], list[_AggregateState]] = {}
        self.binary: set[int] = set()
        if not keys:
            self._groups[()] = self._states()

    def add(self, keys: tuple[Value | None, ...], inputs: Sequence[Value | None], weight: int = 1) -> None:
        """Adds `weight` objects with the same values; one input per aggregate, ignored if the aggregate reads none.

        Raises AggregateError."""
        states = self._groups.get(keys)
        if states is None:
            if len(self._groups) >= MAX_GROUPS:
                raise TooManyGroups(f"the answer would have more than {MAX_GROUPS} groups: select less")
            states = self._groups[keys] = self._states()
        for column, value in enumerate((*keys, *inputs)):
            if isinstance(value, BinaryQuantity):
                self.binary.add(column)
        for aggregate, state, value in zip(self._aggregates, states, inputs, strict=True):
            if aggregate.input is None or value is not None:
                self._held += state.add(value, weight)
        if self._held > MAX_HELD:
            raise AggregateError(f"percentiles and distinct counts would hold more than {MAX_HELD} values: select less")

    def rows(self) -> list[tuple[Value | None, ...]]:
        """Returns one row per group: the keys, then the aggregates. Raises AggregateError."""
        return [
            (*keys, *[self._result(one, state) for one, state in zip(self._aggregates, states, strict=True)])
            for keys, states in self._groups.items()
        ]

    def _states(self) -> list[_AggregateState]:
        return [_STATES[one.function](one) for one in self._aggregates]

    def _result(self, aggregate: Aggregate, state: _AggregateState) -> Value | None:
        result = state.result()
        if not isinstance(result, int) or aggregate.type not in (ValueType.INTEGER, ValueType.DURATION):
            return result
        if not INT_MIN <= result <= INT_MAX:
            how = ": read the field as a Number" if aggregate.type is ValueType.INTEGER else ""
            raise AggregateError(f'"{aggregate.name}" does not fit into 64 bits{how}')
        return result


# --- the state of one aggregate in one group


class _AggregateState(Protocol):
    def add(self, value: Value | None, weight: int) -> int:
        """Adds a value; returns how many more values it holds."""

    def result(self) -> Value | None: ...


class _Count:
    def __init__(self, _: Aggregate) -> None:
        self._count = 0

    def add(self, value: Value | None, weight: int) -> int:
        self._count += weight
        return 0

    def result(self) -> int:
        return self._count


class _CountDistinct:
    def __init__(self, _: Aggregate) -> None:
        self._values: set[Value | None] = set()

    def add(self, value: Value | None, weight: int) -> int:
        before = len(self._values)
        self._values.add(value)
        return len(self._values) - before

    def result(self) -> int:
        return len(self._values)


# Every double is an integer multiple of 1/this.
_DOUBLE_UNITS: Final = 1 << 1074


class _Sum:
    """An exact sum: doubles as integers in units of the smallest one."""

    def __init__(self, aggregate: Aggregate) -> None:
        assert aggregate.input is not None
        self._name = aggregate.name
        self._type = aggregate.input.type
        self._total: int | Fraction = 0
        self._count = 0

    def add(self, value: Value | None, weight: int) -> int:
        assert isinstance(value, int | float | Fraction)
        if isinstance(value, float):
            numerator, denominator = value.as_integer_ratio()
            value = numerator * (_DOUBLE_UNITS // denominator)
        self._total += value * weight
        self._count += weight
        return 0

    def result(self) -> Value | None:
        return self._of_type(self._total) if self._count else None

    def _of_type(self, total: int | Fraction) -> Value:
        match self._type:
            case ValueType.NUMBER:
                return self._double(Fraction(total) / _DOUBLE_UNITS)
            case ValueType.QUANTITY:
                return Fraction(total)
            case _:
                return round(total)

    def _double(self, value: Fraction) -> float:
        try:
            return float(value)
        except OverflowError:
            raise AggregateError(f'"{self._name}" is beyond the largest number') from None


class _Avg(_Sum):
    def result(self) -> Value | None:
        if not self._count:
            return None
        average = Fraction(self._total) / self._count
        return self._double(average) if self._type is ValueType.INTEGER else self._of_type(average)


class _Least:
    def __init__(self, _: Aggregate) -> None:
        self._value: Value | None = None

    def add(self, value: Value | None, weight: int) -> int:
        if self._value is None or self._replaces(value, self._value):
            self._value = value
        return 0

    def result(self) -> Value | None:
        return self._value

    def _replaces(self, value: Value | None, known: Value) -> bool:
        return value < known  # type: ignore[operator]


class _Greatest(_Least):
    def _replaces(self, value: Value | None, known: Value) -> bool:
        return value > known  # type: ignore[operator]


class _Percentile:
    """The first value at or above that fraction of the values (percentile_disc of PostgreSQL)."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._fraction = aggregate.fraction
        self._values: list[tuple[Value, int]] = []
        self._count = 0

    def add(self, value: Value | None, weight: int) -> int:
        assert value is not None
        self._values.append((value, weight))
        self._count += weight
        return 1

    def result(self) -> Value | None:
        place = max(math.ceil(self._fraction * self._count), 1)
        for value, weight in sorted_by(self._values, itemgetter(0)):
            place -= weight
            if place <= 0:
                return value
        return None


_STATES: Final[dict[AggregateFunction, type]] = {
    AggregateFunction.COUNT: _Count,
    AggregateFunction.COUNT_DISTINCT: _CountDistinct,
    AggregateFunction.SUM: _Sum,
    AggregateFunction.AVG: _Avg,
    AggregateFunction.MIN: _Least,
    AggregateFunction.MAX: _Greatest,
    AggregateFunction.PERCENTILE: _Percentile,
}
