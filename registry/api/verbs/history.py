"""History of objects, as subresources that Kubernetes does not have: history, restore, undelete, deleted.

    GET  .../widgets/a/history                                     its changes, newest first, with differences
    GET  .../widgets/a?atResourceVersion=7                         its state at a revision (right: history)
    POST .../widgets/a/restore   {"resourceVersion": "7"}          restores an earlier state by an ordinary update
    POST .../widgets/a/undelete                                    creates it again as it was, with a new uid
    GET  .../widgets?deleted=true                                  deleted objects (right: list widgets/deleted);
                                                                   selects by labels, name and namespace

They reach as far back as the change log. A restored object is written like any other: decoded, pruned, validated and
admitted under today's definitions and policies. Kinds in BARRED have no history, and sensitive fields of others are
left out (as in SQL reports). Documented in docs/history.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from registry.api import continuation
from registry.api.answers import Answer, DocumentAnswer, ObjectAnswer
from registry.api.conversions import VersionGone
from registry.api.errors import (
    already_exists,
    bad_request,
    conflict,
    expired,
    forbidden,
    method_not_supported,
    not_found,
)
from registry.api.freshness import wait_for_revision
from registry.api.options import ListOptions, Query, WriteOptions, is_true, list_options, manager_of, write_options
from registry.api.query.gathered import Item, is_gathered, parse_gathered, require_bounded, too_many
from registry.api.query.reading import MAX_EXAMINED
from registry.api.request import Body, ResourceRequest
from registry.api.selectors import satisfies
from registry.api.served import Object, Served
from registry.api.strategies.base import ObjectDecodeError
from registry.api.verbs.create import create_object
from registry.api.verbs.driver import run
from registry.api.verbs.list import list_revision, parse_selection
from registry.api.verbs.pipeline import Draft, Outcome
from registry.api.verbs.update import UpdateOperation, copy_of
from registry.apply.diff import json_diff, merge_diff
from registry.codec.json_decode import decode_json
from registry.codec.model import DecodeError as SyntaxFault
from registry.codec.yaml_decode import decode_yaml
from registry.flowcontrol.evaluation import evaluate
from registry.reporting.redaction import without
from registry.schema.values import deep_copy
from registry.store.errors import RevisionExpired
from registry.store.reads.history import HistoryPage
from registry.store.reporting.model import LAST_APPLIED
from registry.store.types import Change as LoggedChange
from registry.store.types import ChangeType, ObjectKey, Row

API_VERSION: Final = "history.registry/v1"
DELETED: Final = "deleted"
# The verbs of each subresource.
SUBRESOURCES: Final = {"history": ("get",), "restore": ("create",), "undelete": ("create",), DELETED: ("list",)}
# Names of resources as stored: the right to read today's secrets does not include those of the past.
BARRED: Final = frozenset({"secrets"})
DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500
# Fields that the server writes for itself, of which no difference is shown.
_NOT_COMPARED: Final = ("managedFields", "resourceVersion")
_NEWEST: Final = (1 << 63) - 1


def check(served: Served, subresource: str, name: str, verb: str) -> None:
    """Raises 404, 405 or 403 if the subresource is not available."""
    if served.strategy.virtual:
        raise not_found(served.resource, name)
    if verb not in SUBRESOURCES[subresource]:
        raise method_not_supported(served.resource, verb)
    if served.resource_name in BARRED:
        raise forbidden(served.resource, name, f"the past of {served.resource} cannot be read")


def is_document(subresource: str, verb: str, query: Query) -> bool:
    """Whether the answer is a document of our own, not a present or past object."""
    if subresource == "history":
        return "atResourceVersion" not in query
    return subresource == DELETED and verb == "list"


async def serve(request: ResourceRequest, verb: str, body: Body | None) -> Answer:
    subresource, request = request.subresource, request._replace(subresource="")
    match subresource:
        case "history":
            return await (state(request) if "atResourceVersion" in request.query else history(request))
        case "restore":
            assert body is not None
            return await restore(request, body)
        case "undelete":
            assert body is not None
            return await undelete(request, body)
        case _:
            return await list_deleted(request)


# -- looking back
async def history(request: ResourceRequest) -> DocumentAnswer:
    """Returns a HistoryList, newest first. Raises 404 for an object that neither exists nor is in the log."""
    difference = _difference(request)
    with_objects = is_true(request.query, "object")
    limit, token = _page(request)
    before = token.revision if token else _NEWEST
    past = await request.backend.store.history.of_object(
        request.tenant, request.served.resource_name, request.key, before=before, limit=limit
    )
    request.check_fresh(past.state)
    if not past.changes and token is None:
        await request.load()
    items = []
    for logged in past.changes:
        items.append(await _entry(request, logged, difference, with_objects=with_objects))
        # Each entry may take milliseconds.
        await asyncio.sleep(0)
    metadata = {"resourceVersion": str(past.state.revision), "retainedSince": str(past.compact_revision)}
    if past.more:
        metadata["continue"] = continuation.encode(past.changes[-1].revision, request.key)
    return DocumentAnswer({"apiVersion": API_VERSION, "kind": "HistoryList", "metadata": metadata, "items": items})


async def _entry(
    request: ResourceRequest, logged: LoggedChange, difference: Difference | None, *, with_objects: bool
) -> Object:
    entry = _change_entry(logged)
    new, old = _new_row(logged), _old_row(logged)
    try:
        after = await _redact(request, new) if new is not None and (difference or with_objects) else None
        if difference is not None and after is not None:
            before = await _redact(request, old) if old is not None else {}
            entry["diff"] = difference(_comparable(before), _comparable(after))
        if with_objects and after is not None:
            entry["object"] = after
    except VersionGone as gone:
        entry["message"] = gone.message
    return entry


def _change_entry(logged: LoggedChange) -> Object:
    entry: Object = {"resourceVersion": str(logged.revision)}
    if logged.previous_revision:
        entry["previousResourceVersion"] = str(logged.previous_revision)
    actor = logged.actor
    entry |= {
        "uid": logged.uid,
        "time": logged.at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "operation": _OPERATIONS[logged.type],
        "verb": actor.verb,
        "user": actor.user,
        "fieldManager": actor.manager,
    }
    return entry


_OPERATIONS: Final = {ChangeType.ADDED: "Create", ChangeType.MODIFIED: "Update", ChangeType.DELETED: "Delete"}
Difference = Callable[[Object, Object], Any]


async def list_deleted(request: ResourceRequest) -> DocumentAnswer:
    """Returns a DeletedList, ordered by namespace and name: each deleted object in its last state."""
    options = list_options(request.query)
    if is_gathered(options):
        return await _list_deleted_in_order(request, options)
    limit, token = _page(request)
    past, more = await _next_deletions(request, ObjectKey(token.after if token else ""), limit)
    items = [await _deleted_entry(request, logged) for logged in past.changes]
    metadata = {"resourceVersion": str(past.state.revision), "retainedSince": str(past.compact_revision)}
    if more:
        metadata["continue"] = continuation.encode(past.state.revision, past.changes[-1].key)
    return DocumentAnswer({"apiVersion": API_VERSION, "kind": "DeletedList", "metadata": metadata, "items": items})


async def _deleted_entry(request: ResourceRequest, logged: LoggedChange) -> Object:
    entry = _change_entry(logged)
    old = _old_row(logged)
    try:
        if old is not None:
            entry["object"] = await _redact(request, old)
    except VersionGone as gone:
        namespace, _, name = logged.key.rpartition("/")
        entry |= {"namespace": namespace, "name": name, "message": gone.message}
    await asyncio.sleep(0)
    return entry


async def _list_deleted_in_order(request: ResourceRequest, options: ListOptions) -> DocumentAnswer:
    """Returns a DeletedList ordered by `orderBy` of the last states, with an offset or a count.

    Pages show what was deleted when the first one was read, except what has been created again since.
    """
    query = parse_gathered(request, options, "deleted")
    past, more = await _next_deletions(request, ObjectKey(""), MAX_EXAMINED)
    if more:
        raise too_many()
    items: list[Item[Object]] = []
    size = 0
    for logged in past.changes:
        if query.revision is not None and logged.revision > query.revision:
            continue
        size += len(logged.previous_body or "")
        require_bounded(len(items), size)
        entry = await _deleted_entry(request, logged)
        items.append(Item(query.position(entry.get("object") or {}), logged.key, entry))
    revision = query.revision or past.state.revision
    page = query.page(items, revision)
    metadata: Object = {"resourceVersion": str(revision), "retainedSince": str(past.compact_revision)}
    if page.token:
        metadata |= {"continue": page.token, "remainingItemCount": page.remaining}
    return DocumentAnswer(
        {"apiVersion": API_VERSION, "kind": "DeletedList", "metadata": metadata, "items": list(page.values)}
    )


async def _next_deletions(request: ResourceRequest, after: ObjectKey, limit: int) -> tuple[HistoryPage, bool]:
    """Returns the next deletions that the selectors select, and whether there may be more.

    Labels are those of the last state. Fields other than name and namespace cannot be selected by: they may be
    sensitive, and are left out of the answer.
    """
    options = list_options({k: v for k, v in request.query.items() if k in _SELECTING})
    selection = parse_selection(request, replace(options, order_by="", offset=0, count=""), by_identity=True)
    matches, examined = selection.fields.shows, 0
    key, accepts = selection.fields.key, selection.fields.accepts
    rows = MAX_LIMIT if accepts is not None or selection.requirements or matches is not None else limit
    deletions: list[LoggedChange] = []
    while True:
        past = await request.backend.store.history.list_deleted(
            request.tenant,
            request.served.resource_name,
            namespace=request.namespace or None,
            key=key,
            after=after,
            limit=rows,
        )
        request.check_fresh(past.state)
        for position, logged in enumerate(past.changes, 1):
            if (accepts is None or accepts(logged.key)) and satisfies(selection.requirements, logged.previous_labels):
                if matches is not None:
                    examined += 1
                    if examined > MAX_EXAMINED:
                        raise bad_request(f"the query would look into more than {MAX_EXAMINED} objects")
                    if not await _matches(request, logged, matches):
                        continue
                deletions.append(logged)
                if len(deletions) == limit:
                    return replace(past, changes=deletions), past.more or position < len(past.changes)
        if not past.more:
            return replace(past, changes=deletions), False
        after = past.changes[-1].key


_SELECTING: Final = frozenset({"fieldSelector", "labelSelector", "filter"})


async def _matches(request: ResourceRequest, logged: LoggedChange, matches: Callable[[str], bool]) -> bool:
    """Whether a filter matches the last state, in the form that the answer shows."""
    row = _old_row(logged)
    try:
        text = await request.text(row) if row is not None else None
    except VersionGone:
        return False
    return text is not None and await evaluate(lambda: matches(text), repeatable=True)


async def state(request: ResourceRequest) -> ObjectAnswer:
    """Returns the object as it was at any revision of the tenant."""
    revision = list_revision(request.query["atResourceVersion"][0])
    if not revision:
        raise bad_request("atResourceVersion: must be a resource version other than 0")
    row = await _row_at(request, revision)
    if request.served.redacted_paths:
        return ObjectAnswer(request.served, obj=await _redact(request, row))
    return ObjectAnswer(request.served, text=await request.text(row))


async def _row_at(request: ResourceRequest, revision: int) -> Row:
    """Returns the row at a revision. Raises 404 if there was no object, 410 beyond the log, 504 in the future."""
    await wait_for_revision(request, revision)
    try:
        page = await request.backend.store.page(
            request.tenant, request.served.resource_name, at=revision, limit=1, key=request.key
        )
    except RevisionExpired as error:
        raise expired(
            f"resource version {revision} is beyond what is kept: the oldest is {error.compact_revision}"
        ) from error
    request.check_fresh(page.state)
    if not page.rows:
        raise not_found(request.served.resource, f"{request.name} at resource version {revision}")
    return page.rows[0]


# -- bringing back
async def restore(request: ResourceRequest, body: Body) -> ObjectAnswer:
    """Returns 200 with the restored object: labels, annotations, and everything but metadata are as they were."""
    wanted = _decode_options(request, body)
    revision = _wanted_revision(wanted)
    if not revision:
        raise bad_request("resourceVersion: the state to restore must be named")
    options = write_options(request.query, "UpdateOptions")
    current, _ = await request.load()
    preconditions = wanted.get("preconditions") or {}
    past = await _object_today(request, await _row_at(request, revision))

    def make(request: ResourceRequest, old: Object) -> Object:
        metadata = {k: v for k, v in old["metadata"].items() if k not in _RESTORED}
        metadata |= {k: past["metadata"][k] for k in _RESTORED if k in past["metadata"]}
        if preconditions.get("resourceVersion"):
            metadata["resourceVersion"] = preconditions["resourceVersion"]
        return _decode_by_kind(request, {**past, "metadata": metadata})

    manager = manager_of(options, request.context.user_agent)
    uid = preconditions.get("uid") or current.uid
    operation = UpdateOperation(make, "restore", manager, WriteOptions(dry_run=options.dry_run), uid=uid)
    return await run(request, operation)


# The part of metadata that describes the object; finalizers and owners decide about its present lifecycle.
_RESTORED: Final = ("labels", "annotations")


async def undelete(request: ResourceRequest, body: Body) -> ObjectAnswer:
    """Returns 201 with the object, recreated in its last or an earlier state. Raises 404 for an unknown object."""
    wanted = _decode_options(request, body)
    options: WriteOptions = write_options(request.query, "CreateOptions")
    served = request.served
    if served.strategy.has_grace_period:
        return await _undelete_kept(request, wanted, options)
    past = await request.backend.store.history.of_object(
        request.tenant, served.resource_name, request.key, before=_NEWEST, limit=1
    )
    request.check_fresh(past.state)
    last = past.changes[0] if past.changes else None
    if last is None or last.type is not ChangeType.DELETED:
        row, _ = await request.backend.store.load(request.tenant, served.resource_name, request.key)
        raise not_found(served.resource, request.name) if row is None else already_exists(served.resource, request.name)
    uid = (wanted.get("preconditions") or {}).get("uid")
    if uid and uid != last.uid:
        raise conflict(
            served.resource,
            request.name,
            f"the UID in the precondition ({uid}) does not match the UID of what was deleted last ({last.uid})",
        )
    revision = _wanted_revision(wanted)
    row = await _row_at(request, revision) if revision else _old_row(last)
    assert row is not None, "a deletion has a previous state"
    deleted = await _object_today(request, row)
    metadata = {k: deleted["metadata"][k] for k in ("name", "namespace", *_RESTORED) if k in deleted["metadata"]}
    if owners := deleted["metadata"].get("ownerReferences"):
        # They belong to the past: if they are gone, the object would be garbage collected again.
        names = ", ".join(f"{o.get('kind')} {o.get('name')}" for o in owners)
        request.context.warnings.append(f"metadata.ownerReferences are not brought back: {names}")
    obj = _decode_by_kind(request, {**deleted, "metadata": metadata})
    manager = manager_of(options, request.context.user_agent)
    return await create_object(request, obj, options, manager, verb="undelete")


async def _undelete_kept(request: ResourceRequest, wanted: Object, options: WriteOptions) -> ObjectAnswer:
    """Returns 200 with an object that is deleted but still there. Raises 404 or 409 if there is none to bring back."""
    uid = (wanted.get("preconditions") or {}).get("uid") or ""
    manager = manager_of(options, request.context.user_agent)
    return await run(request, UndeleteOperation(_as_it_is, "undelete", manager, options, uid=uid))


def _as_it_is(_request: ResourceRequest, old: Object) -> Object:
    return copy_of(old)


class UndeleteOperation(UpdateOperation):
    """The update that removes an object's deletion mark, as only the server can."""

    async def commit(self, request: ResourceRequest, draft: Draft) -> Outcome:
        request.served.strategy.prepare_for_undelete(draft.new, request.context)
        return await super().commit(request, draft)


