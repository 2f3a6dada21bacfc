"""Notifications of the controllers, and of the garbage collector among them, after each committed write.

Only writes that can matter to the garbage collector are reported to it, so a write of an object without owners costs a
look into its metadata:

    a create with ownerReferences       owned: does an owner exist?
    an update of ownerReferences        owned, and unblocked for the removed owners
    a mark with a collecting finalizer  marked, and `pending` in the row itself
    the removal of an object            gone: which objects name it as an owner?

Follows kubernetes pkg/controller/garbagecollector/graph_builder.go (processGraphChanges).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from registry.api.strategies.base import Object, Strategy, WriteEffects
from registry.store.types import NO_FLAGS, ObjectKey, ResourceName, Tenant, Uid, WriteFlag

# {"apiVersion": "g/v1", "kind": "K", "name": "a", "uid": "...", "blockOwnerDeletion": true}
Reference = dict[str, Any]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


@dataclass(frozen=True, slots=True)
class DeletedObject:
    """A removed object. `kind` is empty if its definition is no longer known."""

    group: str
    kind: str
    namespace: str
    name: str
    uid: Uid
    owners: Sequence[Reference] = ()

    @staticmethod
    def of(group: str, kind: str, metadata: Object, uid: Uid) -> DeletedObject:
        namespace, name = metadata.get("namespace") or "", metadata.get("name") or ""
        return DeletedObject(group, kind, namespace, name, uid, metadata.get("ownerReferences") or ())


class Dependents(Protocol):
    """Methods return at once; the work continues in the background."""

    def notify_owned(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        """An object has new owners."""

    def notify_marked(self, tenant: Tenant, resource: ResourceName, key: ObjectKey, *, by_server: bool) -> None:
        """An object waits for the collector. `by_server`: marked by a controller, so no client has to see the mark."""

    def notify_unblocked(self, tenant: Tenant, namespace: str, owners: Sequence[Reference]) -> None:
        """An object of a namespace no longer blocks the deletion of these owners."""

    def notify_gone(self, tenant: Tenant, deleted: DeletedObject) -> None: ...


def is_collecting(obj: Object) -> bool:
    """Whether the collector has to act before the object can be removed."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp"):
        return False
    finalizers = metadata.get("finalizers") or ()
    return FOREGROUND in finalizers or ORPHAN in finalizers


def effects_of(strategy: Strategy, new: Object, old: Object | None) -> WriteEffects:
    """Returns the effects of a write of `new`; of its deletion if `new` is `old`.

    By the flags, another process picks up work after the commit if this one crashes: deletions, new owners, and objects
    that wait for the collector.
    """
    effects = strategy.write_effects(new, old)
    metadata = new["metadata"]
    flags = NO_FLAGS
    if new is old or metadata.get("ownerReferences"):
        flags |= WriteFlag.FOLLOW_UP
    if metadata.get("deletionTimestamp"):
        flags |= WriteFlag.TERMINATING
        if new is not old and is_collecting(new):
            flags |= WriteFlag.PENDING
    # A comparison by identity: the truth of a flag takes a microsecond.
    return effects if flags is NO_FLAGS else {**effects, "flags": effects.get("flags", NO_FLAGS) | flags}


Enqueue = Callable[[Tenant, ResourceName, ObjectKey], None]


class WriteEvents:
    """Connects the backend, which reports committed writes, with the controllers, which subscribe to them and write
    through the backend: so it is constructed before both.

    Every method returns at once, and does nothing without subscribers, as in tests and tools.
    """

    def __init__(self) -> None:
        self._queues: list[Enqueue] = []
        self._dependents: list[Dependents] = []

    @contextlib.contextmanager
    def subscription(self, enqueue: Enqueue) -> Iterator[None]:
        """Within the block, `enqueue` is called with each object that controllers have to reconcile."""
        self._queues.append(enqueue)
        try:
            yield
        finally:
            self._queues.remove(enqueue)

    @contextlib.contextmanager
    def collector_subscription(self, dependents: Dependents) -> Iterator[None]:
        """Within the block, `dependents` is notified of what matters to the garbage collector."""
        self._dependents.append(dependents)
        try:
            yield
        finally:
            self._dependents.remove(dependents)

    def enqueue(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        for enqueue in self._queues:
            enqueue(tenant, resource, key)

    def notify_owned(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        for dependents in self._dependents:
            dependents.notify_owned(tenant, resource, key)

    def notify_marked(self, tenant: Tenant, resource: ResourceName, key: ObjectKey, *, by_server: bool) -> None:
        for dependents in self._dependents:
            dependents.notify_marked(tenant, resource, key, by_server=by_server)

    def notify_unblocked(self, tenant: Tenant, namespace: str, owners: Sequence[Reference]) -> None:
        for dependents in self._dependents:
            dependents.notify_unblocked(tenant, namespace, owners)

    def notify_gone(self, tenant: Tenant, deleted: DeletedObject) -> None:
        for dependents in self._dependents:
            dependents.notify_gone(tenant, deleted)
