"""Commits the result of a write: inserts, replaces or removes the row of an object.

Functions raise the errors of Store.commit, and a StatusError if a limit of the tenant refuses the write.

`insert` and `replace` do not hold the objects while the commit waits, so that their callers can free them before:
otherwise the garbage collector would search all that wait, again and again, which took a tenth of a create.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from registry.api.dependents import FOREGROUND, ORPHAN, DeletedObject, effects_of, is_collecting
from registry.api.request import QUOTAS, ResourceRequest
from registry.api.served import Object, StoredForm, owners_of, replaced_by
from registry.api.verbs.pipeline import Start
from registry.store.types import Actor, Committed, Contents, Guards, ObjectKey, Row, Uid, Write, WriteOperation

Commit = Coroutine[Any, Any, tuple[Row, Guards]]


def insert(request: ResourceRequest, obj: Object, stored: StoredForm, guards: Guards | None, actor: Actor) -> Commit:
    """Returns the commit that inserts the row. It raises AlreadyExists, GuardsChanged."""
    served, metadata = request.served, obj["metadata"]
    body = stored.body
    key = served.key(request.namespace, metadata["name"])
    write = Write(
        WriteOperation.CREATE,
        served.resource_name,
        key,
        actor,
        uid=Uid(metadata["uid"]),
        version=stored.version,
        schema=stored.schema,
        body=body,
        labels=stored.labels,
        owners=owners_of(obj),
        doc=request.document(obj, body),
        indexed=served.extraction.index_entries(obj, body),
        expected_guards=guards,
        **effects_of(served.strategy, obj, None),
    )
    return _commit(request, write, _notifications_of_create(request, key, obj))


def replace(
    request: ResourceRequest,
    start: Start,
    new: Object,
    old: Object,
    stored: StoredForm,
    actor: Actor,
    *,
    unless_used: Contents | None = None,
) -> Commit:
    """Returns the commit that replaces the row. It raises RevisionConflict, NotFound, GuardsChanged; InUse if
    `unless_used` exists."""
    served, row = request.served, start.row
    assert row is not None
    body = stored.body
    write = Write(
        WriteOperation.UPDATE,
        served.resource_name,
        row.key,
        actor,
        uid=Uid(row.uid),
        version=stored.version,
        schema=stored.schema,
        body=body,
        labels=stored.labels,
        owners=owners_of(new),
        doc=request.document(new, body),
        indexed=served.extraction.index_entries(new, body),
        expected_revision=row.revision,
        expected_guards=start.guards,
        replaced=replaced_by(row, old, served.strategy),
        unless_used=unless_used,
        **effects_of(served.strategy, new, old),
    )
    return _commit(request, write, _notifications_of_update(request, row.key, new, old))


async def _commit(
    request: ResourceRequest, write: Write, notifications: Iterable[Callable[[], None]]
) -> tuple[Row, Guards]:
    """Returns the row that was written, and its guards."""
    committed = await request.commit(write)
    for notify in notifications:
        notify()
    row = Row(write.resource, write.key, write.uid, committed.revision, write.version, write.schema, write.body)
    return row, committed.guards


async def remove(
    request: ResourceRequest,
    start: Start,
    last: Object,
    old: Object,
    actor: Actor,
    *,
    unless_used: Contents | None = None,
) -> Committed:
    """Removes the row; `last` is the object in its last state, `old` as it is stored. Raises as `replace` does."""
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
        replaced=replaced_by(row, old, served.strategy),
        unless_used=unless_used,
        **effects_of(served.strategy, last, last),
    )
    committed = await request.commit(write)
    deleted = DeletedObject.of(served.kind.group, served.kind.name, last["metadata"], Uid(row.uid))
    request.backend.events.notify_gone(request.tenant, deleted)
    if served.namespaced and request.namespace not in request.catalog.unbounded_namespaces:
        # It may have counted towards quotas.
        request.backend.enqueue(request.tenant, QUOTAS, ObjectKey(f"{request.namespace}/"))
    return committed


# ---- notifications of the garbage collector


def _notifications_of_create(request: ResourceRequest, key: ObjectKey, obj: Object) -> Iterable[Callable[[], None]]:
    if not obj["metadata"].get("ownerReferences"):
        return ()
    return (partial(request.backend.events.notify_owned, request.tenant, request.served.resource_name, key),)


def _notifications_of_update(
    request: ResourceRequest, key: ObjectKey, new: Object, old: Object
) -> Iterable[Callable[[], None]]:
    events, tenant, resource = request.backend.events, request.tenant, request.served.resource_name
    notifications: list[Callable[[], None]] = []
    references, before = new["metadata"].get("ownerReferences"), old["metadata"].get("ownerReferences")
    if references != before:
        if references:
            notifications.append(partial(events.notify_owned, tenant, resource, key))
        blocking = {r.get("uid") for r in references or () if r.get("blockOwnerDeletion")}
        unblocked = [r for r in before or () if r.get("blockOwnerDeletion") and r.get("uid") not in blocking]
        if unblocked:
            namespace = new["metadata"].get("namespace") or ""
            notifications.append(partial(events.notify_unblocked, tenant, namespace, unblocked))
    if is_collecting(new) and _begins(new["metadata"], old["metadata"]):
        by_server = request.context.by_server
        notifications.append(partial(events.notify_marked, tenant, resource, key, by_server=by_server))
    return notifications


def _begins(new: Object, old: Object) -> bool:
    if not old.get("deletionTimestamp"):
        return True
    return any(
        f in (new.get("finalizers") or ()) and f not in (old.get("finalizers") or ()) for f in (FOREGROUND, ORPHAN)
    )
