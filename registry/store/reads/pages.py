"""Lists: pages of rows in the order of their keys, each exact at one revision, without a transaction between them.

The first page shows the current rows; its revision R is read in the same statement. A later page at R takes the rows
that have not changed since R, and for keys that have, the previous state in their first change after R: the log is an
undo log. An unlimited list is a chain of such pages (watch_cache.py).

The number of rows remaining after the first page comes from `object_counts` in the same snapshot. After a later page it
follows from that of the page before, which the caller passes on (docs/decisions/object-counts.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, repeat
from typing import Any, Final, LiteralString, NamedTuple, TypedDict

from registry.flowcontrol.time_slice import TimeSlice
from registry.store.bounds import CHUNK_ROWS, READ_BYTES
from registry.store.connection import Pool
from registry.store.encoding import storable, storable_revision
from registry.store.errors import IndexNotReady, RevisionExpired, RevisionInFuture, TenantNotFound
from registry.store.reads.selectors import Predicate, predicate
from registry.store.reads.words import CANDIDATES, HAD, Words
from registry.store.rows import SINCE, STATE, STATE_AT
from registry.store.statements import Statement, statement
from registry.store.types import DomainId, Guards, ObjectKey, Page, Requirement, ResourceName, Row, State, Tenant

# Small enough that the next one is read ahead: a list alone takes four fifths of the time.
CHUNK_BYTES: Final = READ_BYTES // 4
# If more bytes than this are in a chunk, the next one is not read ahead.
LARGE_BYTES: Final = READ_BYTES // 2

# A page of very large objects ends early to bound memory; it has at least one object.
MAX_PAGE_BYTES: Final = READ_BYTES

# Keys read at a time, without bodies.
PLACES: Final = 2_000

# With at most this many changes since R, the undo scans all of them (some 0.4 µs each); else only the page's own keys.
NEAR: Final = 2_000

# Sorts after every key.
_LAST_KEY: Final = "\U0010ffff"

# A list that begins at a past revision, or at a key, has its remaining rows counted, up to this number: Kubernetes
# lets servers omit the count.
MAX_COUNTED: Final = 100_000


class Where(TypedDict, total=False):
    """The parameters that lists, scans and places have in common, as arguments; see Query."""

    namespace: str | None
    at: int | None
    after: ObjectKey | None
    requirements: Sequence[Requirement]
    key: ObjectKey | None
    labels: int
    from_memory: bool


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of a list. `key` selects one object, `words` the candidates of a search; `at` None means the
    current rows.

    `from_memory` allows rows that the watch cache has (watch_cache.py).

    `left` is how many rows there were after `after` at the revision `at`, if known. `labels` other than 0 identifies
    what the labels of all rows must have been brought up to (ready_indexes) for the requirements to be right.
    """

    resource: ResourceName
    namespace: str | None = None
    at: int | None = None
    after: ObjectKey | None = None
    requirements: Sequence[Requirement] = ()
    key: ObjectKey | None = None
    left: int | None = None
    words: Words | None = None
    labels: int = 0
    from_memory: bool = False


class Place(NamedTuple):
    """The position of an object, without its body: `size` is the body's, in bytes."""

    key: ObjectKey
    size: int
    may_be_terminating: bool
    revision: int


class _Fetched(NamedTuple):
    """`objects` counts all of the resource and namespace, None for a past revision; `found` counts those in the range,
    up to one more than the limit. The columns hold those that fit."""

    state: State
    objects: int | None
    found: int
    columns: list[Any]


class Places(NamedTuple):
    """Like Page, without bodies."""

    places: Sequence[Place]
    revision: int
    more: bool
    state: State


