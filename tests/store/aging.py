"""A change log that is a day old."""

from __future__ import annotations

import datetime

import psycopg
from psycopg import sql

from registry.store import compaction
from registry.store.session import Connection
from registry.store.store import Store

HOUR = datetime.timedelta(hours=1)


async def partitions_of(store: Store) -> list[str]:
    async with store._pool.connection() as connection:
        return [partition.name for partition in await compaction.partitions(connection)]


async def age(store: Store, database_url: str) -> None:
    """Makes all that the log holds a day older, as if its partition had ended then."""
    now = datetime.datetime.now(datetime.UTC)
    old = now - datetime.timedelta(days=1)
    async with await Connection.connect(database_url) as connection:
        for name in await partitions_of(store):
            await connection.execute(sql.SQL("ALTER TABLE changes DETACH PARTITION {}").format(sql.Identifier(name)))
            await connection.execute(
                sql.SQL("ALTER TABLE {} RENAME TO {}").format(sql.Identifier(name), sql.Identifier("x" + name))
            )
        await compaction._make(connection, "changes_p_old", None, old)
        for name in await _names(connection, "xchanges_p%"):
            await connection.execute(sql.SQL("UPDATE {} SET at = {}").format(sql.Identifier(name), old - HOUR))
            await connection.execute(sql.SQL("INSERT INTO changes SELECT * FROM {}").format(sql.Identifier(name)))
            await connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
        await compaction._make(connection, "changes_p_new", old, now + datetime.timedelta(days=1))


async def _names(connection: psycopg.AsyncConnection[tuple[object, ...]], pattern: str) -> list[str]:
    cursor = await connection.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE %s", [pattern])
    return [str(row[0]) for row in await cursor.fetchall()]
