"""Creates, finds, lists and deletes tenants. Each is a row, with a revision domain of its own or a shared one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, LiteralString, NamedTuple

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from registry.caches import LruCache
from registry.store.arrays import TextArray
from registry.store.connection import Pool
from registry.store.encoding import storable
from registry.store.errors import TenantExists, TenantNotFound
from registry.store.feed.feed import Feed
from registry.store.reporting.locations import drop_schema_of
from registry.store.reporting.setup import begin
from registry.store.rows import tenant_of
from registry.store.statements import Statement, statement
from registry.store.tenant_changes import TenantChanges
from registry.store.types import DomainId, ResourceName, Tenant, TenantId, TenantName

# How long a process may use a cached tenant after it was read, or was last known to be unchanged. Writes are checked
# against the row itself.
CACHE_SECONDS: Final = 5.0
CACHE_SIZE: Final = 20_000
# A tenant that is known to be unchanged is nevertheless read again after this time.
REREAD_SECONDS: Final = 600.0
# With this many tenants in the cache their changes are followed: few are cheaper to read again.
FOLLOWED_FROM: Final = 20

# Rows per DELETE statement, which keeps its locks and duration short.
DELETE_ROWS: Final = 5_000

_COLUMNS: Final = "id, name, domain_id, definitions_revision, namespaces_revision, attributes"

CREATE: Final = statement(
    "create-tenant",
    "A new tenant, in a new domain if none is named.",
    f"""
    WITH made AS (
        INSERT INTO domains (revision) SELECT 0 WHERE %(domain)s::bigint IS NULL RETURNING id
    )
    INSERT INTO tenants (name, domain_id, attributes)
    SELECT %(name)s::text, id, %(attributes)s::jsonb FROM (
        SELECT id FROM made UNION ALL SELECT id FROM domains WHERE id = %(domain)s::bigint
    ) d
    RETURNING {_COLUMNS}
    """,
)

FIND: Final = statement(
    "tenant",
    "A tenant by its name; by the unique index of names.",
    f"SELECT {_COLUMNS} FROM tenants WHERE name = %(name)s::text AND deleted_at IS NULL",
)

LIST: Final = statement(
    "tenants",
    "Tenants in the order of their names; by the unique index of names.",
    f"SELECT {_COLUMNS} FROM tenants"
    " WHERE name > %(after)s::text AND deleted_at IS NULL ORDER BY name LIMIT %(limit)s::bigint",
)

DELETED: Final = statement(
    "deleted-tenants",
    "Tenants whose removal began some time ago; by the partial index of those.",
    """
    SELECT id, domain_id FROM tenants
    WHERE deleted_at < now() - %(seconds)s::float8 * interval '1 second' ORDER BY deleted_at
    """,
)

TERMINATING: Final = statement(
    "terminating-tenant",
    "A tenant that has been deleted, how many objects it still has, and whether its removal may begin; by the unique"
    " index of names.",
    "SELECT id, domain_id, objects, deleted_at <= clock_timestamp() FROM tenants"
    " WHERE name = %(name)s::text AND deleted_at IS NOT NULL",
)

NOTE: Final = statement(
    "note-of-tenant",
    "Keeps something that the server knows of a tenant; by the primary key.",
    """
    UPDATE tenants SET attributes = jsonb_set(
        attributes, '{server}', coalesce(attributes -> 'server', '{}'::jsonb) || %(note)s::jsonb)
    WHERE id = %(id)s::bigint AND deleted_at IS NULL
    RETURNING """
    + _COLUMNS,
)

_USAGE: Final = """
    SELECT name, objects, bytes, definitions, namespaces, max_objects, max_bytes, max_definitions, max_namespaces
    FROM tenants"""

USAGE: Final = statement(
    "usage-of-tenants",
    "What tenants use and may use; by the unique index of names.",
    _USAGE + " WHERE name = ANY (%(names)s) AND deleted_at IS NULL",
)

USAGE_AFTER: Final = statement(
    "usage-of-tenants-after",
    "What the next tenants use and may use, by name; by the unique index of names.",
    _USAGE + " WHERE name > %(name)s::text AND deleted_at IS NULL ORDER BY name LIMIT %(limit)s::bigint",
)

DELETE_OBJECTS: Final = statement(
    "delete-objects-of-tenant",
    "Removes some objects of a tenant that goes, and counts them; by the primary key.",
    """
    WITH gone AS (
        DELETE FROM objects WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM objects WHERE tenant_id = %(id)s::bigint LIMIT %(limit)s::bigint
        ))
        RETURNING 1
    )
    UPDATE tenants SET objects = greatest(0, objects - (SELECT count(*) FROM gone))
    WHERE id = %(id)s::bigint AND deleted_at IS NOT NULL AND EXISTS (SELECT 1 FROM gone)
    RETURNING objects
    """,
)

DELETE_CHANGES: Final = statement(
    "delete-changes-of-tenant",
    "Removes a part of a tenant's log; by the log's index of keys.",
    """
    DELETE FROM changes c USING (
        SELECT domain_id, revision FROM changes WHERE tenant_id = %(id)s::bigint LIMIT %(limit)s::bigint
    ) d
    WHERE (c.domain_id, c.revision) >= (d.domain_id, d.revision)
        AND (c.domain_id, c.revision) <= (d.domain_id, d.revision) AND c.tenant_id + 0 = %(id)s::bigint
    RETURNING 1
    """,
)

DELETE: Final = statement(
    "delete-tenant",
    "Removes a tenant's row, and its domain with the last of its tenants.",
    """
    WITH locked AS MATERIALIZED (SELECT id FROM domains WHERE id = %(domain)s::bigint FOR UPDATE),
    gone AS (
        DELETE FROM tenants WHERE id = %(id)s::bigint AND deleted_at IS NOT NULL
            AND EXISTS (SELECT 1 FROM locked)
        RETURNING domain_id
    )
    DELETE FROM domains d WHERE d.id = ANY (ARRAY(SELECT domain_id FROM gone))
        AND NOT EXISTS (SELECT 1 FROM tenants t WHERE t.domain_id = d.id AND t.id <> %(id)s::bigint OFFSET 0)
    """,
)


def _emptying(name: LiteralString) -> Statement:
    """Returns the statement that removes some rows of a tenant from a table."""
    return statement(
        "delete-of-tenant",
        "Removes some rows of a tenant; by the primary key.",
        f"""
        DELETE FROM {name} WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM {name} WHERE tenant_id = %(id)s::bigint LIMIT %(limit)s::bigint
        ))
        RETURNING 1
        """,
    )


# All other tables with rows of a tenant; the log is partitioned and has its own statement. `_drop_schema` removes the
# schema of a row of report_schemas with that row. Listed here because a server that does not migrate avoids importing
# SQLAlchemy, in which tables.py is written; a test compares them.
EMPTIED_TABLES: Final[tuple[LiteralString, ...]] = tuple(
    """
    access_tokens api_bindings index_entries object_counts ready_indexes report_definitions report_tenants
    search_words tenant_keys
    """.split()
)
OTHER_TABLES: Final = tuple(map(_emptying, EMPTIED_TABLES))


class TerminatingTenant(NamedTuple):
    """A deleted tenant. `objects` is how many it still has; until it `is_due` it may be restored."""

    id: TenantId
    domain: DomainId
    objects: int
    is_due: bool = True


class Usage(NamedTuple):
    """A tenant's usage and limits; None means no limit. `bytes` is the size of its objects as they are stored."""

    objects: int
    bytes: int
    definitions: int
    namespaces: int
    max_objects: int | None
    max_bytes: int | None
    max_definitions: int | None
    max_namespaces: int | None


