"""Create: the first write of an object.

Order of the checks (facts: rest.md, schema.md): options, body, namespace of the body, state of the namespace, then
everything about the object itself at once, a resource version that was given, and last whether the name is taken.

Follows apiserver pkg/registry/generic/registry/store.go (Create) and pkg/registry/rest/create.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from registry.admission.attributes import CREATE
from registry.api.admission.namespace_lifecycle import require_active_namespace
from registry.api.admission.options import write_options_json
from registry.api.admission.quota import reserve_quota
from registry.api.answers import ObjectAnswer
from registry.api.bodies import decode_object
from registry.api.bound_definitions import DEFINITIONS
from registry.api.errors import StatusError, already_exists, forbidden, invalid, plain_internal
from registry.api.metadata import agree_on_namespace, fill_for_create, is_terminating, name_in_refusal, wipe_for_create
from registry.api.options import WriteOptions, manager_of, parse_revision, write_options
from registry.api.ownership import own_create
from registry.api.request import Body, CatalogStale, ResourceRequest
from registry.api.served import Object, kind_of
from registry.api.verbs.driver import run
from registry.api.verbs.pipeline import Draft, Operation, Outcome, Start, render
from registry.api.verbs.rows import insert
from registry.authorization.attributes import Attributes, refusal
from registry.flowcontrol.evaluation import evaluate
from registry.schema.objectmeta.rules import late_owner_warnings
from registry.schema.values import deep_copy
from registry.store.errors import AlreadyExists, RevisionConflict
from registry.store.types import Guards, Row

# Attempts with another random name when a generated one is taken (KEP-4420).
GENERATED_NAME_TRIES = 8


async def create(request: ResourceRequest, body: Body) -> ObjectAnswer:
    """Returns 201 with the stored object."""
    options = write_options(request.query, "CreateOptions")
    decoding = partial(decode_object, request, body, options)
    # Not kept here: see CreateOperation.commit.
    return await create_object(
        request, await evaluate(decoding), options, manager_of(options, request.context.user_agent), verb="create"
    )


async def create_object(
    request: ResourceRequest, obj: Object, options: WriteOptions, manager: str, verb: str
) -> ObjectAnswer:
    """Creates `obj`, which has been decoded by its kind and may be changed in place."""
    if obj["metadata"].get("generateName") and not obj["metadata"].get("name"):
        # The object is prepared in place, and a retry with another name needs it as it was.
        operation = CreateOperation(partial(_copy_of, obj), options, manager, verb, tries=GENERATED_NAME_TRIES)
    else:
        operation = CreateOperation(partial(_itself, obj), options, manager, verb, is_made=True)
    del obj
    return await run(request, operation)


def _copy_of(obj: Object, _: ResourceRequest) -> Object:
    copied: Object = deep_copy(obj)
    return copied


def _itself(obj: Object, _: ResourceRequest) -> Object:
    return obj


def _no_more(_: ResourceRequest) -> Object:
    raise AssertionError("no attempt follows the only one")


@dataclass(slots=True)
class CreateOperation(Operation[ObjectAnswer]):
    """`make_object` returns the object, decoded by its kind; `owned` says that it has its managedFields (apply), and
    `is_made` that nothing is evaluated for it."""

    make_object: Callable[[ResourceRequest], Object]
    options: WriteOptions
    manager: str
    verb: str
    owned: bool = False
    tries: int = 1
    is_made: bool = False
    action = CREATE

    def review_options(self, request: ResourceRequest, start: Start) -> Mapping[str, Any]:
        return write_options_json("CreateOptions", self.options)

    async def load(self, request: ResourceRequest) -> Start:
        return Start(None, _guards(request))

    async def make(self, request: ResourceRequest, start: Start) -> Draft:
        obj = self.make_object(request) if self.is_made else await evaluate(partial(self.make_object, request))
        agree_on_namespace(request, obj)
        _require_living_definition(request, obj)
        _require_unbound(request, obj)
        await require_active_namespace(request, name_in_refusal(obj))
        admission = request.catalog.admission
        if admission is not None and admission.calls_webhooks:
            # The commit notices changed definitions only after webhooks have been called.
            request.check_fresh(await request.backend.store.state(request.tenant))
        elif start.guards is None:
            await _require_current_policies(request)
        return await evaluate(partial(self._draft, request, start, obj))

    def _draft(self, request: ResourceRequest, start: Start, obj: Object) -> Draft:
        metadata = obj["metadata"]
        managed = metadata.get("managedFields")
        wipe_for_create(obj)
        if not self.owned:
            # Computed from the object as the client wrote it: no manager owns what the server fills in.
            written = request.served.strategy.as_created(obj)
            if managed:  # the owners that a client states, such as those of an object that it restores
                written = {**written, "metadata": {**written["metadata"], "managedFields": managed}}
            owned = own_create(request.served, written, self.manager, request.context.timestamp)
            managed = owned["metadata"].get("managedFields")
        if managed:
            metadata["managedFields"] = managed
        return Draft(start, request.name or metadata.get("name") or "", None, obj)

    def merge_back(self, request: ResourceRequest, draft: Draft, mutated: Object) -> None:
        draft.new = {**mutated, "metadata": dict(mutated["metadata"])}
        agree_on_namespace(request, draft.new)

    def prepare(self, request: ResourceRequest, draft: Draft) -> None:
        obj = draft.new
        managed = obj["metadata"].get("managedFields")
        draft.revision = self._revision_of_client(obj["metadata"].pop("resourceVersion", None) or "")
        wipe_for_create(obj)
        fill_for_create(obj, request.context)
        request.context.warnings.extend(late_owner_warnings(obj["metadata"]))
        request.served.strategy.prepare_for_create(obj, request.context)
        if managed:
            obj["metadata"]["managedFields"] = managed
        draft.name = obj["metadata"].get("name") or ""

    def _revision_of_client(self, text: str) -> str:
        """Returns the resource version that the client or a webhook has set; an update that creates its object ignores
        one that is valid."""
        if self.verb == "create":
            return text
        try:
            parse_revision(text or "0")
        except ValueError as error:
            raise plain_internal(str(error)) from error
        return ""

    def validate(self, request: ResourceRequest, draft: Draft) -> None:
        served, strategy = request.served, request.served.strategy
        errors = strategy.validate(draft.new)
        if errors:
            raise invalid(kind_of(served, draft.new), draft.name, errors)
        draft.new = strategy.finish(draft.new)
        if draft.revision and self.dry_run:
            draft.new["metadata"]["resourceVersion"] = draft.revision
        elif _is_revision(draft.revision):
            raise plain_internal("resourceVersion should not be set on objects to be created")
        request.context.warnings.extend(strategy.warnings(draft.new, None))

    async def commit(self, request: ResourceRequest, draft: Draft) -> Outcome:
        if self.verb != "create":
            await _require_create(request, draft.name)
        async with reserve_quota(request, draft.new, dry_run=self.dry_run):
            stored = await request.encode(draft.new)
            if self.dry_run:
                await _require_free_name(request, draft.name)
                return Outcome(obj=await request.as_stored(draft.new, stored))
            actor = request.actor(self.manager, self.verb)
            commit = insert(request, draft.new, stored, draft.start.guards, actor)
            # Frees the object, unless another attempt may follow (rows.py says why).
            del draft
            if self.tries == 1:
                self.make_object = _no_more
            row, guards = await commit
        return Outcome(row, guards=guards)

    async def answer(self, request: ResourceRequest, outcome: Outcome) -> ObjectAnswer:
        return await render(request, outcome, 201)

    def race_lost(self, request: ResourceRequest, error: RevisionConflict | AlreadyExists) -> StatusError:
        return _exists(request, error.current, error.current.key.rpartition("/")[2])


def _is_revision(text: str) -> bool:
    """Whether a resource version of an object to be created is one: the storage ignores 0 and what cannot be parsed."""
    try:
        return bool(text) and parse_revision(text) != 0
    except ValueError:
        return False


async def _require_create(request: ResourceRequest, name: str) -> None:
    """Requires the right to create, for an apply, PUT or undelete that creates its object."""
    user, definition = request.context.user, request.served.definition
    attributes = Attributes("create", "", definition.names.plural, "", definition.group, request.namespace, name)
    decision = await request.backend.authorizer.decide(request.tenant, user, attributes)
    if not decision.allowed:
        raise forbidden(request.served.resource, name, refusal(user, attributes, decision.reason))


def _require_unbound(request: ResourceRequest, obj: Object) -> None:
    """Raises 403 for a definition whose name the tenant has bound."""
    name = obj["metadata"].get("name") or ""
    if request.served.resource_name == DEFINITIONS and name in request.catalog.bound:
        why = "the tenant has bound a definition of this name from another tenant by an APIBinding"
        raise forbidden(request.served.resource, name, why)


async def _require_current_policies(request: ResourceRequest) -> None:
    """Raises CatalogStale if policies have changed, or what the tenant has bound, which the commit does not notice.

    A built-in resource does not depend on other definitions: those that are being established do not make a request
    decode its object again.
    """
    state = await request.backend.store.state(request.tenant)
    known = request.catalog
    if known.serves_as_at(state.guards):
        return
    current = await request.backend.catalogs.serving(request.tenant, state.guards)
    if current.configured is not known.configured or current.bound != known.bound:
        raise CatalogStale(state.guards)


def _require_living_definition(request: ResourceRequest, obj: Object) -> None:
    if request.served.definition.terminating:
        why = "create not allowed while custom resource definition is terminating"
        raise forbidden(request.served.resource, obj["metadata"].get("name") or "", why)


async def _require_free_name(request: ResourceRequest, name: str) -> None:
    """Raises 409 if a dry run finds the name taken."""
    key = request.served.key(request.namespace, name)
    row, state = await request.backend.store.load(request.tenant, request.served.resource_name, key)
    request.check_fresh(state)
    if request.served.namespaced and state.guards.namespaces != request.catalog.guards.namespaces:
        raise CatalogStale(state.guards)  # the namespace may be terminating, which a commit would notice
    if row is not None:
        raise _exists(request, row, name)


def _guards(request: ResourceRequest) -> Guards | None:
    """Returns the guards that a create depends on: None for built-in cluster-scoped resources.

    So hundreds of definitions can be created at the same time, though each of them changes the tenant's definitions.
    """
    served = request.served
    return request.catalog.guards if served.namespaced or not served.definition.builtin else None


def _exists(request: ResourceRequest, row: Row, name: str) -> StatusError:
    terminating = '"deletionTimestamp"' in row.body and is_terminating(request.served.leniently().object(row))
    memo = request.context.memo
    has_prefix = memo is not None and memo.has_prefix
    return already_exists(request.served.resource, name, terminating=terminating, has_prefix=has_prefix)
