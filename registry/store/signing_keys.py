"""The keys that sign service account tokens: one set for the server, shared by all its processes.

Their secrets are sealed by the first master key, if there is one (master_keys.py). A key is published some time before
it signs, and is kept until the last token that it signed has expired.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, Final

from registry.store.connection import Pool
from registry.store.encryption.master_keys import CannotUnseal, MasterKeys, seal, unseal
from registry.store.errors import Unreadable
from registry.store.statements import statement

# The purpose that signing keys are sealed for.
PURPOSE: Final = "signing-key"

_COLUMNS: Final = "id, secret, signs_from, signs_until, verifies_until"
# Lets only one process create a key at a time; the number differs from our other advisory locks.
_LOCK: Final = 0x7265_675F_6B65_7973

LIST: Final = statement(
    "signing-keys",
    "All keys that still verify, in the order in which they sign.",
    "SELECT " + _COLUMNS + " FROM signing_keys WHERE verifies_until > now() AND isfinite(verifies_until) "
    "ORDER BY signs_from, id",
)

SECRET: Final = statement(
    "server-secret", "A secret that signs no tokens; by the primary key.",
    "SELECT secret, signs_from FROM signing_keys WHERE id = %(id)s::text",
)  # fmt: skip

INSERT_SECRET: Final = statement(
    "insert-server-secret",
    "A secret that signs no tokens, unless there is one of its name. It never ends.",
    """
    INSERT INTO signing_keys (id, secret, signs_from, signs_until, verifies_until)
    VALUES (%(id)s::text, %(secret)s::bytea, now(), now(), 'infinity') ON CONFLICT (id) DO NOTHING
    """,
)

LOCK: Final = statement(
    "lock-signing-keys", "Makes others that would make a key wait.", "SELECT pg_advisory_xact_lock(%(lock)s::bigint)"
)

INSERT: Final = statement(
    "insert-signing-key",
    "A new key, unless another signs in a part of its time.",
    """
    INSERT INTO signing_keys (id, secret, signs_from, signs_until, verifies_until)
    SELECT %(id)s::text, %(secret)s::bytea, %(signs_from)s::timestamptz, %(signs_until)s::timestamptz,
        %(verifies_until)s::timestamptz
    WHERE %(forced)s::boolean OR NOT EXISTS (
        SELECT 1 FROM signing_keys WHERE signs_from < %(signs_until)s::timestamptz
            AND signs_until > %(signs_from)s::timestamptz)
    RETURNING 1
    """,
)

END_OTHERS: Final = statement(
    "end-signing-keys",
    "Lets no other key sign from now on; they verify until the tokens that they may have signed are past their end.",
    "UPDATE signing_keys SET signs_until = now() WHERE id <> %(id)s::text AND signs_until > now()",
)

EXTEND: Final = statement(
    "extend-signing-key",
    "Keeps a key at least until a token that it is to sign ends; by the primary key.",
    """
    UPDATE signing_keys SET verifies_until = greatest(verifies_until, %(until)s::timestamptz) WHERE id = %(id)s::text
    RETURNING 1
    """,
)

CLEAN: Final = statement(
    "clean-signing-keys",
    "Removes keys of which no token can be good any more.",
    "DELETE FROM signing_keys WHERE verifies_until < now() - interval '1 day'",
)


@dataclass(frozen=True, slots=True)
class StoredKey:
    """`secret` is in the clear."""

    id: str
    secret: bytes
    signs_from: datetime.datetime
    signs_until: datetime.datetime
    verifies_until: datetime.datetime


class StoredSigningKeys:
    def __init__(self, pool: Pool, masters: MasterKeys | None) -> None:
        self._pool = pool
        self._masters = masters

    async def list(self) -> list[StoredKey]:
        """Returns all keys that still verify, in the order in which they sign. Raises Unreadable."""
        try:
            return [self._key(row) for row in await self._pool.fetch(LIST, {})]
        except CannotUnseal as error:
            raise Unreadable(f"a signing key cannot be unsealed: {error}") from error

    async def add(self, key: StoredKey, *, at_once: bool = False) -> bool:
        """Adds a key; False if another process was faster. `at_once` stops all other keys from signing."""
        async with self._pool.connection() as connection, connection.transaction():
            await connection.execute(LOCK.sql, {"lock": _LOCK})
            cursor = await connection.execute(
                INSERT.sql,
                {
                    "id": key.id,
                    "secret": seal(self._masters, key.secret, PURPOSE),
                    "signs_from": key.signs_from,
                    "signs_until": key.signs_until,
                    "verifies_until": key.verifies_until,
                    "forced": at_once,
                },
            )
            is_first = bool(await cursor.fetchall())
            if at_once:
                await connection.execute(END_OTHERS.sql, {"id": key.id})
        return is_first

    async def extend(self, id: str, until: datetime.datetime) -> bool:
        """Keeps a key at least until `until`; False if it is gone."""
        return bool(await self._pool.execute(EXTEND, {"id": id, "until": until}))

    async def secret(self, id: str, fresh: bytes) -> tuple[bytes, datetime.datetime]:
        """Returns the secret of this name and its creation time; creates it from `fresh` if missing. Raises
        Unreadable."""
        rows = await self._pool.fetch(SECRET, {"id": id})
        if not rows:
            sealed = seal(self._masters, fresh, PURPOSE)
            await self._pool.execute(INSERT_SECRET, {"id": id, "secret": sealed})
            rows = await self._pool.fetch(SECRET, {"id": id})
        try:
            return unseal(self._masters, bytes(rows[0][0]), PURPOSE), rows[0][1]
        except CannotUnseal as error:
            raise Unreadable(f"the secret {id} cannot be unsealed: {error}") from error

    async def clean(self) -> None:
        await self._pool.execute(CLEAN, {})

    def _key(self, row: tuple[Any, ...]) -> StoredKey:
        return StoredKey(row[0], unseal(self._masters, bytes(row[1]), PURPOSE), *row[2:])
