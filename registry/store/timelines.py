"""On which timeline PostgreSQL is, and what is done where it is not that of the last write (docs/high-availability.md).

A promoted standby begins a new timeline, a restored copy does too, and a dump that is loaded elsewhere has another
system identifier. None of them needs to have all commits of the server before it, so its counters may stand below
revisions that clients have seen. Before a process writes or reads anything there, every domain's counter is raised
beyond all that could have been seen (`registry_begin_timeline`, sql/timelines.sql), and the revisions in between are
noted as lost:

    before the failover                        after it
    the standby has revisions up to 100        100 is the last one that counts
    clients have seen up to 130                101 to 1,000,000,099 are lost: 410 for those who come with one
                                               the next write gets 1,000,000,101

Clients at 100 or below have missed nothing and go on. So nobody has to know whether anything was lost.

A row of `timelines` names each server that has been written to. A process remembers the newest that it has seen, and
refuses a server that does not know it: an old primary that has come back. It also remembers how far the write-ahead
log was: a server that stands before that has lost commits too, without a new timeline.

    what a server says                                                   then
    it is a standby                                                      refused
    it does not know the newest row that this process knows              refused, unless it was recovered by hand since
    system identifier or timeline are not those of its newest row        a new timeline begins
    its log is behind what this process has seen of it                   a new timeline begins
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import psycopg

from registry.logs import Condition
from registry.store.session import Connection
from registry.store.statements import statement

logger = logging.getLogger(__name__)

# While it runs all counters are locked; with 100,000 domains it takes some seconds.
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

# What services answer that are PostgreSQL only by their protocol.
_UNSUPPORTED: Final = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.FeatureNotSupported,
)

PROMOTED: Final = "promoted"
BEHIND: Final = "behind"
RECOVERED: Final = "recovered"


class WrongServer(psycopg.OperationalError):
    """The server must not be written to or read from by this process; another host may be the right one."""


@dataclass(frozen=True, slots=True)
class _Noted:
    """A row of `timelines`."""

    number: int
    token: str
    at: datetime.datetime


class Timelines:
    """What a process knows of the servers that it has been connected to. `on_change` is called after a new timeline has
    begun, in whichever process."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._on_change = on_change
        self._newest: _Noted | None = None
        # Of the server of `_newest`, in bytes.
        self._wal_bytes = 0
        self._unsupported = False
        self._refused = Condition(logger, "a server is refused", "no server is refused any more")

    async def admit(self, connection: Connection) -> None:
        """Returns when the connection's server may be used. Raises WrongServer, and psycopg's errors."""
        if self._unsupported:
            return
        known, wal_bytes = self._newest, self._wal_bytes
        try:
            cursor = await connection.execute(POSITION.sql, {"token": known.token if known else None})
        except psycopg.errors.UndefinedTable:
            return  # not migrated yet: the first statement says so
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
    """The number of the newest timeline, which is above `after`; begun here unless another process was first."""
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
    """Begins a timeline by hand: for a copy that says of itself that it is the server it was made from. Returns the
    number of domains whose counters were raised."""
    cursor = await connection.execute("SELECT coalesce(max(number), 0) FROM timelines")
    row = await cursor.fetchone()
    assert row is not None
    await begin_timeline(connection, row[0], RECOVERED)
    cursor = await connection.execute("SELECT count(*) FROM domains")
    row = await cursor.fetchone()
    assert row is not None
    count: int = row[0]
    return count
