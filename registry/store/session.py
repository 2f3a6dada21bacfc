"""One PostgreSQL session: how it is opened, and what it adds to psycopg's connection.

Every session is in autocommit mode, since a write is a single call; transactions are opened explicitly where needed.
The DSN must reach PostgreSQL directly or through a pooler in session mode, because statements are prepared.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Coroutine, Mapping
from typing import Any, Final, Self, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.abc import Params, PQGen

from registry import tracing
from registry.store import arrays
from registry.store.exchange import CallTimeout, Exchange, RowsDone, Value
from registry.store.statements import Statement

# For a TCP connection, TLS and authentication with one host.
CONNECT_ATTEMPT_SECONDS: Final = 5

# Longer than any of our statements takes; waiting without a limit would hide a fault.
STATEMENT_TIMEOUT_MS: Final = 15_000

# A call that stays silent for longer than PostgreSQL would let it run has lost its connection: TCP timeouts do not
# detect a proxy, a stopped process or a stalled host that still acknowledges packets.
CALL_LIMIT_SECONDS: Final = STATEMENT_TIMEOUT_MS / 1000 + 5

# A peer that vanished (no RST) is noticed after about 20 s.
_KEEPALIVE: Final = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}

# Data is in memory or on an SSD: at the default random_page_cost of 4 the planner reads ranges of the primary key to
# avoid a few heap fetches. JIT compilation takes ten times as long as the statement: where there is nothing but a
# sequential scan, `enable_seqscan` makes a plan look expensive enough for it. Plans are kept while tables grow: without
# sequential scans of what was small (statements.py). Warnings must arrive: see `Connection.is_unreplicated`.
_SESSION: Final = f"""
SET statement_timeout = {STATEMENT_TIMEOUT_MS};
SET idle_in_transaction_session_timeout = '60s';
SET client_min_messages = 'warning';
SET timezone = 'UTC';
SET random_page_cost = 1.1;
SET enable_seqscan = off;
SET jit = off;
SELECT set_config('default_toast_compression', 'lz4', false)
FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)
"""

# Point lookups keep a plan of index scans, whatever the size of the tables when it was made.
_LOOKUPS_ONLY: Final = """
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET plan_cache_mode = force_generic_plan
"""

T = TypeVar("T")


class Connection(AsyncConnection[tuple[Any, ...]]):
    """psycopg's connection with a time limit for each call.

    A call that exceeds `call_limit_seconds` (None: no limit) raises CallTimeout and closes the connection: its response
    may still arrive, and could be taken for that of the next call.
    """

    call_limit_seconds: float | None = CALL_LIMIT_SECONDS
    # Whether a commit of this session returned without the replication that `synchronous_commit` requires because its
    # wait was cancelled. PostgreSQL reports that as a warning along with success.
    is_unreplicated = False
    _exchange: Exchange | None = None

    async def call(
        self, statement: Statement, values: Mapping[str, Value], *, prepare: bool = True, finishes: bool = False
    ) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement: as `execute`, at less than half of its cost (exchange.py). Raises psycopg's
        errors. When cancelled, the connection is closed, unless the call `finishes` its statement first."""
        async with self.lock:
            if self._exchange is None:
                self._exchange = Exchange(self.pgconn, self.adapters)
            exchange, limit = self._exchange, self.call_limit_seconds
            with tracing.statement(statement.sql) if tracing.is_on() else contextlib.nullcontext():
                return await exchange.call(statement, values, limit, prepare=prepare, finishes=finishes)

    def begin(self, statement: Statement, values: Mapping[str, Value], done: RowsDone) -> bool:
        """Begins a call that nothing waits for: `done` gets the rows or the error, once, in a later iteration of the
        event loop. False if it is the first call of the statement, or of the connection. Raises psycopg's errors.

        No other call may be made until then.
        """
        return self._exchange is not None and self._exchange.begin(statement, values, done, self.call_limit_seconds)

    async def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:  # noqa: ASYNC109
        if self._exchange is not None:
            self._exchange.detach()
        if timeout is not None or self.call_limit_seconds is None:
            return await super().wait(gen, interval, timeout)
        try:
            return await super().wait(gen, interval, self.call_limit_seconds)
        except psycopg.errors._WaitTimeout as error:
            self.finish()
            raise CallTimeout(f"PostgreSQL has not answered for {self.call_limit_seconds:.0f} s") from error

    def finish(self) -> None:
        """Closes the connection, as `close` does."""
        if self._exchange is not None:
            self._exchange.close()
        self.pgconn.finish()

    async def close(self) -> None:
        if self._exchange is not None:
            self._exchange.close()
        await super().close()

    def abort(self) -> None:
        """Shuts the socket down, so that whatever waits for this connection fails."""
        with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.pgconn.socket)) as twin:
            twin.shutdown(socket.SHUT_RDWR)

    def _note(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        # src/backend/replication/syncrep.c. The message text is localized, the function name is not.
        if diagnostic.source_function == "SyncRepWaitForLSN":
            self.is_unreplicated = True


class TracedCursor(AsyncCursor[tuple[Any, ...]]):
    """Creates a tracing span for each statement (registry/tracing.py)."""

    async def execute(self, query: Any, params: Params | None = None, **options: Any) -> Self:
        with tracing.statement(query):
            return await super().execute(query, params, **options)


async def connect(
    dsn: str, purpose: str, *, lookups_only: bool = False, attempt_seconds: int = CONNECT_ATTEMPT_SECONDS
) -> Connection:
    """Opens a connection. Raises psycopg's errors. `purpose` appears in pg_stat_activity as "registry <purpose>".

    With several hosts in the DSN the first primary is used, unless its `target_session_attrs` says otherwise.
    """
    connection = await _complete(
        Connection.connect(
            dsn,
            autocommit=True,
            prepare_threshold=0,
            connect_timeout=attempt_seconds,
            **{**_KEEPALIVE, **_parameters(dsn), "application_name": f"registry {purpose}"},
        )
    )
    try:
        connection.add_notice_handler(connection._note)
        if tracing.is_on():
            connection.cursor_factory = TracedCursor
        connection.call_limit_seconds = attempt_seconds
        arrays.register(connection)
        await connection.execute(_SESSION, prepare=False)
        if lookups_only:
            await connection.execute(_LOOKUPS_ONLY, prepare=False)
        del connection.call_limit_seconds
    except BaseException:
        await connection.close()
        raise
    return connection


async def _complete(connecting: Coroutine[Any, Any, Connection]) -> Connection:
    """Awaits a connection attempt; when cancelled, closes the connection being made rather than leak it."""
    task = asyncio.ensure_future(connecting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        # Runs whenever the connection is made, even after a second cancellation, which ends the wait below.
        task.add_done_callback(_discard)
        await asyncio.wait([task], timeout=1)
        task.cancel()
        raise
    finally:
        del task  # its exception refers to this frame


def _discard(task: asyncio.Task[Connection]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().pgconn.finish()


def has_several_hosts(dsn: str) -> bool:
    conninfo = psycopg.conninfo.conninfo_to_dict(dsn)
    return "," in str(conninfo.get("host") or conninfo.get("hostaddr") or "")


def with_host_first(dsn: str, host: str, port: int) -> str:
    """Returns the DSN with the last known primary first: otherwise every new connection would wait for a host that is
    silently down.

        host=a,b,c port=1,2,3  with b  ->  host=b,a,c port=2,1,3
    """
    conninfo = psycopg.conninfo.conninfo_to_dict(dsn)
    hosts = str(conninfo.get("host") or "").split(",")
    ports = str(conninfo.get("port") or "5432").split(",")
    if len(hosts) < 2 or conninfo.get("hostaddr") is not None:
        return dsn
    pairs = list(zip(hosts, ports if len(ports) == len(hosts) else ports * len(hosts), strict=False))
    pairs.sort(key=lambda pair: pair != (host, str(port)))
    return psycopg.conninfo.make_conninfo(
        dsn, host=",".join(one for one, _ in pairs), port=",".join(one for _, one in pairs)
    )


def _parameters(dsn: str) -> dict[str, Any]:
    """Returns the keepalive settings that the DSN overrides, and asks for the primary when there are several hosts."""
    conninfo = psycopg.conninfo.conninfo_to_dict(dsn)
    parameters: dict[str, Any] = {name: value for name, value in conninfo.items() if name in _KEEPALIVE}
    hosts = str(conninfo.get("host") or conninfo.get("hostaddr") or "")
    if "," in hosts and "target_session_attrs" not in conninfo:
        parameters["target_session_attrs"] = "primary"
    return parameters
