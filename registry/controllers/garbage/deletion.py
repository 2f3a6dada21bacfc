"""Handles one object because of its owners or its dependents, as kube-controller-manager does.

An object whose owners are all absent is deleted; one with a live owner loses its references to the others. An owner in
foreground deletion waits until no dependent blocks it; one that orphans is released when no object refers to it any
more. Each function acts on the current state, so it can be repeated at any time.

Follows kubernetes pkg/controller/garbagecollector/garbagecollector.go (attemptToDeleteItem, attemptToOrphanWorker).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from registry.api.catalog import TenantCatalog
from registry.api.clock import age_seconds
from registry.api.decoding import metadata_of
from registry.api.dependents import FOREGROUND, ORPHAN, Reference
from registry.api.errors import StatusError
from registry.api.options import DeleteOptions, Preconditions
from registry.api.served import Object, Served
from registry.api.verbs.update import copy_of
from registry.controllers.controller_client import ControllerClient
from registry.controllers.events import report_invalid_namespace
from registry.controllers.garbage.absent_owner_cache import AbsentOwnerCache
from registry.controllers.garbage.references import is_defined, served_by_name, served_by_reference
from registry.controllers.queue import Requeue
from registry.controllers.work import Work, WorkScope
from registry.flowcontrol.time_slice import TimeSlice
from registry.store.reads.lookups import OwnerKey
from registry.store.types import ObjectKey, ResourceName, Row, Uid
from registry.tasks import BoundedTasks

# The minimum age of a definition before its objects are collected. kube-controller-manager discovers a new kind within
# half a minute; until then, objects applied together may name their owners in any order.
KNOWN_AFTER_SECONDS = 5.0

# Owners that are looked up in one query.
_LOOKED_UP_AT_ONCE: Final = 500
# Events about the owners of one object, as many as client-go sends in a burst (tools/record/events_cache.go).
_MAX_REPORTS: Final = 25

# Concurrent changes of dependents when an owner orphans them.
_CONCURRENT_CHANGES = 32


class FoundObject(NamedTuple):
    """An object, with the resource and the definitions by which it was found."""

    catalog: TenantCatalog
    served: Served
    row: Row
    metadata: Object

    @property
    def namespace(self) -> str:
        return self.metadata.get("namespace") or ""

    @property
    def finalizers(self) -> Sequence[str]:
        return self.metadata.get("finalizers") or ()


def _is_new(target: FoundObject) -> bool:
    """Returns whether the object's definition was only just created. Built-in kinds have always been known."""
    entry = target.catalog.entries.get(ObjectKey(target.served.definition.name))
    return entry is not None and bool(entry.created) and age_seconds(entry.created) < KNOWN_AFTER_SECONDS


