"""Counts objects by entry of a declared index, from which aggregates over one index are computed.

One statement, so the result is of one revision, the newest. An index has one entry per object (indexed.py), so no
object is read. Without an index, objects are counted by their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString, NamedTuple

import psycopg

from registry.store.arrays import TextArray, bytes_literal
from registry.store.bounds import READ_BYTES
from registry.store.connection import Pool
from registry.store.encoding import storable
from registry.store.errors import IndexNotReady, QueryTooLarge, TenantNotFound, Unavailable
from registry.store.reads.indexed import Span
from registry.store.rows import STATE
from registry.store.statements import Statement, statement
from registry.store.types import Guards, ResourceName, State, Tenant, TenantId

# The most objects to count, and the most distinct entries.
MAX_OBJECTS: Final = 1_000_000
MAX_ENTRIES: Final = 50_000


@dataclass(frozen=True, slots=True)
class IndexSpans:
    """Ranges of one index; `overflow` is the entry of the objects that it cannot hold."""

    number: int
    overflow: bytes
    spans: Sequence[Span]


@dataclass(frozen=True, slots=True)
class GroupRead:
    """`index` None: every object, by its key. `namespaces` None: all. `by_namespace`: counts per namespace."""

    resource: ResourceName
    index: IndexSpans | None
    namespaces: Sequence[str] | None
    by_namespace: bool


class EntryCount(NamedTuple):
    """`namespace` is empty unless requested."""

    entry: bytes
    namespace: str
    objects: int


class EntryCounts(NamedTuple):
    """`has_overflow`: there are objects that the index does not hold."""

    counts: Sequence[EntryCount]
    has_overflow: bool
    state: State


class GroupReads:
    def __init__(self, pool: Pool) -> None:
        """`pool` must have the session settings of indexed.py."""
        self._pool = pool

    async def counts(self, tenant: Tenant, read: GroupRead) -> EntryCounts:
        """Raises IndexNotReady, QueryTooLarge, TenantNotFound."""
        index = read.index
        rows = await self._fetch(BY_KEYS if index is None else BY_ENTRIES, tenant, values_of(read, tenant.id))
        current, _, definitions, namespaces, ready, has_overflow, total, size, objects, *columns = rows[0]
        state = State(current, Guards(definitions, namespaces))
        if index is not None and ready is None:
            raise IndexNotReady(None)
        if total > MAX_ENTRIES or (objects or 0) > MAX_OBJECTS or (size or 0) > READ_BYTES:
            raise QueryTooLarge("too many entries")
        counts = [EntryCount(*one) for one in zip(*columns, strict=True)] if total else []
        return EntryCounts(counts, has_overflow, state)

    async def _fetch(self, query: Statement, tenant: Tenant, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        try:
            rows = await self._pool.fetch(query, values)
        except Unavailable as error:
            if isinstance(error.__cause__, psycopg.errors.QueryCanceled):
                raise QueryTooLarge("the query reads for too long") from error
            raise
        if not rows:
            raise TenantNotFound(f"tenant {tenant.name} does not exist")
        return rows


def values_of(read: GroupRead, tenant: TenantId) -> dict[str, Any]:
    """Returns the parameters of the statements."""
    values: dict[str, Any] = {
        "tenant": tenant, "resource": read.resource, "by_namespace": read.by_namespace,
        "namespaces": None if read.namespaces is None else TextArray([*map(storable, read.namespaces)]),
        "objects": MAX_OBJECTS + 1, "entries": MAX_ENTRIES + 1, "bytes": READ_BYTES,
    }  # fmt: skip
    if read.index is not None:
        spans = read.index.spans
        values |= {
            "number": read.index.number, "overflow": read.index.overflow,
            "starts": bytes_literal(span.start for span in spans), "ends": bytes_literal(span.end for span in spans),
        }  # fmt: skip
    return values


def _entry_counts(state: LiteralString, entries: LiteralString) -> LiteralString:
    """Returns SQL that aggregates `entries`, a query of entry and key, into arrays, within the limits."""
    return (
        "WITH found AS MATERIALIZED (SELECT n.entry, n.namespace, count(*) AS number FROM ("
        "SELECT e.entry, CASE WHEN %(by_namespace)s::boolean THEN split_part(e.key, '/', 1) ELSE '' END AS namespace"
        " FROM (" + entries + " LIMIT %(objects)s::bigint) e) n GROUP BY 1, 2 LIMIT %(entries)s::bigint)"
        " SELECT s.*, " + state + ", a.* FROM (" + STATE + ") s CROSS JOIN ("
        "SELECT count(*), sum(octet_length(f.entry)), sum(f.number)::bigint,"
        " array_agg(f.entry) FILTER (WHERE f.fits), array_agg(f.namespace) FILTER (WHERE f.fits),"
        " array_agg(f.number) FILTER (WHERE f.fits) FROM ("
        "SELECT o.*, sum(octet_length(o.entry)) OVER (ROWS UNBOUNDED PRECEDING) <= %(bytes)s::bigint AS fits"
        " FROM found o) f) a"
    )


_IN_NAMESPACES: Final = (
    " AND (%(namespaces)s::text[] IS NULL OR split_part(e.key, '/', 1) = ANY (%(namespaces)s::text[]))"
)

BY_ENTRIES: Final = statement(
    "index-groups",
    "How many objects have each entry within ranges of a declared index; by the primary key of entries.",
    _entry_counts(
        "(SELECT q.revision FROM ready_indexes q WHERE q.tenant_id = %(tenant)s::bigint"
        " AND q.resource = %(resource)s::text AND q.index_id = %(number)s::bigint) AS ready,"
        " EXISTS (SELECT 1 FROM index_entries e WHERE e.tenant_id = %(tenant)s::bigint"
        " AND e.entry = %(overflow)s::bytea) AS has_overflow",
        "SELECT e.entry, e.key FROM unnest(%(starts)s::bytea[], %(ends)s::bytea[]) AS r (start, behind)"
        " CROSS JOIN LATERAL (SELECT e.entry, e.key FROM index_entries e WHERE e.tenant_id = %(tenant)s::bigint"
        " AND e.entry >= r.start AND e.entry < r.behind" + _IN_NAMESPACES + " OFFSET 0) e",
    ),
)
BY_KEYS: Final = statement(
    "key-groups",
    "How many objects there are of a resource, or of each of its namespaces; by the primary key.",
    _entry_counts(
        "NULL::bigint AS ready, false AS has_overflow",
        "SELECT ''::bytea AS entry, e.key FROM objects e WHERE e.tenant_id = %(tenant)s::bigint"
        " AND e.resource = %(resource)s::text" + _IN_NAMESPACES,
    ),
)
