"""Delete: one object, or a collection.

An object without finalizers goes at once; with finalizers it is marked and goes when a later write removes the last
(update.py). propagationPolicy is kept as a finalizer that the garbage collector acts on.

Follows apiserver pkg/registry/rest/delete.go and pkg/registry/generic/registry/store.go (Delete, DeleteCollection).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import partial
from typing import Any

from registry.admission.attributes import DELETE
from registry.api.admission.options import delete_options_json
from registry.api.admission.protection import in_use, require_unprotected
from registry.api.answers import Answer, ListAnswer, deleted_status, one_chunk
from registry.api.catalog import TenantCatalog
from registry.api.dependents import FOREGROUND, ORPHAN
from registry.api.errors import StatusError, conflict
from registry.api.list_options import list_options
from registry.api.metadata import is_terminating
from registry.api.options import (
    DeleteOptions,
    Preconditions,
    delete_options,
    manager_of,
    require_safe_collection,
    write_options,
)
from registry.api.request import ResourceRequest
from registry.api.served import Object, Served, kind_of
from registry.api.strategies.base import Context
from registry.api.verbs.driver import NoLongerServed, run, run_current
from registry.api.verbs.pipeline import Draft, Operation, Outcome, Start, render
from registry.api.verbs.readable import row_texts
from registry.api.verbs.rows import remove, replace
from registry.api.verbs.selection import parse_selection, select, selectors_size, wait_for_list
from registry.api.verbs.unsafe_delete import delete_unreadable
from registry.api.verbs.update import CONFLICT_TRIES, copy_of
from registry.apply.values import equal
from registry.emulation import emulated
from registry.flowcontrol.evaluation import evaluate
from registry.store.errors import InUse
from registry.store.types import ObjectKey, Row

DeleteBody = Mapping[str, Any]


async def delete(request: ResourceRequest, body: DeleteBody | None) -> Answer:
    """Returns a Status if the object is gone, or the object if it waits for its finalizers."""
    options = delete_options(request.query, body)
    if options.ignore_read_error:
        return await delete_unreadable(request, options)
    return await run(request, DeleteOperation(options))


@dataclass(slots=True)
class DeleteOperation(Operation[Answer]):
    """`named` is false for an object that is deleted as part of a collection."""

    options: DeleteOptions
    named: bool = True
    tries: int = CONFLICT_TRIES
    action = DELETE

    def review_options(self, request: ResourceRequest, start: Start) -> Mapping[str, Any]:
        options = self.options
        if self._is_of_its_own(request.served):
            assert start.row is not None
            # The uid, if one was given, has been compared.
            wanted = replace_fields(options.preconditions or Preconditions(), uid=start.row.uid)
            options = replace_fields(options, preconditions=wanted)
        elif self.named and (options.grace_period_seconds or 0) < 0:
            options = replace_fields(options, grace_period_seconds=1)  # rest/delete.go (BeforeDelete)
        return delete_options_json(options)

    async def load(self, request: ResourceRequest) -> Start:
        return Start(*await request.load())

    async def make(self, request: ResourceRequest, start: Start) -> Draft:
        assert start.row is not None
        old = await request.object(start.row)
        self._check_preconditions(request, start.row)
        return Draft(start, request.name if self.named else "", old, copy_of(old))

    def _is_of_its_own(self, served: Served) -> bool:
        """Whether upstream the kind has its own deletion, with the uid as precondition and the errors of the storage.

        Objects of a collection are deleted as of any other kind.
        """
        is_own = served.definition.builtin and served.kind.name in ("Namespace", "CustomResourceDefinition")
        return self.named and is_own

    def _check_preconditions(self, request: ResourceRequest, row: Row) -> None:
        wanted, of_its_own = self.options.preconditions or Preconditions(), self._is_of_its_own(request.served)
        if wanted.uid is not None and wanted.uid != row.uid:
            raise _precondition(request, "UID", wanted.uid, row.uid, of_its_own=of_its_own)
        if wanted.resource_version is not None and wanted.resource_version != str(row.revision):
            revision = str(row.revision)
            raise _precondition(request, "ResourceVersion", wanted.resource_version, revision, of_its_own=of_its_own)

    def present(self, draft: Draft) -> tuple[Object | None, Object | None]:
        """Presents the old object only: there is no new one that admission could change."""
        return None, draft.old

    def skips_admission(self, request: ResourceRequest, draft: Draft) -> bool:
        """Whether the object is a namespace that is already terminating, whatever the options."""
        old = draft.old
        assert old is not None
        return is_terminating(old) and request.served.strategy.waits(old)

    async def commit(self, request: ResourceRequest, draft: Draft) -> Outcome:
        """Marks the object if something holds it, otherwise removes it. Raises a refusal if it is protected."""
        strategy, obj, old = request.served.strategy, draft.new, draft.old
        assert old is not None
        if self.skips_admission(request, draft):
            return Outcome(obj=old)
        unless_used = await require_unprotected(request, old, dry_run=self.dry_run)
        strategy.prepare_for_delete(obj, request.context)
        if strategy.propagates:
            set_propagation(obj, self.options, strategy.policy_without_orphans)
        waits = obj["metadata"].get("finalizers") or strategy.waits(old)
        if waits:
            mark(obj, request.context, strategy.grace_seconds(self.options))
        if self.dry_run or (waits and equal(obj, old)):
            return Outcome(obj=obj) if waits else self._removal(request, draft, None)
        actor = request.actor(manager_of(write_options({}, "UpdateOptions"), request.context.user_agent), "delete")
        try:
            if waits:
                stored = await request.run_with_conversions(lambda: request.served.stored_form(obj))
                row, guards = await replace(request, draft.start, obj, old, stored, actor, unless_used=unless_used)
                return Outcome(row, guards=guards)
            committed = await remove(request, draft.start, obj, old, actor, unless_used=unless_used)
        except InUse as used:
            raise await in_use(request) from used
        return self._removal(request, draft, committed.revision)

    def _removal(self, request: ResourceRequest, draft: Draft, revision: int | None) -> Outcome:
        """`revision` is that of the deletion; None for a dry run."""
        old, row = draft.old, draft.start.row
        assert old is not None
        assert row is not None
        if request.served.strategy.returns_deleted_object:
            if revision is not None:
                old = {**old, "metadata": {**old["metadata"], "resourceVersion": str(revision)}}
            return Outcome(obj=old)
        return Outcome(row if revision is None else row._replace(revision=revision))

    async def answer(self, request: ResourceRequest, outcome: Outcome) -> Answer:
        if outcome.row is not None and outcome.guards is None:
            revision = 0 if self.dry_run or not emulated().is_1_37 else outcome.row.revision
            return deleted_status(request.served, request.name, outcome.row.uid, revision)
        answer = await render(request, outcome)
        if self.options.orphan_dependents is False and is_terminating(answer.object):
            answer.code = 202  # only for this older option: other clients do not expect it (handlers/delete.go)
        return answer


def _precondition(request: ResourceRequest, what: str, wanted: str, actual: str, *, of_its_own: bool) -> StatusError:
    ending = "The object might have been " + ("deleted and then recreated" if what == "UID" else "modified")
    why = f"the {what} in the precondition ({wanted}) does not match the {what} in record ({actual}). {ending}"
    served = request.served
    if of_its_own:
        is_lower = emulated().is_1_37 and served.kind.name == "CustomResourceDefinition"
        begin = "precondition" if is_lower else "Precondition"
        why = f"{begin} failed: {what} in precondition: {wanted}, {what} in object meta: {actual}"
        return conflict(served.resource, request.name, why)
    # Upstream names the kind where the resource belongs, by mistake; clients may match it.
    return conflict(kind_of(served, {}), request.name, why)


def set_propagation(obj: Object, options: DeleteOptions, without_orphans: str) -> None:
    """Sets the finalizer of the propagation policy; without a policy the object's finalizers stay.

    `without_orphans` is the policy that `orphanDependents: false` stands for.
    """
    policy = options.propagation_policy
    if policy is None and options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else without_orphans
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


def mark(obj: Object, context: Context, grace_seconds: int) -> None:
    """Sets deletionTimestamp to the end of the grace period and, the first time, increments the generation.

    An object that is already marked changes only for a shorter grace period.
    """
    metadata = obj["metadata"]
    is_first = not is_terminating(obj)
    if not is_first and metadata.get("deletionGracePeriodSeconds", 0) <= grace_seconds:
        return
    metadata["deletionTimestamp"] = context.timestamp_in(grace_seconds)
    metadata["deletionGracePeriodSeconds"] = grace_seconds
    if is_first and metadata.get("generation"):
        metadata["generation"] += 1


async def _delete_one(request: ResourceRequest, key: ObjectKey, options: DeleteOptions) -> None:
    """Deletes one object of a collection, if it still exists.

    If definitions change meanwhile, only this object is served again by the newer ones: if the whole request were,
    the objects that it had already deleted would be missing from its answer.
    """
    namespace, _, name = key.rpartition("/")
    definition, version = request.served.definition, request.served.version.name

    def address(catalog: TenantCatalog, context: Context) -> ResourceRequest | None:
        served = request.served
        if catalog is not request.catalog:
            newer = catalog.served(definition.group, version, definition.names.plural)
            if newer is None:
                return None
            served = newer
        served = request.converting(served)
        return request._replace(catalog=catalog, context=context, served=served, namespace=namespace, name=name)

    operation = DeleteOperation(options, named=False)
    try:
        await run_current(request.backend, request.catalog, request.context, address, lambda one: run(one, operation))
    except NoLongerServed:
        pass  # the definition is gone, and its objects with it
    except StatusError as error:
        if error.code != 404:
            raise


async def delete_collection(request: ResourceRequest, body: DeleteBody | None) -> ListAnswer:
    """Deletes the selected objects one by one, and returns them as they were.

    Without a limit it works from their keys, and reads the objects for the answer at the revision at which they were
    selected, so it holds no more of them in memory than a list does.
    """
    listed = list_options(request.query)
    size = selectors_size(listed)
    await evaluate(partial(parse_selection, request, listed), size, repeatable=True)
    options = delete_options(request.query, body)
    require_safe_collection(options)
    if listed.watch:  # it is validated as a watch, but reads lists
        match = listed.resource_version_match if listed.resource_version else ""
        listed = replace_fields(listed, watch=False, send_initial_events=None, resource_version_match=match)
    if listed.resource_version not in ("", "0") and not (listed.resource_version_match or listed.continue_):
        listed = replace_fields(listed, resource_version_match="Exact")  # upstream reads the collection in pages
    selection = await evaluate(partial(select, request, listed), size, repeatable=True)
    await wait_for_list(selection, listed)
    if selection.limit:
        page = await selection.page()
        await _delete_all(request, [row.key for row in page.rows], options)
        chunks = one_chunk(await row_texts(request, page.rows))
        return ListAnswer(request.served, page.revision, chunks, selection.continue_token(page), page.remaining)
    revision = 0
    async with aclosing(selection.keys()) as parts:
        async for at, keys in parts:
            revision = at
            await _delete_all(request, keys, options)

    async def following() -> AsyncIterator[Sequence[str]]:
        async with aclosing(replace_fields(selection, at=revision).pages(fresh=False)) as pages:
            async for page in pages:
                yield await row_texts(request, page.rows)

    return ListAnswer(request.served, revision, following())


async def _delete_all(request: ResourceRequest, keys: Sequence[ObjectKey], options: DeleteOptions) -> None:
    for key in keys:
        await _delete_one(request, key, options)
