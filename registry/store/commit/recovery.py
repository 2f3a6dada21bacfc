"""Recovers the outcome of a commit whose connection broke: the log has it, by the batch's random number.

    time   the lost backend                      this process, on a new connection
    1      may still be waiting, or committing
    2                                            terminates it, by pid and start time, which make it unique
    3      is gone: committed or rolled back     waits until it is gone
    4                                            looks for the number in the log: it is there, or never will be
    5                                            if there: waits until it is replicated as PostgreSQL's settings require

Without step 3 the number could appear after the log was read, and a repeated write would happen twice. Steps 2 and 3
are skipped on another server: no process of the lost one can commit there.

Step 5 is needed because terminating a backend also ends its wait for synchronous standbys: the commit is then in the
log of this server, and may be lost with it. Another commit, later in the write-ahead log, waits for the same standbys;
when it returns, both are replicated.
"""

from __future__ import annotations

import asyncio
import datetime
from dataclasses import dataclass
from typing import Final

import psycopg

from registry.store.arrays import BigintArray, TextArray
from registry.store.commit.batch import Pending
from registry.store.database import CONNECT_TIMEOUT_SECONDS
from registry.store.errors import Uncertain
from registry.store.exchange import CallTimeout
from registry.store.session import Connection
from registry.store.statements import statement
from registry.store.types import Committed, Guards

WHO_AM_I: Final = statement(
    "who-am-i",
    "The backend of this session, for the day when its connection breaks, and what it calls the type of a write.",
    """
    SELECT (SELECT token FROM timelines ORDER BY number DESC LIMIT 1), pg_backend_pid(),
        (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()),
        'registry_write'::regtype::oid::bigint
    """,
)

# Has no effect but its position in the write-ahead log.
BARRIER: Final = statement(
    "replication-barrier",
    "Commits something that changes nothing, which returns when all before it is replicated as the settings ask.",
    "SELECT pg_logical_emit_message(true, 'registry', '')",
)

END_BACKEND: Final = statement(
    "end-backend",
    "Ends the backend of a lost connection if it is still there; a row as long as it is.",
    """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid = %(pid)s::int AND backend_start = %(started)s::timestamptz
    """,
)

FIND_BATCH: Final = statement(
    "find-batch",
    "The changes that were logged for the writes of a batch, if it was committed; by the log's index of keys.",
    """
    SELECT w.ordinal, c.revision, t.definitions_revision, t.namespaces_revision
    FROM unnest(%(tenants)s::bigint[], %(resources)s::text[], %(keys)s::text[])
        WITH ORDINALITY AS w (tenant_id, resource, key, ordinal)
    JOIN changes c ON c.tenant_id = ANY (ARRAY[w.tenant_id]) AND c.resource = w.resource AND c.key = w.key
        AND c.batch = %(batch)s::bigint
    JOIN tenants t ON t.id = ANY (ARRAY[w.tenant_id])
    """,
)


# How long a standby may take to confirm a commit that was found in the log.
REPLICATION_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class BackendConnection:
    """A connection and its backend: `timeline` identifies the server, `write_oid` is the OID of the type
    `registry_write`."""

    connection: Connection
    timeline: str | None
    pid: int
    started: datetime.datetime | None
    write_oid: int


async def link(connection: Connection) -> BackendConnection:
    cursor = await connection.execute(WHO_AM_I.sql, prepare=False)
    row = await cursor.fetchone()
    assert row is not None, "a session sees itself"
    return BackendConnection(connection, *row)


async def dismiss(link: BackendConnection, lost: BackendConnection) -> None:
    """Terminates the backend of a lost connection, without waiting until it is gone."""
    if lost.timeline == link.timeline:
        await link.connection.execute(END_BACKEND.sql, {"pid": lost.pid, "started": lost.started})


async def outcome(
    link: BackendConnection, lost: BackendConnection | None, batch_id: int, batch: list[Pending]
) -> list[Committed | None]:
    """Returns the result of each write, or None if it was not written and never will be. Raises Uncertain otherwise."""
    connection = link.connection
    if lost is not None and lost.timeline == link.timeline:
        await _end(connection, lost)
    cursor = await connection.execute(
        FIND_BATCH.sql,
        {
            "tenants": BigintArray([p.tenant.id for p in batch]),
            "resources": TextArray([p.write.resource for p in batch]),
            "keys": TextArray([p.write.key for p in batch]),
            "batch": batch_id,
        },
    )
    outcomes: list[Committed | None] = [None] * len(batch)
    async for row in cursor:
        ordinal, revision, definitions, namespaces = row
        outcomes[ordinal - 1] = Committed(revision, Guards(definitions, namespaces))
    if any(outcomes):
        await wait_for_replication(connection)
    return outcomes


async def wait_for_replication(connection: Connection) -> None:
    """Returns when all commits are replicated as `synchronous_standby_names` and `synchronous_commit` require (at once
    if they require nothing). Raises Uncertain when that takes too long, and psycopg's errors."""
    limit, connection.call_limit_seconds = connection.call_limit_seconds, REPLICATION_SECONDS
    connection.is_unreplicated = False
    try:
        await connection.execute(BARRIER.sql)
    except CallTimeout as error:
        raise Uncertain("no synchronous standby has confirmed it") from error
    finally:
        connection.call_limit_seconds = limit
    if connection.is_unreplicated:
        raise Uncertain("the wait for a synchronous standby was cancelled")


async def _end(connection: Connection, lost: BackendConnection) -> None:
    deadline = asyncio.get_running_loop().time() + CONNECT_TIMEOUT_SECONDS
    while True:
        try:
            cursor = await connection.execute(END_BACKEND.sql, {"pid": lost.pid, "started": lost.started})
        except psycopg.errors.InsufficientPrivilege as error:
            raise Uncertain("the backend of a lost connection cannot be ended") from error
        if not await cursor.fetchall():
            return
        if asyncio.get_running_loop().time() > deadline:
            raise Uncertain("the backend of a lost connection does not end")
        await asyncio.sleep(0.02)
