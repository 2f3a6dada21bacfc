"""Derives the columns and child views of a definition from its schema: every leaf down to a maximum depth.

Order: spec, then other top-level fields, then status, each in the order of the schema. Arrays of objects become child
views, also nested ones, down to CHILD_LEVELS; deeper ones, maps, arrays of scalars and free-form fields are jsonb.
Schemas are not recursive (structural schemas have no references), but may be enormous: everything is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from registry.reporting import names
from registry.reporting.redaction import holds_sensitive, is_marked, redacted_paths, storable_text
from registry.schema.model import Structural
from registry.schema.pruning import META_FIELDS
from registry.store.reporting.model import Child, Path, ReportColumn, ReportKind, Shape

MAX_DEPTH: Final = 16
# PostgreSQL allows 1,600 columns of a view; some are reserved for later additions to a definition.
MAX_COLUMNS: Final = 1_000
MAX_CHILD_COLUMNS: Final = 400
MAX_CHILDREN: Final = 100
CHILD_LEVELS: Final = 2
# Columns of all child views of a definition, which bounds the cost of its views.
MAX_ALL_CHILD_COLUMNS: Final = 4_000
LONGEST_DESCRIPTION: Final = 400

CONDITIONS: Final[Path] = ("status", "conditions")


@dataclass(slots=True)
class Leaf:
    path: Path
    kind: ReportKind
    description: str
    # A sensitive leaf gets no column.
    sensitive: bool = False


@dataclass(slots=True)
class Array:
    path: Path
    items: Structural
    description: str


@dataclass(slots=True)
class _Growth:
    """Shared state of all views of one definition while they are built."""

    marks: tuple[Path, ...]
    left_out: list[str] = field(default_factory=list)


def shape_of(
    schema: Structural, *, namespaced: bool, marks: Sequence[Path] = (), printed: dict[Path, str] | None = None
) -> tuple[Shape, tuple[str, ...]]:
    """The shape of a definition, and descriptions of the fields that were left out.

    `marks` are sensitive paths; `printed` are the names of printer columns by their path.
    """
    growth = _Growth(tuple(marks))
    arrays: list[Array] = []
    leaves: list[Leaf] = []
    for name in _in_order(schema):
        _walk(schema.properties[name], (storable_text(name),), (), 1, growth, leaves, arrays)
    children = _children(arrays, leaves, growth)
    columns = _columns(leaves, MAX_COLUMNS, "fields", growth, printed or {})
    shape = Shape(
        columns,
        children,
        redacted_paths(schema, growth.marks),
        has_ready(schema),
        namespaced,
        storable_text(schema.description[:LONGEST_DESCRIPTION]),
    )
    return shape, tuple(dict.fromkeys(growth.left_out))


def has_ready(schema: Structural) -> bool:
    status = schema.properties.get("status")
    conditions = status.properties.get("conditions") if status else None
    items = conditions.items if conditions else None
    return bool(items and "type" in items.properties and "status" in items.properties)


def kind_of(schema: Structural) -> ReportKind:
    """The type of a leaf's column."""
    if schema.int_or_string:
        return ReportKind.TEXT
    match schema.type:
        case "string":
            return {"date-time": ReportKind.TIME, "date": ReportKind.DATE}.get(schema.format, ReportKind.TEXT)
        case "integer":
            return ReportKind.INTEGER
        case "number":
            return ReportKind.NUMBER
        case "boolean":
            return ReportKind.BOOLEAN
    return ReportKind.JSON


def at_path(schema: Structural, path: Path) -> Structural | None:
    """The node at a path of properties; None if there is none."""
    node: Structural | None = schema
    for step in path:
        node = node.properties.get(step) if node is not None else None
    return node


def _in_order(schema: Structural) -> Iterator[str]:
    rest = [n for n in schema.properties if n not in (*META_FIELDS, "spec", "status")]
    yield from (n for n in ("spec", *rest, "status") if n in schema.properties)


