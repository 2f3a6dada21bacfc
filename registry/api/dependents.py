"""What the garbage collector of dependents is told of each committed write.

Only writes that can matter to it are told, so a write of an object without owners costs a look into its metadata:

    a create with ownerReferences       owned: is there an owner at all?
    an update of ownerReferences        owned, and unblocked for the owners that it let go
    a mark with a collecting finalizer  marked, and `pending` in the row itself
    the end of an object                gone: who named it as an owner?

Follows kubernetes pkg/controller/garbagecollector/graph_builder.go (processGraphChanges).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from registry.api.strategies.base import Strategy, WriteEffects
from registry.store.types import NO_FLAGS, ObjectKey, ResourceName, Tenant, Uid, WriteFlag

if TYPE_CHECKING:
    from registry.api.request import ResourceRequest

Object = dict[str, Any]
# {"apiVersion": "g/v1", "kind": "K", "name": "a", "uid": "...", "blockOwnerDeletion": true}
Reference = dict[str, Any]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
# Who the controllers are.
SERVER_NAME: Final = "system:apiserver"
SERVER_MANAGER: Final = "kube-apiserver"


@dataclass(frozen=True, slots=True)
class DeletedObject:
    """An object that is no more. `kind` is empty where its definition is not known any more."""

    group: str
    kind: str
    namespace: str
    name: str
    uid: Uid
    owners: Sequence[Reference] = ()


class Dependents(Protocol):
    """Returns at once; what follows goes on in the background."""

    def notify_owned(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        """An object has new owners."""

    def notify_marked(self, tenant: Tenant, resource: ResourceName, key: ObjectKey, *, by_server: bool) -> None:
        """An object waits for the collector. `by_server`: marked by a controller, so that nobody looks at it."""

    def notify_unblocked(self, tenant: Tenant, namespace: str, owners: Sequence[Reference]) -> None:
        """An object of a namespace does not block the deletion of these owners any more."""

    def notify_gone(self, tenant: Tenant, gone: DeletedObject) -> None: ...


def is_collecting(obj: Object) -> bool:
    """Whether the collector has to act before the object can go."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp"):
        return False
    finalizers = metadata.get("finalizers") or ()
    return FOREGROUND in finalizers or ORPHAN in finalizers


def effects_of(strategy: Strategy, new: Object, old: Object | None) -> WriteEffects:
    """The effects of a write of `new`; of its deletion where `new` is `old`.

    What this process is to see to after the commit, another finds by the flags if it dies: deletions, new owners, and
    objects that wait for the collector.
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
    return {**effects, "flags": effects.get("flags", NO_FLAGS) | flags} if flags else effects


def notify_created(request: ResourceRequest, key: ObjectKey, obj: Object) -> None:
    if obj["metadata"].get("ownerReferences"):
        request.backend.events.notify_owned(request.tenant, request.served.resource_name, key)


def notify_updated(request: ResourceRequest, key: ObjectKey, new: Object, old: Object) -> None:
    events = request.backend.events
    references, before = new["metadata"].get("ownerReferences"), old["metadata"].get("ownerReferences")
    if references != before:
        if references:
            events.notify_owned(request.tenant, request.served.resource_name, key)
        blocking = {r.get("uid") for r in references or () if r.get("blockOwnerDeletion")}
        unblocked = [r for r in before or () if r.get("blockOwnerDeletion") and r.get("uid") not in blocking]
        if unblocked:
            events.notify_unblocked(request.tenant, new["metadata"].get("namespace") or "", unblocked)
    if is_collecting(new) and _begins(new["metadata"], old["metadata"]):
        events.notify_marked(request.tenant, request.served.resource_name, key, by_server=request.context.by_server)


def _begins(new: Object, old: Object) -> bool:
    if not old.get("deletionTimestamp"):
        return True
    return any(
        f in (new.get("finalizers") or ()) and f not in (old.get("finalizers") or ()) for f in (FOREGROUND, ORPHAN)
    )


def notify_deleted(request: ResourceRequest, obj: Object, uid: Uid) -> None:
    metadata, kind = obj["metadata"], request.served.kind
    gone = DeletedObject(
        kind.group,
        kind.name,
        metadata.get("namespace") or "",
        metadata.get("name") or "",
        uid,
        metadata.get("ownerReferences") or (),
    )
    request.backend.events.notify_gone(request.tenant, gone)
