"""Lookups for controllers: numbers of objects, dependents, contents of namespaces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple

from registry.store.arrays import TextArray
from registry.store.bounds import READ_BYTES, within_bytes
from registry.store.connection import Pool
from registry.store.encoding import contents_json, owner_element, storable
from registry.store.encryption.sealing import Sealing, StoredBody
from registry.store.errors import TenantNotFound
from registry.store.rows import TENANT, tenant_of
from registry.store.statements import statement
from registry.store.types import Contents, ObjectKey, ResourceName, Row, Tenant, TenantId, Uid

COUNT: Final = statement(
    "count",
    "How many objects of a resource a tenant has; by the primary key.",
    "SELECT count(*) FROM objects WHERE tenant_id = %(tenant)s::bigint AND resource = %(resource)s::text",
)

RESOURCES: Final = statement(
    "resources",
    "How many objects of each resource a tenant has; by the primary key.",
    "SELECT resource, count(*) FROM objects WHERE tenant_id = %(tenant)s::bigint GROUP BY resource ORDER BY resource",
)

OWNED_BY: Final = statement(
    "owned-by",
    "The first objects that name one of some owners, in the order of their keys after one of them, up to some bytes; by"
    " the index of owners.",
    within_bytes(
        """
        SELECT resource, key, uid, revision, version, schema_id, body FROM objects
        WHERE owners IS NOT NULL AND owners && %(owners)s AND tenant_id = %(tenant)s::bigint
            AND (resource, key) > (%(resource)s::text, %(key)s::text)
        ORDER BY resource, key LIMIT %(limit)s::bigint
        """,
        "r.resource, r.key",
    ),
)

OWNERS: Final = statement(
    "owners",
    "The uids of the objects of some keys, and the bodies of those that have an expected uid and may be terminating, up"
    " to some bytes, with the revision of the tenant's definitions; by the primary keys of tenants and objects.",
    within_bytes(
        """
        SELECT w.ordinal, t.definitions_revision, o.uid,
            CASE WHEN o.uid = w.uid AND o.terminating IS NOT false THEN o.body END AS body
        FROM unnest(%(resources)s::text[], %(keys)s::text[], %(uids)s::text[])
            WITH ORDINALITY AS w (resource, key, uid, ordinal)
        JOIN tenants t ON t.id = %(tenant)s::bigint AND t.deleted_at IS NULL
        LEFT JOIN LATERAL (
            SELECT o.uid, o.terminating, o.body FROM objects o
            WHERE o.tenant_id = %(tenant)s::bigint AND o.resource = w.resource AND o.key = w.key OFFSET 0
        ) o ON true
        """,
        "r.ordinal",
        "coalesce(octet_length(r.body), 0)",
    ),
)

KEYS_OF_UIDS: Final = statement(
    "keys-of-uids",
    "The first objects that have some uids; by the index of uids.",
    """
    SELECT resource, key, uid FROM objects
    WHERE uid = ANY (%(uids)s::text[]) AND tenant_id + 0 = %(tenant)s::bigint
    ORDER BY resource, key LIMIT %(limit)s::bigint
    """,
)

PENDING: Final = statement(
    "pending",
    "What controllers have not finished with, in all tenants, as many of each as fit; by the partial index of it.",
    f"""
    WITH RECURSIVE having_some AS (
        (SELECT o.tenant_id AS id FROM objects o WHERE o.pending ORDER BY o.tenant_id LIMIT 1)
        UNION ALL
        SELECT (SELECT o.tenant_id FROM objects o WHERE o.pending AND o.tenant_id > h.id ORDER BY o.tenant_id LIMIT 1)
        FROM having_some h WHERE h.id IS NOT NULL
    )
    SELECT {TENANT}, f.resource, f.key
    FROM having_some h JOIN tenants t ON t.id = ANY (ARRAY[h.id]) CROSS JOIN LATERAL (
        SELECT o.resource, o.key, row_number() OVER (ORDER BY o.resource, o.key) AS place FROM objects o
        WHERE o.tenant_id = h.id AND o.pending ORDER BY o.resource, o.key LIMIT %(limit)s::bigint
    ) f
    WHERE t.deleted_at IS NULL
    ORDER BY f.place, t.id LIMIT %(limit)s::bigint
    """,
)

# Visits a bounded number of tenants, whether or not they have such objects, which bounds the query.
EVERYWHERE: Final = statement(
    "everywhere",
    "The objects of a resource in some tenants, in the order of tenants and keys; by the primary keys.",
    """
    WITH chosen AS MATERIALIZED (
        SELECT id, name, domain_id, definitions_revision, namespaces_revision, attributes FROM tenants
        WHERE id >= %(tenant)s::bigint AND deleted_at IS NULL ORDER BY id LIMIT %(tenants)s::bigint
    )
    SELECT found.*, last.id, last.tenants FROM (SELECT max(id) AS id, count(*) AS tenants FROM chosen) last LEFT JOIN (
        SELECT s.*, o.key FROM chosen s CROSS JOIN LATERAL (
            SELECT key FROM objects
            WHERE tenant_id = s.id AND resource = %(resource)s::text AND key > CASE s.id
                WHEN %(tenant)s::bigint THEN %(key)s::text ELSE '' END
            ORDER BY key LIMIT %(limit)s::bigint
        ) o
        ORDER BY s.id, o.key LIMIT %(limit)s::bigint
    ) found ON true
    ORDER BY found.id, found.key
    """,
)

# A skip scan: a tenant has few resources and many objects, so it jumps to the next resource, then to the namespace.
IN_NAMESPACE: Final = statement(
    "resources-in-namespace",
    "How many objects of each resource a namespace holds; by the primary key, without reading other namespaces.",
    """
    WITH RECURSIVE kinds AS (
        SELECT min(resource) AS resource FROM objects WHERE tenant_id = %(tenant)s::bigint
        UNION ALL
        SELECT (
            SELECT min(o.resource) FROM objects o
            WHERE o.tenant_id = %(tenant)s::bigint AND o.resource > k.resource
        ) FROM kinds k WHERE k.resource IS NOT NULL
    )
    SELECT k.resource, n.count FROM kinds k CROSS JOIN LATERAL (
        SELECT count(*) AS count FROM objects o
        WHERE o.tenant_id = %(tenant)s::bigint AND o.resource = k.resource
            AND o.key > %(first)s::text AND o.key < %(last)s::text
    ) n
    WHERE k.resource IS NOT NULL AND n.count > 0
    ORDER BY k.resource
    """,
)


NEWEST_OF: Final = statement(
    "newest-of",
    "How many objects some resources have together, and the newest revision among them; by the primary key.",
    """
    SELECT count(*), coalesce(max(o.revision), 0) FROM unnest(%(resources)s::text[]) AS r (resource)
    CROSS JOIN LATERAL (
        SELECT o.revision FROM objects o WHERE o.tenant_id = %(tenant)s::bigint AND o.resource = r.resource OFFSET 0
    ) o
    """,
)

ROWS_OF: Final = statement(
    "rows-of",
    "The first objects of some resources after one of them, with the bodies of those that are newer than a revision, up"
    " to some bytes; by the primary key.",
    within_bytes(
        """
        SELECT o.*, count(*) OVER () AS found FROM unnest(%(resources)s::text[]) AS r (resource)
        CROSS JOIN LATERAL (
            SELECT o.resource, o.key, o.revision, CASE WHEN o.revision > %(newer)s::bigint THEN o.body END AS body
            FROM objects o WHERE o.tenant_id = %(tenant)s::bigint AND o.resource = r.resource
                AND (o.resource, o.key) > (%(resource)s::text, %(key)s::text) OFFSET 0
        ) o
        """,
        "r.resource, r.key",
        "coalesce(octet_length(r.body), 0)",
    ),
)

IN_USE: Final = statement(
    "in-use",
    "Whether there is one of some objects (sql/in_use.sql); by the primary key.",
    "SELECT registry_in_use(%(tenant)s::bigint, %(contents)s::jsonb)",
)


# Tenants that one query of EVERYWHERE visits: some 20 ms.
_TENANTS: Final = 5_000


class TenantsPage(NamedTuple):
    """Some of the objects of a resource in all tenants. `next` is where to continue, None at the end."""

    keys: Sequence[tuple[Tenant, ObjectKey]]
    next: tuple[TenantId, ObjectKey] | None


BEGINNING: Final = (TenantId(0), ObjectKey(""))


class OwnerKey(NamedTuple):
    """An object as an owner reference names it."""

    resource: ResourceName
    key: ObjectKey
    uid: Uid


class OwnersPage(NamedTuple):
    """What was found of owners, in their order: whether each exists with its uid, and its body if it may be
    terminating, else an empty text. `definitions` is the revision of the tenant's definitions in the same snapshot."""

    definitions: int
    found: Sequence[tuple[bool, str]]


