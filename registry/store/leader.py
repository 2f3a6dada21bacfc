"""Leader election for background jobs, and the housekeeping of the database that a leader runs.

The leadership is a row that its holder renews before it expires, by PostgreSQL's clock.

After a crash no process waits for the expiry: the row also names a session of its holder, which PostgreSQL ends as soon
as the process's connections are closed, and the operating system closes them at once. A holder that has stalled, is cut
off from PostgreSQL, or is behind a pooler (which keeps sessions) is detected by the expiry.

A holder that stalls past its expiry does not know that it has lost the leadership, and one whose connection breaks
counts as gone until it renews; so a leader's work must be safe to run twice at the same time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from registry.store.connection import Pool
from registry.store.database import Database
from registry.store.errors import StoreError
from registry.store.statements import statement

# `holder` is "<process>/<pid>/<start>" of the session that renewed it last. Rows of older servers have only the
# process, and can only expire.
ACQUIRE: Final = statement(
    "acquire-leadership",
    "Takes or renews the row when it is ours, free, expired, or of a holder whose session is gone; by the primary key.",
    """
    INSERT INTO leaders AS l (name, holder, expires_at)
    SELECT %(name)s::text, %(process)s::text || '/' || a.pid || '/' || extract(epoch FROM a.backend_start),
        clock_timestamp() + %(seconds)s::float8 * interval '1 second'
    FROM pg_stat_activity a WHERE a.pid = pg_backend_pid()
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
    WHERE split_part(l.holder, '/', 1) = %(process)s OR l.expires_at < clock_timestamp()
        OR (split_part(l.holder, '/', 2) <> '' AND NOT EXISTS (
            SELECT FROM pg_stat_activity h WHERE h.pid::text = split_part(l.holder, '/', 2)
            AND (h.backend_start IS NULL OR extract(epoch FROM h.backend_start)::text = split_part(l.holder, '/', 3))))
    RETURNING 1
    """,
)

RELEASE: Final = statement(
    "release-leadership",
    "Gives the row up if it is ours.",
    "DELETE FROM leaders WHERE name = %(name)s AND split_part(holder, '/', 1) = %(process)s",
)


class Leader:
    def __init__(self, pool: Pool, name: str, process: str, *, seconds: float = 15.0) -> None:
        self._pool = pool
        self._values = {"name": name, "process": process}
        self._seconds = seconds

    async def acquire(self) -> bool:
        """Returns whether this process leads for the next `seconds`. Call it again well before they are over to keep
        it."""
        return bool(await self._pool.execute(ACQUIRE, {**self._values, "seconds": self._seconds}))

    async def release(self) -> None:
        """Lets another process take over before the lease expires, unless that takes more than a second."""
        try:
            async with asyncio.timeout(1):
                await self._pool.execute(RELEASE, self._values)
        except (StoreError, TimeoutError):
            pass


logger = logging.getLogger(__name__)

# How often the steps run, in one of all processes.
INTERVAL_SECONDS: Final = 60.0
# How long a process leads: it renews its lease in time, although the steps take some seconds.
LEASE_SECONDS: Final = 1.5 * INTERVAL_SECONDS


async def run_housekeeping(
    database: Database, leader: Leader, steps: Sequence[Callable[[], Awaitable[object]]]
) -> None:
    """Runs the steps in their order while this process leads, until cancelled. A step that fails ends the round."""
    try:
        while True:
            try:
                if await leader.acquire():
                    for step in steps:
                        await step()
            except StoreError as error:
                database.log_failure(logger, "housekeeping failed: %s", error)
            await asyncio.sleep(INTERVAL_SECONDS)
    finally:
        await leader.release()
