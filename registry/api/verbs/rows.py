"""Commits the result of a write: inserts, replaces or removes the row of an object.

Functions raise the errors of Store.commit, and a StatusError if a limit of the tenant refuses the write.
"""

from __future__ import annotations

from registry.api.dependents import FOREGROUND, ORPHAN, DeletedObject, effects_of, is_collecting
from registry.api.request import QUOTAS, ResourceRequest
from registry.api.served import Object, StoredForm, labels_of, owners_of
from registry.api.verbs.pipeline import Start
from registry.store.types import Actor, Committed, Contents, Guards, ObjectKey, Row, Uid, Write, WriteOperation


async def insert(
    request: ResourceRequest, obj: Object, stored: StoredForm, guards: Guards | None, actor: Actor
) -> tuple[Row, Guards]:
    """Inserts the row. Raises AlreadyExists, GuardsChanged."""
    served, metadata = request.served, obj["metadata"]
    version, schema, body = stored
    key = served.key(request.namespace, metadata["name"])
    write = Write(
        WriteOperation.CREATE,
        served.resource_name,
        key,
        actor,
        uid=Uid(metadata["uid"]),
        version=version,
        schema=schema,
        body=body,
        labels=labels_of(obj, served.strategy),
        owners=owners_of(obj),
        doc=request.document(obj, body),
        indexed=served.index_entries(obj, body),
        expected_guards=guards,
        **effects_of(served.strategy, obj, None),
    )
    committed = await request.commit(write)
    _notify_created(request, key, obj)
    row = Row(served.resource_name, key, metadata["uid"], committed.revision, version, schema, body)
    return row, committed.guards


async def replace(
    request: ResourceRequest,
    start: Start,
    new: Object,
    old: Object,
    stored: StoredForm,
    actor: Actor,
    *,
    unless_used: Contents | None = None,
) -> tuple[Row, Guards]:
    """Replaces the row. Raises RevisionConflict, NotFound, GuardsChanged; InUse if `unless_used` exists."""
    served, row = request.served, start.row
    assert row is not None
    version, schema, body = stored
    write = Write(
        WriteOperation.UPDATE,
        served.resource_name,
        row.key,
        actor,
        uid=Uid(row.uid),
        version=version,
        schema=schema,
        body=body,
        labels=labels_of(new, served.strategy),
        owners=owners_of(new),
        doc=request.document(new, body),
        indexed=served.index_entries(new, body),
        expected_revision=row.revision,
        expected_guards=start.guards,
        replaced_bytes=len(row.body),
        unless_used=unless_used,
        **effects_of(served.strategy, new, old),
    )
    committed = await request.commit(write)
    _notify_updated(request, row.key, new, old)
    return Row(row.resource, row.key, row.uid, committed.revision, version, schema, body), committed.guards


async def remove(
    request: ResourceRequest, start: Start, last: Object, actor: Actor, *, unless_used: Contents | None = None
) -> Committed:
    """Removes the row; `last` is the object in its last state. Raises as `replace` does."""
    served, row = request.served, start.row
    assert row is not None
    write = Write(
        WriteOperation.DELETE,
        served.resource_name,
        row.key,
        actor,
        uid=Uid(row.uid),
        expected_revision=row.revision,
        expected_guards=start.guards,
        replaced_bytes=len(row.body),
        unless_used=unless_used,
        **effects_of(served.strategy, last, last),
    )
    committed = await request.commit(write)
    _notify_deleted(request, last, Uid(row.uid))
    if served.namespaced and request.namespace not in request.catalog.unbounded_namespaces:
        # It may have counted towards quotas.
        request.backend.enqueue(request.tenant, QUOTAS, ObjectKey(f"{request.namespace}/"))
    return committed


# ---- notifications of the garbage collector


def _notify_created(request: ResourceRequest, key: ObjectKey, obj: Object) -> None:
    if obj["metadata"].get("ownerReferences"):
        request.backend.events.notify_owned(request.tenant, request.served.resource_name, key)


def _notify_updated(request: ResourceRequest, key: ObjectKey, new: Object, old: Object) -> None:
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


def _notify_deleted(request: ResourceRequest, obj: Object, uid: Uid) -> None:
    metadata, kind = obj["metadata"], request.served.kind
    deleted = DeletedObject(
        kind.group,
        kind.name,
        metadata.get("namespace") or "",
        metadata.get("name") or "",
        uid,
        metadata.get("ownerReferences") or (),
    )
    request.backend.events.notify_gone(request.tenant, deleted)
