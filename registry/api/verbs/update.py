"""Update: replacing an object that exists, and what every change of an existing object goes through.

`change` is the heart: load, let the caller make the new object from the old one, check, own, commit at the revision
that was read. A commit that finds another revision starts again from the load: a PUT then fails on its own resource
version, a patch is applied to what is there now.

Follows apiserver pkg/registry/generic/registry/store.go (Update) and pkg/registry/rest/update.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from registry.admission.attributes import UPDATE
from registry.api.admission.admitter import Admitter, admitter_of
from registry.api.admission.namespace_lifecycle import require_namespace
from registry.api.admission.options import write_options_json
from registry.api.admission.quota import reserve_quota
from registry.api.answers import ObjectAnswer
from registry.api.bodies import decode_object
from registry.api.dependents import effects_of, notify_deleted, notify_updated
from registry.api.errors import StatusError, conflict, invalid, modified, not_found, plain_internal
from registry.api.metadata import agree_on_name, agree_on_namespace, is_released, restore_for_update
from registry.api.object_locks import ObjectLock
from registry.api.options import WriteOptions, manager_of, parse_revision, write_options
from registry.api.ownership import own_update
from registry.api.request import QUOTAS, Body, CatalogStale, ResourceRequest
from registry.api.served import Object, kind_of, labels_of, owners_of
from registry.api.verbs.create import create_object
from registry.schema.field import invalid as invalid_field
from registry.store.errors import GuardsChanged, NotFound, RevisionConflict
from registry.store.types import Actor, Contents, Guards, ObjectKey, Operation, Row, Uid, Write

# A patch is tried this often against an object that others change at the same time (rest/update.go,
# OptimisticLockErrorMsg after 5 tries in handlers/patch.go).
CONFLICT_TRIES = 5


NO_OPTIONS = WriteOptions()


class AdmissionView(Protocol):
    """The form in which admission sees an object, and takes its changes back."""

    def present(self, obj: Object) -> Object: ...

    def merge_back(self, obj: Object, shown: Object) -> Object: ...


@dataclass(frozen=True, slots=True)
class UpdateSpec:
    """How a write changes an object.

    `make` gets the old object (not to be changed) and gives the new one, decoded by its kind. `uid_precondition` is
    the uid that the object must have (a PUT's), else the answer is a 409. `owned` says that `make` has already
    written managedFields. `tries` is how often a commit that lost a race is made again. `options` are what the client
    has asked for, where it was one. `face` is what admission sees of the object, where that is another (a Scale).
    """

    make_object: Callable[[Object], Object]
    verb: str
    manager: str
    dry_run: bool = False
    uid_precondition: str = ""
    owned: bool = False
    tries: int = CONFLICT_TRIES
    options: WriteOptions = NO_OPTIONS
    face: AdmissionView | None = None


async def update(request: ResourceRequest, body: Body) -> ObjectAnswer:
    """200 with the object as it is stored now; 201 where the kind lets a PUT create."""
    options = write_options(request.query, "UpdateOptions")
    obj = decode_object(request, body, options)
    agree_on_namespace(request, obj)
    agree_on_name(request, obj)
    manager = manager_of(options, request.context.user_agent)
    change_ = UpdateSpec(
        make_object=lambda _: copy_of(obj),
        verb="update",
        manager=manager,
        dry_run=options.dry_run,
        uid_precondition=obj["metadata"].get("uid") or "",
        options=options,
    )
    try:
        return await guaranteed_update(request, change_)
    except StatusError as error:
        if error.code == 404 and request.served.strategy.allow_create_on_update:
            return await _create_instead(request, obj, options, manager)
        raise


async def _create_instead(request: ResourceRequest, obj: Object, options: WriteOptions, manager: str) -> ObjectAnswer:
    obj["metadata"].pop("resourceVersion", None)
    return await create_object(request, obj, options, manager, verb="update")


def copy_of(obj: Object) -> Object:
    """A copy whose metadata can be changed; what is below other keys is shared, since nobody changes it in place."""
    return {**obj, "metadata": dict(obj["metadata"])}


async def guaranteed_update(request: ResourceRequest, change: UpdateSpec) -> ObjectAnswer:
    """Makes the change; a lost race is run again from the object as it is then."""
    async with request.backend.turns.lock(request.identity) as turn:
        handed = turn.take()
        if (
            handed is not None
            and handed[1].definitions == request.catalog.guards.definitions
            and not _calls_webhooks(request)
        ):
            answer = await _update_from_handover(request, change, turn, *handed)
            if answer is not None:
                return answer
        return await _update_from_store(request, change, turn)


def _calls_webhooks(request: ResourceRequest) -> bool:
    """Whether a change may leave this process before it is committed: then it is made once, of the newest row."""
    admission = request.catalog.admission
    return admission is not None and admission.calls_webhooks


async def _update_from_handover(
    request: ResourceRequest, change: UpdateSpec, turn: ObjectLock, row: Row, guards: Guards
) -> ObjectAnswer | None:
    """The change of a row that need not be the newest; None unless it could be committed."""
    said = request.context.checkpoint()
    try:
        changed = await _prepare_update(request, row, change)
        if changed is not None and not change.dry_run:
            return await _commit(request, changed, guards, change, turn)
    except (StatusError, RevisionConflict, NotFound, GuardsChanged):
        pass
    request.context.rollback(said)
    return None


async def _update_from_store(request: ResourceRequest, change: UpdateSpec, turn: ObjectLock) -> ObjectAnswer:
    tries = change.tries
    while True:
        row, guards = await request.load()
        await require_namespace(request, guards)
        changed = await _prepare_update(request, row, change)
        if changed is None:
            return ObjectAnswer(request.served, text=await request.text(row))
        if change.dry_run:
            async with reserve_quota(request, changed.new, changed.old, dry_run=True):
                return ObjectAnswer(request.served, obj=changed.new)
        try:
            return await _commit(request, changed, guards, change, turn)
        except RevisionConflict as lost:
            tries -= 1
            if not tries:
                raise modified(request.served.resource, request.name) from lost
        except NotFound as gone:
            raise not_found(request.served.resource, request.name) from gone
        except GuardsChanged as stale:
            raise CatalogStale(stale.guards) from stale


@dataclass(frozen=True, slots=True)
class PreparedUpdate:
    """A change that has been found to be right, and is not made yet: `body` is what is to be stored.

    `released` says that the object goes by it.
    """

    new: Object
    old: Object
    row: Row
    version: str = ""
    schema: int = 0
    body: str = ""
    released: bool = False


async def _prepare_update(request: ResourceRequest, row: Row, change: UpdateSpec) -> PreparedUpdate | None:
    """What becomes of the object in `row`; None where nothing does. Raises StatusError for what is wrong with it."""
    if request.catalog.admission is not None:
        options = write_options_json("UpdateOptions", replace(change.options, dry_run=change.dry_run))
        admitter = admitter_of(request, options, dry_run=change.dry_run)
        if admitter is not None:
            return await _prepare_with_admission(request, row, change, admitter)
    if request.served.conversions is None:
        return prepare_row(request, row, change)
    return await request.run_with_conversions(partial(prepare_row, request, row, change))


def prepare_row(request: ResourceRequest, row: Row, change: UpdateSpec) -> PreparedUpdate | None:
    old, new = apply_spec(request, row, change)
    return encode_row(request, row, validate_update(request, old, new), old)


async def _prepare_with_admission(
    request: ResourceRequest, row: Row, change: UpdateSpec, admitter: Admitter
) -> PreparedUpdate | None:
    """`change_row` with what policies and webhooks say between its parts."""
    old, new = await request.run_with_conversions(partial(apply_spec, request, row, change))
    face = change.face
    name, shown_old = request.name, old if face is None else face.present(old)
    if admitter.mutates:
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        shown = new if face is None else face.present(new)
        mutated = await admitter.mutate(UPDATE, name, shown, shown_old)
        assert mutated is not None
        new = copy_of(mutated) if face is None else face.merge_back(new, mutated)
        new["metadata"].pop("resourceVersion", None)
        agree_on_namespace(request, new)
    judged = await request.run_with_conversions(lambda: validate_update(request, old, copy_of(new)))
    if admitter.validates:
        await admitter.validate(UPDATE, name, judged if face is None else face.present(judged), shown_old)
    return await request.run_with_conversions(lambda: encode_row(request, row, judged, old))


def apply_spec(request: ResourceRequest, row: Row, change: UpdateSpec) -> tuple[Object, Object]:
    """The old object, and the new one as the client wants it, with its managedFields."""
    served = request.served
    old = served.object(row)
    new = change.make_object(old)
    if change.uid_precondition and change.uid_precondition != row.uid:
        raise _wrong_uid(request, change.uid_precondition, row.uid)
    _check_revision(request, new, row)
    new["metadata"].pop("resourceVersion", None)
    if not change.owned:
        new["metadata"]["managedFields"] = _managed_fields(request, old, new, change.manager)
    return old, new


def validate_update(request: ResourceRequest, old: Object, new: Object) -> Object:
    """The new object with what only the server writes, if it is right; `new` is changed."""
    served, context = request.served, request.context
    strategy = served.strategy
    restore_for_update(new, old)
    strategy.prepare_for_update(new, old, context)
    errors = strategy.validate_update(new, old, context.warnings)
    if errors:
        raise invalid(kind_of(served, new), request.name, errors)
    new = strategy.finish(new)
    if not new["metadata"].get("managedFields"):
        new["metadata"].pop("managedFields", None)
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    context.warnings.extend(strategy.warnings(new, old))
    return new


def encode_row(request: ResourceRequest, row: Row, new: Object, old: Object) -> PreparedUpdate | None:
    """What is stored of the new object; None where that is what is there already."""
    served = request.served
    if is_released(new) and not served.strategy.waits(new):
        return PreparedUpdate(new, old, row, released=True)
    version, schema, body = served.storable(new)
    if body == row.body and version == row.version:
        return None
    return PreparedUpdate(new, old, row, version, schema, body)


async def _commit(
    request: ResourceRequest, changed: PreparedUpdate, guards: Guards, change: UpdateSpec, turn: ObjectLock
) -> ObjectAnswer:
    """Makes a change. The last finalizer gone, the object goes too, and is answered as the write left it."""
    if changed.released:
        await delete_row(request, changed.new, changed.row, guards, change.manager, change.verb)
        return ObjectAnswer(request.served, obj=changed.new)
    actor = request.actor(change.manager, change.verb)
    async with reserve_quota(request, changed.new, changed.old, dry_run=False):
        row, found = await store_update(request, changed, guards, actor)
    turn.hand_over(row, found)
    return ObjectAnswer(request.served, text=await request.text(row))


def _managed_fields(request: ResourceRequest, old: Object, new: Object, manager: str) -> list[Object]:
    """The managedFields of the new object. Judged with the rest, so before the server puts its own fields back."""
    finished = request.served.strategy.finish(new)
    return own_update(request, old, finished, manager)["metadata"].get("managedFields") or []


def _check_revision(request: ResourceRequest, new: Object, row: Row) -> None:
    """The optimistic lock: the resource version of the new object must be the stored one's, where it has one."""
    given = new["metadata"].get("resourceVersion")
    try:
        wanted = parse_revision(given) if given else 0
    except ValueError as error:
        raise plain_internal(str(error)) from error
    if wanted == 0:
        if not request.served.strategy.allow_unconditional_update:
            wrong = invalid_field("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(request.served.resource, request.name, [wrong])
    elif wanted != row.revision:
        raise modified(request.served.resource, request.name)


def _wrong_uid(request: ResourceRequest, given: str, found: str) -> StatusError:
    """In the words of the etcd storage, which clients match."""
    served = request.served
    key = "/".join(p for p in ("/registry", served.resource.group, served.resource.name, request.key) if p)
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {given}, UID in object meta: {found}"
    )
    return conflict(served.resource, request.name, why)


async def store_update(
    request: ResourceRequest,
    changed: PreparedUpdate,
    guards: Guards,
    actor: Actor,
    *,
    unless_used: Contents | None = None,
) -> tuple[Row, Guards]:
    """Commits a change over the row that was read. Raises RevisionConflict where somebody was faster."""
    served, row, new = request.served, changed.row, changed.new
    write = Write(
        Operation.UPDATE,
        served.resource_name,
        row.key,
        actor,
        uid=Uid(row.uid),
        version=changed.version,
        schema=changed.schema,
        body=changed.body,
        labels=labels_of(new, served.strategy),
        owners=owners_of(new),
        doc=request.document(new, changed.body),
        expected_revision=row.revision,
        expected_guards=guards,
        replaced_bytes=len(row.body),
        unless_used=unless_used,
        **effects_of(served.strategy, new, changed.old),
    )
    committed = await request.commit(write)
    notify_updated(request, row.key, new, changed.old)
    stored = Row(row.resource, row.key, row.uid, committed.revision, changed.version, changed.schema, changed.body)
    return stored, committed.guards


async def delete_row(
    request: ResourceRequest,
    obj: Object,
    row: Row,
    guards: Guards,
    manager: str,
    verb: str,
    *,
    unless_used: Contents | None = None,
) -> None:
    served = request.served
    write = Write(
        Operation.DELETE,
        served.resource_name,
        row.key,
        request.actor(manager, verb),
        uid=Uid(row.uid),
        expected_revision=row.revision,
        expected_guards=guards,
        replaced_bytes=len(row.body),
        unless_used=unless_used,
        **effects_of(served.strategy, obj, obj),
    )
    await request.commit(write)
    notify_deleted(request, obj, Uid(row.uid))
    if served.namespaced and request.namespace not in request.catalog.unbounded_namespaces:
        # There may be quotas in which it counted.
        request.backend.enqueue(request.tenant, QUOTAS, ObjectKey(f"{request.namespace}/"))
