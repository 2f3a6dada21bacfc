"""Removes deleted tenants: all that they have is removed in steps, and finally the tenant object.

The write that deleted the tenant has hidden it: no client can read or write it, so nothing is added meanwhile, and
finalizers of its objects are ignored. A tenant deleted with a grace period is kept for that long, and checked by each
sweep. Each step is a short transaction; another process continues what a crashed one has left. The status shows the
progress.
"""

from __future__ import annotations

import asyncio
from typing import Final

from registry.api.decoding import metadata_of
from registry.api.served import Object
from registry.api.strategies.tenant import FINALIZER
from registry.api.verbs.update import without_finalizer
from registry.builtin.tenancy import GROUP, PLURAL, SYSTEM
from registry.controllers.controller_client import ControllerClient
from registry.store.tenants import TerminatingTenant
from registry.store.types import ObjectKey, ResourceName, TenantName

TENANTS: Final = ResourceName(f"{PLURAL}.{GROUP}")
# How often the status is updated during a removal.
TELL_SECONDS: Final = 1.0
# After each step the database is left to others for as long as the step took, at most this long.
LONGEST_PAUSE_SECONDS: Final = 0.25


async def reconcile(client: ControllerClient, key: ObjectKey) -> None:
    """Removes a tenant that has been deleted."""
    if client.tenant.name != SYSTEM:
        return
    store = client.backend.store
    row, _ = await store.load(client.tenant, TENANTS, key)
    if row is None or '"deletionTimestamp"' not in row.body:
        return
    metadata = await metadata_of(row.body)
    if not metadata.get("deletionTimestamp") or FINALIZER not in (metadata.get("finalizers") or ()):
        return
    terminating = await store.tenancy.find_terminating(TenantName(key))
    if terminating is not None and not terminating.is_due:
        return
    if terminating is not None:
        await _remove(client, key, terminating)
    await client.change(
        GROUP, PLURAL, key, lambda old: {**old, "metadata": without_finalizer(old["metadata"], FINALIZER)}
    )


async def _remove(client: ControllerClient, key: ObjectKey, terminating: TerminatingTenant) -> None:
    clock = asyncio.get_running_loop().time
    store = client.backend.store
    reported = clock()
    await _update_status(client, key, terminating.objects)
    while True:
        started = clock()
        if not await store.tenancy.remove_next_rows(terminating):
            return
        ended = clock()
        await asyncio.sleep(min(ended - started, LONGEST_PAUSE_SECONDS))
        if ended - reported >= TELL_SECONDS:
            left = await store.tenancy.find_terminating(TenantName(key))
            await _update_status(client, key, left.objects if left is not None else 0)
            reported = ended


async def _update_status(client: ControllerClient, key: ObjectKey, remaining: int) -> None:
    def status_of(old: Object) -> Object:
        status = old.get("status") or {}
        total = (status.get("deletion") or {}).get("totalObjects", remaining)
        return {**status, "deletion": {"totalObjects": total, "remainingObjects": remaining}}

    await client.change_status(GROUP, PLURAL, key, status_of)
