"""Reads across all tenants of a revision domain: pages of rows exact at one revision, by tenant and key.

Either what a provider may see, the objects of its own definition in the tenants that had bound it at that revision, or
all tenants of the domain. The same statement reads which tenants these are. The log is an undo log as in pages.py. Rows
include their labels: the caller evaluates selectors, since stored labels begin with the tenant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, LiteralString, NamedTuple

from registry.store.bounds import READ_BYTES, within_bytes
from registry.store.connection import Pool
from registry.store.encoding import label_prefix, storable, storable_revision
from registry.store.encryption.sealing import Sealing, StoredBody
from registry.store.errors import RevisionExpired, RevisionInFuture, TenantNotFound
from registry.store.labels import StoredLabels
from registry.store.lost import lower_bound
from registry.store.statements import Statement, statement
from registry.store.types import DomainId, Guards, ObjectKey, ResourceName, Row, Tenant, TenantId, TenantName, Uid

# The position before the first tenant.
START: Final = (TenantId(0), ObjectKey(""))

_BY_PROVIDER: Final = """
    SELECT t.id, t.name, t.definitions_revision, t.namespaces_revision FROM api_bindings b
    JOIN tenants t ON t.id = ANY (ARRAY[b.tenant_id]) AND t.deleted_at IS NULL
    JOIN place p ON b.since <= p.at AND coalesce(b.until > p.at, true)
    WHERE b.provider_id = %(provider)s::bigint AND b.resource = %(resource)s::text
        AND t.domain_id + 0 = %(domain)s::bigint AND t.id + 0 >= %(after_tenant)s::bigint
"""

_BY_DOMAIN: Final = """
    SELECT t.id, t.name, t.definitions_revision, t.namespaces_revision FROM tenants t
    WHERE t.domain_id = %(domain)s::bigint AND t.deleted_at IS NULL AND t.id >= %(after_tenant)s::bigint
