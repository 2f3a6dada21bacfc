"""Resolves the tenant of a request, the administrators above it, and the initial namespaces of tenants.

A bare path refers to the identity's own tenant, `default` for the administrator; `/clusters/<tenant>` names another,
and so does a host name if a pattern is configured. An unknown tenant is a 404 without further details.
"""

from __future__ import annotations

import re
from typing import Final

from registry.authentication.user import User
from registry.store.errors import TenantExists, TenantNotFound
from registry.store.store import Store
from registry.store.types import Tenant, TenantName

DEFAULT = TenantName("default")
# The tenant in which tenants are objects.
SYSTEM = TenantName("system")
# Every cluster has these; clients expect `default`, leases are in kube-node-lease.
INITIAL_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
# The maximum depth of the tree (registry/store/sql/tenancy.sql); a longer chain was changed while it was read.
_MAX_DEPTH: Final = 16


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
        if home is None or not user.is_administrator:
            return False
        above = tenant.attributes.get("parent")
        for _ in range(_MAX_DEPTH):
            if not above:
                return False
            if above == home:
                return True
            try:
                above = (await self._store.tenant(TenantName(above))).attributes.get("parent")
            except TenantNotFound:
                return False
        return False

    async def ensure(self, name: TenantName) -> Tenant:
        """The tenant with this name, created if it does not exist."""
        try:
            return await self._store.create_tenant(name)
        except TenantExists:
            return await self._store.tenant(name)
