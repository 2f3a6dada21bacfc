"""The initial contents of every tenant, and the tenants that always exist.

All of it can be done by several processes at once, and again at each start.
"""

from __future__ import annotations

import asyncio
from functools import partial

from registry.api.admission.namespace_lifecycle import NAMESPACES
from registry.api.errors import StatusError
from registry.api.request import Backend
from registry.api.served import Object
from registry.api.server_writes import creating, write_as_server
from registry.api.singleflight import share
from registry.api.strategies.namespace import NAME_LABEL
from registry.authorization.tenants import DEFAULT, INITIAL_NAMESPACES, SYSTEM, TenantDirectory
from registry.builtin.tenancy import GROUP, PLURAL
from registry.store.types import ObjectKey, ResourceName, Tenant, TenantId


async def bootstrap(backend: Backend, tenants: TenantDirectory) -> None:
    """Creates the tenants that always exist, as objects too, with their initial namespaces."""
    for name in (SYSTEM, DEFAULT):
        await create_defaults(backend, await tenants.ensure(name))
    system = await tenants.ensure(SYSTEM)
    for name in (SYSTEM, DEFAULT):
        await _ensure(
            backend,
            system,
            GROUP,
            PLURAL,
            {"apiVersion": f"{GROUP}/v1", "kind": "Tenant", "metadata": {"name": str(name)}, "spec": {}},
        )


async def create_defaults(backend: Backend, tenant: Tenant) -> None:
    """Creates missing initial namespaces."""
    await asyncio.gather(*(_ensure(backend, tenant, "", NAMESPACES, _namespace(name)) for name in INITIAL_NAMESPACES))


def _namespace(name: str) -> Object:
    # With the label from the beginning, so that the server owns it, as the one that the namespace's strategy adds
    # belongs to nobody.
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {NAME_LABEL: name}}}


class TenantBootstrapper:
    """Creates the initial contents of a tenant at its first request: until then it costs no more than its row."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._under_way: dict[TenantId, asyncio.Future[None]] = {}

    async def ensure(self, tenant: Tenant) -> None:
        """Returns at once for a tenant that has had a request before."""
        attributes = tenant.attributes
        if "server" in attributes or tenant.name in (SYSTEM, DEFAULT):
            return
        await share(self._under_way, tenant.id, partial(self._create_defaults, tenant))

    async def _create_defaults(self, tenant: Tenant) -> None:
        store = self._backend.store
        # This process's cached tenant may be older than what another has done.
        if "server" in (await store.tenancy.reload(tenant.name)).attributes:
            return
        await create_defaults(self._backend, tenant)
        await store.tenancy.note(tenant, {"furnished": True})


async def _ensure(backend: Backend, tenant: Tenant, group: str, plural: str, wanted: Object) -> None:
    resource = ResourceName(f"{plural}.{group}" if group else plural)
    row, _ = await backend.store.load(tenant, resource, ObjectKey(wanted["metadata"]["name"]))
    if row is not None:
        return
    try:
        await write_as_server(backend, tenant, (group, plural), "", creating(wanted))
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise
