"""Bearer tokens of tenants, one row each. Only the hash of a token is stored, so no reader of the table can use one."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry.store.connection import Pool
from registry.store.encoding import storable
from registry.store.statements import statement
from registry.store.types import Tenant, TenantId

# Expired and revoked tokens stay this long, so that they are still listed.
KEPT_DAYS: Final = 30

_COLUMNS: Final = "tenant_id, id, hash, user_name, groups, description, created_at, expires_at, revoked_at"

CREATE: Final = statement(
    "create-token",
    "A new token of a tenant that is there.",
    f"""
    INSERT INTO access_tokens (tenant_id, id, hash, user_name, groups, description, expires_at)
    SELECT t.id, %(id)s::text, %(hash)s::bytea, %(user)s::text, %(groups)s::text[], %(description)s::text,
        %(expires_at)s::timestamptz
    FROM tenants t WHERE t.id = %(tenant)s::bigint AND t.deleted_at IS NULL
    RETURNING {_COLUMNS}
    """,
)

FIND: Final = statement(
    "token",
    "One token; by the primary key.",
    f"SELECT {_COLUMNS} FROM access_tokens WHERE tenant_id = %(tenant)s::bigint AND id = %(id)s::text",
)

LIST: Final = statement(
    "tokens",
    "The tokens of a tenant in the order of their ids; by the primary key.",
    f"""
    SELECT {_COLUMNS} FROM access_tokens WHERE tenant_id = %(tenant)s::bigint AND id > %(after)s::text
    ORDER BY id LIMIT %(limit)s::bigint
    """,
)

REVOKE: Final = statement(
    "revoke-token",
    "Ends a token now, for good; by the primary key.",
    f"""
    UPDATE access_tokens SET revoked_at = coalesce(revoked_at, now())
    WHERE tenant_id = %(tenant)s::bigint AND id = %(id)s::text
    RETURNING {_COLUMNS}
    """,
)

CLEAN: Final = statement(
    "clean-tokens",
    "Removes tokens that ended long ago, and those of tenants that are gone.",
    """
    DELETE FROM access_tokens a
    WHERE least(a.expires_at, a.revoked_at) < now() - make_interval(days => %(days)s::int)
        OR NOT EXISTS (SELECT 1 FROM tenants t WHERE t.id = a.tenant_id)
    """,
)


@dataclass(frozen=True, slots=True)
class StoredToken:
    """`hash` is the SHA-256 of the secret part; `expires_at` None means never."""

    tenant: TenantId
    id: str
    hash: bytes
    user: str
    groups: tuple[str, ...]
    description: str
    created_at: datetime.datetime
    expires_at: datetime.datetime | None
    revoked_at: datetime.datetime | None

    def is_good(self, now: datetime.datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Tokens:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def create(
        self,
        tenant: Tenant,
        id: str,
        hash: bytes,
        user: str,
        groups: Sequence[str],
        description: str,
        expires_at: datetime.datetime | None,
    ) -> StoredToken | None:
        """Returns None if the tenant is gone."""
        rows = await self._pool.execute(
            CREATE,
            {
                "tenant": tenant.id,
                "id": id,
                "hash": hash,
                "user": user,
                "groups": list(groups),
                "description": description,
                "expires_at": expires_at,
            },
        )
        return _token(rows[0]) if rows else None

    async def find(self, tenant: Tenant, id: str) -> StoredToken | None:
        rows = await self._pool.fetch(FIND, {"tenant": tenant.id, "id": storable(id)})
        return _token(rows[0]) if rows else None

    async def list(self, tenant: Tenant, after: str = "", limit: int = 500) -> list[StoredToken]:
        rows = await self._pool.fetch(LIST, {"tenant": tenant.id, "after": storable(after), "limit": limit})
        return [_token(row) for row in rows]

    async def revoke(self, tenant: Tenant, id: str) -> StoredToken | None:
        """Returns None if there is no such token."""
        rows = await self._pool.execute(REVOKE, {"tenant": tenant.id, "id": storable(id)})
        return _token(rows[0]) if rows else None

    async def clean(self) -> None:
        await self._pool.execute(CLEAN, {"days": KEPT_DAYS})


def _token(row: tuple[Any, ...]) -> StoredToken:
    return StoredToken(TenantId(row[0]), row[1], bytes(row[2]), row[3], tuple(row[4]), *row[5:])
