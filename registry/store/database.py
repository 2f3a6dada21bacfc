"""Where PostgreSQL is, whether it answers, and on which timeline: what all connections of a process share.

    known to be                    a call that needs a new connection        who finds out
    there                          connects                                  every connection, and the probe
    failing for under GRACE        tries again until it is there             connects that fail
    away                           Unavailable at once                       the probe, which goes on trying

A restart of PostgreSQL takes a second, so calls wait it out; where it is away for longer they fail at once rather than
each after a timeout of its own. A PostgreSQL that hangs (connections stay open and carry nothing) counts as away when
neither the probe's connection nor a new one answers; then all connections of the process are ended, and with them the
calls that wait for them.
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

from registry.logs import Condition
from registry.store import session
from registry.store.errors import Unavailable
from registry.store.session import Connection
from registry.store.timelines import Timelines
from registry.store.translate import first_line

logger = logging.getLogger(__name__)

# How long a call waits for a PostgreSQL that is away, before it is Unavailable. A restart takes about two seconds.
CONNECT_TIMEOUT_SECONDS: Final = 5.0

# How often the probe asks, and how long it waits for an answer.
PROBE_SECONDS: Final = 1.0
PROBE_LIMIT_SECONDS: Final = 2.0
# For those who ask how it stands: readiness is answered at once, whatever hangs.
ANSWER_SECONDS: Final = 0.05
# The clocks of this process and of PostgreSQL differ by more than tokens and leases can bear.
CLOCK_SECONDS: Final = 30.0
# For a connection to one of several hosts, before the next one is tried.
HOST_SECONDS: Final = 2
# While PostgreSQL is away, how often it is looked for.
RETRY_SECONDS: Final = 0.25
# Nothing has answered for so long: it is away. A restart and a promotion are over by then.
GRACE_SECONDS: Final = 2.0


class Database:
    """One PostgreSQL, or several of which one is the primary.

    Without `start` there is no probe: then it is never known to be away, and every call finds out by itself.
    """

    def __init__(
        self, dsn: str, *, connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS, timelines: Timelines | None = None
    ) -> None:
        self.dsn = dsn
        self._several_hosts = session.has_several_hosts(dsn)
        self.connect_timeout_seconds = connect_timeout_seconds
        self.timelines = timelines
        # Why PostgreSQL is away; None while it is there, or may be.
        self.away: str | None = None
        self._failing_since: float | None = None
        self._connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._probe: asyncio.Task[None] | None = None
        # Set to have the probe ask now; replaced by a new one with each answer.
        self._asked = asyncio.Event()
        self._answer = asyncio.Event()
        self.clock_problem: str | None = None
        self._condition = Condition(logger, "PostgreSQL is away", "PostgreSQL is back")

    def start(self) -> None:
        """Begins to probe; `close` ends it."""
        self._probe = asyncio.create_task(
            self._probe_forever(), name="registry database probe", context=contextvars.Context()
        )

    async def close(self) -> None:
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)

    def require(self) -> None:
        """Raises Unavailable where PostgreSQL is known to be away."""
        if self.away is not None:
            raise Unavailable(self.away)

    def problem(self) -> str | None:
        """Why PostgreSQL does not answer, as far as is known; None while it does."""
        return self.away or ("PostgreSQL does not answer" if self._failing_since is not None else None)

    async def ping(self) -> None:
        """Raises Unavailable unless PostgreSQL answers the probe; what is unknown for a moment counts as before."""
        self._asked.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._answer.wait()
        if (problem := self.problem()) is not None:
            raise Unavailable(problem)

    async def connect(
        self, purpose: str, *, lookups_only: bool = False, attempt_seconds: int | None = None
    ) -> Connection:
        """A new connection to the primary, on a timeline that continues what this process knows. Raises psycopg's
        errors, and OSError."""
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
            connection.pgconn.finish()
            raise
        self._connections.add(connection)
        if self._several_hosts:
            self.dsn = session.preferring(self.dsn, connection.info.host, connection.info.port)
        return connection

    async def connect_with_retry(self, purpose: str, *, lookups_only: bool = False) -> Connection:
        """Tries until it works. Raises Unavailable after the connect timeout, for a fault in the DSN too, and at once
        while PostgreSQL is known to be away."""
        deadline = asyncio.get_running_loop().time() + self.connect_timeout_seconds
        pause = 0.02
        while True:
            self.require()
            try:
                return await self.connect(purpose, lookups_only=lookups_only)
            except (psycopg.Error, OSError) as error:
                # PostgreSQL may be starting again, or failing over.
                if asyncio.get_running_loop().time() + pause > deadline:
                    raise Unavailable(f"PostgreSQL cannot be reached: {first_line(error)}") from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.5)

    def abort(self) -> None:
        """Ends all connections, and with them what waits for an answer."""
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
                    self._note_answer()  # it is there; those who have a connection can go on
                except (psycopg.Error, OSError) as error:
                    if connection is not None:
                        connection.pgconn.finish()
                        connection = None
                    self._note_failure(first_line(error))
                else:
                    self._note_answer()
                answer, self._answer = self._answer, asyncio.Event()
                answer.set()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PROBE_SECONDS if self._failing_since is None else RETRY_SECONDS):
                        await self._asked.wait()
                self._asked.clear()
        finally:
            if connection is not None:
                connection.pgconn.finish()

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
