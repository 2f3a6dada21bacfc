"""Create: the first write of an object.

Order of the checks (facts: rest.md, schema.md): options, body, namespace of the body, state of the namespace, then
everything about the object itself at once, a resource version that was given, and last whether the name is taken.
"""

from __future__ import annotations

from functools import partial

from registry.admission.attributes import CREATE
from registry.api.admission.admitter import Admitter, admitter_of
from registry.api.admission.namespace_lifecycle import require_active_namespace
from registry.api.admission.options import write_options_json
from registry.api.admission.quota import reserve_quota
from registry.api.answers import ObjectAnswer
from registry.api.bodies import decode_object
from registry.api.dependents import effects_of, notify_created
from registry.api.errors import StatusError, already_exists, forbidden, invalid, plain_internal
from registry.api.metadata import agree_on_namespace, fill_for_create, generate_name, is_terminating
from registry.api.options import WriteOptions, manager_of, parse_revision, write_options
from registry.api.ownership import own_create
from registry.api.request import Body, CatalogStale, ResourceRequest
from registry.api.served import Object, kind_of, labels_of, owners_of
from registry.authorization.attributes import Attributes, refusal
from registry.store.errors import AlreadyExists, GuardsChanged
from registry.store.types import Guards, Operation, Row, Uid, Write

# How often another random name is tried when one is taken (KEP-4420).
GENERATED_NAME_TRIES = 8


async def create(request: ResourceRequest, body: Body) -> ObjectAnswer:
    """201 with the object as it is stored."""
    options = write_options(request.query, "CreateOptions")
    obj = decode_object(request, body, options)
    manager = manager_of(options, request.context.user_agent)
    return await create_object(request, obj, options, manager, verb="create")


async def create_object(
    request: ResourceRequest, obj: Object, options: WriteOptions, manager: str, verb: str, *, owned: bool = False
) -> ObjectAnswer:
    """`obj` has been decoded by its kind. `owned` says that its managedFields are already right (apply)."""
    agree_on_namespace(request, obj)
    _require_living_definition(request, obj)
    _require_unbound(request, obj)
    await require_active_namespace(request, obj)
    generated = bool(obj["metadata"].get("generateName")) and not obj["metadata"].get("name")
    admission, admitter = request.catalog.admission, None
    if _guards(request) is None or (admission is not None and admission.calls_webhooks):
        await _see_configuration(request)
    if admission is not None:
        admitter = admitter_of(request, write_options_json("CreateOptions", options), dry_run=options.dry_run)
    if admitter is None:
        obj = prepare(request, obj, manager, owned=owned, dry_run=options.dry_run)
    else:
        obj = await _prepare_with_admission(request, obj, manager, admitter, owned=owned, dry_run=options.dry_run)
    if verb != "create":
        await _require_create(request, obj["metadata"]["name"])
    async with reserve_quota(request, obj, dry_run=options.dry_run):
        if options.dry_run:
            return await _dry_run(request, obj)
        return await _commit(request, obj, manager, verb, GENERATED_NAME_TRIES if generated else 1)


async def _require_create(request: ResourceRequest, name: str) -> None:
    """Who may apply, or replace, must also be allowed to create where that is what it comes to."""
    user, definition = request.context.user, request.served.definition
    asked = Attributes("create", "", definition.names.plural, "", definition.group, request.namespace, name)
    decision = await request.backend.policies.decide(request.tenant, user, asked)
    if not decision.allowed:
        raise forbidden(request.served.resource, name, refusal(user, asked, decision.reason))


async def _see_configuration(request: ResourceRequest) -> None:
    """Raises CatalogStale where policies or definitions have changed.

    The commit of this write does not find out, or only after webhooks have been called.
    """
    request.check_fresh(await request.backend.store.state(request.tenant))


async def _prepare_with_admission(
    request: ResourceRequest, obj: Object, manager: str, admitter: Admitter, *, owned: bool, dry_run: bool
) -> Object:
    """`prepare` with what policies and webhooks say before and after it."""
    name = obj["metadata"].get("name") or ""
    revision = obj["metadata"].pop("resourceVersion", None)
    managed = begin(request, obj, manager, owned=owned)
    if admitter.mutates:
        obj = await _mutate(request, obj, name, managed, admitter)
        managed = obj["metadata"].get("managedFields")
        obj["metadata"].pop("resourceVersion", None)
    obj = finish(request, obj, managed, revision, dry_run=dry_run)
    await admitter.validate(CREATE, obj["metadata"]["name"], obj, None)
    return obj


async def _mutate(
    request: ResourceRequest, obj: Object, name: str, managed: list[Object] | None, admitter: Admitter
) -> Object:
    """The object as mutating admission leaves it, which sees nothing yet of what the server fills in."""
    filled = {key: obj["metadata"][key] for key in ("uid", "creationTimestamp", "name") if key in obj["metadata"]}
    shown = {key: value for key, value in obj["metadata"].items() if key not in ("uid", "creationTimestamp")}
    if not name:
        shown.pop("name", None)
    if managed:
        shown["managedFields"] = managed
    mutated = await admitter.mutate(CREATE, name, {**obj, "metadata": shown}, None)
    assert mutated is not None
    metadata = dict(mutated["metadata"])
    for key, value in filled.items():
        if key != "name" or not metadata.get(key):
            metadata[key] = value
    mutated = {**mutated, "metadata": metadata}
    agree_on_namespace(request, mutated)
    return mutated


