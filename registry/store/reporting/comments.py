"""The comments on reporting views and their columns, which SQL clients show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from registry.store.reporting.model import ReportColumn, Shape
from registry.store.reporting.quoting import identifier, literal
from registry.store.reporting.sql import ViewPlace, relation_of_child

_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "tenant": "Tenant that the object belongs to",
    "namespace": "metadata.namespace",
    "name": "metadata.name",
    "uid": "metadata.uid; child views have it too",
    "labels": "metadata.labels",
    "annotations": "metadata.annotations",
    "owner_references": "metadata.ownerReferences",
    "finalizers": "metadata.finalizers",
    "generation": "metadata.generation",
    "resource_version": "metadata.resourceVersion as a number: comparable within a tenant",
    "stored_version": "API version that the object is stored in",
    "created_at": "When the object was created",
    "created_by": "User who created the object; NULL beyond the retention time of the log",
    "updated_at": "When the object was last written",
    "updated_by": "User who last wrote the object; NULL beyond the retention time of the log",
    "deletion_timestamp": "metadata.deletionTimestamp: the object waits for its finalizers",
    "ready": "Whether the condition Ready (else Available) is True",
    "ready_reason": "Reason of that condition",
    "ready_since": "lastTransitionTime of that condition",
}


def comments(place: ViewPlace, shape: Shape) -> Iterator[str]:
    yield _comment("VIEW", place.relation(), shape.description or f"Objects of {place.resource}")
    yield _comment("VIEW", place.relation("_raw"), f"Objects of {place.resource} whole, without sensitive fields")
    yield _comment(
        "VIEW",
        place.relation("_history"),
        f"States of objects of {place.resource} within the retention time, deleted ones too",
    )
    taken = {column.name for column in shape.columns}
    for name, text in _DESCRIPTIONS.items():
        if name in taken:
            continue
        yield _comment("COLUMN", f"{place.relation()}.{identifier(name)}", text)
    yield from _column_comments(place.relation(), shape.columns, ())
    yield from _column_comments(place.relation("_history"), shape.columns, ())
    for child in shape.children:
        relation = relation_of_child(place, child)
        flat = tuple(step for path in child.path for step in (*path[:-1], f"{path[-1]}[]"))
        elements = f"Elements of {'.'.join(flat)} of {place.resource}"
        yield _comment("VIEW", relation, f"{elements}; position counts from 0")
        if not shape.bare:
            # Its columns are described on the view without history: each comment is a row of the catalog.
            yield _comment(
                "VIEW",
                relation_of_child(place, child, "_history"),
                f"{elements} in each state within the retention time",
            )
        yield from _column_comments(relation, child.columns, flat)


def _comment(what: str, which: str, text: str) -> str:
    return f"COMMENT ON {what} {which} IS {literal(text)}"


def _column_comments(relation: str, columns: Sequence[ReportColumn], above: tuple[str, ...]) -> Iterator[str]:
    for column in columns:
        path = ".".join((*above, *column.path))
        text = f"{column.description}\n({path})" if column.description else path
        yield _comment("COLUMN", f"{relation}.{identifier(column.name)}", text)
