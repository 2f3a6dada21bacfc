"""Values shared by all processes: read by name, changed by compare-and-set."""

from __future__ import annotations

from typing import Any, Final

from psycopg.types.json import Jsonb

from registry.store.connection import Pool
from registry.store.statements import statement

GET: Final = statement("setting", "One value; by the primary key.", "SELECT value FROM settings WHERE name = %(name)s")

INSERT: Final = statement(
    "insert-setting",
    "A value that must not be there yet.",
    "INSERT INTO settings (name, value) VALUES (%(name)s, %(value)s) ON CONFLICT (name) DO NOTHING RETURNING 1",
)

REPLACE: Final = statement(
    "replace-setting",
    "A new value in place of the one expected; by the primary key.",
    "UPDATE settings SET value = %(value)s WHERE name = %(name)s AND value = %(expected)s RETURNING 1",
)


class SharedSettings:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, name: str) -> Any | None:
        rows = await self._pool.fetch(GET, {"name": name})
        return rows[0][0] if rows else None

    async def put(self, name: str, value: Any, *, expected: Any | None = None) -> bool:
        """Sets a value if it is still `expected` (None: if it does not exist). False if another process was first."""
        values = {"name": name, "value": Jsonb(value), "expected": Jsonb(expected)}
        return bool(await self._pool.execute(INSERT if expected is None else REPLACE, values))
