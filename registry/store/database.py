"""Where PostgreSQL is, whether it answers, and on which timeline it is: shared by all connections of a process.

    known state                    a call that needs a new connection        detected by
    available                      connects                                  every connection, and the probe
    failing for less than GRACE    retries until it is available             failing connects
    away                           raises Unavailable at once                the probe, which keeps trying

A restart of PostgreSQL takes a second, so calls wait for it; during a longer outage they fail at once instead of
timing out one by one. A PostgreSQL that hangs (connections stay open and carry nothing) counts as away when neither
the probe's connection nor a new one answers; then all connections of the process are closed, which fails the calls
that wait on them.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import time
import weakref
from typing import Final

import psycopg

from registry.logs import LoggedCondition
from registry.store import session
from registry.store.errors import Unavailable
from registry.store.session import Connection
from registry.store.timelines import Timelines
from registry.store.translate import first_line
from registry.tasks import cancel

logger = logging.getLogger(__name__)

# How long a call waits for PostgreSQL before it raises Unavailable. A restart takes about two seconds.
CONNECT_TIMEOUT_SECONDS: Final = 5.0

# The interval of the probe, and its timeout.
PROBE_SECONDS: Final = 1.0
PROBE_LIMIT_SECONDS: Final = 2.0
# The timeout of health checks: readiness is answered at once, whatever hangs.
ANSWER_SECONDS: Final = 0.05
# The most that the clocks of this process and of PostgreSQL may differ without breaking tokens and leases.
CLOCK_SECONDS: Final = 30.0
# The connect timeout per host, where there are several.
HOST_SECONDS: Final = 2
# The interval of the probe while PostgreSQL is away.
RETRY_SECONDS: Final = 0.25
# Without an answer for this long PostgreSQL counts as away. Restarts and promotions are usually over by then.
GRACE_SECONDS: Final = 2.0


class Database:
    """One PostgreSQL server, or several of which one is the primary.

    Without `start` there is no probe: PostgreSQL is never known to be away, and every call finds out by itself.
    """

    def __init__(
        self, dsn: str, *, connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS, timelines: Timelines | None = None
    ) -> None:
        self.dsn = dsn
        self._several_hosts = session.has_several_hosts(dsn)
        self.connect_timeout_seconds = connect_timeout_seconds
        self.timelines = timelines
        # Why PostgreSQL is away; None while it is available, or may be.
        self.away: str | None = None
        self._failing_since: float | None = None
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._probe: asyncio.Task[None] | None = None
        # Set to make the probe ask now. `_answer` is set and replaced with each answer.
        self._probe_requested = asyncio.Event()
        self._answer = asyncio.Event()
        self.clock_problem: str | None = None
        self._condition = LoggedCondition(logger, "PostgreSQL is away", "PostgreSQL is back")

    def start(self) -> None:
        """Starts the probe; `close` stops it."""
        self._probe = asyncio.create_task(
            self._probe_forever(), name="registry database probe", context=contextvars.Context()
        )

    async def close(self) -> None:
        await cancel(self._probe)

    def require(self) -> None:
        """Raises Unavailable if PostgreSQL is known to be away."""
        if self.away is not None:
            raise Unavailable(self.away)

    def problem(self) -> str | None:
        """Returns why PostgreSQL does not answer, as far as is known; None while it does."""
        return self.away or ("PostgreSQL does not answer" if self._failing_since is not None else None)

    def log_failure(self, to: logging.Logger, text: str, *values: object) -> None:
        """Logs that background work failed: as a warning, but not while PostgreSQL is away, which is logged once."""
        to.log(logging.DEBUG if self.away is not None else logging.WARNING, text, *values)

    async def ping(self) -> None:
        """Raises Unavailable unless PostgreSQL answers the probe. Without an answer in time, the last known state
        counts."""
        self._probe_requested.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._answer.wait()
        if (problem := self.problem()) is not None:
            raise Unavailable(problem)

    async def connect(
        self, purpose: str, *, lookups_only: bool = False, attempt_seconds: int | None = None
    ) -> Connection:
        """Opens a connection to the primary, on a timeline that continues the one known to this process. Raises
        psycopg's errors and OSError."""
        if attempt_seconds is None:
            attempt_seconds = HOST_SECONDS if self._several_hosts else session.CONNECT_ATTEMPT_SECONDS
        connection = await session.connect(
            self.dsn, purpose, lookups_only=lookups_only, attempt_seconds=attempt_seconds
        )
        try:
            if self.timelines is not None:
                connection.call_limit_seconds = attempt_seconds
                await self.timelines.admit(connection)
                connection.call_limit_seconds = session.CALL_LIMIT_SECONDS
        except BaseException:
            connection.finish()
            raise
        self._connections.add(connection)
        if self._several_hosts:
            self.dsn = session.with_host_first(self.dsn, connection.info.host, connection.info.port)
        return connection

    async def connect_with_retry(self, purpose: str, *, lookups_only: bool = False) -> Connection:
        """Retries until it connects. Raises Unavailable after the connect timeout (also for a faulty DSN), and at once
        while PostgreSQL is known to be away."""
        deadline = asyncio.get_running_loop().time() + self.connect_timeout_seconds
        pause = 0.02
        while True:
            self.require()
            try:
                return await self.connect(purpose, lookups_only=lookups_only)
            except (psycopg.Error, OSError) as error:
                # PostgreSQL may be restarting or failing over.
                if asyncio.get_running_loop().time() + pause > deadline:
                    raise Unavailable(f"PostgreSQL cannot be reached: {first_line(error)}") from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.5)

    def abort(self) -> None:
        """Closes all connections, which fails the calls that wait on them."""
        for connection in list(self._connections):
            with contextlib.suppress(psycopg.Error):
                connection.abort()

    async def _probe_forever(self) -> None:
        connection: Connection | None = None
        try:
            while True:
                try:
                    if connection is None:
                        connection = await self.connect("probe", attempt_seconds=round(PROBE_LIMIT_SECONDS))
                        connection.call_limit_seconds = PROBE_LIMIT_SECONDS
                    await self._ask(connection)
                except psycopg.errors.TooManyConnections:
                    self._note_answer()  # it is up; callers with a connection can continue
                except (psycopg.Error, OSError) as error:
                    if connection is not None:
                        connection.finish()
                        connection = None
                    self._note_failure(first_line(error))
                else:
                    self._note_answer()
                answer, self._answer = self._answer, asyncio.Event()
                answer.set()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PROBE_SECONDS if self._failing_since is None else RETRY_SECONDS):
                        await self._probe_requested.wait()
                self._probe_requested.clear()
        finally:
            if connection is not None:
                connection.finish()

    async def _ask(self, connection: Connection) -> None:
        if self.timelines is not None:
            await self.timelines.admit(connection)
        cursor = await connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        row = await cursor.fetchone()
        ahead = row[0] - time.time() if row is not None else 0.0
        self.clock_problem = f"PostgreSQL's clock is {ahead:+.0f} s off" if abs(ahead) > CLOCK_SECONDS else None

    def _note_answer(self) -> None:
        self._failing_since = None
        self.away = None
        self._condition.end()

    def _note_failure(self, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        if self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since >= GRACE_SECONDS and self.away is None:
            self._condition.hold(reason)
            self.abort()
        if now - self._failing_since >= GRACE_SECONDS:
            self.away = f"PostgreSQL is away: {reason}"
            self._condition.hold(reason)
