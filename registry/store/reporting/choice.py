"""Which view a definition is to have, what becomes of its shape where there is no room, and what is left out then.

Pure: what there is in the database is handed in. Rules:

- A tenant's new definition joins the view of an equal one, else it gets a view of its own.
- A definition that changes takes its view along, unless other tenants have it too and the change is large or would
  show what was hidden: then it moves to that of an equal definition, or to a view of its own, which has all columns of
  the old one.
- There are no more than MAX_VIEWS: a definition gets no histories of child views, then no child views, then none; one
  that has views gets no further child views.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from registry.store.reporting.model import Grown, Report, Shape, View
from registry.store.types import TenantId

# A view takes some 20 kB of the catalogue.
MAX_VIEWS: Final = 10_000
# Histories of child views double what a definition takes: they are made while so much room is left.
ROOM_FOR_CHILD_HISTORIES: Final = MAX_VIEWS // 2

TOO_MANY: Final = "there are too many views already"

# How shapes grow (registry/reporting/evolution.py): from the old and the new one.
Grow = Callable[[Shape, Shape], Grown]


def choose(
    views: Sequence[View], before: View | None, report: Report, tenant: TenantId, grow: Grow
) -> tuple[View | None, Shape]:
    """The view that a definition is to have, and the shape that it gets; no view: a new one."""
    equal = next((v for v in views if report.digest in v.digests), None)
    if before is None:
        if equal is not None:
            return equal, equal.shape
        left = next((v for v in views if not v.others and v.last_tenant == tenant), None)
        return (None, report.shape) if left is None else (left, grow(left.shape, report.shape).shape)
    if report.digest == before.digests[-1]:
        return before, before.shape
    if before.others and report.digest in before.digests:
        return before, before.shape
    grown = grow(before.shape, report.shape)
    if not before.others or grown.may_share:
        return before, grown.shape
    # What the objects of the past must not show is not shown by a view of others either.
    if equal is not None and set(grown.shape.redacted) <= set(equal.shape.redacted):
        return equal, equal.shape
    return None, replace(report.shape, redacted=grown.shape.redacted) if grown.full else grown.shape


def fit_shape(shape: Shape, had: Shape | None, room: int, copies: int) -> Shape | None:
    """What of a shape there is room for, where its views stand in so many schemas; None: not even for one view.

    `had` is the shape that the views have now.
    """
    if had is not None:
        if copies * (shape.relations - had.relations) <= room:
            return shape
        known = {child.path for child in had.children}
        return replace(shape, children=tuple(child for child in shape.children if child.path in known))
    if shape.children and copies * shape.relations > room - ROOM_FOR_CHILD_HISTORIES:
        shape = replace(shape, bare=True)
    if copies * shape.relations > room:
        shape = replace(shape, children=())
    return None if copies * shape.relations > room else shape


def describe_omitted(wanted: Shape, shape: Shape) -> list[str]:
    """What a definition wants that its view has not, in words."""
    found = []
    known = {child.path: child for child in shape.children}
    missing = [child.name for child in wanted.children if child.path not in known]
    if missing and not shape.children:
        found.append(f"no child views: {TOO_MANY}")
    elif missing:
        found.append(f"no child views of {', '.join(missing[:10])}{', ...' if len(missing) > 10 else ''}: {TOO_MANY}")
    if shape.bare and shape.children:
        found.append(f"no histories of child views: {TOO_MANY}")
    pairs = [(wanted.columns, shape.columns)]
    pairs += [(child.columns, known[child.path].columns) for child in wanted.children if child.path in known]
    fields = sum(len({c.identity for c in new} - {c.identity for c in had}) for new, had in pairs)
    if fields:
        found.append(f"no columns of {fields} fields: PostgreSQL has no more, and those of earlier fields are kept")
    return found
