"""Retention of the change log: creates partitions ahead of time and drops the oldest ones.

Dropping a partition costs 1/190 of deleting its rows. First each domain's compact revision is raised to its newest
revision in that partition, and committed: later reads get RevisionExpired instead of a log with a hole, and earlier
ones hold a lock on the partition, so that the drop waits for them. A commit that reaches the partition in between, by a
clock that was put back, postpones the drop.

At most twelve partitions, since every read of the log looks into each.

A session of a report login may read the log for as long as it likes, one after the other without a gap: those that keep
a partition for an hour longer than it is to be kept are ended.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from registry.store.arrays import BigintArray
from registry.store.connection import Connection, Pool
from registry.store.statements import statement
from registry.tasks import running

logger = logging.getLogger(__name__)

CHANGES_PARTITION_PREFIX: Final = "changes_p"

DEFAULT_RETENTION: Final = datetime.timedelta(days=7)

# Partitions per retention; with the one being filled, the partly expired one and one ahead, eleven.
PARTS: Final = 8

# Waiting for a lock on the log blocks everything queued behind it, so give up early and retry later.
LOCK_TIMEOUT: Final = "300ms"

# How long a partition waits for reports that read it: nearly all have ended by then (store/reporting/logins.py).
PATIENCE: Final = datetime.timedelta(hours=1)

# Between two looks at what keeps a partition.
_LOOK_SECONDS: Final = 0.05

PARTITIONS: Final = statement(
    "partitions",
    "The partitions of the change log with the ends of their ranges, oldest first.",
    """
    SELECT c.relname, substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \\(''(.*)''\\)')::timestamptz AS ends
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'changes'::regclass
    ORDER BY ends
    """,
)

CLOCK: Final = statement("clock", "The clock that the log is written by.", "SELECT clock_timestamp()")

NEWEST: Final = statement(
    "newest-of-partition",
    "Each domain's newest revision in one partition; a look-up for each domain in the partition's index of revisions.",
    """
    SELECT d.id, n.revision
    FROM domains d CROSS JOIN LATERAL (SELECT max(p.revision) AS revision FROM {partition} p WHERE p.domain_id = d.id) n
    WHERE n.revision IS NOT NULL ORDER BY d.id
    """,
)

IS_COVERED: Final = statement(
    "partition-is-covered",
    "Whether the compact revisions cover all of one partition; by the partition's index of revisions.",
    """
    SELECT NOT EXISTS (SELECT FROM domains d WHERE EXISTS (
        SELECT FROM {partition} p WHERE p.domain_id = d.id AND p.revision > d.compact_revision))
    """,
)

RAISE_COMPACT_REVISIONS: Final = statement(
    "raise-compact-revisions",
    "Raises the compact revisions of some domains, and drops what is lost below them, locking their counters in the"
    " order in which writers lock them.",
    """
    WITH wanted AS MATERIALIZED (
        SELECT * FROM unnest(%(domains)s::bigint[], %(revisions)s::bigint[]) AS w (id, revision)
    ), locked AS MATERIALIZED (
        SELECT id FROM domains WHERE id = ANY (%(domains)s::bigint[]) ORDER BY id FOR UPDATE
    )
    UPDATE domains d SET compact_revision = w.revision, lost = (
        SELECT array_agg(l.revision ORDER BY l.place) FROM unnest(d.lost) WITH ORDINALITY AS l (revision, place)
        WHERE d.lost[l.place + mod(l.place, 2)] > w.revision)
    FROM wanted w JOIN locked l ON l.id = w.id
    WHERE d.id = ANY (ARRAY[w.id]) AND d.compact_revision < w.revision
    """,
)

END_READERS: Final = statement(
    "end-readers-of-log",
    "Ends the sessions of report logins that a session waits for; reads the locks of all sessions.",
    """
    SELECT pg_terminate_backend(a.pid)
    FROM unnest(pg_blocking_pids(%(pid)s::integer)) AS b (pid) JOIN pg_stat_activity a ON a.pid = b.pid
        JOIN report_logins l ON l.name = a.usename
    """,
)

# Counters locked at the same time, for about a millisecond.
DOMAINS_AT_ONCE: Final = 200


class Partition(NamedTuple):
    name: str
    ends: datetime.datetime


async def make_partitions(pool: Pool, retention: datetime.timedelta = DEFAULT_RETENTION) -> list[str]:
    """Creates missing partitions for now and one width ahead. Returns the names of the new ones."""
    async with pool.connection() as connection, connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SHAPE_LOCK,))
        existing = await partitions(connection)
        now = await _now(connection)
        names = []
        for lower, upper in missing_ranges(existing[-1].ends if existing else None, now, retention / PARTS):
            name = f"{CHANGES_PARTITION_PREFIX}{upper:%Y%m%d%H%M%S%f}"
            await _make(connection, name, lower, upper)
            names.append(name)
        return names


def missing_ranges(
    end: datetime.datetime | None, now: datetime.datetime, width: datetime.timedelta
) -> list[tuple[datetime.datetime | None, datetime.datetime]]:
    """Returns the ranges to create when the last one ends at `end`, one ahead; the very first has no lower bound."""
    ranges: list[tuple[datetime.datetime | None, datetime.datetime]] = []
    lower = None if end is None else max(end, now - width)
    while lower is None or lower <= now + width:
        upper = (lower or now) + width
        ranges.append((lower, upper))
        lower = upper
    return ranges


async def compact(pool: Pool, retention: datetime.timedelta = DEFAULT_RETENTION) -> list[str]:
    """Drops partitions older than `retention` and returns their names. Those in use now are left for the next run."""
    async with pool.connection() as connection:
        before = await _now(connection) - retention
        old = [partition for partition in await partitions(connection) if partition.ends <= before]
        dropped = []
        for name, ends in old:
            await _raise_compact_revisions(connection, name)
            try:
                if ends > before - PATIENCE:
                    is_dropped = await _drop(connection, name)
                else:
                    is_dropped = await _drop_overdue(pool, connection, name)
            except psycopg.errors.LockNotAvailable:
                is_dropped = False
            if not is_dropped:
                logger.info("partition %s is in use and will be dropped later", name)
                break
            dropped.append(name)
        return dropped


async def partitions(connection: Connection) -> list[Partition]:
    cursor = await connection.execute(PARTITIONS.sql, prepare=False)
    return [Partition(*row) async for row in cursor]


# The advisory lock for changes to the set of partitions; nothing else uses this number.
_SHAPE_LOCK: Final = 0x7265_6769_6C6F_6700


async def _now(connection: Connection) -> datetime.datetime:
    row = await (await connection.execute(CLOCK.sql)).fetchone()
    assert row is not None
    now: datetime.datetime = row[0]
    return now


async def _make(connection: Connection, name: str, lower: datetime.datetime | None, upper: datetime.datetime) -> None:
    # Attached rather than created in place, which would lock out all readers and writers of the log.
    table = sql.Identifier(name)
    begin: sql.Composable = sql.SQL("MINVALUE") if lower is None else sql.Literal(lower.isoformat())
    await connection.execute(sql.SQL("CREATE TABLE {} (LIKE changes INCLUDING ALL)").format(table))
    await connection.execute(
        sql.SQL("ALTER TABLE changes ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
            table, begin, sql.Literal(upper.isoformat())
        )
    )


async def _raise_compact_revisions(connection: Connection, name: str) -> None:
    async with connection.transaction():
        # There may be very many domains, so it runs without a timeout.
        await connection.execute("SET LOCAL statement_timeout = 0")
        connection.call_limit_seconds = None
        cursor = await connection.execute(sql.SQL(NEWEST.sql).format(partition=sql.Identifier(name)))
        newest = await cursor.fetchall()
    for start in range(0, len(newest), DOMAINS_AT_ONCE):
        some = newest[start : start + DOMAINS_AT_ONCE]
        parameters = {
            "domains": BigintArray([row[0] for row in some]),
            "revisions": BigintArray([row[1] for row in some]),
        }
        await connection.execute(RAISE_COMPACT_REVISIONS.sql, parameters)


async def _drop_overdue(pool: Pool, connection: Connection, name: str) -> bool:
    """Like `_drop`, but ends the sessions of report logins that it waits for."""
    async with running(_end_readers(pool, connection.info.backend_pid), "readers of the log"):
        return await _drop(connection, name)


async def _end_readers(pool: Pool, pid: int) -> None:
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        await pool.execute(END_READERS, {"pid": pid})


async def _drop(connection: Connection, name: str) -> bool:
    """Returns whether the partition could be dropped. Raises LockNotAvailable."""
    partition = sql.Identifier(name)
    async with connection.transaction():
        await connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(LOCK_TIMEOUT))
        # Admits readers, and no commit from here on.
        await connection.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE").format(partition))
        cursor = await connection.execute(sql.SQL(IS_COVERED.sql).format(partition=partition))
        [is_covered] = await cursor.fetchone() or [False]
        if is_covered:
            await connection.execute(sql.SQL("DROP TABLE {}").format(partition))
        return bool(is_covered)
