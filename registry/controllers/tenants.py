"""Removes deleted tenants: all that they have is removed in steps, and finally the tenant object.

The write that deleted the tenant has hidden it: nobody can read or write it, so nothing is added meanwhile, and
finalizers of its objects are ignored. A tenant deleted with a grace period is kept for that long, and checked by each
sweep. Each step is a short transaction; another process continues what a crashed one has left. The status shows the
progress.
"""

from __future__ import annotations

import asyncio
from typing import Final

from registry.api.served import Object
from registry.api.strategies.tenant import FINALIZER
from registry.api.verbs.update import copy_of
from registry.builtin.tenancy import GROUP, PLURAL, SYSTEM
from registry.codec.stored import decode_stored
from registry.controllers.controller_client import ControllerClient
from registry.store.tenants import TerminatingTenant
from registry.store.types import ObjectKey, ResourceName, TenantName

TENANTS: Final = ResourceName(f"{PLURAL}.{GROUP}")
# How often the status is updated during a removal.
TELL_SECONDS: Final = 1.0
# After each step the database is left to others for as long as the step took, at most this long.
LONGEST_PAUSE_SECONDS: Final = 0.25


async def reconcile(controlled: ControllerClient, key: ObjectKey) -> None:
    """Removes a tenant that has been deleted."""
    if controlled.tenant.name != SYSTEM:
        return
    store = controlled.backend.store
    row, _ = await store.load(controlled.tenant, TENANTS, key)
    if row is None or '"deletionTimestamp"' not in row.body:
        return
    metadata = decode_stored('{"metadata":{' + row.body)["metadata"]
    if not metadata.get("deletionTimestamp") or FINALIZER not in (metadata.get("finalizers") or ()):
        return
    ending = await store.terminating_tenant(TenantName(key))
    if ending is not None and not ending.is_due:
        return
    if ending is not None:
        await _remove(controlled, key, ending)
    await controlled.change(GROUP, PLURAL, key, _without_finalizer)


async def _remove(controlled: ControllerClient, key: ObjectKey, ending: TerminatingTenant) -> None:
    clock = asyncio.get_running_loop().time
    store = controlled.backend.store
    reported = clock()
    await _update_status(controlled, key, ending.objects)
    while True:
        started = clock()
        if not await store.remove_next_rows(ending):
            return
        ended = clock()
        await asyncio.sleep(min(ended - started, LONGEST_PAUSE_SECONDS))
        if ended - reported >= TELL_SECONDS:
            left = await store.terminating_tenant(TenantName(key))
            await _update_status(controlled, key, left.objects if left is not None else 0)
            reported = ended


async def _update_status(controlled: ControllerClient, key: ObjectKey, remaining: int) -> None:
    def update(old: Object) -> Object:
        status = dict(old.get("status") or {})
        before = status.get("deletion") or {}
        status["deletion"] = {"totalObjects": before.get("totalObjects", remaining), "remainingObjects": remaining}
        return {**copy_of(old), "status": status}

    await controlled.change(GROUP, PLURAL, key, update, subresource="status")


def _without_finalizer(old: Object) -> Object:
    new = copy_of(old)
    left = [f for f in new["metadata"].get("finalizers") or () if f != FINALIZER]
    if left:
        new["metadata"]["finalizers"] = left
    else:
        new["metadata"].pop("finalizers", None)
    return new
