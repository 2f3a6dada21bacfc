"""Writes the APIServices of locally served groups into a tenant, when its APIServices are first requested.

Until then a tenant stores none, as it stores no default roles (default_roles.py). From then on they follow its
definitions: a process writes missing ones before it answers a request for them, and after each write of a
definition.

Follows kube-aggregator pkg/controllers/{autoregister,status/local} and kubernetes
pkg/controlplane/controller/crdregistration.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from itertools import islice
from typing import Final

from registry.aggregation.automatic import (
    ALWAYS,
    LABEL,
    ON_START,
    APIServiceChanges,
    ReconciledServices,
    changes,
    desired,
)
from registry.aggregation.model import AVAILABLE, GROUP, PLURAL
from registry.api.api_services import API_SERVICES
from registry.api.catalog import TenantCatalog
from registry.api.errors import StatusError
from registry.api.options import DeleteOptions
from registry.api.request import Backend, ResourceRequest
from registry.api.server_writes import ServerWrite, creating, updating, write_as_server
from registry.api.strategies.apiservice import is_remote, local_status
from registry.api.strategies.base import Object
from registry.api.verbs.delete import DeleteOperation
from registry.api.verbs.driver import run
from registry.api.verbs.update import copy_of
from registry.codec.stored import decode_stored
from registry.definitions.conditions import find
from registry.flowcontrol.evaluation import LARGE_BYTES, shared_aside
from registry.store.errors import RevisionExpired
from registry.store.types import ObjectKey, Requirement, SelectorOperator, Tenant

_ARE_AUTOMATIC: Final = Requirement(LABEL, SelectorOperator.IN, (ON_START, ALWAYS))
# APIServices that are read one by one, in one query.
_AT_A_TIME: Final = 32
# APIServices by name; None where there is none.
_Stored = dict[ObjectKey, Object | None]


async def ensure_api_services(backend: Backend, tenant: Tenant) -> None:
    """Writes the APIServices of the present definitions, before a request for them."""
    catalog = await backend.catalogs.current(tenant)
    known = backend.api_services.reconciled.get(tenant.id)
    if known is None or known.definitions_serial != catalog.definitions_serial:
        await write_api_services(backend, tenant)


async def follow_definitions(backend: Backend, tenant: Tenant) -> None:
    """Updates APIServices after a write of a definition or an APIService, if the tenant stores any."""
    if (
        backend.api_services.reconciled.get(tenant.id) is not None
        or (await backend.store.page(tenant, API_SERVICES, limit=1)).rows
    ):
        await write_api_services(backend, tenant)


async def write_api_services(backend: Backend, tenant: Tenant) -> None:
    """Creates, updates and deletes APIServices. The first time in this process counts as its start: all are read then,
    later only those that have changed and, when definitions have, the automatic ones."""
    async with backend.api_services.locks.setdefault(tenant.id, asyncio.Lock()):
        catalog = await backend.catalogs.current(tenant)
        known = backend.api_services.reconciled.get(tenant.id)
        revision = (await backend.store.state(tenant)).revision
        wanted = desired(catalog.definitions())
        try:
            async for stored in _load_due(backend, tenant, catalog, known, revision, wanted):
                await _reconcile(backend, tenant, stored, wanted, at_start=known is None)
        except RevisionExpired:  # unused for longer than the change log reaches back
            async for stored in _load_all(backend, tenant, wanted):
                await _reconcile(backend, tenant, stored, wanted, at_start=known is None)
        backend.api_services.reconciled.put(tenant.id, ReconciledServices(catalog.definitions_serial, revision))


async def _load_due(
    backend: Backend,
    tenant: Tenant,
    catalog: TenantCatalog,
    known: ReconciledServices | None,
    revision: int,
    wanted: Mapping[str, Object],
) -> AsyncIterator[_Stored]:
    """Yields what may have to be written, a part at a time. Raises RevisionExpired."""
    if known is None:
        async for stored in _load_all(backend, tenant, wanted):
            yield stored
        return
    changed: set[ObjectKey] = set()
    async for some in backend.store.changes(tenant, API_SERVICES, after=known.revision, upto=revision):
        changed.update(change.key for change in some)
    async for stored in _load_named(backend, tenant, changed):
        yield stored
    if known.definitions_serial != catalog.definitions_serial:
        async for stored in _load_all(backend, tenant, wanted, (_ARE_AUTOMATIC,)):
            yield stored


async def _load_all(
    backend: Backend, tenant: Tenant, wanted: Iterable[str], selected: Sequence[Requirement] = ()
) -> AsyncIterator[_Stored]:
    """Yields the selected APIServices, then the other wanted ones."""
    others = {ObjectKey(name) for name in wanted}
    async with aclosing(backend.store.scan(tenant, API_SERVICES, requirements=selected)) as pages:
        async for page in pages:
            yield await _decoded({row.key: row.body for row in page.rows})
            others.difference_update(row.key for row in page.rows)
    async for stored in _load_named(backend, tenant, others):
        yield stored


async def _load_named(backend: Backend, tenant: Tenant, names: Iterable[ObjectKey]) -> AsyncIterator[_Stored]:
    left = iter(sorted(names))
    while some := list(islice(left, _AT_A_TIME)):
        rows = await asyncio.gather(*(backend.store.load(tenant, API_SERVICES, name) for name in some))
        bodies = {name: None if row is None else row.body for name, (row, _) in zip(some, rows, strict=True)}
        yield await _decoded(bodies)


async def _decoded(bodies: Mapping[ObjectKey, str | None]) -> _Stored:
    def decode() -> _Stored:
        return {name: decode_stored('{"metadata":{' + body) if body else None for name, body in bodies.items()}

    large = sum(len(body) for body in bodies.values() if body) > LARGE_BYTES
    return await shared_aside(decode) if large else decode()


async def _reconcile(
    backend: Backend, tenant: Tenant, found: _Stored, wanted: Mapping[str, Object], *, at_start: bool
) -> None:
    of_these: dict[str, Object] = {name: wanted[name] for name in found if name in wanted}
    stored: dict[str, Object] = {name: obj for name, obj in found.items() if obj is not None}
    await _apply(backend, tenant, changes(of_these, stored, at_start=at_start))
    await _correct_conditions(backend, tenant, stored)


async def _apply(backend: Backend, tenant: Tenant, difference: APIServiceChanges) -> None:
    """Writes concurrently: the store combines the writes into few transactions."""
    await asyncio.gather(
        *(_write(backend, tenant, "", creating(obj)) for obj in difference.create),
        *(_write(backend, tenant, name, updating(_like(obj))) for name, obj in difference.update.items()),
        *(_write(backend, tenant, name, _delete) for name in difference.delete),
    )


def _like(obj: Object) -> Callable[[Object], Object]:
    def make(old: Object) -> Object:
        labels = {**(old["metadata"].get("labels") or {}), LABEL: obj["metadata"]["labels"][LABEL]}
        new = copy_of(old)
        return {**new, "metadata": {**new["metadata"], "labels": labels}, "spec": copy.deepcopy(obj["spec"])}

    return make


async def _delete(request: ResourceRequest) -> None:
    await run(request, DeleteOperation(DeleteOptions()))


async def _correct_conditions(backend: Backend, tenant: Tenant, stored: Mapping[str, Object]) -> None:
    """Marks APIServices available that no longer have a service."""
    for name, obj in stored.items():
        if not is_remote(obj) and (find(obj, AVAILABLE) or {}).get("reason") != "Local":
            await _write(backend, tenant, name, updating(_with_local_status), "status")


def _with_local_status(old: Object) -> Object:
    return copy_of(old) if is_remote(old) else {**copy_of(old), "status": local_status(old.get("status") or {})}


async def _write(backend: Backend, tenant: Tenant, name: str, write: ServerWrite, subresource: str = "") -> None:
    try:
        await write_as_server(backend, tenant, (GROUP, PLURAL), name, write, subresource)
    except StatusError as error:
        if error.code not in (404, 409):  # another process was first
            raise
