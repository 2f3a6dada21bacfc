"""The changes of one object, and its state at a revision."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from registry.api import continuation
from registry.api.answers import DocumentAnswer, ObjectAnswer
from registry.api.conversions import VersionGone
from registry.api.errors import bad_request
from registry.api.options import is_true
from registry.api.request import ResourceRequest
from registry.api.served import Object
from registry.api.verbs.history.states import (
    API_VERSION,
    HELD_TIMES,
    NEWEST,
    change_entry,
    hold,
    new_row,
    old_row,
    page_of,
    redacted,
    row_at,
    size_of,
)
from registry.api.verbs.selection import list_revision
from registry.apply.diff import json_diff, merge_diff
from registry.codec.json_encode import encode_json_text
from registry.flowcontrol.evaluation import Large, evaluate, large
from registry.store.types import LoggedChange

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
