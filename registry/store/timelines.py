"""Detects that PostgreSQL has moved to another timeline since the last write (docs/high-availability.md).

A promoted standby begins a new timeline, and so does a restored copy; a dump loaded elsewhere has another system
identifier. Any of them may lack commits of the previous server, so its counters may be below revisions that clients
have seen. Before a process writes or reads anything there, every domain's counter is raised above everything that
clients could have seen (`registry_begin_timeline`, sql/timelines.sql), and the revisions in between are recorded as
lost:

    before the failover                        after it
    the standby has revisions up to 100        100 is the last valid one
    clients have seen up to 130                101 to 1,000,000,099 are lost: a client with one of them gets 410
                                               the next write gets 1,000,000,101

Clients at 100 or below have missed nothing and continue. So no client has to know whether anything was lost.

A row of `timelines` records each server that has been written to. A process remembers the newest it has seen, and
refuses a server that does not know it: an old primary that has come back. It also remembers the position in the
write-ahead log: a server behind that has lost commits too, without a new timeline.

    a server reports                                                     action
    it is a standby                                                      refused
    it does not know the newest row that this process knows              refused, unless recovered by hand since
    system identifier or timeline are not those of its newest row        a new timeline begins
    its WAL position is behind the one that this process has seen        a new timeline begins
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import psycopg

from registry.logs import LoggedCondition
from registry.store.session import Connection
from registry.store.statements import statement

logger = logging.getLogger(__name__)

# All counters are locked while it runs; with 100,000 domains that takes some seconds.
BEGIN_LIMIT_SECONDS: Final = 300

POSITION: Final = statement(
    "timeline-position",
    "Which server this is, how far its log is, and the newest timeline that is noted; by the primary key.",
    """
    SELECT p.recovering, s.system_identifier,
        CASE WHEN NOT p.recovering THEN registry_timeline() END AS timeline,
        CASE WHEN NOT p.recovering THEN (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint END AS wal_bytes,
        t.number, t.token, t.reason, t.at, t.system_identifier, t.timeline,
        %(token)s::text IS NULL OR EXISTS (SELECT FROM timelines k WHERE k.token = %(token)s::text) AS known
    FROM pg_control_system() s CROSS JOIN (SELECT pg_is_in_recovery() AS recovering) p
        LEFT JOIN LATERAL (SELECT * FROM timelines ORDER BY number DESC LIMIT 1) t ON true
    """,
)

BEGIN: Final = statement(
    "begin-timeline",
    "Notes this server as the one that is written to, and raises all counters, unless that has been done meanwhile"
    " (sql/timelines.sql).",
    "SELECT registry_begin_timeline(%(after)s::bigint, %(reason)s::text)",
)

# The errors of services that only speak PostgreSQL's protocol.
_UNSUPPORTED: Final = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.FeatureNotSupported,
)

PROMOTED: Final = "promoted"
BEHIND: Final = "behind"
RECOVERED: Final = "recovered"


class WrongServer(psycopg.OperationalError):
    """This process must not write to or read from the server; another host may be the right one."""


@dataclass(frozen=True, slots=True)
class _Noted:
    """A row of `timelines`."""

    number: int
    token: str
    at: datetime.datetime


class Timelines:
    """A process's knowledge of the servers it has connected to. `on_change` is called after any process has begun a new
    timeline."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._on_change = on_change
        self._newest: _Noted | None = None
        # The WAL position of the server of `_newest`, in bytes.
        self._wal_bytes = 0
        self._unsupported = False
        self._refused = LoggedCondition(logger, "a server is refused", "no server is refused any more")

    async def admit(self, connection: Connection) -> None:
        """Returns if the connection's server may be used. Raises WrongServer, and psycopg's errors."""
        if self._unsupported:
            return
        known, wal_bytes = self._newest, self._wal_bytes
        try:
            cursor = await connection.execute(POSITION.sql, {"token": known.token if known else None})
        except psycopg.errors.UndefinedTable:
            return  # not migrated yet: the first statement reports that
        except _UNSUPPORTED as error:
            self._unsupported = True
            logger.warning("a failover of PostgreSQL cannot be noticed here: %s", str(error).partition("\n")[0])
            return
        row = await cursor.fetchone()
        assert row is not None, "a server has a system identifier"
        recovering, system, timeline, position, number, token, reason, at, noted_system, noted_timeline, is_known = row
        if recovering:
            raise WrongServer("the server is a standby")
        if not is_known and known is not None and not (reason == RECOVERED and at > known.at):
            problem = (
                "it does not know the timeline that this process has been on: an old primary, or a copy that was"
                " restored and needs `registry recover`"
            )
            self._refused.hold(problem)
            raise WrongServer(f"the server is refused: {problem}")
        self._refused.end()
        if (system, timeline) != (noted_system, noted_timeline):
            await self._begin(connection, number or 0, PROMOTED)
        elif known is not None and token == known.token and position < wal_bytes:
            await self._begin(connection, number, BEHIND)
        else:
            self._note(_Noted(number, token, at), position)

    async def _begin(self, connection: Connection, after: int, reason: str) -> None:
        await begin_timeline(connection, after, reason)
        self._wal_bytes = 0
        await self.admit(connection)

    def _note(self, noted: _Noted, wal_bytes: int) -> None:
        before, self._newest = self._newest, noted
        if before is None or before.token == noted.token:
            self._wal_bytes = max(self._wal_bytes, wal_bytes)
            return
        self._wal_bytes = wal_bytes
        logger.warning(
            "PostgreSQL is on a new timeline (number %d): revisions that it has lost are expired", noted.number
        )
        self._on_change()


async def begin_timeline(connection: Connection, after: int, reason: str) -> int:
    """Begins a timeline above `after`, unless another process was first, and returns the number of the newest one."""
    limit, connection.call_limit_seconds = connection.call_limit_seconds, BEGIN_LIMIT_SECONDS
    try:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL statement_timeout = '{BEGIN_LIMIT_SECONDS}s'".encode())
            cursor = await connection.execute(BEGIN.sql, {"after": after, "reason": reason})
            row = await cursor.fetchone()
    finally:
        connection.call_limit_seconds = limit
    assert row is not None
    number: int = row[0]
    return number


async def recover(connection: Connection) -> int:
    """Begins a timeline by hand, for a restored copy that claims to be the server it was made from. Returns the number
    of domains whose counters were raised."""
    cursor = await connection.execute("SELECT coalesce(max(number), 0) FROM timelines")
    row = await cursor.fetchone()
    assert row is not None
    await begin_timeline(connection, row[0], RECOVERED)
    cursor = await connection.execute("SELECT count(*) FROM domains")
    row = await cursor.fetchone()
    assert row is not None
    count: int = row[0]
    return count
