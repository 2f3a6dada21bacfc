"""Delete: of one object and of a collection.

An object without finalizers goes at once; with finalizers it is marked and goes when a later write removes the last
(update.py). propagationPolicy is kept as a finalizer that the garbage collector acts on.

Follows apiserver pkg/registry/rest/delete.go and pkg/registry/generic/registry/store.go (Delete, DeleteCollection).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from registry.admission.attributes import DELETE
from registry.api.admission.admitter import admitter_of
from registry.api.admission.options import delete_options_json
from registry.api.admission.protection import in_use, require_unprotected
from registry.api.answers import Answer, ListAnswer, ObjectAnswer, deleted_status
from registry.api.dependents import FOREGROUND, ORPHAN
from registry.api.errors import StatusError, conflict, internal_error, modified, not_found
from registry.api.metadata import is_terminating
from registry.api.options import DeleteOptions, delete_options, list_options, manager_of, write_options
from registry.api.request import CatalogStale, ResourceRequest
from registry.api.retry_memo import RetryMemo
from registry.api.served import Object
from registry.api.verbs.list import row_texts, select
from registry.api.verbs.update import CONFLICT_TRIES, PreparedUpdate, copy_of, delete_row, store_update
from registry.apply.values import equal
from registry.store.errors import GuardsChanged, InUse, NotFound, RevisionConflict
from registry.store.types import Guards, ObjectKey, Row

DeleteBody = Mapping[str, Any]


async def delete(request: ResourceRequest, body: DeleteBody | None) -> Answer:
    """A Status where the object is gone, the object where it waits for its finalizers."""
    return await delete_with(request, delete_options(request.query, body))


async def delete_with(request: ResourceRequest, options: DeleteOptions, *, named: bool = True) -> Answer:
    """`named` says that the client has named the object, and not its collection."""
    tries = CONFLICT_TRIES
    while True:
        row, guards = await request.load()
        try:
            return await _delete_row(request, row, guards, options, named=named)
        except RevisionConflict as lost:
            tries -= 1
            if not tries:
                raise modified(request.served.resource, request.name) from lost
        except NotFound as gone:
            raise not_found(request.served.resource, request.name) from gone
        except GuardsChanged as changed:
            raise CatalogStale(changed.guards) from changed
        except InUse as used:
            raise await in_use(request) from used


async def _delete_row(
    request: ResourceRequest, row: Row, guards: Guards, options: DeleteOptions, *, named: bool = True
) -> Answer:
    served = request.served
    old = await request.run_with_conversions(partial(served.object, row))
    _check_preconditions(request, row, options)
    if request.catalog.admission is not None:
        await _admit(request, old, options, named=named)
    unless_used = await require_unprotected(request, old, dry_run=options.dry_run)
    obj = copy_of(old)
    manager = manager_of(write_options({}, "UpdateOptions"), request.context.user_agent)
    served.strategy.prepare_for_delete(obj, request.context)
    if served.strategy.propagates:
        set_propagation(obj, options)
    if obj["metadata"].get("finalizers") or served.strategy.waits(obj):
        mark(obj, request.context.timestamp)
        if equal(obj, old) or options.dry_run:
            return ObjectAnswer(served, obj=obj)
        changed = PreparedUpdate(obj, old, row, *await request.run_with_conversions(partial(served.body, obj)))
        actor = request.actor(manager, "delete")
        stored, _ = await store_update(request, changed, guards, actor, unless_used=unless_used)
        return ObjectAnswer(served, text=await request.text(stored))
    if not options.dry_run:
        await delete_row(request, obj, row, guards, manager, "delete", unless_used=unless_used)
    if served.strategy.returns_deleted_object:
        return ObjectAnswer(served, obj=old)
    return deleted_status(served, request.name, row.uid)


async def _admit(request: ResourceRequest, old: Object, options: DeleteOptions, *, named: bool) -> None:
    """What policies and webhooks say of the deletion; there is no object then that they could change."""
    admitter = admitter_of(request, delete_options_json(options), dry_run=options.dry_run)
    if admitter is not None:
        name = request.name if named else ""
        await admitter.mutate(DELETE, name, None, old)
        await admitter.validate(DELETE, name, None, old)


def _check_preconditions(request: ResourceRequest, row: Row, options: DeleteOptions) -> None:
    wanted = options.preconditions
    if wanted.uid is not None and wanted.uid != row.uid:
        raise _precondition(request, "UID", wanted.uid, row.uid)
    if wanted.resource_version is not None and wanted.resource_version != str(row.revision):
        raise _precondition(request, "ResourceVersion", wanted.resource_version, str(row.revision))


_OF_THEIR_OWN = frozenset({"Namespace", "CustomResourceDefinition"})


def _precondition(request: ResourceRequest, what: str, wanted: str, found: str) -> StatusError:
    ending = "The object might have been " + ("deleted and then recreated" if what == "UID" else "modified")
    why = f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). {ending}"
    served = request.served
    if served.kind.name in _OF_THEIR_OWN and served.definition.strategy:
        # Namespaces and definitions have a deletion of their own in the original, in the words of its storage.
        why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
    # Custom resources are told by their kind here, by a slip of the original that clients may have met.
    return conflict(served.resource if served.definition.strategy else served.kind, request.name, why)


def set_propagation(obj: Object, options: DeleteOptions) -> None:
    """The finalizer that stands for the policy; without a policy the object's own finalizers decide."""
    policy = options.propagation_policy
    if policy is None and options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if policy is None:
        return
    wanted = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
    present = obj["metadata"].get("finalizers") or []
    finalizers = [f for f in present if f not in (FOREGROUND, ORPHAN) or f == wanted]
    if wanted and wanted not in finalizers:
        finalizers.append(wanted)
    if finalizers:
        obj["metadata"]["finalizers"] = finalizers
    else:
        obj["metadata"].pop("finalizers", None)