class Lookups:
    def __init__(self, pool: Pool, sealing: Sealing) -> None:
        self._pool = pool
        self._sealing = sealing

    async def count(self, tenant: Tenant, resource: ResourceName) -> int:
        rows = await self._pool.fetch(COUNT, {"tenant": tenant.id, "resource": resource})
        count: int = rows[0][0]
        return count

    async def in_use(self, tenant: Tenant, contents: Contents) -> bool:
        """Checks now what `Write.unless_used` checks at commit."""
        rows = await self._pool.fetch(IN_USE, {"tenant": tenant.id, "contents": contents_json(contents)})
        return bool(rows[0][0])

    async def resources(self, tenant: Tenant) -> list[tuple[ResourceName, int]]:
        """Returns each resource that the tenant has objects of, with their number."""
        rows = await self._pool.fetch(RESOURCES, {"tenant": tenant.id})
        return [(ResourceName(row[0]), row[1]) for row in rows]

    async def owned_by(
        self, tenant: Tenant, uids: Sequence[Uid], *, after: Row | None = None, limit: int = 500
    ) -> list[Row]:
        """Returns objects that list one of `uids` as an owner, by resource and key, after the last row of the page
        before."""
        rows = await self._pool.fetch(
            OWNED_BY,
            {
                "tenant": tenant.id,
                "owners": TextArray([owner_element(tenant.id, uid) for uid in uids]),
                "resource": after.resource if after else "",
                "key": after.key if after else "",
                "limit": limit,
                "bytes": READ_BYTES,
            },
            # Where an owner has most of the objects, the primary key is better.
            prepare=False,
        )
        owned = [Row(ResourceName(row[0]), ObjectKey(row[1]), Uid(row[2]), *row[3:7]) for row in rows]
        return list(await self._sealing.rows(tenant.id, owned))

    async def owners(self, tenant: Tenant, owners: Sequence[OwnerKey]) -> OwnersPage:
        """Returns which of the first of `owners` exist, as many as fit; at least one, if there are any. Raises
        TenantNotFound."""
        rows = await self._pool.fetch(
            OWNERS,
            {
                "tenant": tenant.id,
                "resources": TextArray([storable(o.resource) for o in owners]),
                "keys": TextArray([storable(o.key) for o in owners]),
                "uids": TextArray([storable(o.uid) for o in owners]),
                "bytes": READ_BYTES,
            },
        )
        if not rows:
            raise TenantNotFound("the tenant does not exist")
        states = [(owner, row[2], row[3] or "") for owner, row in zip(owners, rows, strict=False)]
        texts = await self._sealing.texts([StoredBody(tenant.id, o.resource, o.key, body) for o, _, body in states])
        pairs = [(uid == owner.uid, text) for (owner, uid, _), text in zip(states, texts, strict=True)]
        return OwnersPage(rows[0][1], pairs)

    async def keys_of_uids(
        self, tenant: Tenant, uids: Sequence[Uid], limit: int
    ) -> list[tuple[ResourceName, ObjectKey, Uid]]:
        """Returns at most `limit` objects that have one of `uids`, whatever their keys."""
        values = {"tenant": tenant.id, "uids": TextArray([storable(uid) for uid in uids]), "limit": limit}
        rows = await self._pool.fetch(KEYS_OF_UIDS, values)
        return [(ResourceName(row[0]), ObjectKey(row[1]), Uid(row[2])) for row in rows]

    async def pending(self, limit: int) -> list[tuple[Tenant, ResourceName, ObjectKey]]:
        """Returns at most `limit` objects that writes have left pending for controllers: of each tenant as many, unless
        it has fewer."""
        rows = await self._pool.fetch(PENDING, {"limit": limit})
        return [(tenant_of(row), ResourceName(row[6]), ObjectKey(row[7])) for row in rows]

    async def everywhere(self, resource: ResourceName, after: tuple[TenantId, ObjectKey], limit: int) -> TenantsPage:
        """Returns at most `limit` objects of a resource in all tenants, ordered by tenant and key; perhaps none
        although more follow. Start with BEGINNING."""
        rows = await self._pool.fetch(
            EVERYWHERE, {"resource": resource, "tenant": after[0], "key": after[1], "tenants": _TENANTS, "limit": limit}
        )
        keys = [(tenant_of(row), ObjectKey(row[6])) for row in rows if row[0] is not None]
        last, tenants = rows[0][7:]
        if len(keys) == limit:
            return TenantsPage(keys, (keys[-1][0].id, keys[-1][1]))
        return TenantsPage(keys, (TenantId(last + 1), ObjectKey("")) if tenants == _TENANTS else None)

    async def resources_in_namespace(self, tenant: Tenant, namespace: str) -> list[tuple[ResourceName, int]]:
        name = storable(namespace)
        rows = await self._pool.fetch(IN_NAMESPACE, {"tenant": tenant.id, "first": f"{name}/", "last": f"{name}0"})
        return [(ResourceName(row[0]), row[1]) for row in rows]

    async def newest_of(self, tenant: Tenant, resources: Sequence[ResourceName]) -> tuple[int, int]:
        """Returns how many objects some resources have together, and their newest revision (0 without any).

        If both are the same as before, nothing has changed meanwhile.
        """
        rows = await self._pool.fetch(NEWEST_OF, {"tenant": tenant.id, "resources": TextArray(resources)})
        return rows[0][0], rows[0][1]

    async def rows_of(
        self, tenant: Tenant, resources: Sequence[ResourceName], *, newer: int
    ) -> AsyncIterator[list[RowOf]]:
        """Yields resource, key and revision of all objects of some resources, in that order, and the body of those
        above the revision `newer`; in parts bounded by bytes, all from one snapshot."""
        parameters = {
            "tenant": tenant.id,
            "resources": TextArray(resources),
            "newer": newer,
            "resource": "",
            "key": "",
            "bytes": READ_BYTES,
        }
        rows = await self._pool.fetch(ROWS_OF, parameters)
        if not rows or rows[0][4] == len(rows):
            yield _rows_of(rows)
            return
        # More than one query returns: in one snapshot, or a change between two of them would never be seen.
        async with self._pool.connection() as connection, connection.transaction():
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            while True:
                cursor = await connection.execute(ROWS_OF.sql, parameters, binary=True)
                rows = await cursor.fetchall()
                if not rows:
                    return
                yield _rows_of(rows)
                parameters |= {"resource": rows[-1][0], "key": rows[-1][1]}


# Resource, key, revision, and the body if it is newer than requested.
RowOf = tuple[ResourceName, ObjectKey, int, str | None]


def _rows_of(rows: list[tuple[Any, ...]]) -> list[RowOf]:
    return [(ResourceName(row[0]), ObjectKey(row[1]), row[2], row[3]) for row in rows]
