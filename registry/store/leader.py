"""One leader at a time for a background job: a row that its holder renews before it expires, by PostgreSQL's clock.

A process that is killed does not renew, and need not be waited for: the row also names a session of its holder's, and
PostgreSQL ends that as soon as the process's connections are closed, which the machine does at once. What is only
stalled, cut off from PostgreSQL, or behind a pooler (which keeps sessions) is found out by the clock.

A holder that stalls past its expiry does not know that it has lost, and one whose connection breaks counts as gone
until it renews; so what a leader does must be right even if two do it for a moment.
"""

from __future__ import annotations

from typing import Final

from registry.store.connection import Pool
from registry.store.statements import statement

# `holder` is "<process>/<pid>/<start>" of the session that has renewed it last; rows of older servers end after the
# process, and are only found out by the clock.
ACQUIRE: Final = statement(
    "acquire-leadership",
    "Takes or renews the row when it is ours, nobody's, expired, or of a holder whose session is gone; by the primary"
    " key.",
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
        """Whether we lead for the next `seconds`. Call it again well before they are over to stay it."""
        return bool(await self._pool.execute(ACQUIRE, {**self._values, "seconds": self._seconds}))

    async def release(self) -> None:
        await self._pool.execute(RELEASE, self._values)
