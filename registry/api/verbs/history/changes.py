"""The changes of one object, and its state at a revision; logged states as rows, objects and entries of lists."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from registry.api import continuation
from registry.api.answers import DocumentAnswer, ObjectAnswer
from registry.api.conversions import VersionGone
from registry.api.errors import bad_request, expired, not_found
from registry.api.freshness import wait_for_revision
from registry.api.list_options import list_options
from registry.api.options import is_true
from registry.api.request import ResourceRequest
from registry.api.served import Object
from registry.api.verbs.selection import list_revision
from registry.apply.diff import json_diff, merge_diff
from registry.codec.json_encode import encode_json_text
from registry.flowcontrol.byte_shares import HeldAnswer
from registry.flowcontrol.evaluation import Large, evaluate, large
from registry.reporting.redaction import without
from registry.store.errors import RevisionExpired
from registry.store.reporting.model import LAST_APPLIED
from registry.store.types import ChangeType, LoggedChange, Row

# Fields that the server writes for itself, of which no difference is shown.
_NOT_COMPARED: Final = ("managedFields", "resourceVersion")
Difference = Callable[[Object, Object], Any]


async def history(request: ResourceRequest) -> DocumentAnswer:
    """Returns a HistoryList, newest first. Raises 404 for an object that neither exists nor is in the log."""
    difference = _difference(request)
    with_objects = is_true(request.query, "object")
    limit, token = page_of(request)
    await request.wait_for_room(hash(str(request.query)))
    before = token.revision if token else NEWEST
    past = await request.backend.store.history.of_object(
        request.tenant, request.served.resource_name, request.key, before=before, limit=limit
    )
    request.check_fresh(past.state)
    if not past.changes and token is None:
        await request.load()
    await hold(HELD_TIMES * sum(map(size_of, past.changes)))
    items = [await _entry(request, logged, difference, with_objects=with_objects) for logged in past.changes]
    metadata = {"resourceVersion": str(past.state.revision), "retainedSince": str(past.compact_revision)}
    if past.more:
        metadata["continue"] = continuation.encode(past.changes[-1].revision, request.key)
    return DocumentAnswer({"apiVersion": API_VERSION, "kind": "HistoryList", "metadata": metadata}, items=items)


async def _entry(
    request: ResourceRequest, logged: LoggedChange, difference: Difference | None, *, with_objects: bool
) -> str:
    """Returns the JSON of an entry. One entry at a time is decoded."""
    entry, size = change_entry(logged), size_of(logged)
    new, old = new_row(logged), old_row(logged)
    if new is None or not (difference or with_objects):
        return encode_json_text(entry)

    def complete(before: Object, after: Object) -> str:
        after = redacted(request, after)
        if difference is not None:
            entry["diff"] = difference(_comparable(redacted(request, before)), _comparable(after))
        if with_objects:
            entry["object"] = after
        return encode_json_text(entry)

    async with large(Large.PAST, size):
        try:
            after = await request.object(new)
            before = await request.object(old) if old is not None and difference is not None else {}
        except VersionGone as gone:
            return encode_json_text({**entry, "message": gone.message})
        return await evaluate(partial(complete, before, after), size, repeatable=True)


async def state(request: ResourceRequest) -> ObjectAnswer:
    """Returns the object as it was at any revision of the tenant."""
    revision = list_revision(request.query["atResourceVersion"][0])
    if not revision:
        raise bad_request("atResourceVersion: must be a resource version other than 0")
    row = await row_at(request, revision)
    if request.served.extraction.redacted_paths:
        obj = await request.object(row)
        obj = await evaluate(partial(redacted, request, obj), len(row.body), repeatable=True)
        return ObjectAnswer(request.served, obj=obj)
    return ObjectAnswer(request.served, text=await request.text(row))


def _difference(request: ResourceRequest) -> Difference | None:
    format_ = request.query.get("diff")
    known: dict[str, Difference | None] = {"merge": merge_diff, "json": json_diff, "none": None}
    if format_ and format_[0] not in known:
        raise bad_request('diff: must be "merge", "json" or "none"')
    return known[format_[0]] if format_ else merge_diff


def _comparable(obj: Object) -> Object:
    if "metadata" not in obj:
        return obj
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k not in _NOT_COMPARED}}


# -- logged states
API_VERSION: Final = "history.registry/v1"
DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500
NEWEST: Final = (1 << 63) - 1
# How often states are held: as rows, as texts of entries, and as bytes of the answer.
HELD_TIMES: Final = 3
_OPERATIONS: Final = {ChangeType.ADDED: "Create", ChangeType.MODIFIED: "Update", ChangeType.DELETED: "Delete"}
_COPIES: Final = (("metadata", "managedFields"), ("metadata", "annotations", LAST_APPLIED))


def change_entry(logged: LoggedChange) -> Object:
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


async def row_at(request: ResourceRequest, revision: int) -> Row:
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


def new_row(logged: LoggedChange) -> Row | None:
    if logged.type is ChangeType.DELETED:
        return None
    return Row(logged.resource, logged.key, logged.uid, logged.revision, logged.version, logged.schema, logged.body)


def old_row(logged: LoggedChange) -> Row | None:
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


def redacted(request: ResourceRequest, obj: Object) -> Object:
    """Returns the object without sensitive fields and without fields that hold copies of them."""
    paths = request.served.extraction.redacted_paths
    return without(obj, (*paths, *_COPIES)) if paths else obj


def size_of(logged: LoggedChange) -> int:
    """Returns the length of both bodies."""
    return len(logged.body or "") + len(logged.previous_body or "")


async def hold(count: int) -> None:
    """Accounts for `count` bytes of states. Raises TooManyRequests."""
    if (answer := HeldAnswer.current()) is not None:
        await answer.hold_part(count)


def page_of(request: ResourceRequest) -> tuple[int, continuation.Continuation | None]:
    options = list_options({k: v for k, v in request.query.items() if k in ("limit", "continue")})
    token = continuation.decode(options.continue_) if options.continue_ else None
    # Each state takes a webhook call.
    highest = DEFAULT_LIMIT if request.served.conversions is not None else MAX_LIMIT
    return min(options.limit or DEFAULT_LIMIT, highest), token