class Pages:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        # The newest revision seen of each domain, which decides how to read the undo. Cleared when it grows too large.
        self._seen: dict[DomainId, int] = {}

    async def page(self, tenant: Tenant, query: Query, limit: int) -> Page:
        """Returns at most `limit` rows after `query.after`, and how many remain.

        Raises RevisionExpired, RevisionInFuture, TenantNotFound, IndexNotReady.
        """
        fetched = await self._fetch(tenant, query, limit, _GATHERED)
        page = await _page_of(query, fetched, limit)
        if page.more and not query.requirements:
            remaining = await self._remaining(tenant, query, fetched.objects, page)
            return Page(page.rows, page.revision, True, remaining, page.state)
        return page

    async def chunk(self, tenant: Tenant, query: Query, limit: int) -> Page:
        """Returns the same without the number of rows that remain."""
        return await _page_of(query, await self._fetch(tenant, query, limit, _GATHERED), limit)

    async def state_at(self, tenant: Tenant, at: int) -> State:
        """Returns the state that a page at this revision would have. Raises RevisionExpired, RevisionInFuture,
        TenantNotFound."""
        values = {"tenant": tenant.id, "at": storable_revision(at)}
        return self._state_of(tenant, at, await self._pool.fetch(_STATE, values))

    async def places(self, tenant: Tenant, query: Query, limit: int) -> Places:
        """Returns at most `limit` objects after `query.after`, without their bodies."""
        state, _, total, columns = await self._fetch(tenant, query, limit, _GATHERED_PLACES)
        places = [Place(*values) for values in zip(*columns, strict=True)][:limit] if total else []
        return Places(places, state.revision if query.at is None else query.at, total > len(places), state)

    async def _fetch(self, tenant: Tenant, query: Query, limit: int, gathered: LiteralString) -> _Fetched:
        condition = predicate(tenant.id, query.resource, query.requirements)
        slices = TimeSlice.current()
        if slices.expired():
            await slices.yield_now()  # long selectors take milliseconds
        parameters = {**_range_parameters(query), **condition.values, "tenant": tenant.id, "domain": tenant.domain}
        parameters["resource"] = query.resource
        if query.words is not None:
            parameters |= query.words.values(tenant.id)
        parameters["limit"] = limit + 1
        parameters["bytes"] = MAX_PAGE_BYTES
        if query.labels:
            parameters["labels"] = query.labels
        if query.at is None:
            parameters["namespace"] = storable(query.namespace or "")
            text = _page_now(query, condition, gathered)
        else:
            parameters["at"] = storable_revision(query.at)
            near = self._seen.get(tenant.domain, 0) - query.at <= NEAR
            text = _page_at(query, condition, gathered, near=near)
        # With a selector the best plan depends on its values: not prepared, so planned with them.
        if condition.is_long:
            rows = await self._pool.fetch_long(text, parameters)
        else:
            rows = await self._pool.fetch(text, parameters, prepare=not (query.requirements or query.words))
        state = self._state_of(tenant, query.at, rows)
        objects, ready, count, *columns = rows[0][4:]
        if query.labels and (ready is None or ready > (state.revision if query.at is None else query.at)):
            raise IndexNotReady(ready)
        return _Fetched(state, objects, count, columns)

    def _state_of(self, tenant: Tenant, at: int | None, rows: Sequence[tuple[Any, ...]]) -> State:
        """Returns the state that the first row begins with, if it has the revision `at`."""
        if not rows:
            raise TenantNotFound(f"tenant {tenant.name} does not exist")
        current, compact_revision, definitions, namespaces = rows[0][:4]
        if len(self._seen) > 100_000:
            self._seen.clear()
        self._seen[tenant.domain] = current
        at = current if at is None else at
        if at < compact_revision:
            raise RevisionExpired(at, compact_revision, current)
        if at > current:
            raise RevisionInFuture(at, current)
        return State(current, Guards(definitions, namespaces))

    async def _remaining(self, tenant: Tenant, query: Query, objects: int | None, page: Page) -> int | None:
        """Returns how many rows follow the page at its revision; None if there are too many to count."""
        if query.after is None and objects is not None:
            return objects - len(page.rows)
        if query.at is not None and query.left is not None:
            return max(0, query.left - len(page.rows))
        return await self._count(tenant, Query(query.resource, query.namespace, page.revision, page.rows[-1].key))

    async def _count(self, tenant: Tenant, rest: Query) -> int | None:
        parameters = {**_range_parameters(rest), "tenant": tenant.id, "domain": tenant.domain}
        parameters |= {"resource": rest.resource, "at": rest.at, "cap": MAX_COUNTED}
        rows = await self._pool.fetch(_remaining_statement(rest), parameters)
        counted: int = rows[0][0]
        return counted if counted < MAX_COUNTED else None


_row: Final = partial(tuple.__new__, Row)

# Rows converted between two checks of the clock: 20 µs.
_ROWS_A_SLICE: Final = 50


async def _page_of(query: Query, fetched: _Fetched, limit: int) -> Page:
    state, _, total, columns = fetched
    selected: list[Row] = []
    if total:
        # Row(*values) calls a function of Python for each.
        rows: Iterator[Row] = map(_row, zip(repeat(query.resource), *columns, strict=False))
        slices = TimeSlice.current()
        while some := list(islice(rows, _ROWS_A_SLICE)):
            selected += some
            if slices.expired():
                await slices.yield_now()
        del selected[limit:]
    # `total` is one above the limit when there are more; it exceeds the rows returned when bytes cut the page.
    return Page(selected, state.revision if query.at is None else query.at, total > len(selected), None, state)