def mark(obj: Object, timestamp: str) -> None:
    """deletionTimestamp and a new generation, unless the object has been marked before."""
    metadata = obj["metadata"]
    if is_terminating(obj):
        return
    metadata["deletionTimestamp"] = timestamp
    metadata["deletionGracePeriodSeconds"] = 0
    if metadata.get("generation"):
        metadata["generation"] += 1


async def _delete_one(request: ResourceRequest, options: DeleteOptions) -> None:
    """Deletes an object if it is still there.

    Judged again by newer definitions where they change meanwhile: the whole request cannot be, for what it has deleted
    until then would be missing from its answer.
    """
    said = request.context.checkpoint()
    request = replace(request, judging=RetryMemo())
    for _ in range(_JUDGEMENTS):
        try:
            await delete_with(request, options, named=False)
            return
        except CatalogStale as stale:
            request.context.rollback(said)
            served = request.served
            catalog = await request.backend.catalogs.fresh(request.tenant, stale.guards)
            found = catalog.served(served.definition.group, served.version.name, served.definition.names.plural)
            if found is None:
                return  # the definition has gone, and its objects with it
            request = replace(request, catalog=catalog, served=request.converting(found))
        except StatusError as error:
            if error.code != 404:
                raise
            return
    raise internal_error("the definitions of the tenant change faster than this request could be judged by them")


# How often one deletion is judged again by newer definitions.
_JUDGEMENTS = 8


async def delete_collection(request: ResourceRequest, body: DeleteBody | None) -> ListAnswer:
    """Deletes what the selectors select, one by one, and answers the objects as they were.

    Without a limit it goes by their keys, and the answer reads them again, as of the revision at which they were
    selected: so it holds no more of them than a list does.
    """
    options = delete_options(request.query, body)
    selection = select(request, list_options(request.query))
    if selection.limit:
        page = await selection.page()
        await _delete_all(request, [row.key for row in page.rows], options)
        texts = await row_texts(request, page.rows)

        async def one() -> AsyncIterator[Sequence[str]]:
            yield texts

        return ListAnswer(request.served, page.revision, one(), selection.continue_token(page), page.remaining)
    revision = 0
    async with aclosing(selection.keys()) as parts:
        async for at, keys in parts:
            revision = at
            await _delete_all(request, keys, options)

    async def chunks() -> AsyncIterator[Sequence[str]]:
        async with aclosing(replace(selection, at=revision).pages(fresh=False)) as pages:
            async for page in pages:
                yield await row_texts(request, page.rows)

    return ListAnswer(request.served, revision, chunks())


async def _delete_all(request: ResourceRequest, keys: Sequence[ObjectKey], options: DeleteOptions) -> None:
    for key in keys:
        namespace, _, name = key.rpartition("/")
        served = request.converting(request.served)
        await _delete_one(replace(request, served=served, namespace=namespace, name=name), options)