# -- helpers
def _new_row(logged: LoggedChange) -> Row | None:
    if logged.type is ChangeType.DELETED:
        return None
    return Row(logged.resource, logged.key, logged.uid, logged.revision, logged.version, logged.schema, logged.body)


def _old_row(logged: LoggedChange) -> Row | None:
    if logged.previous_body is None:
        return None
    return Row(
        logged.resource,
        logged.key,
        logged.uid,
        logged.previous_revision,
        logged.previous_version,
        logged.previous_schema,
        logged.previous_body,
    )


async def _object_today(request: ResourceRequest, row: Row) -> Object:
    """Returns the object of a row at the request's version, under today's schema."""
    return await request.object(row)


async def _redact(request: ResourceRequest, row: Row) -> Object:
    """Returns the object without sensitive fields and without fields that hold copies of them."""
    obj = await _object_today(request, row)
    redacted = request.served.redacted_paths
    return without(obj, (*redacted, *_COPIES)) if redacted else obj


_COPIES: Final = (("metadata", "managedFields"), ("metadata", "annotations", LAST_APPLIED))


def _comparable(obj: Object) -> Object:
    if "metadata" not in obj:
        return obj
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k not in _NOT_COMPARED}}


def _decode_by_kind(request: ResourceRequest, obj: Object) -> Object:
    try:
        return request.served.strategy.decode(deep_copy(obj), [])
    except ObjectDecodeError as error:
        raise bad_request(f"what the object was then is no {request.served.kind.name} of today: {error}") from error