class _Cached(NamedTuple):
    """`until` is when it expires, by time.monotonic(): without knowing whether it has changed, and if it is known to be
    unchanged."""

    until: float
    unchanged_until: float
    tenant: Tenant


class Tenants:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._cache: LruCache[TenantName, _Cached] = LruCache(CACHE_SIZE)
        # How often tenants have been forgotten: what was read meanwhile may be outdated.
        self._forgotten = 0
        self._changes: TenantChanges | None = None

    def follow(self, feed: Feed, owner: TenantName, resource: ResourceName) -> None:
        """Uses cached tenants for longer while their changes are known: those of the objects of `resource` in the
        tenant `owner`, which describe the tenants."""
        self._changes = TenantChanges(feed, self, partial(self.find, owner), resource)

    async def close(self) -> None:
        if self._changes is not None:
            await self._changes.close()

    async def create(
        self, name: TenantName, domain: DomainId | None = None, attributes: dict[str, Any] | None = None
    ) -> Tenant:
        """Raises TenantExists, even while one of that name is being deleted; TenantNotFound for an unknown domain."""
        values = {"name": name, "domain": domain, "attributes": Jsonb(attributes or {})}
        async with self._pool.connection() as connection:
            try:
                cursor = await connection.execute(CREATE.sql, values)
            except UniqueViolation as error:
                raise TenantExists(f"tenant {name} exists") from error
            rows = await cursor.fetchall()
        if not rows:
            raise TenantNotFound(f"domain {domain} does not exist")
        return self._remember(rows[0], time.monotonic())

    async def find(self, name: TenantName) -> Tenant:
        """Returns the tenant as it was at most CACHE_SECONDS ago. Raises TenantNotFound."""
        known = self.recall(name)
        if known is not None:
            return known
        began, forgotten = time.monotonic(), self._forgotten
        rows = await self._pool.fetch(FIND, {"name": storable(name)})
        if not rows or rows[0][1] != name:
            self._cache.pop(name)
            raise TenantNotFound(f"tenant {name} does not exist")
        return self._remember(rows[0], began, REREAD_SECONDS if forgotten == self._forgotten else 0.0)

    def recall(self, name: TenantName) -> Tenant | None:
        """Returns the tenant if it is cached."""
        known = self._cache.get(name)
        if known is None:
            return None
        now = time.monotonic()
        if now < known.until:
            return known.tenant
        if now >= known.unchanged_until or self._changes is None:
            return None
        return known.tenant if now < self._changes.known_at + CACHE_SECONDS else None

    async def list(self, after: TenantName | None, limit: int) -> list[Tenant]:
        rows = await self._pool.fetch(LIST, {"after": after or "", "limit": limit})
        return [tenant_of(row) for row in rows]

    async def note(self, tenant: Tenant, note: dict[str, Any]) -> None:
        """Merges server-side state of a tenant into "server" of its attributes."""
        rows = await self._pool.execute(NOTE, {"id": tenant.id, "note": Jsonb(note)})
        if rows:
            self._remember(rows[0], time.monotonic())

    async def usage(self, names: Sequence[str]) -> dict[str, Usage]:
        rows = await self._pool.fetch(USAGE, {"names": TextArray([storable(name) for name in names])})
        return {row[0]: Usage(*row[1:]) for row in rows}

    async def usage_after(self, name: str, limit: int) -> dict[str, Usage]:
        rows = await self._pool.fetch(USAGE_AFTER, {"name": storable(name), "limit": limit})
        return {row[0]: Usage(*row[1:]) for row in rows}

    async def finish_deletions(self, *, seconds: float = 0.0) -> None:
        """Removes tenants deleted at least `seconds` ago; younger deletions are left to the controller (see
        registry/controllers/tenants.py)."""
        for row in await self._pool.fetch(DELETED, {"seconds": seconds}):
            await self._finish(TenantId(row[0]), DomainId(row[1]))

    async def find_terminating(self, name: TenantName) -> TerminatingTenant | None:
        """Returns a deleted tenant, or None if there is none of this name."""
        rows = await self._pool.fetch(TERMINATING, {"name": storable(name)})
        return TerminatingTenant(TenantId(rows[0][0]), DomainId(rows[0][1]), *rows[0][2:]) if rows else None

    async def remove_next_rows(self, tenant: TerminatingTenant) -> bool:
        """Removes at most DELETE_ROWS rows; False when nothing was left, and the tenant's own row is gone too.

        Each step is a transaction, so an interrupted removal can be continued.
        """
        values = {"id": tenant.id, "limit": DELETE_ROWS}
        for step in (DELETE_OBJECTS, DELETE_CHANGES):
            if await self._pool.execute(step, values):
                return True
        if await self._drop_schema(tenant.id):
            return True
        for step in OTHER_TABLES:
            if await self._pool.execute(step, values):
                return True
        await self._pool.execute(DELETE, {"id": tenant.id, "domain": tenant.domain})
        return False

    async def reload(self, name: TenantName) -> Tenant:
        """Returns the tenant as it is stored, bypassing the cache. Raises TenantNotFound."""
        self.forget_name(name)
        return await self.find(name)

    def forget(self, tenant: Tenant) -> None:
        self.forget_name(tenant.name)

    def forget_all(self) -> None:
        self._forgotten += 1
        self._cache.clear()

    def forget_name(self, name: str) -> None:
        """Drops a tenant from the cache after its object has been written."""
        self._forgotten += 1
        self._cache.pop(TenantName(name))

    async def _drop_schema(self, tenant: TenantId) -> bool:
        """Drops the tenant's reporting schema, and returns whether there was one. No views are created for it
        afterwards."""
        async with self._pool.connection() as connection, connection.transaction():
            await begin(connection)
            return await drop_schema_of(connection, tenant)

    async def _finish(self, tenant: TenantId, domain: DomainId) -> None:
        while await self.remove_next_rows(TerminatingTenant(tenant, domain, 0)):
            pass

    def _remember(self, row: tuple[Any, ...], began: float, unchanged_seconds: float = 0.0) -> Tenant:
        """`began` is when the row began to be read; `unchanged_seconds`, how long it may be used while it is known to
        be unchanged."""
        tenant = tenant_of(row)
        self._cache.put(tenant.name, _Cached(began + CACHE_SECONDS, began + unchanged_seconds, tenant))
        if self._changes is not None and len(self._cache) >= FOLLOWED_FROM:
            self._changes.start()
        return tenant
