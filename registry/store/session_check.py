"""Whether PostgreSQL still opens sessions that work.

Sessions that are open go on when its files are replaced under it, by an upgrade of its package; a new one may fail to
load plpgsql, in which our functions are written.
"""

from __future__ import annotations

import asyncio
from typing import Final

import psycopg

from registry.store.connection import connect
from registry.store.errors import Unavailable

# What was found is good for so long: no more sessions are opened, however many ask.
_GOOD_SECONDS: Final = 5.0
_BAD_SECONDS: Final = 1.0


class SessionCheck:
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = asyncio.Lock()
        self._until = 0.0
        self._problem: str | None = None

    async def require(self) -> None:
        """Raises Unavailable."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if now >= self._until:
                self._problem = await self._try()
                self._until = now + (_GOOD_SECONDS if self._problem is None else _BAD_SECONDS)
        if self._problem is not None:
            raise Unavailable(self._problem)

    async def _try(self) -> str | None:
        try:
            connection = await connect(self._dsn, "health")
            try:
                await connection.execute("DO $$ BEGIN PERFORM 1; END $$", prepare=False)
            finally:
                await connection.close()
        except (psycopg.Error, OSError) as error:
            return f"PostgreSQL opens no session that works: {str(error).partition(chr(10))[0]}"
        return None
