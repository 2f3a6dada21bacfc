"""Chooses an index that answers an aggregate by its entries alone: one with every field that the query names.

Every object has one entry in an index without arrays, so counting and summing entries needs no object. Constraints of
the filter select ranges of the index; those on further fields are tested on each entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from registry.query.constraints import MAX_POINTS, Constraint, Interval, Points
from registry.query.encoding import ABSENT, OVERFLOW, PRESENT, behind, invert, inverted_range
from registry.query.fields import Path
from registry.query.indexes import Index
from registry.query.planner import NAMESPACE, Segment
from registry.query.values import split

_ALL: Final = (PRESENT, behind(ABSENT))


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
    by_field = {one.field.path: one for one in constraints}
    prefixes = [index.id]
    bound = 0
    last: Interval | None = None
    start, end = _ALL
    for field, turned in zip(index.fields, index.descending, strict=True):
        one = by_field.get(field.path)
        if isinstance(one, Points) and len(prefixes) * len(one.components) <= MAX_POINTS:
            components = sorted(map(invert, one.components)) if turned else one.components
            prefixes = [first + component for first, component in product(prefixes, components)]
            bound += 1
            continue
        if isinstance(one, Interval):
            last = one
            start, end = inverted_range(one.start, one.end) if turned else (one.start, one.end)
        break
    rest = len(index.fields) > bound
    segments = tuple(Segment(one + start, one + end) if rest else Segment(one, behind(one)) for one in prefixes)
    tested = tuple((places[one.field.path], one) for one in constraints)
    return (-bound - (last is not None), len(index.fields)), Covering(index, segments, tested)


def _satisfies(component: bytes, one: Constraint) -> bool:
    if isinstance(one, Points):
        return component in one.components
    return one.start <= component < one.end
