"""Pages of a declared index: objects in the order of their entries, or of their keys, exact at one revision.

Stored entries are current ones. A page at an earlier revision takes the entries of objects that have not changed since,
and for those that have, the entries of the state before their first change after it, from the log, as pages.py does
with rows. So pages are exact despite concurrent writes, and no history of entries is kept.

The connections are separate: an expensive query ends after QUERY_SECONDS and delays no other list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString, NamedTuple

import psycopg

from registry.store.arrays import TextArray, bytes_literal
from registry.store.bounds import READ_BYTES
from registry.store.connection import Pool
from registry.store.encoding import storable, storable_revision
from registry.store.errors import (
    IndexNotReady,
    QueryTooLarge,
    RevisionExpired,
    RevisionInFuture,
    TenantNotFound,
    Unavailable,
)
from registry.store.reads.selectors import predicate
from registry.store.reads.words import CANDIDATES, Words
from registry.store.rows import SINCE, STATE
from registry.store.statements import Statement, statement
from registry.store.types import DomainId, Guards, ObjectKey, Requirement, ResourceName, Row, State, Tenant, TenantId

# The time limit of a statement.
QUERY_SECONDS: Final = 2
# The most changes of the domain since a page's revision that each further page scans; some 0.4 µs each.
MAX_CHANGES: Final = 100_000

# Forces an ordered index scan, whatever the statistics say: they cover all tenants' indexes together.
SESSION: Final = """
SET statement_timeout = '2s';
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_sort = off;
SET jit = off;
SET plan_cache_mode = force_generic_plan
"""

_LAST_KEY: Final = "\U0010ffff"


class Span(NamedTuple):
    """Entries within [start, end)."""

    start: bytes
    end: bytes


class IndexedRow(NamedTuple):
    entry: bytes
    row: Row


@dataclass(frozen=True, slots=True)
class IndexRead:
    """Reads `spans` merged by entry (downwards if `descending`), or by key if `by_key`; from `after` on, an entry and a
    key. By key, a span is a single entry, its start. `at` None: the newest revision. `overflow` is the entry of the
    objects that the index cannot hold."""

    resource: ResourceName
    number: int
    overflow: bytes
    spans: Sequence[Span]
    namespace: str | None = None
    at: int | None = None
    after: tuple[bytes, ObjectKey] | None = None
    descending: bool = False
    by_key: bool = False


class IndexPage(NamedTuple):
    """`has_overflow`: there are objects, within the spans or not, that the index does not hold."""

    rows: Sequence[IndexedRow]
    revision: int
    more: bool
    has_overflow: bool
    state: State


class IndexReads:
    def __init__(self, pool: Pool, lists: Pool) -> None:
        """`pool` uses SESSION; `lists` is for queries that PostgreSQL may plan freely."""
        self._pool = pool
        self._lists = lists

    async def page(self, tenant: Tenant, read: IndexRead, limit: int) -> IndexPage:
        """Returns at most `limit` rows, fewer if they are large.

        Raises IndexNotReady, QueryTooLarge, RevisionExpired, RevisionInFuture, TenantNotFound.
        """
        rows = await self._fetch(PAGES[read.by_key, read.descending, read.at is not None], tenant, read, limit + 1)
        state, has_overflow = self._state(tenant, read, rows)
        total, *columns = rows[0][6:]
        hits = (
            [IndexedRow(values[0], Row(read.resource, *values[1:])) for values in zip(*columns, strict=True)]
            if total
            else []
        )
        del hits[limit:]
        at = state.revision if read.at is None else read.at
        return IndexPage(hits, at, total > len(hits), has_overflow, state)

    async def count(self, tenant: Tenant, read: IndexRead, limit: int) -> int:
        """Counts the objects in the spans at the revision of the read; inexact from `limit` on. Raises as `page`."""
        assert read.at is not None
        assert read.after is None
        rows = await self._fetch(COUNT, tenant, read, limit)
        self._state(tenant, read, rows)
        counted, changed = rows[0][6:]
        count: int = counted if counted >= limit else counted + changed
        return count

    async def count_up_to(
        self,
        tenant: Tenant,
        resource: ResourceName,
        namespace: str | None,
        requirements: Sequence[Requirement],
        limit: int,
    ) -> int:
        """Returns how many objects a scan would read, counted up to `limit`."""
        if not requirements:
            where = {"tenant": tenant.id, "resource": resource, "namespace": storable(namespace or "")}
            counted = await self._lists.fetch(COUNT_ALL, where)
            return min(counted[0][0], limit) if counted else 0
        condition = predicate(tenant.id, resource, requirements)
        values = {**condition.values, **_keys(namespace), "tenant": tenant.id, "resource": resource}
        query = statement(
            "count-candidates",
            "How many objects there are with labels, up to a limit; by the index of labels, or the primary key.",
            "SELECT count(*) FROM (SELECT 1 FROM objects o WHERE o.tenant_id = %(tenant)s::bigint"
            " AND o.resource = %(resource)s::text AND o.key > %(from)s::text AND o.key < %(before)s::text"
            f" AND {condition.sql('o.labels', 'o.key')} LIMIT %(limit)s::bigint) n",
        )
        # An index of labels is read only by bitmap scans.
        values["limit"] = limit
        if condition.is_long:
            rows = await self._lists.fetch_long(query, values)
        else:
            rows = await self._lists.fetch(query, values, prepare=False)
        count: int = rows[0][0]
        return count

    async def count_words(
        self, tenant: Tenant, resource: ResourceName, namespace: str | None, words: Words, limit: int
    ) -> int:
        """Returns how many objects a search would look at now, counted up to `limit`."""
        values = {**words.values(tenant.id), **_keys(namespace), "tenant": tenant.id, "resource": resource}
        rows = await self._lists.fetch(COUNT_WORDS, {**values, "limit": limit}, prepare=False)
        count: int = rows[0][0]
        return count

    async def _fetch(self, query: Statement, tenant: Tenant, read: IndexRead, limit: int) -> list[tuple[Any, ...]]:
        try:
            rows = await self._pool.fetch(query, values_of(read, tenant.id, tenant.domain, limit))
        except Unavailable as error:
            if isinstance(error.__cause__, psycopg.errors.QueryCanceled):
                raise QueryTooLarge(f"the query reads for more than {QUERY_SECONDS} seconds") from error
            raise
        if not rows:
            raise TenantNotFound(f"tenant {tenant.name} does not exist")
        return rows

    def _state(self, tenant: Tenant, read: IndexRead, rows: list[tuple[Any, ...]]) -> tuple[State, bool]:
        current, compact_revision, definitions, namespaces, ready, has_overflow = rows[0][:6]
        at = current if read.at is None else read.at
        if at < compact_revision or current - at > MAX_CHANGES:
            raise RevisionExpired(at, max(compact_revision, current - MAX_CHANGES), current)
        if at > current:
            raise RevisionInFuture(at, current)
        state = State(current, Guards(definitions, namespaces))
        if ready is None or ready > at:
            raise IndexNotReady(ready)
        return state, has_overflow


def values_of(read: IndexRead, tenant: TenantId, domain: DomainId, limit: int) -> dict[str, Any]:
    """Returns the parameters of the statements."""
    return {
        "tenant": tenant, "domain": domain, "resource": read.resource, "number": read.number,
        "overflow": read.overflow, "at": storable_revision(read.at), "limit": limit, "bytes": READ_BYTES,
        "changes": MAX_CHANGES, **_keys(read.namespace), **_bounds(read),
    }  # fmt: skip


def _keys(namespace: str | None) -> dict[str, str]:
    if not namespace:
        return {"from": "", "before": _LAST_KEY}
    # "0" is the character after "/": exactly the keys of the namespace are in between.
    return {"from": f"{storable(namespace)}/", "before": f"{storable(namespace)}0"}


def _bounds(read: IndexRead) -> dict[str, Any]:
    """Returns the start and end of each span after `after` has been read: upwards, after an entry and a key."""
    entry, key = read.after or (b"", ObjectKey(""))
    starts = [(span.start, "") for span in read.spans]
    ends = [span.end for span in read.spans]
    if read.after is not None and read.by_key:
        starts = [(start, key) for start, _ in starts]
    elif read.after is not None and read.descending:
        ends = [min(end, entry + b"\x00") for end in ends]  # through the entry, of which some keys may be left
    elif read.after is not None:
        starts = [max(start, (entry, key), key=lambda place: (place[0], place[1].encode())) for start in starts]
    return {
        "starts": bytes_literal([start for start, _ in starts]),
        "keys": TextArray([storable(start) for _, start in starts]), "ends": bytes_literal(ends),
        "entry": entry, "key": storable(key), "anywhere": read.after is None,
    }  # fmt: skip


_COLUMNS: Final = "o.key, o.uid, o.revision, o.version, o.schema_id, o.body"
_ORDERS: Final[dict[tuple[bool, bool], LiteralString]] = {
    (False, False): "entry, key",
    (False, True): "entry DESC, key",
    (True, False): "key",
}


_SPANS: Final = "unnest(%(starts)s::bytea[], %(keys)s::text[], %(ends)s::bytea[]) AS r (start, key, behind)"
_OF_TENANT: Final = " AND e.tenant_id = %(tenant)s::bigint AND e.key > %(from)s::text AND e.key < %(before)s::text"


def _within(by_key: bool, descending: bool, entry: LiteralString, key: LiteralString) -> LiteralString:
    """Returns SQL for what is in a span `r` after the last row of the previous page. One bound at each end, since a
    B-tree scan starts at the first bound it finds."""
    if by_key:
        return entry + " = r.start AND " + key + " > r.key"
    if descending:
        return (
            entry + " >= r.start AND " + entry + " < r.behind"
            " AND (%(anywhere)s::boolean OR " + entry + " < %(entry)s::bytea OR " + key + " > %(key)s::text)"
        )  # fmt: skip
    return "(" + entry + ", " + key + ") > (r.start, r.key) AND " + entry + " < r.behind"


# Whether the index is complete, and whether there are objects that it cannot hold, now or in the log.
_INDEX: Final = (
    "(SELECT q.revision FROM ready_indexes q WHERE q.tenant_id = %(tenant)s::bigint"
    " AND q.resource = %(resource)s::text AND q.index_id = %(number)s::bigint) AS ready,"
    " EXISTS (SELECT 1 FROM index_entries e WHERE e.tenant_id = %(tenant)s::bigint"
    " AND e.entry = %(overflow)s::bytea)"
)
_TOUCHED: Final = (
    "touched AS MATERIALIZED ("
    " SELECT DISTINCT ON (c.key) c.key, c.uid, c.previous_revision, c.previous_version, c.previous_schema_id,"
    " c.previous_body, c.previous_index_entries FROM changes c"
    " WHERE " + SINCE +
    # A revision that is too old is rejected by the caller, from what this statement returns.
    " AND %(at)s::bigint + %(changes)s::bigint >= (SELECT d.revision FROM domains d WHERE d.id = %(domain)s::bigint)"
    " AND c.tenant_id + 0 = %(tenant)s::bigint AND c.resource || '' = %(resource)s::text"
    " AND c.key || '' > %(from)s::text AND c.key || '' < %(before)s::text"
    " ORDER BY c.key, c.revision)"
)

_FITS: Final = " FILTER (WHERE r.upto <= %(bytes)s::bigint OR r.place = 1)"


def _gather_query(order: LiteralString) -> LiteralString:
    columns: tuple[LiteralString, ...] = ("entry", "key", "uid", "revision", "version", "schema_id", "body")
    arrays: LiteralString = ""
    for column in columns:
        arrays = arrays + ", array_agg(r." + column + " ORDER BY r.place)" + _FITS
    return (
        "SELECT count(*) AS total" + arrays + " FROM (SELECT f.*, sum(octet_length(f.body)) OVER w AS upto,"
        " row_number() OVER w AS place FROM found f WINDOW w AS (ORDER BY " + order + " ROWS UNBOUNDED PRECEDING)) r"
    )


def _page(by_key: bool, descending: bool, past: bool) -> Statement:
    order = _ORDERS[by_key, descending]
    of_now: LiteralString = (
        "SELECT n.* FROM " + _SPANS + " CROSS JOIN LATERAL ("
        "SELECT e.entry, " + _COLUMNS + " FROM index_entries e CROSS JOIN LATERAL ("
        # OFFSET keeps the planner from reading objects first.
        " SELECT * FROM objects o WHERE o.tenant_id = %(tenant)s::bigint AND o.resource = %(resource)s::text"
        " AND o.key = e.key" + (" AND o.revision <= %(at)s::bigint" if past else "") + " OFFSET 0) o"
        " WHERE " + _within(by_key, descending, "e.entry", "e.key") + _OF_TENANT
        + " ORDER BY " + order.replace("entry", "e.entry").replace("key", "e.key") + " LIMIT %(limit)s::bigint) n"
    )  # fmt: skip
    if not past:
        return statement(
            "index-page-now",
            "The first rows of ranges of a declared index, with the state of the tenant; by the primary keys of entries"
            " and objects.",
            "WITH found AS (" + of_now + " ORDER BY " + order + " LIMIT %(limit)s::bigint)"
            " SELECT s.*, " + _INDEX + ", a.* FROM (" + STATE + ") s CROSS JOIN (" + _gather_query(order) + ") a",
        )
    return statement(
        "index-page-at",
        "The first rows of ranges of a declared index as they were at a revision: those unchanged since, by the primary"
        " keys of entries and objects, and the previous states of those changed, by the log's index of revisions.",
        "WITH " + _TOUCHED + ", found AS (SELECT * FROM ((" + of_now + ") UNION ALL ("
        "SELECT v.entry, t.key, t.uid, t.previous_revision, t.previous_version, t.previous_schema_id, t.previous_body"
        " FROM touched t CROSS JOIN LATERAL unnest(t.previous_index_entries) AS v (entry) JOIN " + _SPANS
        + " ON " + _within(by_key, descending, "v.entry", "t.key") + " WHERE t.previous_revision IS NOT NULL)) u"
        " ORDER BY " + order + " LIMIT %(limit)s::bigint)"
        " SELECT s.*, " + _INDEX + " OR EXISTS (SELECT 1 FROM touched t"
        " WHERE t.previous_index_entries @> ARRAY[%(overflow)s::bytea]), a.*"
        " FROM (" + STATE + ") s CROSS JOIN (" + _gather_query(order) + ") a",
    )  # fmt: skip


PAGES: Final = {
    (by_key, descending, past): _page(by_key, descending, past)
    for by_key, descending in _ORDERS
    for past in (False, True)
}

COUNT: Final = statement(
    "index-count",
    "How many entries there were in ranges of a declared index at a revision: those of now, up to a limit, less"
    " those of objects that changed since, and those that these had before; by primary keys and the log's index of"
    " revisions.",
    "WITH " + _TOUCHED + " SELECT s.*, " + _INDEX + ", (SELECT count(*) FROM (SELECT 1 FROM " + _SPANS
    + " CROSS JOIN LATERAL (SELECT 1 FROM index_entries e WHERE " + _within(False, False, "e.entry", "e.key")
    + _OF_TENANT + " LIMIT %(limit)s::bigint) e LIMIT %(limit)s::bigint) n),"
    " - (SELECT count(*) FROM touched t CROSS JOIN LATERAL ("
    " SELECT o.index_entries FROM objects o WHERE o.tenant_id = %(tenant)s::bigint"
    " AND o.resource = %(resource)s::text AND o.key = t.key OFFSET 0) o"
    " CROSS JOIN LATERAL unnest(o.index_entries) AS v (entry) JOIN " + _SPANS
    + " ON " + _within(False, False, "v.entry", "t.key") + ")"
    " + (SELECT count(*) FROM touched t CROSS JOIN LATERAL unnest(t.previous_index_entries) AS v (entry)"
    " JOIN " + _SPANS + " ON " + _within(False, False, "v.entry", "t.key")
    + " WHERE t.previous_revision IS NOT NULL) FROM (" + STATE + ") s",
)  # fmt: skip

COUNT_ALL: Final = statement(
    "count-all",
    "How many objects of a resource there are, in all or in a namespace; by the primary key of their counts.",
    "SELECT n.objects FROM object_counts n WHERE n.tenant_id = %(tenant)s::bigint AND n.resource = %(resource)s::text"
    " AND n.namespace = %(namespace)s::text",
)
COUNT_WORDS: Final = statement(
    "count-words",
    "How many objects have words, up to a limit; by the index of words.",
    "SELECT count(*) FROM (SELECT 1 FROM (" + CANDIDATES + ") c WHERE c.key > %(from)s::text"
    " AND c.key < %(before)s::text LIMIT %(limit)s::bigint) n",
)
