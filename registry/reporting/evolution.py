"""Evolution of views: columns and child views are appended, and never removed or moved.

A field whose type changes gets a second column, `spec_size_2`; the first is NULL for values that do not fit its type.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from registry.reporting import names
from registry.store.reporting.model import Child, Grown, Path, ReportColumn, Shape

# PostgreSQL's limit is 1,600, metadata included.
MOST_COLUMNS: Final = 1_500
# How many columns one tenant may add to a view shared with other tenants; a larger change gets a view of its own.
SHARED_GROWTH: Final = 100


def grow(old: Shape, new: Shape) -> Grown:
    """Extends `old` by the additions of `new`. Fields redacted by `new` are hidden, those no longer redacted shown.

    Redacted fields that `new` no longer has stay redacted, since objects of the past still contain them.
    """
    redacted = (*new.redacted, *(p for p in old.redacted if p not in new.redacted and not _covers(p, new)))
    columns, added, full = _grow_columns(old.columns, new.columns, redacted, MOST_COLUMNS, ())
    children = {c.path: c for c in old.children}
    taken = {c.name for c in old.children}
    for child in new.children:
        known = children.get(child.path)
        if known is None:
            name = child.name if child.name not in taken else names.again(child.name, repr(child.path), taken)
            taken.add(name)
            children[child.path] = replace(child, name=name)
            added += 1 + len(child.columns)
            continue
        grown, more, filled = _grow_columns(known.columns, child.columns, redacted, MOST_COLUMNS, _flat(child.path))
        children[child.path] = replace(known, columns=grown)
        added, full = added + more, full or filled
    still_there = {c.path for c in new.children}
    kept_children = tuple(c if c.path in still_there else _hidden_child(c, redacted) for c in children.values())
    shape = Shape(
        columns, kept_children, redacted, old.has_ready or new.has_ready, new.namespaced, new.description, old.bare
    )
    return Grown(shape, _may_share(old, shape, added, full), full)


def _may_share(old: Shape, grown: Shape, added: int, full: bool) -> bool:
    """Whether a view shared with other tenants may grow like this: by few columns, without revealing hidden fields."""
    return (
        added <= SHARED_GROWTH
        and not full
        and set(old.redacted) <= set(grown.redacted)
        and old.namespaced == grown.namespaced
    )


def _grow_columns(
    old: tuple[ReportColumn, ...], new: tuple[ReportColumn, ...], redacted: tuple[Path, ...], limit: int, above: Path
) -> tuple[tuple[ReportColumn, ...], int, bool]:
    wanted = {c.identity: c for c in new}
    columns = []
    for column in old:
        now = wanted.pop(column.identity, None)
        if now is not None:
            columns.append(replace(now, name=column.name))
        else:
            columns.append(replace(column, hidden=column.hidden or _touches((*above, *column.path), redacted)))
    taken = {c.name for c in columns} | names.RESERVED
    added = 0
    for column in wanted.values():
        if len(columns) >= limit:
            return tuple(columns), added, True
        name = column.name if column.name not in taken else names.again(column.name, repr(column.path), taken)
        taken.add(name)
        columns.append(replace(column, name=name))
        added += 1
    return tuple(columns), added, False


def _hidden_child(child: Child, redacted: tuple[Path, ...]) -> Child:
    above = _flat(child.path)
    return replace(
        child,
        columns=tuple(replace(c, hidden=c.hidden or _touches((*above, *c.path), redacted)) for c in child.columns),
    )


def _flat(paths: tuple[Path, ...]) -> Path:
    return tuple(step for path in paths for step in path)


def _covers(path: Path, shape: Shape) -> bool:
    """Whether a shape shows the field at a path, one above it or one below it."""
    present = [c.path for c in shape.columns]
    present += [(*_flat(child.path), *c.path) for child in shape.children for c in child.columns]
    return any(_touches(path_shown, (path,)) for path_shown in present)


def _touches(path: Path, redacted: tuple[Path, ...]) -> bool:
    return any(path[: len(r)] == r or r[: len(path)] == path for r in redacted)
