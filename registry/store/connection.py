"""A small pool of connections to PostgreSQL (docs/decisions/connection-pool.md)."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, LiteralString

import psycopg

from registry.flowcontrol.fair_permits import FairPermits, TooManyWaiting
from registry.flowcontrol.interruption import current_interruption
from registry.store.database import CONNECT_TIMEOUT_SECONDS as CONNECT_TIMEOUT_SECONDS
from registry.store.database import Database
from registry.store.errors import Closed, Unavailable, Uncertain
from registry.store.session import CALL_LIMIT_SECONDS
from registry.store.session import Connection as Connection
from registry.store.session import connect as connect
from registry.store.statements import Statement
from registry.store.translate import is_transient, translate

# Callers of one tenant that may wait for a connection of a pool. Lists hold connections longest, at some 100 a second.
MAX_WAITING: Final = 1_000

# Long statements that run at the same time: a tenant holds half of them.
_LONG_AT_ONCE: Final = 2

# A connection that nothing has needed for this long is closed, but for one of a pool: libpq keeps a buffer as large as
# the longest answer so far, up to 8 MiB, and PostgreSQL a process.
IDLE_SECONDS: Final = 15.0

# A read without an answer within this time is retried on another connection, since this one may be frozen.
FIRST_ATTEMPT_SECONDS: Final = 8.0


class Pool:
    """A few connections, opened on first use, for statements that can be retried when a connection breaks.

    Tenants wait for them in turn, and none may take all (registry/flowcontrol/fair_permits.py).
    """

    def __init__(self, database: Database | str, purpose: str, size: int, *, settings: LiteralString = "") -> None:
        """`settings` is SQL that each new session runs first."""
        self._database = Database(database) if isinstance(database, str) else database
        self._purpose = purpose
        self._settings = settings
        # Invariant: connections lent out + idle + still to be opened = size = permits taken + free.
        self._permits = FairPermits(size, MAX_WAITING)
        self._long = FairPermits(_LONG_AT_ONCE, MAX_WAITING)
        # With when each was given back, the oldest first. The newest is lent first, so that the others become old.
        self._idle: deque[tuple[Connection, float]] = deque()
        self._sweep: asyncio.TimerHandle | None = None
        self._lent: set[Connection] = set()
        self._closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lends one connection for the duration of the block. Translates driver errors raised inside it."""
        if self._closed:
            raise Closed("the store is closed")
        self._database.require()
        try:
            owner = await self._permits.acquire()
        except TooManyWaiting:
            raise Unavailable("too many reads wait") from None
        # A statement in progress is finished for a client that has gone, and so is a connection that is being made.
        interruption = current_interruption()
        interruption.defer()
        try:
            connection = self._take()
            if connection is None:
                connection = await self._open()
            self._lent.add(connection)
            try:
                yield connection
            except psycopg.Error as error:
                raise translate(error) from error
            finally:
                self._lent.discard(connection)
                await self._give_back(connection)
        finally:
            interruption.allow()
            self._permits.release(owner)

    async def fetch_long(self, statement: Statement, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Like `fetch`, for a statement that may keep a processor of PostgreSQL busy for a second: one at a time of a
        tenant that is alone, two of all."""
        try:
            owner = await self._long.acquire()
        except TooManyWaiting:
            raise Unavailable("too many reads wait") from None
        try:
            return await self.fetch(statement, parameters, prepare=False)
        finally:
            self._long.release(owner)

    async def fetch(
        self, statement: Statement, parameters: Mapping[str, Any], *, prepare: bool = True
    ) -> list[tuple[Any, ...]]:
        """Returns all rows of a statement that reads, for values as exchange.py takes them. Without `prepare` it is
        planned for these values. Retries once on another connection when the first one was cut or does not answer.

        When cancelled, it waits for its statement: else requests with short timeouts would make a connection each.
        """
        for attempt in (1, 2):
            async with self.connection() as connection:
                if attempt == 1:
                    connection.call_limit_seconds = FIRST_ATTEMPT_SECONDS
                try:
                    return await connection.call(statement, parameters, prepare=prepare, finishes=True)
                except psycopg.Error as error:
                    if attempt == 2 or not (connection.closed and is_transient(error)):
                        raise
                    # A restart has cut the other idle connections, too.
                    self._drop_idle()
        raise AssertionError("the second attempt returns or raises")

    async def execute(self, statement: Statement, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Runs a statement that writes, and returns its rows, if any. Never retried. Raises Uncertain."""
        async with self.connection() as connection:
            try:
                cursor = await connection.execute(statement.sql, parameters)
                rows = await cursor.fetchall() if cursor.description else []
            except psycopg.Error as error:
                if connection.closed:
                    raise Uncertain(f"the connection broke during {statement.name}") from error
                raise
            if connection.is_unreplicated:
                connection.finish()
                raise Uncertain(f"{statement.name} was not replicated")
            return rows

    async def close(self) -> None:
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in [*(connection for connection, _ in self._idle), *self._lent]:
            await connection.close()
        self._idle.clear()

    async def _open(self) -> Connection:
        connection = await self._database.connect_with_retry(self._purpose)
        if self._settings:
            try:
                await connection.execute(self._settings, prepare=False)
            except psycopg.Error as error:
                connection.finish()
                raise translate(error) from error
        return connection

    def _take(self) -> Connection | None:
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.closed:
                return connection
        return None

    def _drop_idle(self) -> None:
        # psycopg notices a cut connection only when it is used.
        stale, self._idle = self._idle, deque()
        for connection, _ in stale:
            connection.finish()

    def _close_unused(self) -> None:
        """Closes what has been idle for long, again and again while there is more than one idle connection."""
        loop = asyncio.get_running_loop()
        self._sweep = None
        while len(self._idle) > 1 and self._idle[0][1] <= loop.time() - IDLE_SECONDS:
            self._idle.popleft()[0].finish()
        if len(self._idle) > 1:
            # Out of the context of the request that happens to give the connection back.
            self._sweep = contextvars.Context().run(loop.call_at, self._idle[0][1] + IDLE_SECONDS, self._close_unused)

    async def _give_back(self, connection: Connection) -> None:
        usable = connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if usable and not self._closed:
            connection.call_limit_seconds = CALL_LIMIT_SECONDS
            self._idle.append((connection, asyncio.get_running_loop().time()))
            if self._sweep is None:
                self._close_unused()
        else:
            await connection.close()