def next_size(rows: Sequence[Row]) -> int:
    """Returns how many rows the next chunk has after these."""
    average = sum(len(row.body) for row in rows) // max(1, len(rows)) + 1
    return max(10, min(CHUNK_ROWS * 2, CHUNK_BYTES // average))


def _range_parameters(query: Query) -> dict[str, Any]:
    if query.key is not None:
        key = storable(query.key)
        return {"key": key, "after": storable(query.after or ""), "before": key + "\x01"}
    after = storable(query.after or "")
    if query.namespace is None:
        return {"after": after, "before": _LAST_KEY}
    namespace = storable(query.namespace)
    # "0" is the character after "/": exactly the keys of the namespace are in between.
    return {"after": max(after.encode(), f"{namespace}/".encode()).decode(), "before": f"{namespace}0"}


def _range(query: Query, column: LiteralString) -> LiteralString:
    if query.key is not None:
        return f"{column} = %(key)s::text AND {column} > %(after)s::text"
    if query.namespace is None:
        return f"{column} > %(after)s::text"
    return f"{column} > %(after)s::text AND {column} < %(before)s::text"


_COLUMNS: Final = "o.key, o.uid, o.revision, o.version, o.schema_id, o.body, o.terminating"

# A page is returned as one row of arrays. With one row per object psycopg would wait for the socket some hundred times
# a page, each time through the event loop, because libpq reads 16 kB at a time until it sees a longer message.
_FITS: Final = "FILTER (WHERE r.upto <= %(bytes)s::bigint OR r.place = 1)"
_GATHERED: Final = (
    f"SELECT count(*) AS total, array_agg(r.key) {_FITS}, array_agg(r.uid) {_FITS}, array_agg(r.revision) {_FITS},"
    f" array_agg(r.version) {_FITS}, array_agg(r.schema_id) {_FITS}, array_agg(r.body) {_FITS}"
    " FROM (SELECT f.*, sum(octet_length(f.body)) OVER w AS upto, row_number() OVER w AS place FROM found f"
    " WINDOW w AS (ORDER BY f.key ROWS UNBOUNDED PRECEDING)) r"
)

# Unknown (NULL) for past states, and for rows written by older servers.
_GATHERED_PLACES: Final = (
    "SELECT count(*) AS total, array_agg(f.key ORDER BY f.key), array_agg(octet_length(f.body) ORDER BY f.key),"
    " array_agg(f.terminating IS NOT false ORDER BY f.key), array_agg(f.revision ORDER BY f.key)"
    " FROM found f"
)


_ALL_OBJECTS: Final = (
    "SELECT n.objects FROM object_counts n WHERE n.tenant_id = %(tenant)s::bigint"
    " AND n.resource = %(resource)s::text AND n.namespace = %(namespace)s::text"
)


def _ready(query: Query) -> LiteralString:
    """Returns SQL for the revision from which on the labels of all rows are what the query needs."""
    if not query.labels:
        return "NULL"
    return (
        "(SELECT i.revision FROM ready_indexes i WHERE i.tenant_id = %(tenant)s::bigint"
        " AND i.resource = %(resource)s::text AND i.index_id = %(labels)s::bigint)"
    )


def _page_now(query: Query, condition: Predicate, gathered: LiteralString) -> Statement:
    return statement(
        "page-now",
        "The first rows of a range of keys, with the state of the tenant and how many there are of its resource and"
        " namespace; by the primary keys, or the index of labels.",
        f"WITH found AS ( SELECT {_COLUMNS} FROM objects o"
        " WHERE o.tenant_id = %(tenant)s::bigint AND o.resource = %(resource)s::text"
        f" AND {_range(query, 'o.key')} AND {condition.sql('o.labels', 'o.key')}{_words_now(query)}"
        " ORDER BY o.key LIMIT %(limit)s::bigint"
        f") SELECT s.*, ({_ALL_OBJECTS}), {_ready(query)}, a.* FROM ({STATE}) s CROSS JOIN ({gathered}) a",
    )


def _page_at(query: Query, condition: Predicate, gathered: LiteralString, *, near: bool) -> Statement:
    return statement(
        "page-at",
        "The first rows of a range of keys as they were at a revision: those unchanged since, by the primary key, and"
        " the previous states of those changed, by the log's index of revisions or its indexes of keys.",
        f"WITH same AS MATERIALIZED ( SELECT {_COLUMNS} FROM objects o"
        " WHERE o.tenant_id = %(tenant)s::bigint AND o.resource = %(resource)s::text"
        f" AND {_range(query, 'o.key')} AND o.revision <= %(at)s::bigint"
        f" AND {condition.sql('o.labels', 'o.key')}{_words_now(query)} ORDER BY o.key LIMIT %(limit)s::bigint"
        "), edge AS ("
        # If enough rows were found, no key after the last one can be on the page.
        " SELECT max(key) AS key FROM same HAVING count(*) = %(limit)s::bigint"
        f"), touched AS ({_touched_by_revision(query) if near else _touched_by_key(query)}), found AS ("
        " SELECT * FROM same UNION ALL"
        " SELECT u.key, u.uid, u.previous_revision, u.previous_version, u.previous_schema_id, u.previous_body, NULL"
        f" FROM touched u WHERE u.previous_revision IS NOT NULL AND {condition.sql('u.previous_labels', 'u.key')}"
        f"{f' AND {HAD}' if query.words is not None else ''} ORDER BY key LIMIT %(limit)s::bigint"
        f") SELECT s.*, NULL, {_ready(query)}, a.* FROM ({STATE_AT}) s CROSS JOIN ({gathered}) a",
    )


def _words_now(query: Query) -> LiteralString:
    # As an array, so that PostgreSQL reads the objects by their keys.
    return f" AND o.key = ANY (ARRAY({CANDIDATES}))" if query.words is not None else ""


_STATE: Final = statement("state-at", "The state of a tenant for a page at a revision; by the primary keys.", STATE_AT)

_TOUCHED: Final = (
    "c.key, c.uid, c.previous_revision, c.previous_version, c.previous_schema_id, c.previous_body, c.previous_labels,"
    " c.previous_index_entries"
)

_UP_TO_EDGE: Final = " <= coalesce((SELECT key FROM edge), %(before)s::text)"


def _touched_by_revision(query: Query) -> LiteralString:
    # `+ 0` and `|| ''` keep the planner from the index of keys (statements.py): it would walk through the whole log of
    # the resource.
    return (
        f" SELECT DISTINCT ON (c.key) {_TOUCHED} FROM changes c WHERE {SINCE}"
        " AND c.tenant_id + 0 = %(tenant)s::bigint AND c.resource || '' = %(resource)s::text"
        f""" AND {_range(query, "c.key || ''")} AND c.key || ''{_UP_TO_EDGE} ORDER BY c.key, c.revision"""
    )


def _touched_by_key(query: Query) -> LiteralString:
    """Returns SQL that finds changed keys without scanning the log: they have a later revision, or a later deletion."""
    return (
        " SELECT f.* FROM ("
        " SELECT o.key FROM objects o WHERE o.tenant_id = %(tenant)s::bigint AND o.resource = %(resource)s::text"
        f" AND {_range(query, 'o.key')} AND o.key{_UP_TO_EDGE} AND o.revision > %(at)s::bigint UNION"
        " SELECT c.key FROM changes c WHERE c.tenant_id = %(tenant)s::bigint AND c.resource = %(resource)s::text"
        f" AND c.type = 'DELETED' AND {_range(query, 'c.key')} AND c.key{_UP_TO_EDGE} AND c.revision > %(at)s::bigint"
        ") k CROSS JOIN LATERAL ("
        f" SELECT {_TOUCHED} FROM changes c WHERE c.tenant_id = %(tenant)s::bigint"
        " AND c.resource = %(resource)s::text AND c.key = k.key AND c.revision > %(at)s::bigint"
        " ORDER BY c.revision LIMIT 1"
        ") f"
    )


def _remaining_statement(query: Query) -> Statement:
    return statement(
        "remaining",
        "How many rows a range of keys had at a revision: those of now, less those that came since, and those that"
        " went; by the primary key and the log's index of revisions.",
        "SELECT (SELECT count(*) FROM (SELECT 1 FROM objects o WHERE o.tenant_id = %(tenant)s::bigint"
        f" AND o.resource = %(resource)s::text AND {_range(query, 'o.key')} LIMIT %(cap)s::bigint) n)"
        " + (SELECT count(*) FILTER (WHERE c.type = 'DELETED') - count(*) FILTER (WHERE c.type = 'ADDED')"
        f" FROM changes c WHERE {SINCE}"
        " AND c.tenant_id + 0 = %(tenant)s::bigint AND c.resource || '' = %(resource)s::text"
        f""" AND {_range(query, "c.key || ''")})""",
    )
