"""Chooses an index that answers an aggregate by its entries alone: one with every field that the query names.

Every object has one entry in an index without arrays, so counting and summing entries needs no object. Constraints of
the filter select ranges of the index; those on further fields are tested on each entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from registry.query.constraints import Constraint, Interval, Points
from registry.query.encoding import OVERFLOW
from registry.query.fields import Path
from registry.query.indexes import Index
from registry.query.planner import NAMESPACE, Segment, reach_of
from registry.query.values import split


@dataclass(frozen=True, slots=True)
class Covering:
    """`constraints` are by the field that they are tested on."""

    index: Index
    segments: tuple[Segment, ...]
    constraints: tuple[tuple[int, Constraint], ...]

    @property
    def overflow(self) -> bytes:
        return self.index.id + OVERFLOW

    def components(self, entry: bytes) -> Mapping[Path, bytes] | None:
        """Returns the fields of an entry; None if it is not selected."""
        parts = split(entry, self.index)
        if not all(_satisfies(parts[i], one) for i, one in self.constraints):
            return None
        return {field.path: component for field, component in zip(self.index.fields, parts, strict=True)}


def covering(
    indexes: Sequence[Index], constraints: Sequence[Constraint], paths: Sequence[Path], *, exact: bool
) -> Covering | None:
    """Returns the best index that has all `paths`; every entry has the namespace. `exact` says that the constraints are
    the whole selection."""
    if not exact:
        return None
    candidates = [one for index in indexes if (one := _by(index, constraints, paths)) is not None]
    return min(candidates, key=lambda one: one[0])[1] if candidates else None


def covering_suggestion(constraints: Sequence[Constraint], paths: Sequence[Path]) -> list[Path]:
    """Returns the fields of the index that would answer."""
    points = [one.field.path for one in constraints if isinstance(one, Points)]
    ranges = [one.field.path for one in constraints if isinstance(one, Interval)]
    return [path for path in dict.fromkeys([*points, *ranges, *paths]) if path != NAMESPACE]


def _by(
    index: Index, constraints: Sequence[Constraint], paths: Sequence[Path]
) -> tuple[tuple[int, int], Covering] | None:
    places = {field.path: i for i, field in enumerate(index.fields)}
    if any(field.is_array for field in index.fields) or any(p not in places for p in paths if p != NAMESPACE):
        return None
    if any(one.field.path not in places for one in constraints):
        return None
    reach = reach_of(index, constraints)
    assert reach is not None
    tested = tuple((places[one.field.path], one) for one in constraints)
    rank = (-reach.bound - (reach.last is not None), len(index.fields))
    return rank, Covering(index, reach.segments(index), tested)


def _satisfies(component: bytes, one: Constraint) -> bool:
    if isinstance(one, Points):
        return component in one.components
    return one.start <= component < one.end