def _difference(request: ResourceRequest) -> Difference | None:
    format_ = request.query.get("diff")
    known: dict[str, Difference | None] = {"merge": merge_diff, "json": json_diff, "none": None}
    if format_ and format_[0] not in known:
        raise bad_request('diff: must be "merge", "json" or "none"')
    return known[format_[0]] if format_ else merge_diff


def _page(request: ResourceRequest) -> tuple[int, continuation.Continuation | None]:
    options = list_options({k: v for k, v in request.query.items() if k in ("limit", "continue")})
    if options.limit < 0:
        raise bad_request("limit: must not be negative")
    token = continuation.decode(options.continue_) if options.continue_ else None
    # Each state takes a webhook call.
    highest = DEFAULT_LIMIT if request.served.conversions is not None else MAX_LIMIT
    return min(options.limit or DEFAULT_LIMIT, highest), token


def _decode_options(request: ResourceRequest, body: Body) -> Object:
    """Decodes the options of a restore or undelete: `{"resourceVersion": "7", "preconditions": {"uid": ...}}`.

    The body may be empty.
    """
    if not body.data.strip():
        return {}
    try:
        value = body.read(decode_yaml if body.media_type == "yaml" else decode_json).value
    except SyntaxFault as fault:
        raise bad_request(f"the body cannot be read: {fault}") from fault
    texts: Sequence[Any] = ()
    if isinstance(value, dict):
        preconditions = value.get("preconditions") or {}
        if isinstance(preconditions, dict) and not (value.keys() - _KNOWN):
            texts = (value.get("resourceVersion"), preconditions.get("uid"), preconditions.get("resourceVersion"))
            if all(t is None or isinstance(t, str) for t in texts):
                return value
    raise bad_request(
        'the body must be of the form {"resourceVersion": "7", "preconditions": {"uid": "...", "resourceVersion": "9"}}'
    )


_KNOWN: Final = {"apiVersion", "kind", "resourceVersion", "preconditions"}


def _wanted_revision(wanted: Object) -> int:
    return list_revision(wanted.get("resourceVersion") or "")