def _require_unbound(request: ResourceRequest, obj: Object) -> None:
    """A definition that the tenant has bound cannot be defined besides."""
    name = obj["metadata"].get("name") or ""
    if request.served.definition.strategy == "definition" and name in request.catalog.bound:
        raise forbidden(
            request.served.resource,
            name,
            "the tenant has bound a definition of this name from another tenant by an APIBinding",
        )


def _require_living_definition(request: ResourceRequest, obj: Object) -> None:
    if request.served.definition.terminating:
        raise forbidden(
            request.served.resource,
            obj["metadata"].get("name") or "",
            "create not allowed while custom resource definition is terminating",
        )


def prepare(request: ResourceRequest, obj: Object, manager: str, *, owned: bool, dry_run: bool) -> Object:
    """Everything that happens to the object before it is stored; 422 with all that is wrong with it."""
    revision = obj["metadata"].pop("resourceVersion", None)
    return finish(request, obj, begin(request, obj, manager, owned=owned), revision, dry_run=dry_run)


def begin(request: ResourceRequest, obj: Object, manager: str, *, owned: bool) -> list[Object] | None:
    """What the server fills in, and who owns the fields: the managedFields. `obj` has no resource version."""
    served, context = request.served, request.context
    managed: list[Object] | None = obj["metadata"].get("managedFields")
    fill_for_create(obj, context.timestamp, request.judging)
    if not owned:
        # Of the object as the client wrote it: what the server adds below belongs to nobody.
        written = served.strategy.finish(obj)
        managed = own_create(served, written, manager, context.timestamp)["metadata"].get("managedFields")
    return managed


def finish(
    request: ResourceRequest, obj: Object, managed: list[Object] | None, revision: object, *, dry_run: bool
) -> Object:
    """The object as it is stored, if it is right; `revision` is the resource version that it came with."""
    served, context = request.served, request.context
    strategy = served.strategy
    metadata = obj["metadata"]
    strategy.prepare_for_create(obj, context)
    if managed:
        obj["metadata"]["managedFields"] = managed
    errors = strategy.validate(obj)
    if errors:
        raise invalid(kind_of(served, obj), metadata.get("name") or "", errors)
    obj = strategy.finish(obj)
    metadata = obj["metadata"]
    if isinstance(revision, str) and _is_revision(revision):
        if not dry_run:
            raise plain_internal("resourceVersion should not be set on objects to be created")
        metadata["resourceVersion"] = revision
    context.warnings.extend(strategy.warnings(obj, None))
    return obj


def _is_revision(text: str) -> bool:
    """Whether a resource version is one; the reference ignores what is none here."""
    try:
        return parse_revision(text) != 0
    except ValueError:
        return False


async def _dry_run(request: ResourceRequest, obj: Object) -> ObjectAnswer:
    """A dry run: the object as it would be, without a resource version."""
    name = obj["metadata"]["name"]
    key = request.served.key(request.namespace, name)
    row, state = await request.backend.store.load(request.tenant, request.served.resource_name, key)
    request.check_fresh(state)
    if row is not None:
        raise _exists(request, row, name)
    return ObjectAnswer(request.served, obj=obj, code=201)


async def _commit(request: ResourceRequest, obj: Object, manager: str, verb: str, tries: int) -> ObjectAnswer:
    served = request.served
    metadata = obj["metadata"]
    while True:
        version, schema, body = await request.run_with_conversions(partial(served.storable, obj))
        write = Write(
            Operation.CREATE,
            served.resource_name,
            served.key(request.namespace, metadata["name"]),
            request.actor(manager, verb),
            uid=Uid(metadata["uid"]),
            version=version,
            schema=schema,
            body=body,
            labels=labels_of(obj, served.strategy),
            owners=owners_of(obj),
            doc=request.document(obj, body),
            expected_guards=_guards(request),
            **effects_of(served.strategy, obj, None),
        )
        try:
            committed = await request.commit(write)
        except GuardsChanged as changed:
            raise CatalogStale(changed.guards) from changed
        except AlreadyExists as exists:
            tries -= 1
            if not tries:
                raise _exists(request, exists.current, metadata["name"]) from exists
            metadata["name"] = generate_name(metadata["generateName"])
            continue
        notify_created(request, write.key, obj)
        text = await request.run_with_conversions(partial(served.text_of, committed.revision, version, schema, body))
        return ObjectAnswer(served, text=text, code=201)


def _guards(request: ResourceRequest) -> Guards | None:
    """What a create depends on: nothing where the server itself defines the resource and no namespace has it.

    So hundreds of definitions can be created at the same time, though each of them changes the tenant's definitions.
    """
    served = request.served
    return request.catalog.guards if served.namespaced or not served.definition.strategy else None


def _exists(request: ResourceRequest, row: Row, name: str) -> StatusError:
    terminating = '"deletionTimestamp"' in row.body and is_terminating(request.served.leniently().object(row))
    return already_exists(request.served.resource, name, terminating=terminating)
