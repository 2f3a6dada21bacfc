"""Rows stored in an outdated version or schema, and objects of all tenants that need some work."""

from __future__ import annotations

from typing import Final

from registry.store.bounds import READ_BYTES, within_bytes
from registry.store.connection import Pool
from registry.store.encryption.sealing import Sealing
from registry.store.rows import TENANT, tenant_of
from registry.store.statements import statement
from registry.store.types import ObjectKey, ResourceName, Row, Tenant, Uid

OUTDATED: Final = statement(
    "outdated",
    "The first rows after a key that are not of a version (nor, where one is given, of a schema), up to some bytes; by"
    " the primary key.",
    within_bytes(
        """
        SELECT key, uid, revision, version, schema_id, body FROM objects
        WHERE tenant_id = %(tenant)s::bigint AND resource = %(resource)s::text AND key > %(after)s::text
            AND (version <> %(version)s::text OR schema_id <> %(schema)s::bigint)
        ORDER BY key LIMIT %(limit)s::bigint
        """,
        "r.key",
    ),
)

COUNT_OUTDATED: Final = statement(
    "count-outdated",
    "How many rows are not of a version (nor, where one is given, of a schema); by the primary key.",
    """
    SELECT count(*) FROM objects
    WHERE tenant_id = %(tenant)s::bigint AND resource = %(resource)s::text
        AND (version <> %(version)s::text OR schema_id <> %(schema)s::bigint)
    """,
)

MATCHING: Final = statement(
    "matching-bodies",
    "Objects of a resource whose bodies match a regular expression, unchanged for a while; by the primary key, tenant"
    " by tenant.",
    f"""
    SELECT {TENANT}, o.key
    FROM tenants t CROSS JOIN LATERAL (
        SELECT o.key FROM objects o WHERE o.tenant_id = t.id AND o.resource = %(resource)s::text
            AND o.updated_at < clock_timestamp() - %(seconds)s::float8 * interval '1 second'
            AND o.body ~ %(pattern)s::text OFFSET 0
    ) o
    WHERE t.deleted_at IS NULL
    ORDER BY t.id, o.key LIMIT %(limit)s::bigint
    """,
)

PENDING: Final = statement(
    "pending-of-resource",
    "Objects of a resource that a controller has to go on with, in all tenants; by the partial index of those.",
    f"""
    SELECT {TENANT}, o.key
    FROM objects o JOIN tenants t ON t.id = ANY (ARRAY[o.tenant_id])
    WHERE o.pending AND o.resource = %(resource)s::text AND t.deleted_at IS NULL
    ORDER BY o.tenant_id, o.key LIMIT %(limit)s::bigint
    """,
)


class Rewrites:
    def __init__(self, pool: Pool, sealing: Sealing) -> None:
        self._pool = pool
        self._sealing = sealing

    async def outdated_rows(
        self, tenant: Tenant, resource: ResourceName, *, version: str, schema: int | None, after: ObjectKey, limit: int
    ) -> list[Row]:
        """Returns the next rows, in the order of their keys, of another version (or of another schema, if one is
        given).

        Empty when none is left; a result shorter than `limit` is not the end.
        """
        rows = await self._pool.fetch(
            OUTDATED,
            {"tenant": tenant.id, "resource": resource, "version": version, "schema": schema, "after": after,
             "limit": limit, "bytes": READ_BYTES},
        )  # fmt: skip
        outdated = [Row(resource, ObjectKey(row[0]), Uid(row[1]), *row[2:6]) for row in rows]
        return list(await self._sealing.rows(tenant.id, outdated))

    async def count_outdated(self, tenant: Tenant, resource: ResourceName, *, version: str, schema: int | None) -> int:
        """Returns how many rows `outdated_rows` would return in total."""
        values = {"tenant": tenant.id, "resource": resource, "version": version, "schema": schema}
        [[count]] = await self._pool.fetch(COUNT_OUTDATED, values)
        return int(count)

    async def matching(
        self, resource: ResourceName, pattern: str, *, seconds: float, limit: int
    ) -> list[tuple[Tenant, ObjectKey]]:
        """Returns objects of all tenants, unchanged for `seconds`, whose bodies match a PostgreSQL regular
        expression."""
        values = {"resource": resource, "pattern": pattern, "seconds": seconds, "limit": limit}
        rows = await self._pool.fetch(MATCHING, values)
        return [(tenant_of(row), ObjectKey(row[6])) for row in rows]

    async def pending(self, resource: ResourceName, *, limit: int) -> list[tuple[Tenant, ObjectKey]]:
        """Returns objects of all tenants that a controller still has to reconcile."""
        rows = await self._pool.fetch(PENDING, {"resource": resource, "limit": limit})
        return [(tenant_of(row), ObjectKey(row[6])) for row in rows]
