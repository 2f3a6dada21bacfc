"""One leader at a time for a background job: a row that its holder renews before it expires, by PostgreSQL's clock.

A holder that stalls past its expiry does not know that it has lost; so what a leader does must be right even if two do
it for a moment.
"""

from __future__ import annotations

from typing import Final

from registry.store.connection import Pool
from registry.store.statements import statement

ACQUIRE: Final = statement(
    "acquire-leadership",
    "Takes or renews the row when it is ours, nobody's, or expired; by the primary key.",
    """
    INSERT INTO leaders AS l (name, holder, expires_at)
    VALUES (%(name)s, %(holder)s, clock_timestamp() + %(seconds)s::float8 * interval '1 second')
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
    WHERE l.holder = excluded.holder OR l.expires_at < clock_timestamp()
    RETURNING 1
    """,
)

RELEASE: Final = statement(
    "release-leadership",
    "Gives the row up if it is ours.",
    "DELETE FROM leaders WHERE name = %(name)s AND holder = %(holder)s",
)


class Leader:
    def __init__(self, pool: Pool, name: str, holder: str, *, seconds: float = 15.0) -> None:
        self._pool = pool
        self._values = {"name": name, "holder": holder}
        self._seconds = seconds

    async def acquire(self) -> bool:
        """Whether we lead for the next `seconds`. Call it again well before they are over to stay it."""
        return bool(await self._pool.execute(ACQUIRE, {**self._values, "seconds": self._seconds}))

    async def release(self) -> None:
        await self._pool.execute(RELEASE, self._values)
