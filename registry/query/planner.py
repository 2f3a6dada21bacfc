"""Chooses the index that answers a query, and how: the plan that the store executes.

    Plan(index, segments, order)   ranges of one index, read in order: the objects come as the query wants them
    Gathering                      ranges whose objects come in another order: all of them are read, then sorted
    none                           no index helps: a full scan, if the number of objects permits

An index helps if the query constrains its first fields to single values, and the next one to a range, a prefix, or one
of several values; its remaining fields are the order in which objects come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

from registry.query.constraints import MAX_POINTS, Constraint, Interval, Points
from registry.query.encoding import ABSENT, OVERFLOW, PRESENT, behind, encode, invert, inverted_range
from registry.query.fields import METADATA, Path, QueryField, path_text, resolve
from registry.query.indexes import Index
from registry.query.ordering import Order, OrderTerm
from registry.schema.model import Structural

NAMESPACE: Final[Path] = ("metadata", "namespace")
NAME: Final[Path] = ("metadata", "name")
_METADATA: Final = Structural(type="object", properties={"metadata": METADATA})
_ALL: Final = (PRESENT, behind(ABSENT))


class Segment(NamedTuple):
    """Entries within [start, end), in ascending or descending order."""

    start: bytes
    end: bytes
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """`prefix` is the common beginning of all entries of the segments, before the fields of the order.

    With `order` None objects come in the order of their keys, from segments of equal entries. `streams` is False if
    they do not come in the requested order: they must all be read. `covers` says that nothing is left to evaluate.
    """

    index: Index
    segments: tuple[Segment, ...]
    prefix: bytes
    order: Order | None
    streams: bool
    covers: bool

    @property
    def overflow(self) -> bytes:
        return self.index.id + OVERFLOW

    @property
    def is_reversed(self) -> bool:
        """Whether objects come in the reverse order of the entries, which then have one field."""
        return self.segments[0].descending


def plans(
    indexes: Sequence[Index],
    constraints: Sequence[Constraint],
    order: Order | None,
    *,
    exact: bool,
    namespace: str = "",
) -> list[Plan]:
    """Returns all plans, the best first. `order` None: any. `namespace` is that of the request, to which reads are
    limited in any case."""
    fixed: list[Constraint] = []
    if namespace:
        field = resolve(_METADATA, NAMESPACE)
        fixed.append(Points(field, (encode(field.kind, namespace),), (namespace,)))
    candidates = [one for index in indexes if (one := _by(index, constraints, fixed, order, exact=exact)) is not None]
    return [one for _, one in sorted(candidates, key=lambda scored: scored[0], reverse=True)]


def suggestion(constraints: Sequence[Constraint], order: Order | None, namespace: str) -> str:
    """Returns the declaration of the index that would answer a query; empty if none would."""
    points = [c.field.path for c in constraints if isinstance(c, Points)]
    behind_them = [t.field.path for t in order or ()] or [c.field.path for c in constraints if isinstance(c, Interval)][
        :1
    ]
    paths = [path for path in dict.fromkeys([*points, *behind_them]) if path not in (NAMESPACE, NAME)]
    if not paths:
        return ""
    # With several fields each has its direction; an index of a single one serves both.
    turned = {t.field.path for t in order or () if t.descending} if len(order or ()) > 1 else set()
    wanted = [NAMESPACE, *paths] if namespace and not points else paths
    return ",".join(path_text(path) + (" desc" if path in turned else "") for path in wanted)


def without_keys(order: Order, *, namespaced: bool) -> Order:
    """Returns the order without trailing terms implied by the order of keys, which makes every order total."""
    terms = list(order)
    own = [NAMESPACE, NAME] if namespaced else [NAME]
    last = terms[-len(own) :]
    if [term.field.path for term in last] == own and not any(term.descending for term in last):
        del terms[-len(own) :]
    return tuple(terms)


class Reach(NamedTuple):
    """How far constraints bind an index: the beginnings of entries, the number of their fields, and the range of the
    next field. `used` are the constraints, by number."""

    prefixes: Sequence[bytes]
    bound: int
    last: Interval | None
    used: set[int]

    @property
    def span(self) -> tuple[bytes, bytes]:
        return (self.last.start, self.last.end) if self.last is not None else _ALL

    def segments(self, index: Index) -> tuple[Segment, ...]:
        if self.bound == len(index.fields):
            return tuple(Segment(one, behind(one)) for one in self.prefixes)
        start, end = self.span
        return tuple(Segment(one + start, one + end) for one in self.prefixes)


def reach_of(index: Index, constraints: Sequence[Constraint]) -> Reach | None:
    """Returns None for an array that is not bound to one element: an object has as many entries as elements, so only
    one of them may be queried."""
    used: set[int] = set()
    prefixes = [index.id]
    bound = 0
    for field, turned in zip(index.fields, index.descending, strict=True):
        points = _find(constraints, field, Points, used)
        if isinstance(points, Points) and len(prefixes) * len(points.components) <= (
            1 if field.is_array else MAX_POINTS
        ):
            components = sorted(map(invert, points.components)) if turned else points.components
            prefixes = [start + one for start, one in product(prefixes, components)]
            bound += 1
            continue
        if field.is_array:
            return None
        ranged = _find(constraints, field, Interval, used)
        last = ranged if isinstance(ranged, Interval) else None
        if last is not None and turned:
            last = Interval(field, *inverted_range(last.start, last.end))
        return Reach(prefixes, bound, last, used)
    return Reach(prefixes, bound, None, used)


def _by(
    index: Index, required: Sequence[Constraint], given: Sequence[Constraint], order: Order | None, *, exact: bool
) -> tuple[tuple[int, ...], Plan] | None:
    """Returns a plan for one index, with its rank."""
    reach = reach_of(index, [*required, *given])
    if reach is None:
        return None
    prefixes, bound, last, used = reach
    rest = tuple(map(OrderTerm, index.fields[bound:], index.descending[bound:]))
    if any(term.field.is_array for term in rest):
        return None
    covers = exact and used.issuperset(range(len(required)))
    is_bound = bound > 0 or last is not None
    score = (bound + (last is not None), 0, -len(index.fields))
    direct = _streaming(reach, rest, order)
    if not any(number < len(required) for number in used) and (direct is None or not order):
        return None  # only the namespace is constrained: a scan reads no more
    if direct is not None:
        segments, natural, key_order = direct
        if not (is_bound or rest):
            return None
        return (score[0], 1, score[2]), Plan(index, segments, prefixes[0], None if key_order else natural, True, covers)
    if not is_bound:
        return None
    return score, Plan(index, reach.segments(index), prefixes[0], order, False, covers)


def _find(constraints: Sequence[Constraint], field: QueryField, kind: type, used: set[int]) -> Constraint | None:
    for number, one in enumerate(constraints):
        if number not in used and isinstance(one, kind) and one.field.path == field.path:
            used.add(number)
            return one
    return None


def _streaming(reach: Reach, rest: Order, order: Order | None) -> tuple[tuple[Segment, ...], Order | None, bool] | None:
    """Returns segments, the order in which their objects come, and whether that is the order of keys; None if it is not
    the requested one."""
    prefixes, last = reach.prefixes, reach.last
    if not rest:
        # All entries of a prefix are equal: objects come by key, if the prefixes are merged.
        return (tuple(Segment(one, behind(one)) for one in prefixes), None, True) if not order else None
    if len(prefixes) > 1:
        return None
    prefix = prefixes[0]
    start, end = reach.span
    if order is None:
        if last is None:
            return None
        return (Segment(prefix + start, prefix + end),), rest, False
    if [term.field.path for term in order] != [term.field.path for term in rest]:
        return None
    if [term.descending for term in order] == [term.descending for term in rest]:
        return (Segment(prefix + start, prefix + end),), order, False
    if len(order) > 1:
        return None
    present = Segment(prefix + start, prefix + (end if last is not None else ABSENT), True)
    if last is not None:
        return (present,), order, False
    return (present, Segment(prefix + ABSENT, prefix + behind(ABSENT))), order, False
