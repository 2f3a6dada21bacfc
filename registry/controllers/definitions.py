"""The life of a definition after its write: names, establishment, and the end of its objects.

Every step is a write of its own, so that watchers see them in kube-apiserver's order, and each can be repeated: a
process that dies in between leaves what the next one goes on with.

Follows apiextensions-apiserver pkg/controller/{status,establish,finalizer}.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from typing import Any

from registry.api.catalog import DEFINITIONS
from registry.api.options import DeleteOptions
from registry.api.served import Object
from registry.controllers.controller_client import ControllerClient
from registry.controllers.queue import Requeue
from registry.definitions import naming, strategy
from registry.definitions.compiled import compile_definition
from registry.definitions.conditions import is_true
from registry.store.types import ObjectKey

_GROUP, _PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"
# The lock under which names are accepted; no definition has an empty name.
_ALL = ObjectKey("")


async def reconcile(controlled: ControllerClient, key: ObjectKey) -> None:
    """Reconciles one definition. Raises Requeue while finalizers hold its objects."""
    crd = await _load(controlled, key)
    if crd is None:
        await _release_names(controlled, None)
        return
    accepted = (crd.get("status") or {}).get("acceptedNames")
    # One at a time in a tenant: the names that one accepts decide about the next.
    async with controlled.backend.locks.lock((controlled.tenant.id, DEFINITIONS, _ALL)):
        crd = await _accept_names(controlled, key, crd)
    if crd is not None and (crd.get("status") or {}).get("acceptedNames") != accepted:
        await _release_names(controlled, crd)
    if crd is not None and strategy.awaits_cleanup(crd):
        await _clean_up(controlled, key, crd)


async def _load(controlled: ControllerClient, key: ObjectKey) -> Object | None:
    # Definitions of definitions are built in: any catalog has them.
    catalog = await controlled.cached_catalog()
    row, _ = await controlled.backend.store.load(controlled.tenant, DEFINITIONS, key)
    definition = catalog.definition(_GROUP, _PLURAL)
    assert definition is not None
    return None if row is None else catalog.at_version(definition, definition.versions["v1"]).object(row)


async def _accept_names(controlled: ControllerClient, key: ObjectKey, crd: Object) -> Object | None:
    while True:
        await controlled.catalog()
        if _next_status(controlled, crd) is None:
            return crd
        changed = await _write(controlled, key, partial(_with_next_status, controlled))
        if changed is None:
            return None
        crd = changed


def _next_status(controlled: ControllerClient, crd: Object) -> Any:
    """Uses this process's cached definitions, at least as new as the snapshot that the commit is checked against.

    Computed again for each attempt. An attempt that fails since another process has accepted a name is followed by one
    that knows of it.
    """
    catalog = controlled.backend.catalogs.cached(controlled.tenant)
    if catalog is None:
        raise Requeue  # dropped meanwhile, for so many tenants are in use
    return naming.next_status(crd, catalog.namings(), _now())


def _with_next_status(controlled: ControllerClient, old: Object) -> Object:
    status = _next_status(controlled, old)
    return old if status is None else {**old, "metadata": dict(old["metadata"]), "status": status}


async def _write(controlled: ControllerClient, key: ObjectKey, make: Callable[[Object], Object]) -> Object | None:
    return await controlled.change(_GROUP, _PLURAL, key, lambda old: _copy(make(old)), subresource="status")


def _copy(obj: Object) -> Object:
    return {**obj, "metadata": dict(obj["metadata"])}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _release_names(controlled: ControllerClient, changed: Object | None) -> None:
    """Looks again at the definitions that wait for a name, now that one may be free."""
    catalog = await controlled.catalog()
    for key, entry in catalog.entries.items():
        if entry.waits_for_names and (changed is None or changed["metadata"]["name"] != key):
            controlled.backend.enqueue(controlled.tenant, DEFINITIONS, key)


async def _clean_up(controlled: ControllerClient, key: ObjectKey, crd: Object) -> None:
    if is_true(crd, "Established"):
        begun = await _write(controlled, key, lambda old: strategy.begin_cleanup(old, _now()))
        if begun is None:
            return
        if await _delete_objects(controlled, begun):
            raise Requeue
    await _write(controlled, key, lambda old: strategy.finish_cleanup(old, _now()))
    await _release_names(controlled, None)


async def _delete_objects(controlled: ControllerClient, crd: Object) -> int:
    """Deletes every object of the definition; the number of those that stay because of their finalizers."""
    definition = compile_definition(crd)
    catalog = await controlled.catalog()
    served = catalog.at_version(definition, definition.versions[definition.storage_version])
    await controlled.delete_all(served, DeleteOptions())
    return await controlled.backend.store.count(controlled.tenant, served.resource_name)