def _walk(
    schema: Structural, path: Path, above: Path, depth: int, growth: _Growth, leaves: list[Leaf], arrays: list[Array]
) -> None:
    """Collects the leaves and arrays below a node. `path` starts at the row's document, `above` leads to that."""
    whole = (*above, *path)
    if schema.format == "password" or is_marked(whole, growth.marks):
        leaves.append(Leaf(path, ReportKind.JSON, "", sensitive=True))
    elif schema.properties and not schema.int_or_string and schema.type in ("object", "") and depth < MAX_DEPTH:
        for name, below in schema.properties.items():
            _walk(below, (*path, storable_text(name)), above, depth + 1, growth, leaves, arrays)
    elif schema.type == "array" and schema.items is not None and schema.items.properties and depth < MAX_DEPTH:
        arrays.append(Array(path, schema.items, schema.description))
    else:
        kind = kind_of(schema)
        sensitive = kind is ReportKind.JSON and holds_sensitive(schema, whole, growth.marks)
        if sensitive:
            growth.left_out.append(f"{'.'.join(whole)}, which holds a sensitive field")
        leaves.append(Leaf(path, kind, schema.description, sensitive))


def _children(arrays: list[Array], leaves: list[Leaf], growth: _Growth) -> tuple[Child, ...]:
    """The child views, level by level. An array that exceeds the limits becomes a leaf of its parent's row."""
    level: list[tuple[Array, tuple[Path, ...], list[Leaf]]] = [(array, (array.path,), leaves) for array in arrays]
    children: list[Child] = []
    taken = {"conditions"}
    width = 0
    unfinished: list[tuple[str, tuple[Path, ...], list[Leaf]]] = []
    for number in range(1, CHILD_LEVELS + 2):
        deeper: list[tuple[Array, tuple[Path, ...], list[Leaf]]] = []
        for array, place, owner in level:
            whole = tuple(step for path in place for step in path)
            if number > CHILD_LEVELS or len(unfinished) >= MAX_CHILDREN or width >= MAX_ALL_CHILD_COLUMNS:
                sensitive = holds_sensitive(array.items, whole, growth.marks)
                owner.append(Leaf(array.path, ReportKind.JSON, array.description, sensitive))
                continue
            below: list[Leaf] = []
            further: list[Array] = []
            for name, one in array.items.properties.items():
                _walk(one, (storable_text(name),), whole, 1, growth, below, further)
            view = "conditions" if whole == CONDITIONS else _view_name(whole, taken)
            taken.add(view)
            width += len(below)
            unfinished.append((view, place, below))
            deeper.extend((one, (*place, one.path), below) for one in further)
        level = deeper
    for view, place, below in unfinished:
        children.append(Child(view, place, _columns(below, MAX_CHILD_COLUMNS, f"fields of {view}", growth, {})))
    return tuple(children)


def _view_name(whole: Path, taken: set[str]) -> str:
    """The name of a child view, which must not look like the name of another's history."""
    name = names.column_name(whole, taken)
    return names.free(name, "\x00".join(whole), taken) if name.endswith("_history") else name


def _columns(
    leaves: list[Leaf], limit: int, what: str, growth: _Growth, printed: dict[Path, str]
) -> tuple[ReportColumn, ...]:
    taken = set(names.RESERVED)
    public = [leaf for leaf in leaves if not leaf.sensitive]
    if len(public) > limit:
        growth.left_out.append(f"{what} beyond the first {limit}")
    return tuple(_column(leaf, leaf.path, taken, printed) for leaf in public[:limit])


def _column(leaf: Leaf, path: Path, taken: set[str], printed: dict[Path, str]) -> ReportColumn:
    name = names.column_name(path, taken)
    taken.add(name)
    description = storable_text(leaf.description[:LONGEST_DESCRIPTION])
    if path in printed:
        description = f"{description}\n(printer column {printed[path]})".lstrip()
    return ReportColumn(name, leaf.kind, path, description)
