"""Which definitions of other tenants a tenant has bound, and which tenants have bound its own (sql/sharing.sql writes).

All that one tenant learns of another goes through here: a consumer gets the definitions that it has bound and nothing
else of its provider; a provider gets which tenants have bound its own definitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from registry.store.arrays import TextArray
from registry.store.bounds import READ_BYTES, within_bytes
from registry.store.connection import Pool
from registry.store.rows import TENANT, tenant_of
from registry.store.statements import statement
from registry.store.types import DomainId, Guards, ObjectKey, ResourceName, Tenant, TenantId, TenantName

BOUND: Final = statement(
    "bound-definitions",
    "The definitions that a tenant has bound, with their revisions and the bindings; by primary keys.",
    """
    SELECT b.resource, b.provider_id, d.revision,
        CASE WHEN o.terminating IS NOT false THEN o.body ELSE '' END
    FROM api_bindings b
    CROSS JOIN LATERAL (
        SELECT d.revision FROM objects d
        WHERE d.tenant_id = b.provider_id AND d.resource = %(definitions)s::text AND d.key = b.resource OFFSET 0
    ) d
    CROSS JOIN LATERAL (
        SELECT o.terminating, o.body FROM objects o
        WHERE o.tenant_id = b.tenant_id AND o.resource = %(bindings)s::text AND o.key = b.binding OFFSET 0
    ) o
    WHERE b.tenant_id = %(tenant)s::bigint AND b.until IS NULL
    ORDER BY b.resource
    """,
)

BODIES: Final = statement(
    "bodies-of-bound-definitions",
    "The first of some definitions that a tenant has bound, up to some bytes; by primary keys.",
    within_bytes(
        """
        SELECT d.tenant_id, d.key, d.revision, d.body
        FROM api_bindings b
        CROSS JOIN LATERAL (
            SELECT d.tenant_id, d.key, d.revision, d.body FROM objects d
            WHERE d.tenant_id = b.provider_id AND d.resource = %(definitions)s::text AND d.key = b.resource OFFSET 0
        ) d
        WHERE b.tenant_id = %(tenant)s::bigint AND b.until IS NULL AND b.resource || '' = ANY (%(resources)s)
        """,
        "r.key",
    ),
)

CONSUMERS: Final = statement(
    "bindings-of-export",
    "The tenants that have bound an export, and by which bindings; by the index of providers.",
    f"""
    SELECT DISTINCT {TENANT},
        b.binding
    FROM api_bindings b CROSS JOIN LATERAL (
        SELECT t.* FROM tenants t WHERE t.id = b.tenant_id AND t.deleted_at IS NULL OFFSET 0
    ) t
    WHERE b.provider_id = %(tenant)s::bigint AND b.export = %(export)s::text AND b.until + 0 IS NULL
    ORDER BY t.id LIMIT 100000
    """,
)

SHARED_AMONG: Final = statement(
    "shared-among-definitions",
    "Those of some definitions of a provider that tenants have bound; by the index of providers.",
    """
    SELECT DISTINCT b.resource FROM api_bindings b
    WHERE b.provider_id = %(tenant)s::bigint AND b.resource = ANY (%(resources)s::text[]) AND b.until + 0 IS NULL
    """,
)

SPANS: Final = statement(
    "spans-of-binding",
    "Which tenants of a domain had bound a definition from when to when; by the index of providers.",
    """
    SELECT b.tenant_id, t.name, t.definitions_revision, t.namespaces_revision, b.since, b.until
    FROM api_bindings b JOIN tenants t ON t.id = ANY (ARRAY[b.tenant_id]) AND t.deleted_at IS NULL
    WHERE b.provider_id = %(provider)s::bigint AND b.resource = %(resource)s::text
        AND t.domain_id + 0 = %(domain)s::bigint
    """,
)

OF_DOMAIN: Final = statement(
    "tenants-of-domain",
    "The tenants of a domain; by the index of domains.",
    "SELECT id, name, definitions_revision, namespaces_revision FROM tenants"
    " WHERE domain_id = %(domain)s::bigint AND deleted_at IS NULL",
)

NAMED: Final = statement(
    "domain-by-name",
    "A shared domain and its first tenant, where a tenant that asks has to do with it; by the indexes of names and"
    " providers.",
    """
    SELECT d.id, t.name FROM domains d JOIN tenants t ON t.domain_id = ANY (ARRAY[d.id]) AND t.deleted_at IS NULL
    WHERE d.name = %(name)s::text AND (%(asker)s::bigint IS NULL OR d.id = %(asker_domain)s::bigint OR EXISTS (
        SELECT 1 FROM api_bindings b JOIN tenants c ON c.id = ANY (ARRAY[b.tenant_id]) AND c.deleted_at IS NULL
        WHERE b.provider_id = %(asker)s::bigint AND c.domain_id + 0 = d.id OFFSET 0))
    ORDER BY t.id + 0 LIMIT 1
    """,
)

DEFINING: Final = statement(
    "tenant-that-defines",
    "A tenant of a domain that has a definition of its own or has bound one, the first; by primary keys.",
    """
    SELECT t.name FROM tenants t
    WHERE t.domain_id = %(domain)s::bigint AND t.deleted_at IS NULL AND (EXISTS (
        SELECT 1 FROM objects o WHERE o.tenant_id = t.id AND o.key = %(resource)s::text
            AND o.resource = %(definitions)s::text OFFSET 0
    ) OR EXISTS (
        SELECT 1 FROM api_bindings b
        WHERE b.tenant_id = t.id AND b.resource || '' = %(resource)s::text AND b.until IS NULL OFFSET 0
    ))
    ORDER BY t.id + 0 LIMIT 1
    """,
)

CLEAN: Final = statement(
    "clean-api-bindings",
    "Forgets bindings that ended before the log begins; reads the whole table.",
    """
    DELETE FROM api_bindings b USING tenants t JOIN domains d ON d.id = t.domain_id
    WHERE t.id = b.tenant_id AND b.until < d.compact_revision
    RETURNING 1
    """,
)


class BoundDefinition(NamedTuple):
    """A definition that a tenant has bound. `binding` is the body of the binding if that may be terminating, else
    empty."""

    resource: ResourceName
    provider: TenantId
    revision: int
    binding: str


class BindingSpan(NamedTuple):
    """A tenant, and the revisions at which its objects of a resource are visible: since < revision <= until."""

    tenant: Tenant
    since: int
    until: int | None

    def covers(self, revision: int) -> bool:
        return self.since < revision and (self.until is None or revision <= self.until)


def _tenant(row: tuple[Any, ...], domain: DomainId) -> Tenant:
    return Tenant(TenantId(row[0]), TenantName(row[1]), domain, Guards(row[2], row[3]))


class Sharing:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def bound(
        self, tenant: Tenant, *, definitions: ResourceName, bindings: ResourceName
    ) -> list[BoundDefinition]:
        """Returns what a tenant has bound, ordered by resource name. `definitions` and `bindings` are the resources of
        these objects."""
        values = {"tenant": tenant.id, "definitions": definitions, "bindings": bindings}
        rows = await self._pool.fetch(BOUND, values)
        return [BoundDefinition(ResourceName(r[0]), TenantId(r[1]), r[2], r[3]) for r in rows]

    async def bodies(
        self, tenant: Tenant, resources: Sequence[ResourceName], *, definitions: ResourceName
    ) -> list[tuple[TenantId, str, int, str]]:
        """Returns provider, name, revision and body of the first of `resources` that the tenant has bound, ordered by
        name.

        Empty if it has bound none of them; a result with fewer than requested is not the end.
        """
        values = {
            "tenant": tenant.id,
            "resources": TextArray(list(resources)),
            "definitions": definitions,
            "bytes": READ_BYTES,
        }
        return [(row[0], row[1], row[2], row[3]) for row in await self._pool.fetch(BODIES, values)]

    async def consumers(self, provider: Tenant, export: str) -> list[tuple[Tenant, ObjectKey]]:
        rows = await self._pool.fetch(CONSUMERS, {"tenant": provider.id, "export": export})
        return [(tenant_of(row[:6]), ObjectKey(row[6])) for row in rows]

    async def shared_among(self, provider: Tenant, resources: Sequence[ObjectKey]) -> set[ObjectKey]:
        """Returns those of the definitions, by key, that at least one tenant has bound."""
        rows = await self._pool.fetch(SHARED_AMONG, {"tenant": provider.id, "resources": TextArray(list(resources))})
        return {ObjectKey(row[0]) for row in rows}

    async def spans(self, provider: Tenant, resource: ResourceName, domain: DomainId) -> list[BindingSpan]:
        """Returns the tenants of a domain that have bound the provider's definition, now or in the past."""
        values = {"provider": provider.id, "resource": resource, "domain": domain}
        return [BindingSpan(_tenant(r, domain), r[4], r[5]) for r in await self._pool.fetch(SPANS, values)]

    async def of_domain(self, domain: DomainId) -> list[BindingSpan]:
        rows = await self._pool.fetch(OF_DOMAIN, {"domain": domain})
        return [BindingSpan(_tenant(r, domain), -1, None) for r in rows]

    async def domain_named(self, name: str, asker: Tenant | None) -> tuple[DomainId, TenantName] | None:
        """Returns a shared domain by its name, and one of its tenants.

        A tenant that asks finds only its own domain and those where a tenant has, or had, bound one of its exports: it
        cannot discover others.
        """
        values = {"name": name, "asker": asker and asker.id, "asker_domain": asker and asker.domain}
        rows = await self._pool.fetch(NAMED, values)
        return (DomainId(rows[0][0]), TenantName(rows[0][1])) if rows else None

    async def defining(
        self, domain: DomainId, resource: ResourceName, *, definitions: ResourceName
    ) -> TenantName | None:
        """Returns a tenant of the domain that serves a resource which is not built in."""
        rows = await self._pool.fetch(DEFINING, {"domain": domain, "resource": resource, "definitions": definitions})
        return TenantName(rows[0][0]) if rows else None

    async def clean(self) -> None:
        await self._pool.execute(CLEAN, {})
