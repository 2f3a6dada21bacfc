"""Writes of the server itself to a tenant's built-in objects, past policies, webhooks and limits."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable

from registry.api.catalog import TenantCatalog
from registry.api.options import WriteOptions
from registry.api.request import Backend, ResourceRequest
from registry.api.served import Object
from registry.api.strategies.base import Context
from registry.api.verbs.create import create_object
from registry.api.verbs.driver import run, run_current
from registry.api.verbs.update import UpdateOperation
from registry.authentication.user import SERVER, SERVER_MANAGER
from registry.store.types import Tenant

ServerWrite = Callable[[ResourceRequest], Awaitable[object]]


def creating(obj: Object) -> ServerWrite:
    """Returns the write that creates `obj`, which is not changed."""

    def create(request: ResourceRequest) -> Awaitable[object]:
        return create_object(request, copy.deepcopy(obj), WriteOptions(), SERVER_MANAGER, "create")

    return create


def updating(make: Callable[[Object], Object]) -> ServerWrite:
    """Returns the write that updates an object to what `make` returns for it."""
    return lambda request: run(request, UpdateOperation(lambda _, old: make(old), "update", SERVER_MANAGER))


async def write_as_server(
    backend: Backend, tenant: Tenant, resource: tuple[str, str], key: str, write: ServerWrite, subresource: str = ""
) -> None:
    """Runs `write` on an object of a built-in resource, given as its group and plural.

    `key` is "default/a", or "default/" for a create; "a", or "", of a cluster-scoped resource. Raises StatusError.
    """
    namespace, _, name = key.rpartition("/")

    def address(catalog: TenantCatalog, context: Context) -> ResourceRequest:
        served = catalog.served(resource[0], "v1", resource[1])
        assert served is not None, "it is built in"
        served = served.part(subresource) if subresource else served
        return ResourceRequest(backend, context, catalog.without_admission(), served, namespace, name, subresource, {})

    context = Context(tenant, SERVER, SERVER_MANAGER, by_server=True)
    await run_current(backend, await backend.catalogs.get(tenant), context, address, write)
