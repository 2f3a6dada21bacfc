"""Resolves the tenant of a request, or those that it covers, the administrators above it, and the initial namespaces.

A bare path refers to the identity's own tenant, `default` for the administrator; `/clusters/<tenant>` names another,
and so does a host name if a pattern is configured. An unknown tenant is a 404 without further details.

    /clusters/*        the tenants of the revision domain of the identity's own tenant
    /clusters/*.shop   those of the domain that tenants share by the name `shop` (Tenant, spec.domain)

At these an identity of a tenant is a provider: it sees the objects of its tenant's exports in the tenants that have
bound them. Identities of the platform, and of the tenant `system`, see everything, by the rules of the tenant `system`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from registry.authentication.user import User
from registry.store.errors import TenantExists, TenantNotFound
from registry.store.store import Store
from registry.store.types import DomainId, Tenant, TenantName

DEFAULT = TenantName("default")
# The tenant in which tenants are objects.
SYSTEM = TenantName("system")
# Every cluster has these; clients expect `default`, leases are in kube-node-lease.
INITIAL_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
# The maximum depth of the tree (registry/store/sql/tenancy.sql); a longer chain was changed while it was read.
_MAX_DEPTH: Final = 16

# The subresource that is authorized in addition to the verb: `widgets/across`.
SUBRESOURCE: Final = "across"


class TenantDirectory:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def tenant_of(self, user: User, name: str) -> Tenant:
        """The tenant of a request; `name` is empty for a bare path. Raises TenantNotFound."""
        wanted = name or user.tenant or DEFAULT
        # Invalid names are not looked up.
        if _LABEL.fullmatch(wanted) is None:
            raise TenantNotFound("the tenant does not exist")
        return await self._store.tenant(TenantName(wanted))

    async def administers(self, user: User, tenant: Tenant) -> bool:
        """Whether the user administers an ancestor of this tenant, and therefore this tenant.

        May be some seconds old, like everything that a process knows about tenants.
        """
        home = user.tenant
        return home is not None and user.is_administrator and await is_below(tenant, home, self._store.tenant)

    async def ensure(self, name: TenantName) -> Tenant:
        """The tenant with this name, created if it does not exist."""
        try:
            return await self._store.create_tenant(name)
        except TenantExists:
            return await self._store.tenant(name)


async def is_below(tenant: Tenant, name: str, load: Callable[[TenantName], Awaitable[Tenant]]) -> bool:
    """Whether the tenant `name` is an ancestor of this one; `load` loads those in between."""
    above = tenant.attributes.get("parent")
    for _ in range(_MAX_DEPTH):
        if not above or above == name:
            return bool(above)
        try:
            above = (await load(TenantName(above))).attributes.get("parent")
        except TenantNotFound:
            return False
    return False


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
