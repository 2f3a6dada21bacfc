"""The pool of connections to PostgreSQL: what it keeps."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from registry.flowcontrol.interruption import Interruption
from registry.store import connection
from registry.store.connection import Pool
from registry.store.statements import statement
from tests.api.client import eventually

LOCK = 4_711
WAITING = statement(
    "waiting", "Takes as long as the lock is held.", f"SELECT pg_advisory_xact_lock_shared({LOCK})::text"
)
SESSIONS = statement(
    "sessions", "The sessions of a pool.", "SELECT pid::bigint FROM pg_stat_activity WHERE application_name = %(name)s"
)


async def test_connections_that_are_not_needed_are_closed(
    postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each keeps a buffer as large as the longest answer that it has had: 13 kept up to 110 MB for good."""
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.5)
    pool, others = Pool(postgres_server, "burst", 4), Pool(postgres_server, "looking", 1)

    async def has(count: int) -> bool:
        return len(await others.fetch(SESSIONS, {"name": "registry burst"})) == count

    try:
        for _ in range(2):  # the connections of another burst are closed, too
            with psycopg.connect(postgres_server) as holder:
                holder.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
                burst = asyncio.gather(*(pool.fetch(WAITING, {}) for _ in range(4)))
                await eventually(lambda: has(4))
            await burst
            await eventually(lambda: has(1))
    finally:
        await pool.close()
        await others.close()


async def test_a_connection_that_is_made_for_a_client_that_goes_is_kept(database_url: str) -> None:
    """Each watch that ended at once cost PostgreSQL a process."""
    pool = Pool(database_url, "test", 2)
    with Interruption() as interruption:
        asyncio.get_running_loop().call_soon(interruption.request)
        async with pool.connection() as made:
            await made.execute("SELECT 1")
    assert not made.closed
    async with pool.connection() as again:
        assert again is made
    await pool.close()
