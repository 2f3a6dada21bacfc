"""Checks that PostgreSQL still opens working sessions.

Open sessions survive when its files are replaced under it, by a package upgrade; a new one may fail to load plpgsql, in
which our functions are written.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import Final

import psycopg

from registry.store.database import ANSWER_SECONDS, PROBE_LIMIT_SECONDS, Database
from registry.store.errors import Unavailable
from registry.store.session import Connection
from registry.store.statements import statement
from registry.store.translate import first_line
from registry.tasks import cancel

# How long a result is cached, so that any number of checks opens no more sessions.
_GOOD_SECONDS: Final = 5.0
_BAD_SECONDS: Final = 1.0


MIGRATION: Final = statement(
    "migration", "The migration that the database is at.", "SELECT version_num FROM alembic_version"
)


class SessionCheck:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._until = 0.0
        self.problem: str | None = None
        self._trying: asyncio.Task[None] | None = None
        # The newest migration seen so far.
        self._migration = ""
        self.migration_problem: str | None = None

    async def require(self) -> None:
        """Raises Unavailable. A check that takes longer than ANSWER_SECONDS is answered by the previous result."""
        self._database.require()
        if self._trying is None and asyncio.get_running_loop().time() >= self._until:
            self._trying = asyncio.create_task(
                self._try(), name="registry session check", context=contextvars.Context()
            )
        if self._trying is not None:
            await asyncio.wait([self._trying], timeout=ANSWER_SECONDS)
        if self.problem is not None:
            raise Unavailable(self.problem)

    async def close(self) -> None:
        await cancel(self._trying)

    async def _try(self) -> None:
        try:
            connection = await self._database.connect("health", attempt_seconds=round(PROBE_LIMIT_SECONDS))
            try:
                await connection.execute("DO $$ BEGIN PERFORM 1; END $$", prepare=False)
                await self._look_at_migration(connection)
            finally:
                await connection.close()
            self.problem = None
        except (psycopg.Error, OSError) as error:
            self.problem = f"PostgreSQL opens no session that works: {first_line(error)}"
        finally:
            good = self.problem is None
            self._until = asyncio.get_running_loop().time() + (_GOOD_SECONDS if good else _BAD_SECONDS)
            self._trying = None

    async def _look_at_migration(self, connection: Connection) -> None:
        cursor = await connection.execute(MIGRATION.sql, prepare=False)
        row = await cursor.fetchone()
        revision = row[0] if row else ""
        if revision >= self._migration:
            self._migration, self.migration_problem = revision, None
        else:
            self.migration_problem = f"the database is at migration {revision or 'none'}, below {self._migration}"
