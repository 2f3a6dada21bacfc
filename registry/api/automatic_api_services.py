"""Writes the APIServices of locally served groups into a tenant, when its APIServices are first requested.

Until then a tenant stores none, as it stores no default roles (default_roles.py). From then on they follow its
definitions: a process writes missing ones before it answers a request for them, and after each write of a
definition.

Follows kube-aggregator pkg/controllers/{autoregister,status/local}.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from typing import Any, Final

from registry.aggregation.automatic import LABEL, APIServiceChanges, changes, desired
from registry.aggregation.model import AVAILABLE, GROUP, PLURAL
from registry.api.api_services import API_SERVICES
from registry.api.catalog import TenantCatalog
from registry.api.errors import StatusError
from registry.api.options import DeleteOptions, WriteOptions
from registry.api.request import Backend, ResourceRequest
from registry.api.strategies.apiservice import is_remote, local_status
from registry.api.strategies.base import Context, Object
from registry.api.verbs.create import create_object
from registry.api.verbs.delete import DeleteOperation
from registry.api.verbs.driver import run, run_current
from registry.api.verbs.update import UpdateOperation, copy_of
from registry.authentication.user import ADMINISTRATORS, AUTHENTICATED, User
from registry.codec.stored import decode_stored
from registry.definitions.conditions import find
from registry.store.types import Tenant

_SERVER: Final = User("system:apiserver", (ADMINISTRATORS, AUTHENTICATED))
_MANAGER: Final = "kube-apiserver"
_Write = Callable[[ResourceRequest], Awaitable[object]]


async def ensure_api_services(backend: Backend, tenant: Tenant) -> None:
    """Writes the APIServices of the present definitions, before a request for them."""
    catalog = await backend.catalogs.current(tenant)
    if backend.api_services.serials.get(tenant.id) != catalog.serial:
        await write_api_services(backend, tenant)


async def follow_definitions(backend: Backend, tenant: Tenant) -> None:
    """Updates APIServices after a write of a definition or an APIService, if the tenant stores any."""
    if (
        backend.api_services.serials.get(tenant.id) is not None
        or (await backend.store.page(tenant, API_SERVICES, limit=1)).rows
    ):
        await write_api_services(backend, tenant)


async def write_api_services(backend: Backend, tenant: Tenant) -> None:
    """Creates, updates and deletes APIServices. The first time in this process counts as its start."""
    locks = backend.api_services.locks
    lock = locks.setdefault(tenant.id, asyncio.Lock())
    try:
        async with lock:
            catalog = await backend.catalogs.current(tenant)
            stored = await _load_stored(backend, tenant)
            at_start = backend.api_services.serials.get(tenant.id) is None
            await _apply(backend, tenant, changes(desired(catalog.definitions()), stored, at_start=at_start))
            await _correct_conditions(backend, tenant, stored)
            backend.api_services.serials.put(tenant.id, catalog.serial)
    finally:
        if not lock.locked():
            locks.pop(tenant.id, None)


async def _load_stored(backend: Backend, tenant: Tenant) -> dict[str, Object]:
    stored: dict[str, Object] = {}
    async for page in backend.store.scan(tenant, API_SERVICES):
        for row in page.rows:
            stored[row.key] = decode_stored('{"metadata":{' + row.body)
    return stored


async def _apply(backend: Backend, tenant: Tenant, difference: APIServiceChanges) -> None:
    """Writes concurrently: the store combines the writes into few transactions."""
    await asyncio.gather(
        *(_write(backend, tenant, "", _creating(obj)) for obj in difference.create),
        *(_write(backend, tenant, name, _updating(obj)) for name, obj in difference.update.items()),
        *(_write(backend, tenant, name, _delete) for name in difference.delete),
    )


def _creating(obj: dict[str, Any]) -> _Write:
    async def create(request: ResourceRequest) -> None:
        await create_object(request, copy.deepcopy(obj), WriteOptions(), _MANAGER, "create")

    return create


def _updating(obj: dict[str, Any]) -> _Write:
    def make(_: ResourceRequest, old: Object) -> Object:
        labels = {**(old["metadata"].get("labels") or {}), LABEL: obj["metadata"]["labels"][LABEL]}
        new = copy_of(old)
        return {**new, "metadata": {**new["metadata"], "labels": labels}, "spec": copy.deepcopy(obj["spec"])}

    return lambda request: run(request, UpdateOperation(make, "update", _MANAGER))


async def _delete(request: ResourceRequest) -> None:
    await run(request, DeleteOperation(DeleteOptions()))


async def _correct_conditions(backend: Backend, tenant: Tenant, stored: dict[str, Object]) -> None:
    """Marks APIServices available that no longer have a service."""
    for name, obj in stored.items():
        if not is_remote(obj) and (find(obj, AVAILABLE) or {}).get("reason") != "Local":
            await _write(backend, tenant, name, _with_local_status, subresource="status")


async def _with_local_status(request: ResourceRequest) -> None:
    def make(_: ResourceRequest, old: Object) -> Object:
        return copy_of(old) if is_remote(old) else {**copy_of(old), "status": local_status(old.get("status") or {})}

    await run(request, UpdateOperation(make, "update", _MANAGER))


async def _write(backend: Backend, tenant: Tenant, name: str, write: _Write, subresource: str = "") -> None:
    def address(catalog: TenantCatalog, context: Context) -> ResourceRequest:
        served = catalog.served(GROUP, "v1", PLURAL)
        assert served is not None, "it is built in"
        served = served.part(subresource) if subresource else served
        return ResourceRequest(backend, context, catalog.without_admission(), served, "", name, subresource, {})

    context = Context(tenant, _SERVER, _MANAGER, by_server=True)
    try:
        await run_current(backend, await backend.catalogs.get(tenant), context, address, write)
    except StatusError as error:
        if error.code not in (404, 409):  # another process was first
            raise
