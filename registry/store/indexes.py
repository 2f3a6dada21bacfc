"""Builds declared indexes: objects with entries of another layout get those of the current one (sql/indexes.sql)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from registry.store.arrays import BigintArray, TextArray, bytes_literal, prefixed_literal
from registry.store.bounds import READ_BYTES, within_bytes
from registry.store.connection import Pool
from registry.store.encoding import label_elements, label_prefix
from registry.store.encryption.sealing import Sealing
from registry.store.errors import QuotaExceeded
from registry.store.statements import statement
from registry.store.types import ObjectKey, ResourceName, Row, Tenant, Uid

BEGIN: Final = statement(
    "index-begin",
    "Begins to build the indexes of a resource; by primary keys.",
    "SELECT registry_index_begin(%(tenant)s::bigint, %(domain)s::bigint, %(resource)s::text, %(numbers)s::bigint[],"
    " %(build)s::bigint)",
)
PUT: Final = statement(
    "index-put",
    "Gives objects their entries and labels; by primary keys.",
    "SELECT registry_index_put(%(tenant)s::bigint, %(domain)s::bigint, %(resource)s::text, %(build)s::bigint,"
    " %(layout)s::bigint, %(keys)s::text[], %(revisions)s::bigint[], %(entries)s::text[], %(labels)s::text[])",
)
READY: Final = statement(
    "index-ready",
    "Marks the indexes of a resource as complete; by primary keys.",
    "SELECT registry_index_ready(%(tenant)s::bigint, %(domain)s::bigint, %(resource)s::text, %(numbers)s::bigint[],"
    " %(build)s::bigint)",
)
STALE: Final = statement(
    "index-stale",
    "The first objects after a key whose entries are of another layout; by the primary key.",
    within_bytes(
        """
        SELECT key, uid, revision, version, schema_id, body FROM objects
        WHERE tenant_id = %(tenant)s::bigint AND resource = %(resource)s::text AND key > %(after)s::text
            AND index_layout IS DISTINCT FROM %(layout)s::bigint
        ORDER BY key LIMIT %(limit)s::bigint
        """,
        "r.key",
    ),
)
STATE: Final = statement(
    "index-state",
    "Which indexes of a resource are complete; by the primary key.",
    """
    SELECT index_id, revision FROM ready_indexes
    WHERE tenant_id = %(tenant)s::bigint AND resource = %(resource)s::text AND revision IS NOT NULL
    """,
)


class Indexing:
    def __init__(self, pool: Pool, sealing: Sealing) -> None:
        self._pool = pool
        self._sealing = sealing

    def seals(self, resource: ResourceName) -> bool:
        """Returns whether objects of a resource are encrypted; those have no entries."""
        return resource in self._sealing.resources

    async def ready(self, tenant: Tenant, resource: ResourceName) -> dict[int, int]:
        """Returns the complete indexes, each with the revision from which it is complete."""
        rows = await self._pool.fetch(STATE, {"tenant": tenant.id, "resource": resource})
        return dict(rows)

    async def begin(self, tenant: Tenant, resource: ResourceName, numbers: Sequence[int]) -> int | None:
        """Begins a build and returns its ID, or None if all indexes are complete. Indexes not in `numbers` are
        dropped."""
        build = secrets.randbits(62)
        rows = await self._pool.execute(BEGIN, self._values(tenant, resource, numbers, build))
        return build if rows[0][0] else None

    async def stale(
        self, tenant: Tenant, resource: ResourceName, layout: int, after: ObjectKey, limit: int
    ) -> Sequence[Row]:
        """Returns the next objects that need entries, in the order of their keys; empty when none is left."""
        values = {"tenant": tenant.id, "resource": resource, "layout": layout, "after": after, "limit": limit}
        rows = await self._pool.fetch(STALE, {**values, "bytes": READ_BYTES})
        outdated = [Row(resource, ObjectKey(row[0]), Uid(row[1]), *row[2:6]) for row in rows]
        return await self._sealing.rows(tenant.id, outdated)

    async def put(
        self,
        tenant: Tenant,
        build: int,
        layout: int,
        rows: Sequence[Row],
        entries: Sequence[Sequence[bytes]],
        labels: Sequence[Sequence[str]] | None,
    ) -> bool:
        """Stores entries, and labels if they are given, except of objects written meanwhile. False if another build has
        begun. Raises QuotaExceeded."""
        answer = await self._pool.execute(
            PUT,
            {
                "tenant": tenant.id,
                "domain": tenant.domain,
                "resource": rows[0].resource,
                "build": build,
                "layout": layout,
                "keys": [row.key for row in rows],
                "revisions": BigintArray([row.revision for row in rows]),
                "entries": TextArray([bytes_literal(one) for one in entries]),
                "labels": _label_literals(tenant, rows[0].resource, labels) if labels is not None else None,
            },
        )
        outcome, *counts = answer[0][0].split()
        if outcome == "full":
            raise QuotaExceeded("bytes", *map(int, counts))
        return bool(outcome == "ok")

    async def finish(self, tenant: Tenant, resource: ResourceName, numbers: Sequence[int], build: int) -> bool:
        """Marks the indexes complete once all objects were processed. False if a write has invalidated the build."""
        rows = await self._pool.execute(READY, self._values(tenant, resource, numbers, build))
        done: bool = rows[0][0]
        return done

    def _values(self, tenant: Tenant, resource: ResourceName, numbers: Sequence[int], build: int) -> dict[str, object]:
        return {
            "tenant": tenant.id,
            "domain": tenant.domain,
            "resource": resource,
            "numbers": BigintArray(list(numbers)),
            "build": build,
        }


def _label_literals(tenant: Tenant, resource: ResourceName, labels: Sequence[Sequence[str]]) -> TextArray:
    prefix = label_prefix(tenant.id, resource)
    return TextArray([prefixed_literal(prefix, label_elements(one)) if one else None for one in labels])
