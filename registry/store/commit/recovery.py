"""What became of a commit whose connection broke: the log knows, by the batch's random number.

    time   the lost backend                      we, on a new connection
    1      may still be waiting, or committing
    2                                            end it, by its pid and the start that makes the pid unmistakable
    3      is gone: committed or rolled back     wait until it is gone
    4                                            read the log for the number: there, or never to be

Without step 3 the number could turn up after we had looked, and a repeated write would happen twice.
"""

from __future__ import annotations

import asyncio
import datetime
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from registry.store.arrays import BigintArray, TextArray
from registry.store.commit.batch import Pending
from registry.store.connection import CONNECT_TIMEOUT_SECONDS, Connection
from registry.store.errors import Uncertain
from registry.store.statements import statement
from registry.store.types import Committed, Guards, Row, Uid

WHO_AM_I: Final = statement(
    "who-am-i",
    "The backend of this session, for the day when its connection breaks, and what it calls the type of a write.",
    """
    SELECT pg_backend_pid(), (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()),
        'registry_write'::regtype::oid::bigint
    """,
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
    SELECT w.ordinal, c.revision, c.uid, c.previous_revision, c.previous_version, c.previous_schema_id, c.previous_body,
        t.definitions_revision, t.namespaces_revision
    FROM unnest(%(tenants)s::bigint[], %(resources)s::text[], %(keys)s::text[])
        WITH ORDINALITY AS w (tenant_id, resource, key, ordinal)
    JOIN changes c ON c.tenant_id = w.tenant_id AND c.resource = w.resource AND c.key = w.key
        AND c.batch = %(batch)s::bigint
    JOIN tenants t ON t.id = w.tenant_id
    """,
)


@dataclass(frozen=True, slots=True)
class Link:
    """A connection and who serves it; `write_oid` is the OID of the type `registry_write`."""

    connection: Connection
    pid: int
    started: datetime.datetime | None
    write_oid: int


async def link(connection: Connection) -> Link:
    cursor = await connection.execute(WHO_AM_I.sql, prepare=False)
    row = await cursor.fetchone()
    assert row is not None, "a session sees itself"
    return Link(connection, *row)


async def outcome(
    connection: Connection, lost: Link | None, batch_id: int, batch: list[Pending]
) -> list[Committed | None]:
    """For each write what it became, or None where it was not written and never will be. Else raises Uncertain."""
    if lost is not None:
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
    found: list[Committed | None] = [None] * len(batch)
    async for row in cursor:
        ordinal = row[0] - 1
        found[ordinal] = _committed_write(batch[ordinal], row)
    return found


async def _end(connection: Connection, lost: Link) -> None:
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


def _committed_write(pending: Pending, row: tuple[Any, ...]) -> Committed:
    _, revision, uid, previous, version, schema, body, definitions, namespaces = row
    write = pending.write
    replaced = None if previous is None else Row(write.resource, write.key, Uid(uid), previous, version, schema, body)
    return Committed(revision, replaced, Guards(definitions, namespaces))
