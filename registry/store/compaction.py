"""Keeps the change log to its retention: partitions made ahead of time, the oldest dropped whole.

Dropping a partition costs a 190th of deleting its rows. Before it is dropped, each domain's compact revision rises to
the newest of its revisions in there, and that is committed: a later read gets RevisionExpired rather than a log with a
hole, and an earlier one has the partition locked, so that the drop waits for it.

At most twelve partitions: every read of the log looks into each.
"""

from __future__ import annotations

import datetime
import logging
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import sql

from registry.store.arrays import BigintArray
from registry.store.connection import Connection, Pool
from registry.store.statements import statement

logger = logging.getLogger(__name__)

CHANGES_PARTITION_PREFIX: Final = "changes_p"

DEFAULT_RETENTION: Final = datetime.timedelta(days=7)

# Parts of the retention: with the one being filled, the one that is partly out of date and one ahead, eleven.
PARTS: Final = 8

# Who waits for a lock on the log makes all behind it wait too, so we give up early and come again.
LOCK_TIMEOUT: Final = "300ms"

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
    "Each domain's newest revision in one partition; by the partition's index of revisions.",
    "SELECT domain_id, max(revision) FROM {partition} GROUP BY domain_id ORDER BY domain_id",
)

RAISE_COMPACT_REVISIONS: Final = statement(
    "raise-compact-revisions",
    "Raises the compact revisions of some domains, and drops what is lost below them, locking their counters in the"
    " order in which writers lock them.",
    """
    WITH wanted AS MATERIALIZED (
        SELECT * FROM unnest(%(domains)s::bigint[], %(revisions)s::bigint[]) AS w (id, revision)
    ), locked AS MATERIALIZED (
        SELECT id FROM domains WHERE id IN (SELECT id FROM wanted) ORDER BY id FOR UPDATE
    )
    UPDATE domains d SET compact_revision = w.revision, lost = (
        SELECT array_agg(l.revision ORDER BY l.place) FROM unnest(d.lost) WITH ORDINALITY AS l (revision, place)
        WHERE d.lost[l.place + mod(l.place, 2)] > w.revision)
    FROM wanted w JOIN locked l ON l.id = w.id
    WHERE d.id = w.id AND d.compact_revision < w.revision
    """,
)

# Counters that are locked at the same time, for about a millisecond.
DOMAINS_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class Partition:
    name: str
    ends: datetime.datetime


async def make_partitions(pool: Pool, retention: datetime.timedelta = DEFAULT_RETENTION) -> list[str]:
    """Sees to it that the log has partitions for now and for some time ahead. Gives the names of the new ones."""
    async with pool.connection() as connection, connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SHAPE_LOCK,))
        existing = await partitions(connection)
        now = await _now(connection)
        made = []
        for lower, upper in missing_ranges(existing[-1].ends if existing else None, now, retention / PARTS):
            name = f"{CHANGES_PARTITION_PREFIX}{upper:%Y%m%d%H%M%S%f}"
            await _make(connection, name, lower, upper)
            made.append(name)
        return made


def missing_ranges(
    end: datetime.datetime | None, now: datetime.datetime, width: datetime.timedelta
) -> list[tuple[datetime.datetime | None, datetime.datetime]]:
    """The ranges to be made when the last one ends at `end`: the very first has no beginning, and one is ahead."""
    ranges: list[tuple[datetime.datetime | None, datetime.datetime]] = []
    lower = None if end is None else max(end, now - width)
    while lower is None or lower <= now + width:
        upper = (lower or now) + width
        ranges.append((lower, upper))
        lower = upper
    return ranges


async def compact(pool: Pool, retention: datetime.timedelta = DEFAULT_RETENTION) -> list[str]:
    """Drops what is older than `retention`; the names of the dropped. What is in use now stays for the next time."""
    async with pool.connection() as connection:
        before = await _now(connection) - retention
        old = [partition.name for partition in await partitions(connection) if partition.ends <= before]
        dropped = []
        for name in old:
            await _raise_compact_revisions(connection, name)
            try:
                await _drop(connection, name)
            except psycopg.errors.LockNotAvailable:
                logger.info("partition %s is in use and will be dropped later", name)
                break
            dropped.append(name)
        return dropped


async def partitions(connection: Connection) -> list[Partition]:
    cursor = await connection.execute(PARTITIONS.sql, prepare=False)
    return [Partition(*row) async for row in cursor]


# Guards the shape of the log; nothing else uses this number.
_SHAPE_LOCK: Final = 0x7265_6769_6C6F_6700


async def _now(connection: Connection) -> datetime.datetime:
    row = await (await connection.execute(CLOCK.sql)).fetchone()
    assert row is not None
    now: datetime.datetime = row[0]
    return now


async def _make(connection: Connection, name: str, lower: datetime.datetime | None, upper: datetime.datetime) -> None:
    # Attached rather than created in place: that would lock out all readers and writers of the log.
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
        # Reads all of an index of the partition: with as long as it takes.
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


async def _drop(connection: Connection, name: str) -> None:
    async with connection.transaction():
        await connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(LOCK_TIMEOUT))
        await connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
