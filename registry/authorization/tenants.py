"""Which tenant a request is for, who governs it, and what every tenant is born with.

A bare path is the identity's own tenant, `default` for the administrator; `/clusters/<tenant>` names another, and so
does a host name where a pattern is set. A tenant that does not exist is a 404 that says no more than that.
"""

from __future__ import annotations

import re
from typing import Final

from registry.authentication.user import User
from registry.store.errors import TenantExists, TenantNotFound
from registry.store.store import Store
from registry.store.types import Tenant, TenantName

DEFAULT = TenantName("default")
# Where tenants themselves are objects.
SYSTEM = TenantName("system")
# Every cluster has them; clients expect `default`, leases live in kube-node-lease.
INITIAL_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
# The tree is no deeper (registry/store/sql/tenancy.sql); a chain that is longer has been changed while it was read.
_MAX_DEPTH: Final = 16


class Tenants:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def tenant_of(self, user: User, name: str) -> Tenant:
        """The tenant of a request; `name` is empty for a bare path. Raises TenantNotFound."""
        wanted = name or user.tenant or DEFAULT
        # What cannot be a name is not looked for.
        if _LABEL.fullmatch(wanted) is None:
            raise TenantNotFound("the tenant does not exist")
        return await self._store.tenant(TenantName(wanted))

    async def governs(self, user: User, tenant: Tenant) -> bool:
        """Whether the user administers a tenant above this one, and so this one too.

        As of the last seconds, as everything that a process knows of tenants.
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
        """The tenant of this name, made if it is not there."""
        try:
            return await self._store.create_tenant(name)
        except TenantExists:
            return await self._store.tenant(name)
