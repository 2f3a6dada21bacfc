"""Chooses the view of a definition, and what its shape omits when there is no room.

Pure: the state of the database is passed in. Rules:

- A tenant's new definition joins the view of an equal one, else it gets its own view.
- A changed definition changes its view, unless other tenants share it and the change is large or would reveal what was
  hidden: then it moves to the view of an equal definition, or to its own view, which has all columns of the old one.
- There are at most MAX_VIEWS: when room runs out, a definition gets no histories of child views, then no child views,
  then none; one that has views gets no further child views.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from registry.store.reporting.model import Grown, Report, ReportView, Shape
from registry.store.types import TenantId

# A view takes some 20 kB of the system catalogs.
MAX_VIEWS: Final = 10_000
# Histories of child views double a definition's views: they are created while this much room is left.
ROOM_FOR_CHILD_HISTORIES: Final = MAX_VIEWS // 2

TOO_MANY: Final = "there are too many views already"

# Grows a shape (registry/reporting/evolution.py): from the old and the new one.
Grow = Callable[[Shape, Shape], Grown]


def choose(
    views: Sequence[ReportView], before: ReportView | None, report: Report, tenant: TenantId, grow: Grow
) -> tuple[ReportView | None, Shape]:
    """Returns the view that a definition joins (None: a new one), and its shape."""
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
    # Fields hidden in past objects must not be revealed by another tenant's view either.
    if equal is not None and set(grown.shape.redacted) <= set(equal.shape.redacted):
        return equal, equal.shape
    return None, replace(report.shape, redacted=grown.shape.redacted) if grown.full else grown.shape


def fit_shape(shape: Shape, had: Shape | None, room: int, copies: int) -> Shape | None:
    """Reduces a shape to what there is room for in `copies` schemas; None if not even one view fits.

    `had` is the current shape of the views.
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
    """Describes in words what a definition asks for that its view lacks."""
    omissions = []
    known = {child.path: child for child in shape.children}
    missing = [child.name for child in wanted.children if child.path not in known]
    if missing and not shape.children:
        omissions.append(f"no child views: {TOO_MANY}")
    elif missing:
        omissions.append(
            f"no child views of {', '.join(missing[:10])}{', ...' if len(missing) > 10 else ''}: {TOO_MANY}"
        )
    if shape.bare and shape.children:
        omissions.append(f"no histories of child views: {TOO_MANY}")
    pairs = [(wanted.columns, shape.columns)]
    pairs += [(child.columns, known[child.path].columns) for child in wanted.children if child.path in known]
    fields = sum(len({c.identity for c in new} - {c.identity for c in had}) for new, had in pairs)
    if fields:
        omissions.append(f"no columns of {fields} fields: PostgreSQL has no more, and those of earlier fields are kept")
    return omissions
