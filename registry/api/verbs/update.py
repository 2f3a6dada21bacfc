"""Update: replaces an existing object; every change of an existing object goes through here.

A PUT carries the new object; a patch, an apply, a scale or a restore makes it from the old one. It is validated, given
its managedFields, and committed at the revision that was read. If another write came first, it is attempted again: a
PUT then fails by its own resource version, a patch is applied to the newer object.

Follows apiserver pkg/registry/generic/registry/store.go (Update) and pkg/registry/rest/update.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from registry.admission.attributes import UPDATE
from registry.api.admission.namespace_lifecycle import require_namespace
from registry.api.admission.options import write_options_json
from registry.api.admission.quota import reserve_quota
from registry.api.answers import ObjectAnswer
from registry.api.bodies import decode_object
from registry.api.errors import StatusError, conflict, internal_error, invalid, modified, plain_internal
from registry.api.metadata import agree_on_name, agree_on_namespace, is_released, restore_for_update
from registry.api.options import WriteOptions, manager_of, parse_revision, write_options
from registry.api.ownership import own_update
from registry.api.request import Body, ResourceRequest
from registry.api.served import Object, kind_of
from registry.api.verbs.create import CreateOperation
from registry.api.verbs.driver import run
from registry.api.verbs.pipeline import Draft, HandoverUnconfirmed, Operation, Outcome, Start, render
from registry.api.verbs.rows import remove, replace
from registry.apply.objects import is_unchanged
from registry.emulation import emulated
from registry.flowcontrol.evaluation import evaluate
from registry.schema.field import invalid as invalid_field
from registry.schema.objectmeta.rules import late_owner_warnings
from registry.store.types import Row

# Attempts of a patch at an object that others change at the same time (rest/update.go,
# OptimisticLockErrorMsg after 5 tries in handlers/patch.go).
CONFLICT_TRIES = 5
NO_OPTIONS = WriteOptions()


async def update(request: ResourceRequest, body: Body) -> ObjectAnswer:
    """Returns 200 with the stored object; 201 if the kind lets a PUT create."""
    options = write_options(request.query, "UpdateOptions")
    obj = await evaluate(partial(decode_object, request, body, options))
    agree_on_namespace(request, obj)
    agree_on_name(request, obj)
    manager = manager_of(options, request.context.user_agent)

    def create_instead(again: ResourceRequest) -> Object:
        new = copy_of(obj)
        if uid := new["metadata"].get("uid"):
            raise _wrong_uid(again, uid, "", dry_run=options.dry_run)
        new["metadata"].pop("resourceVersion", None)
        return new

    return await run(
        request,
        UpdateOperation(
            lambda _, old: copy_of(obj),
            "update",
            manager,
            options,
            uid=obj["metadata"].get("uid") or "",
            create=CreateOperation(create_instead, options, manager, "update")
            if request.served.strategy.allow_create_on_update
            else None,
        ),
    )


def copy_of(obj: Object) -> Object:
    """Returns a copy whose metadata can be changed; the values of other keys are shared, and not changed in place."""
    return {**obj, "metadata": dict(obj["metadata"])}


def without_finalizer(holder: Object, finalizer: str) -> Object:
    """Returns metadata, or the spec of a namespace, without a finalizer; without the field if none is left."""
    left = [name for name in holder.get("finalizers") or () if name != finalizer]
    others = {name: value for name, value in holder.items() if name != "finalizers"}
    return {**others, "finalizers": left} if left else others


class AdmissionView(Protocol):
    """The form in which admission sees an object, and from which its changes are merged back."""

    def present(self, obj: Object) -> Object: ...

    def present_for_mutation(self, new: Object, old: Object) -> tuple[Object, Object]: ...

    def merge_back(self, obj: Object, shown: Object) -> Object: ...


@dataclass(slots=True)
class UpdateOperation(Operation[ObjectAnswer]):
    """A change of an object.

    `make_object` gets the old object (not to be changed) and returns the new one, decoded by its kind. `uid` is the
    one that the object must have (a PUT's), otherwise the answer is a 409. `owned` says that `make_object` writes
    managedFields. `view` is the form that admission sees, if it differs (a Scale). `create` is the operation to run if
    there is no object.
    """

    make_object: Callable[[ResourceRequest, Object], Object]
    verb: str
    manager: str
    options: WriteOptions = NO_OPTIONS
    uid: str = ""
    owned: bool = False
    view: AdmissionView | None = None
    create: CreateOperation | None = None
    tries: int = CONFLICT_TRIES
    action = UPDATE
    is_serialized = True

    def review_options(self, request: ResourceRequest, start: Start) -> Mapping[str, Any]:
        return write_options_json("UpdateOptions", self.options)

    async def load(self, request: ResourceRequest) -> Start:
        row, guards = await request.load()
        if not emulated().is_1_37:
            await require_namespace(request, guards)
        return Start(row, guards)

    async def make(self, request: ResourceRequest, start: Start) -> Draft:
        row = start.row
        assert row is not None
        old = start.obj or await request.object(row)
        new = await evaluate(partial(self._make, request, row, old))
        return Draft(start, request.name, old, new)

    def _make(self, request: ResourceRequest, row: Row, old: Object) -> Object:
        new = self.make_object(request, old)
        if self.uid and self.uid != row.uid:
            raise _wrong_uid(request, self.uid, row.uid, dry_run=self.dry_run)
        if self.view is not None:
            _check_revision(request, new, row)
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        elif request.catalog.admission is None or not new.get("apiVersion"):
            # Otherwise after admission, which may change the resource version.
            _check_revision(request, new, row)
        if not new.get("apiVersion"):  # a patch of a custom resource has removed it (rest/update.go)
            raise internal_error("Object 'apiVersion' is missing in 'object has no apiVersion field'")
        if not self.owned:
            # Ownership is computed before the server restores its own fields.
            written = request.served.strategy.as_written(new)
            if (managed := new["metadata"].get("managedFields")) is not None:
                # An empty list, which Go's JSON omits, clears them.
                written = {**written, "metadata": {**written["metadata"], "managedFields": managed}}
            owned = own_update(request, old, written, self.manager)
            new["metadata"]["managedFields"] = owned["metadata"].get("managedFields") or []
        return new

    def present(self, draft: Draft) -> tuple[Object | None, Object | None]:
        if self.view is None:
            return draft.new, draft.old
        assert draft.old is not None
        return self.view.present(draft.new), self.view.present(draft.old)

    def present_for_mutation(self, draft: Draft) -> tuple[Object | None, Object | None]:
        if self.view is None:
            return draft.new, draft.old
        assert draft.old is not None
        return self.view.present_for_mutation(draft.new, draft.old)

    def merge_back(self, request: ResourceRequest, draft: Draft, mutated: Object) -> None:
        draft.new = copy_of(mutated) if self.view is None else self.view.merge_back(draft.new, mutated)
        agree_on_namespace(request, draft.new)

    def prepare(self, request: ResourceRequest, draft: Draft) -> None:
        new, old = draft.new, draft.old
        assert old is not None
        assert draft.start.row is not None
        _check_revision(request, new, draft.start.row)
        draft.kind = kind_of(request.served, new)
        new["metadata"].pop("resourceVersion", None)
        restore_for_update(new, old)
        request.context.warnings.extend(late_owner_warnings(new["metadata"]))
        request.served.strategy.prepare_for_update(new, old, request.context)

    def validate(self, request: ResourceRequest, draft: Draft) -> None:
        new, old, strategy, context = draft.new, draft.old, request.served.strategy, request.context
        assert old is not None
        errors = strategy.validate_update(new, old, context.warnings)
        if errors:
            raise invalid(draft.kind or kind_of(request.served, new), new["metadata"].get("name") or "", errors)
        new = draft.new = strategy.finish(new)
        if not new["metadata"].get("managedFields"):
            new["metadata"].pop("managedFields", None)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if is_unchanged(old, new) and "managedFields" in new["metadata"]:
            # A change of times alone is not written (handlers/fieldmanager/equality.go).
            new["metadata"]["managedFields"] = old["metadata"]["managedFields"]
        context.warnings.extend(strategy.warnings(new, old))

    async def commit(self, request: ResourceRequest, draft: Draft) -> Outcome:
        """Stores the object, or removes it if its last finalizer is gone; it is returned as the write left it."""
        new, old, row, actor = draft.new, draft.old, draft.start.row, request.actor(self.manager, self.verb)
        assert old is not None
        assert row is not None
        if is_released(new) and not request.served.strategy.waits(new):
            if not self.dry_run:
                await remove(request, draft.start, new, old, actor)
            return Outcome(obj=new)
        stored = draft.stored or await request.encode(new)
        if stored.body == row.body and stored.version == row.version:
            if draft.start.handed_over:
                raise HandoverUnconfirmed
            return Outcome(row)
        async with reserve_quota(request, new, old, dry_run=self.dry_run):
            if self.dry_run:
                return Outcome(obj=await request.as_stored(new, stored))
            commit = replace(request, draft.start, new, old, stored, actor)
            del draft, new, old  # frees them (rows.py says why)
            written, guards = await commit
        return Outcome(written, guards=guards)

    async def answer(self, request: ResourceRequest, outcome: Outcome) -> ObjectAnswer:
        return await render(request, outcome)

    def when_missing(self) -> CreateOperation | None:
        return self.create


def _check_revision(request: ResourceRequest, new: Object, row: Row) -> None:
    """Enforces optimistic concurrency: a resource version in the new object must be that of the stored one."""
    text = new["metadata"].get("resourceVersion")
    try:
        wanted = parse_revision(text) if text else 0
    except ValueError as error:
        raise plain_internal(str(error)) from error
    if wanted == 0:
        if not request.served.strategy.allow_unconditional_update:
            wrong = invalid_field("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(request.served.resource, request.name, [wrong])
    elif wanted != row.revision:
        raise modified(request.served.resource, request.name)


def _wrong_uid(request: ResourceRequest, expected: str, actual: str, *, dry_run: bool) -> StatusError:
    """Returns the 409 in the words of the etcd storage, which clients match."""
    why = f"Precondition failed: UID in precondition: {expected}, UID in object meta: {actual}"
    return invalid_stored(request, why, dry_run=dry_run)


# Built-in resources that kube-apiserver keeps under another name.
_STORED_AT = {"services": "services/specs"}


def invalid_stored(request: ResourceRequest, why: str, *, dry_run: bool = False) -> StatusError:
    """Returns the 409 for an error of etcd's storage about the object (storage.NewInvalidObjError).

    A dry run is checked above the storage (generic/registry/dryrun.go), where keys do not have its prefix yet.
    """
    served = request.served
    # Among the built-in kinds only those of servers with a storage of their own are stored under their group.
    group = served.resource.group
    if served.definition.builtin and group not in ("apiextensions.k8s.io", "apiregistration.k8s.io"):
        group = ""
    folder = _STORED_AT.get(served.resource.name, served.resource.name) if served.definition.builtin else ""
    prefix = "" if dry_run else "/registry"
    key = prefix + "".join(f"/{p}" for p in (group, folder or served.resource.name, request.key) if p)
    text = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    return conflict(served.resource, request.name, text)
