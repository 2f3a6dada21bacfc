"""Connections to PostgreSQL: how one is made, and a small pool of them (docs/decisions/connection-pool.md).

Every connection is in autocommit mode, since a write is one call; transactions are opened by name where one is needed.
The DSN must lead to PostgreSQL directly or through a pooler in session mode: statements are prepared.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection

from registry.store import arrays
from registry.store.errors import Unavailable, Uncertain
from registry.store.statements import Statement
from registry.store.translate import is_transient, translate

logger = logging.getLogger(__name__)

Connection = AsyncConnection[tuple[Any, ...]]

# How long a call waits for a PostgreSQL that is away, before it is Unavailable. A restart takes about two seconds.
CONNECT_TIMEOUT_SECONDS: Final = 5.0

# What may wait for a connection of a pool. Lists are what holds them longest, some 100 a second.
MAX_WAITING: Final = 1_000

# Longer than any statement of ours takes; an unlimited wait would hide a fault.
STATEMENT_TIMEOUT_MS: Final = 15_000

# A peer that vanished (no RST) is noticed after about 20 s.
_KEEPALIVE: Final = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}

# What is read is in memory, or on a disk without a head: at the default of 4 the planner reads ranges of the primary
# key to save a few visits to the table.
_SESSION: Final = f"""
SET statement_timeout = {STATEMENT_TIMEOUT_MS};
SET idle_in_transaction_session_timeout = '60s';
SET timezone = 'UTC';
SET random_page_cost = 1.1;
SELECT set_config('default_toast_compression', 'lz4', false)
FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)
"""

# Point look-ups keep their plan of index scans, whatever size the tables had when it was made.
_LOOKUPS_ONLY: Final = """
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET plan_cache_mode = force_generic_plan
"""


async def connect(dsn: str, purpose: str, *, lookups_only: bool = False) -> Connection:
    """A new connection, or psycopg's error. `purpose` is seen in pg_stat_activity as "registry <purpose>"."""
    connection = await _whole(
        AsyncConnection.connect(
            dsn,
            autocommit=True,
            prepare_threshold=0,
            connect_timeout=5,
            **{**_KEEPALIVE, **_explicit_parameters(dsn), "application_name": f"registry {purpose}"},
        )
    )
    try:
        arrays.register(connection)
        await connection.execute(_SESSION, prepare=False)
        if lookups_only:
            await connection.execute(_LOOKUPS_ONLY, prepare=False)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _whole(connecting: Coroutine[Any, Any, Connection]) -> Connection:
    """Cancelled, it ends the connection that is being made rather than leave half of one behind."""
    task = asyncio.ensure_future(connecting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # Whenever it comes: also after a second cancellation, which ends the wait below.
        task.add_done_callback(_discard)
        await asyncio.wait([task], timeout=1)
        task.cancel()
        raise


def _discard(task: asyncio.Task[Connection]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().pgconn.finish()


def _explicit_parameters(dsn: str) -> dict[str, Any]:
    """What the DSN says itself beats our keepalive settings."""
    return {name: value for name, value in psycopg.conninfo.conninfo_to_dict(dsn).items() if name in _KEEPALIVE}


async def connect_with_retry(
    dsn: str, purpose: str, *, connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS, lookups_only: bool = False
) -> Connection:
    """Tries until it works. Raises Unavailable after `connect_timeout_seconds`, for a fault in the DSN too."""
    deadline = asyncio.get_running_loop().time() + connect_timeout_seconds
    pause = 0.02
    while True:
        try:
            return await connect(dsn, purpose, lookups_only=lookups_only)
        except (psycopg.Error, OSError) as error:
            # PostgreSQL may be starting again, or failing over.
            if asyncio.get_running_loop().time() + pause > deadline:
                raise Unavailable(f"PostgreSQL cannot be reached: {str(error).partition(chr(10))[0]}") from error
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.5)


class Pool:
    """A few connections, opened when first needed, for statements that may be repeated when one breaks."""

    def __init__(
        self, dsn: str, purpose: str, size: int, *, connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS
    ) -> None:
        self._dsn = dsn
        self._purpose = purpose
        self._connect_timeout_seconds = connect_timeout_seconds
        # Invariant: connections lent out + idle + still to be opened = size = permits taken + free.
        self._permits = asyncio.Semaphore(size)
        self._idle: deque[Connection] = deque()
        self._lent: set[Connection] = set()
        self._waiting = 0
        self._closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """One connection for as long as the block lasts. Driver errors inside come out translated."""
        if self._closed:
            raise Unavailable("the store is closed")
        if self._waiting >= MAX_WAITING:
            raise Unavailable("too many reads wait")
        self._waiting += 1
        try:
            await self._permits.acquire()
        finally:
            self._waiting -= 1
        try:
            connection = self._take()
            if connection is None:
                connection = await connect_with_retry(
                    self._dsn, self._purpose, connect_timeout_seconds=self._connect_timeout_seconds
                )
            self._lent.add(connection)
            try:
                yield connection
            except psycopg.Error as error:
                raise translate(error) from error
            finally:
                self._lent.discard(connection)
                await self._give_back(connection)
        finally:
            self._permits.release()

    async def fetch(
        self, statement: Statement, parameters: dict[str, Any], *, prepare: bool = True
    ) -> list[tuple[Any, ...]]:
        """All rows of a statement that reads. Repeated once on a new connection when the old one has been cut."""
        for attempt in (1, 2):
            async with self.connection() as connection:
                try:
                    cursor = await connection.execute(statement.sql, parameters, prepare=prepare, binary=True)
                    return await cursor.fetchall()
                except psycopg.Error as error:
                    if attempt == 2 or not (connection.closed and is_transient(error)):
                        raise
                    # The others that idle were cut with it, by a restart.
                    self._drop_idle()
        raise AssertionError("the second attempt returns or raises")

    async def execute(self, statement: Statement, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        """A statement that writes, so it is not repeated by itself. Gives its rows, if it has any. Raises Uncertain."""
        async with self.connection() as connection:
            try:
                cursor = await connection.execute(statement.sql, parameters)
                return await cursor.fetchall() if cursor.description else []
            except psycopg.Error as error:
                if connection.closed:
                    raise Uncertain(f"the connection broke during {statement.name}") from error
                raise

    async def close(self) -> None:
        self._closed = True
        for connection in [*self._idle, *self._lent]:
            await connection.close()
        self._idle.clear()

    def _take(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        return None

    def _drop_idle(self) -> None:
        # psycopg notices a cut connection only by using it.
        stale, self._idle = self._idle, deque()
        for connection in stale:
            connection.pgconn.finish()

    async def _give_back(self, connection: Connection) -> None:
        usable = connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if usable and not self._closed:
            self._idle.append(connection)
        else:
            await connection.close()