class Garbage:
    """`spread` is called with each dependent to examine because its owner is deleted, `begin` with the owner."""

    def __init__(
        self,
        client: ControllerClient,
        absent: AbsentOwnerCache,
        spread: Callable[[Work], object],
        begin: Callable[[Work], None],
    ) -> None:
        self._controlled = client
        self._store = client.backend.store
        self._tenant = client.tenant
        self._absent = absent
        self._spread = spread
        self._begin = begin

    async def reconcile(self, work: Work, *, has_begun: bool = False) -> None:
        """Reconciles one object. `has_begun`: its dependents have been notified of the deletion before."""
        target = await self._find(work.resource, work.key)
        if target is None:
            return
        if target.metadata.get("deletionTimestamp"):
            if ORPHAN in target.finalizers:
                await self._orphan(target)
            elif FOREGROUND in target.finalizers:
                await self._delete_dependents(target, has_begun=has_begun)
        elif work.scope is not WorkScope.WAITING and target.metadata.get("ownerReferences"):
            await self._collect(target, work.scope)

    async def _find(self, resource: ResourceName, key: ObjectKey) -> FoundObject | None:
        """Returns the object; None if it is gone or nothing can be due for it."""
        row, state = await self._store.load(self._tenant, resource, key)
        # Before the catalog, which changes with each definition: the sweep finds thousands that are being established.
        if row is None or not ('"ownerReferences"' in row.body or '"deletionTimestamp"' in row.body):
            return None
        catalog = await self._controlled.cached_catalog()
        if state.guards.definitions != catalog.guards.definitions:
            catalog = await self._controlled.backend.catalogs.fresh(self._tenant, state.guards)
        served = served_by_name(catalog, resource)
        if served is None:
            return None
        return FoundObject(catalog, served, row, await metadata_of(row.body))

    # -- an object and its owners
    async def _collect(self, target: FoundObject, scope: WorkScope) -> None:
        if _is_new(target):
            raise Requeue
        owners = await self._classify(target)
        if owners is None or (scope is WorkScope.NEW_OWNERS and not owners.absent):
            return
        if owners.live:
            unneeded = {r["uid"] for r in (*owners.absent, *owners.waiting)}
            if unneeded:
                await self._drop_references(target.served, target.row.key, target.row.uid, unneeded)
            return
        policy = _policy_of(target.finalizers)
        if owners.waiting and await self._store.lookups.owned_by(self._tenant, [target.row.uid], limit=1):
            if await self._closes_a_circle(target):
                await self._unblock(target)
                raise Requeue
            policy = "Foreground"
        await self._delete(target, policy)

    async def _classify(self, target: FoundObject) -> Owners | None:
        """Returns None if unknown: an owner of an unknown kind, or of one that cannot own this object."""
        owners = Owners([], [], [])
        unknown: list[tuple[Reference, Served, OwnerKey]] = []
        slices = TimeSlice.current()
        for reference in target.metadata["ownerReferences"]:
            if slices.expired():
                await slices.yield_now()
            served = served_by_reference(target.catalog, reference)
            if served is None and is_defined(target.catalog, reference):
                return None  # a version that is not served says nothing about the owner, not even its absence
            if self._absent.knows(self._tenant, target.namespace, reference):
                owners.absent.append(reference)
                continue
            if served is None:
                return None
            owner = OwnerKey(
                served.resource_name,
                served.key(target.namespace, reference.get("name") or ""),
                Uid(reference.get("uid") or ""),
            )
            unknown.append((reference, served, owner))
            if served.namespaced and not target.namespace:
                await self._report(target, unknown[-1:])
                return None
        await self._look_up(target, unknown, owners)
        return owners

    async def _look_up(
        self, target: FoundObject, unknown: Sequence[tuple[Reference, Served, OwnerKey]], owners: Owners
    ) -> None:
        """Adds to `owners` the references whose owners have to be looked up, and reports those to other namespaces."""
        absent: list[tuple[Reference, Served, OwnerKey]] = []
        looked_up = 0
        while looked_up < len(unknown):
            some = unknown[looked_up : looked_up + _LOOKED_UP_AT_ONCE]
            page = await self._store.lookups.owners(self._tenant, [owner for _, _, owner in some])
            if page.definitions != target.catalog.guards.definitions:
                raise Requeue  # the definitions changed: check again whether the kind exists
            for one, (exists, body) in zip(some, page.found, strict=False):
                if not exists:
                    owners.absent.append(one[0])
                    if one[1].namespaced:
                        absent.append(one)
                elif '"deletionTimestamp"' in body and _deletes_dependents(await metadata_of(body)):
                    owners.waiting.append(one[0])
                else:
                    owners.live.append(one[0])
            looked_up += len(page.found)
        await self._report(target, absent)

    async def _report(self, target: FoundObject, absent: Sequence[tuple[Reference, Served, OwnerKey]]) -> None:
        """Reports by events the first of these owners that exist, but in a namespace where they cannot own this
        object."""
        left = _MAX_REPORTS
        for i in range(0, len(absent), _LOOKED_UP_AT_ONCE):
            some = absent[i : i + _LOOKED_UP_AT_ONCE]
            uids = [owner.uid for _, _, owner in some]
            existing = await self._store.lookups.keys_of_uids(self._tenant, uids, _LOOKED_UP_AT_ONCE)
            elsewhere = {(resource, key.rpartition("/")[2], uid) for resource, key, uid in existing}
            for reference, _, owner in some:
                if left and (owner.resource, reference.get("name"), owner.uid) in elsewhere:
                    left -= 1
                    await report_invalid_namespace(self._controlled, target.served, target.metadata, reference)
            if not left:
                return

    async def _delete(self, target: FoundObject, policy: str) -> None:
        """Deletes the object only as it was examined: a change in between may have given it an owner."""
        conditions = Preconditions(target.row.uid, str(target.row.revision))
        options = DeleteOptions(propagation_policy=policy, preconditions=conditions)
        with _requeued_on_conflict():
            await self._controlled.delete(target.served, target.row.key, options)

    async def _drop_references(self, served: Served, key: ObjectKey, uid: str, unneeded: set[str]) -> None:
        await self._drop(served, key, uid, "ownerReferences", lambda reference: reference.get("uid") in unneeded)

    async def _drop(
        self, served: Served, key: ObjectKey, uid: str, name: str, is_unneeded: Callable[[Any], bool]
    ) -> None:
        """Drops items of a list in the metadata."""

        def without(old: Object) -> Object:
            new = copy_of(old)
            items = [item for item in old["metadata"].get(name) or () if not is_unneeded(item)]
            if items:
                new["metadata"][name] = items
            else:
                new["metadata"].pop(name, None)
            return new

        await self._change(served, key, uid, without)

    async def _change(self, served: Served, key: ObjectKey, uid: str, make: Callable[[Object], Object]) -> None:
        names, group = served.definition.names, served.definition.group
        with _requeued_on_conflict():
            await self._controlled.change(group, names.plural, key, make, verb="patch", uid=uid)

    # -- an owner and its dependents
    async def _dependents(self, uid: str) -> AsyncIterator[tuple[Row, Object]]:
        after: Row | None = None
        while True:
            rows = await self._store.lookups.owned_by(self._tenant, [Uid(uid)], after=after)
            if not rows:
                return
            for row in rows:
                yield row, await metadata_of(row.body)
            after = rows[-1]

    async def _delete_dependents(self, target: FoundObject, *, has_begun: bool) -> None:
        """Examines all dependents at first, later only those that block. Without any of these the owner is released."""
        blocked = False
        self._begin(Work(self._tenant, target.served.resource_name, target.row.key))
        async for row, metadata in self._dependents(target.row.uid):
            blocking = _blocks(metadata, target.row.uid)
            blocked = blocked or blocking
            if not metadata.get("deletionTimestamp") and (blocking or not has_begun):
                self._spread(Work(self._tenant, row.resource, row.key))
        if not blocked:
            await self._remove_finalizer(target, FOREGROUND)

    async def _orphan(self, target: FoundObject) -> None:
        tasks = BoundedTasks(_CONCURRENT_CHANGES)
        async for row, _ in self._dependents(target.row.uid):
            served = served_by_name(target.catalog, row.resource)
            if served is None:
                continue
            await tasks.start(self._drop_references(served, row.key, row.uid, {target.row.uid}))
        await tasks.finish()
        await self._remove_finalizer(target, ORPHAN)

    async def _remove_finalizer(self, target: FoundObject, finalizer: str) -> None:
        await self._drop(target.served, target.row.key, target.row.uid, "finalizers", finalizer.__eq__)

    async def _closes_a_circle(self, target: FoundObject) -> bool:
        """Returns whether a dependent waits for this object's owners, and so for itself."""
        if not any(r.get("blockOwnerDeletion") for r in target.metadata["ownerReferences"]):
            return False
        async for _, metadata in self._dependents(target.row.uid):
            if _deletes_dependents(metadata):
                return True
        return False

    async def _unblock(self, target: FoundObject) -> None:
        def unblock(old: Object) -> Object:
            new = copy_of(old)
            new["metadata"]["ownerReferences"] = [
                {**r, "blockOwnerDeletion": False} if r.get("blockOwnerDeletion") else r
                for r in old["metadata"].get("ownerReferences") or ()
            ]
            return new

        await self._change(target.served, target.row.key, target.row.uid, unblock)


class Owners(NamedTuple):
    """The references of an object, classified by the state of the owners."""

    live: list[Reference]
    absent: list[Reference]
    waiting: list[Reference]  # in foreground deletion


@contextmanager
def _requeued_on_conflict() -> Iterator[None]:
    """Examines the object again if another write has come first."""
    try:
        yield
    except StatusError as error:
        if error.code == 409:
            raise Requeue from error
        raise


def _policy_of(finalizers: Sequence[str]) -> str:
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _deletes_dependents(metadata: Object) -> bool:
    return bool(metadata.get("deletionTimestamp")) and FOREGROUND in (metadata.get("finalizers") or ())


def _blocks(metadata: Object, uid: str) -> bool:
    return any(r.get("uid") == uid and r.get("blockOwnerDeletion") for r in metadata.get("ownerReferences") or ())