"""


def _page(tenants: LiteralString) -> Statement:
    return statement(
        "page-wildcard",
        "The first rows of a range of keys of several tenants as they were at a revision, with the domain's state; by"
        " the indexes of providers or domains, the primary key, and the log's index of revisions.",
        f"""
        WITH place AS MATERIALIZED (
            SELECT d.revision AS current, {lower_bound("%(at)s::bigint")} AS compact_revision,
                coalesce(%(at)s::bigint, d.revision) AS at
            FROM domains d WHERE d.id = %(domain)s::bigint
        ), seen AS MATERIALIZED ({tenants}
        ), same AS MATERIALIZED (
            SELECT s.id AS tenant_id, o.key, o.uid, o.revision, o.version, o.schema_id, o.body, o.labels
            FROM (SELECT id FROM seen ORDER BY id) s CROSS JOIN LATERAL (
                SELECT o.* FROM objects o
                WHERE o.tenant_id = s.id AND o.resource = %(resource)s::text AND o.revision <= (SELECT at FROM place)
                    AND o.key > CASE s.id WHEN %(after_tenant)s::bigint THEN %(after)s::text ELSE %(from)s::text END
                    AND (%(before)s::text IS NULL OR o.key < %(before)s::text)
                ORDER BY o.key LIMIT %(limit)s::bigint
            ) o
            ORDER BY s.id, o.key LIMIT %(limit)s::bigint
        ), touched AS (
            SELECT DISTINCT ON (s.id, c.key) c.tenant_id, c.key, c.uid, c.previous_revision,
                c.previous_version, c.previous_schema_id, c.previous_body, c.previous_labels
            FROM changes c JOIN seen s ON s.id = c.tenant_id + 0
            WHERE (c.domain_id, c.revision) > (%(domain)s::bigint, (SELECT at FROM place))
                AND c.domain_id <= %(domain)s::bigint
                AND c.resource || '' = %(resource)s::text
                AND c.key || '' > CASE c.tenant_id WHEN %(after_tenant)s::bigint THEN %(after)s::text
                    ELSE %(from)s::text END
                AND (%(before)s::text IS NULL OR c.key || '' < %(before)s::text)
            ORDER BY s.id, c.key, c.revision
        ), found AS (
            SELECT * FROM same
            UNION ALL
            SELECT u.tenant_id, u.key, u.uid, u.previous_revision, u.previous_version, u.previous_schema_id,
                u.previous_body, u.previous_labels
            FROM touched u WHERE u.previous_revision IS NOT NULL
            ORDER BY tenant_id, key LIMIT %(limit)s::bigint
        )
        SELECT p.current, p.compact_revision, p.at, (SELECT count(*) FROM found),
            s.name, s.definitions_revision, s.namespaces_revision,
            f.tenant_id, f.key, f.uid, f.revision, f.version, f.schema_id, f.body, array_send(f.labels)
        FROM place p LEFT JOIN ({within_bytes("SELECT * FROM found", "r.tenant_id, r.key")}) f ON true
            LEFT JOIN seen s ON s.id = f.tenant_id
        ORDER BY f.tenant_id, f.key
        """,
    )


_OF_PROVIDER: Final = _page(_BY_PROVIDER)
_OF_DOMAIN: Final = _page(_BY_DOMAIN)


class WildcardRow(NamedTuple):
    """A row and its tenant."""

    tenant: Tenant
    row: Row
    labels: StoredLabels

    @property
    def place(self) -> tuple[TenantId, ObjectKey]:
        return self.tenant.id, self.row.key


class WildcardPage(NamedTuple):
    rows: Sequence[WildcardRow]
    revision: int
    more: bool


class WildcardReads:
    """Pages of rows of several tenants, opened."""

    def __init__(self, pool: Pool, sealing: Sealing) -> None:
        self._pool = pool
        self._sealing = sealing

    async def page(
        self,
        domain: DomainId,
        provider: Tenant | None,
        resource: ResourceName,
        *,
        namespace: str | None = None,
        at: int | None = None,
        after: tuple[TenantId, ObjectKey] = START,
        limit: int,
    ) -> WildcardPage:
        """Returns rows of the tenants of a domain that have bound a definition of `provider`; without one, of all
        tenants. At most `limit` after a position, fewer if they are large, by tenant and key.

        Raises RevisionExpired, RevisionInFuture, TenantNotFound (if the domain does not exist).
        """
        start, before = "", None
        if namespace:
            # "0" is the character after "/": exactly the keys of the namespace are in between.
            start, before = f"{storable(namespace)}/", f"{storable(namespace)}0"
        values = {
            "domain": domain, "resource": resource, "at": storable_revision(at), "after_tenant": after[0],
            "limit": limit + 1, "from": start, "before": before,
            "after": max(start.encode(), storable(after[1]).encode()).decode(),
            "provider": provider.id if provider is not None else None, "bytes": READ_BYTES,
        }  # fmt: skip
        # Planned with its values: the number of tenants decides.
        rows = await self._pool.fetch(_OF_DOMAIN if provider is None else _OF_PROVIDER, values, prepare=False)
        if not rows:
            raise TenantNotFound("there are no such tenants")
        current, compact_revision, revision, total = rows[0][:4]
        if revision < compact_revision:
            raise RevisionExpired(revision, compact_revision, current)
        if revision > current:
            raise RevisionInFuture(revision if at is None else at, current)
        present = [row[4:] for row in rows[:limit] if row[7] is not None]
        texts = await self._sealing.texts([StoredBody(row[3], resource, row[4], row[9]) for row in present])
        selected = []
        for row, text in zip(present, texts, strict=True):
            name, definitions, namespaces, tenant, key, uid, changed, version, schema, _, labels = row
            owner = Tenant(TenantId(tenant), TenantName(name), domain, Guards(definitions, namespaces))
            stored = Row(resource, ObjectKey(key), Uid(uid), changed, version, schema, text)
            skip = len(label_prefix(tenant, resource))
            selected.append(WildcardRow(owner, stored, StoredLabels(labels, skip)))
        return WildcardPage(selected, revision, total > len(selected))
