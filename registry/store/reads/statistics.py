"""Numbers of objects and of writes of a resource, over time; from the change log.

Exact as far back as the log is kept: partitions are dropped whole, so it is complete from the start of the oldest one.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from registry.store import change_log
from registry.store.bounds import READ_BYTES
from registry.store.connection import Pool
from registry.store.encoding import storable
from registry.store.encryption.sealing import Sealing
from registry.store.errors import TenantNotFound
from registry.store.rows import STATE
from registry.store.statements import statement
from registry.store.types import ChangeType, Guards, LoggedChange, ObjectKey, ResourceName, State, Tenant

# Rows of the log that one request counts: some tenths of a second.
MAX_WRITES: Final = 250_000

STATISTICS: Final = statement(
    "statistics",
    "The number of objects of a resource in a range of keys, and of their writes by type and interval of time; by the"
    " primary key, and by the log's index of keys in the partitions of that time.",
    f"""
    SELECT s.*, t.since, t.until, o.count, c.bucket, c.type, c.writes
    FROM ({STATE}) s CROSS JOIN (
        SELECT now.at AS until, greatest(now.at - make_interval(secs => %(seconds)s::float8), log.beginning) AS since
        FROM (SELECT statement_timestamp() AS at) now CROSS JOIN (
            SELECT CASE WHEN NOT bool_or(p.bound LIKE 'FOR VALUES FROM (MINVALUE)%%') THEN
                min(substring(p.bound FROM 'FROM \\(''([^'']*)''\\)')::timestamptz) END AS beginning
            FROM (
                SELECT pg_get_expr(c.relpartbound, c.oid) AS bound
                FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                WHERE i.inhparent = 'changes'::regclass
            ) p
        ) log
    ) t CROSS JOIN (
        SELECT count(*) FROM objects
        WHERE tenant_id = %(tenant)s::bigint AND resource = %(resource)s::text
            AND key > %(first)s::text AND (%(last)s::text IS NULL OR key < %(last)s::text)
    ) o LEFT JOIN LATERAL (
        SELECT width_bucket(extract(epoch FROM w.at - t.since), 0, extract(epoch FROM t.until - t.since),
            %(buckets)s::integer) AS bucket, w.type, count(*) AS writes
        FROM (
            SELECT c.at, c.type FROM changes c
            WHERE c.tenant_id = %(tenant)s::bigint AND c.resource = %(resource)s::text
                AND c.key > %(first)s::text AND (%(last)s::text IS NULL OR c.key < %(last)s::text)
                AND c.at >= t.since
            LIMIT %(limit)s::bigint
        ) w
        GROUP BY 1, 2
    ) c ON true
    """,
)


CHANGES_SINCE: Final = statement(
    "changes-since",
    "The changes of a range of keys since a time, up to a revision, in the order of keys and revisions, up to some"
    " bytes; by the log's index of keys in the partitions of that time.",
    "SELECT"
    + change_log.COLUMNS
    + " FROM ("
    + change_log.within_size(
        """
        SELECT * FROM changes c
        WHERE c.tenant_id = %(tenant)s::bigint AND c.resource = %(resource)s::text
            AND (c.key, c.revision) > (%(first)s::text, %(after)s::bigint)
            AND (%(last)s::text IS NULL OR c.key < %(last)s::text)
            AND c.at >= %(since)s::timestamptz AND c.revision <= %(upto)s::bigint
        ORDER BY c.key, c.revision LIMIT %(limit)s::bigint
        """,
        "r.key, r.revision",
    )
    + ") c ORDER BY c.key, c.revision",
)


class TooManyWrites(Exception):
    """There were more than MAX_WRITES writes in that time."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """`objects` is their number at `until`; `writes` counts by interval (0 is the first) and type."""

    since: datetime.datetime
    until: datetime.datetime
    objects: int
    writes: Mapping[tuple[int, ChangeType], int]
    state: State


class StatisticsReads:
    def __init__(self, pool: Pool, sealing: Sealing) -> None:
        self._pool = pool
        self._sealing = sealing

    async def of_resource(
        self, tenant: Tenant, resource: ResourceName, *, namespace: str | None, seconds: float, buckets: int
    ) -> Statistics:
        """Returns statistics of the last `seconds`, in `buckets` equal intervals; of less time if the log begins later.

        Raises TooManyWrites.
        """
        first, last = _key_range(namespace)
        parameters = {
            "tenant": tenant.id,
            "resource": resource,
            "first": first,
            "last": last,
            "seconds": seconds,
            "buckets": buckets,
            "limit": MAX_WRITES + 1,
        }
        rows = await self._pool.fetch(STATISTICS, parameters)
        if not rows:
            raise TenantNotFound(f"tenant {tenant.name} does not exist")
        current, _, definitions, namespaces, since, until, objects = rows[0][:7]
        writes: dict[tuple[int, ChangeType], int] = {}
        for *_, bucket, type_, count in rows:
            if bucket is not None:
                # A write may be slightly newer than the start of the statement that sees it.
                place = (min(bucket, buckets) - 1, ChangeType(type_))
                writes[place] = writes.get(place, 0) + count
        if sum(writes.values()) > MAX_WRITES:
            raise TooManyWrites
        return Statistics(since, until, objects, writes, State(current, Guards(definitions, namespaces)))

    async def changes_since(
        self,
        tenant: Tenant,
        resource: ResourceName,
        *,
        namespace: str | None,
        since: datetime.datetime,
        upto: int,
        after: tuple[ObjectKey, int] | None,
        limit: int,
    ) -> list[LoggedChange]:
        """Returns the next changes after a key and revision, in that order, since a time and up to a revision; else
        empty."""
        first, last = _key_range(namespace)
        parameters = {
            "tenant": tenant.id,
            "resource": resource,
            "first": first if after is None else storable(after[0]),
            "after": 0 if after is None else after[1],
            "last": last,
            "since": since,
            "upto": upto,
            "limit": limit,
            "bytes": READ_BYTES,
        }
        changes = [change_log.change_of(row) for row in await self._pool.fetch(CHANGES_SINCE, parameters)]
        await self._sealing.changes(changes)
        return changes


def _key_range(namespace: str | None) -> tuple[str, str | None]:
    """Returns the exclusive bounds of a namespace's keys; "0" is the character after "/"."""
    name = storable(namespace or "")
    return (f"{name}/", f"{name}0") if namespace else ("", None)
