"""Requests for several tenants at /clusters/*: authorization, and the tenants that they cover.

    /clusters/*        the tenants of the revision domain of the identity's own tenant
    /clusters/*.shop   those of the domain that tenants share by the name `shop` (Tenant, spec.domain)

An identity of a tenant is a provider: it sees the objects of its tenant's exports in the tenants that have bound them.
Identities of the platform, and of the tenant `system`, see everything, by the rules of the tenant `system`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from registry.authentication.user import User
from registry.authorization.tenants import DEFAULT, SYSTEM, TenantDirectory
from registry.store.errors import TenantNotFound
from registry.store.store import Store
from registry.store.types import DomainId, Tenant

# The subresource that is authorized in addition to the verb: `widgets/across`.
SUBRESOURCE: Final = "across"


@dataclass(frozen=True, slots=True)
class WildcardScope:
    """The tenants of a request: those of a domain that have bound exports of `provider`; all of them if it is None."""

    domain: DomainId
    provider: Tenant | None


class WildcardTarget(NamedTuple):
    """`authorizing` is the tenant whose roles decide, `lead` the one whose discovery is served."""

    scope: WildcardScope
    authorizing: Tenant
    lead: Tenant


def is_wildcard(tenant: str) -> bool:
    return tenant == "*" or tenant.startswith("*.")


async def resolve_wildcard(tenants: TenantDirectory, store: Store, user: User, named: str) -> WildcardTarget:
    """Resolves "*" or "*.<domain>". Raises TenantNotFound."""
    domain_name = named[2:]
    of_platform = user.tenant is None or user.tenant == SYSTEM
    home = await tenants.tenant_of(user, user.tenant or DEFAULT)
    domain, lead = home.domain, home
    if domain_name:
        entry = await store.sharing.domain_named(domain_name, None if of_platform else home)
        if entry is None:
            raise TenantNotFound("there are no such tenants")
        domain = entry[0]
        if of_platform:
            lead = await tenants.tenant_of(user, entry[1])
    authorizing = await tenants.tenant_of(user, SYSTEM) if of_platform else home
    return WildcardTarget(WildcardScope(domain, None if of_platform else home), authorizing, lead)
