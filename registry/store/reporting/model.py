"""The shape of a set of reporting views: stored in `report_views.shape`, and the input for SQL generation.

A column is identified by its path and kind; once it has a name and a position it keeps both.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Path = tuple[str, ...]

# kubectl's copy of the object in an annotation, including everything sensitive.
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class ReportKind(enum.StrEnum):
    """The type of a column."""

    TEXT = "text"
    INTEGER = "bigint"
    NUMBER = "double precision"
    BOOLEAN = "boolean"
    TIME = "timestamptz"
    DATE = "date"
    JSON = "jsonb"


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """A leaf of the schema. `hidden` columns were published and are NULL now, because the field became sensitive."""

    name: str
    kind: ReportKind
    path: Path
    description: str = ""
    hidden: bool = False

    @property
    def identity(self) -> tuple[Path, ReportKind]:
        return self.path, self.kind


@dataclass(frozen=True, slots=True)
class Child:
    """A view with one row per element of an array. `path` leads there, one Path per array on the way."""

    name: str
    path: tuple[Path, ...]
    columns: tuple[ReportColumn, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """`redacted` are paths that the raw view omits. `has_ready` says that conditions tell whether an object is ready.
    `bare` child views have no histories, for lack of room."""

    columns: tuple[ReportColumn, ...]
    children: tuple[Child, ...] = ()
    redacted: tuple[Path, ...] = ()
    has_ready: bool = False
    namespaced: bool = True
    description: str = ""
    bare: bool = False

    @property
    def relations(self) -> int:
        """The number of views in a schema: the main one, raw, history, and the children with their histories."""
        return 3 + len(self.children) * (1 if self.bare else 2)


# The main views of the kinds that every tenant has.
BUILT_IN: Final = (
    "namespaces",
    "roles_rbac_authorization_k8s_io",
    "clusterroles_rbac_authorization_k8s_io",
    "rolebindings_rbac_authorization_k8s_io",
    "clusterrolebindings_rbac_authorization_k8s_io",
)


@dataclass(frozen=True, slots=True)
class BuiltInViews:
    """The views of a kind that every tenant has: `name` is that of the main one."""

    resource: str
    name: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Grown:
    """A grown shape: whether a view shared with other tenants may grow this way, and whether columns had to be left
    out."""

    shape: Shape
    may_share: bool
    full: bool


@dataclass(frozen=True, slots=True)
class Facet:
    """An indexed field: the column of `objects` that holds it, its path and its kind."""

    slot: str
    path: Path
    kind: ReportKind


@dataclass(frozen=True, slots=True)
class Report:
    """What a definition asks for. `digest` is equal for equal definitions; `reason` says what was left out."""

    resource: str
    plural: str
    group: str
    version: str
    digest: str
    shape: Shape
    facets: tuple[Facet, ...] = ()
    reason: str = ""
    enabled: bool = True
    wants_condition: bool = False
    layout: str = ""


@dataclass(frozen=True, slots=True)
class ReportView:
    """A row of `report_views`. `others` counts further tenants that use it."""

    id: int
    name: str
    digests: tuple[str, ...]
    shape: Shape
    last_tenant: int
    others: int
    # The facets that its SQL uses; None if it has no SQL yet.
    live: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class KnownView:
    """A definition's recorded view, if any, and the revision that it was recorded at."""

    view: int | None
    revision: int


@dataclass(frozen=True, slots=True)
class ReportOutcome:
    """The outcome for a definition: 'ready', 'off' or 'refused', and why."""

    state: str
    reason: str = ""
    view: str = ""


def shape_to_json(shape: Shape) -> dict[str, Any]:
    return {
        "columns": [_column_to_json(c) for c in shape.columns],
        "children": [
            {"name": c.name, "path": [list(p) for p in c.path], "columns": [_column_to_json(x) for x in c.columns]}
            for c in shape.children
        ],
        "redacted": [list(p) for p in shape.redacted],
        "ready": shape.has_ready,
        "namespaced": shape.namespaced,
        "description": shape.description,
        **({"bare": True} if shape.bare else {}),
    }


def shape_from_json(value: Mapping[str, Any]) -> Shape:
    return Shape(
        columns=_columns(value["columns"]),
        children=tuple(
            Child(c["name"], tuple(tuple(p) for p in c["path"]), _columns(c["columns"])) for c in value["children"]
        ),
        redacted=tuple(tuple(p) for p in value["redacted"]),
        has_ready=value["ready"],
        namespaced=value["namespaced"],
        description=value["description"],
        bare=value.get("bare", False),
    )


def _column_to_json(column: ReportColumn) -> dict[str, Any]:
    document: dict[str, Any] = {"name": column.name, "kind": column.kind.value, "path": list(column.path)}
    if column.description:
        document["description"] = column.description
    if column.hidden:
        document["hidden"] = True
    return document


def _columns(values: Sequence[Mapping[str, Any]]) -> tuple[ReportColumn, ...]:
    return tuple(
        ReportColumn(
            v["name"], ReportKind(v["kind"]), tuple(v["path"]), v.get("description", ""), v.get("hidden", False)
        )
        for v in values
    )
