"""The changes of one object, and its state at a revision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
    NEWEST,
    change_entry,
    new_row,
    old_row,
    page_of,
    redact,
    row_at,
)
from registry.api.verbs.selection import list_revision
from registry.apply.diff import json_diff, merge_diff
from registry.store.types import Change as LoggedChange

# Fields that the server writes for itself, of which no difference is shown.
_NOT_COMPARED: Final = ("managedFields", "resourceVersion")
Difference = Callable[[Object, Object], Any]


async def history(request: ResourceRequest) -> DocumentAnswer:
    """Returns a HistoryList, newest first. Raises 404 for an object that neither exists nor is in the log."""
    difference = _difference(request)
    with_objects = is_true(request.query, "object")
    limit, token = page_of(request)
    before = token.revision if token else NEWEST
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
    entry = change_entry(logged)
    new, old = new_row(logged), old_row(logged)
    try:
        after = await redact(request, new) if new is not None and (difference or with_objects) else None
        if difference is not None and after is not None:
            before = await redact(request, old) if old is not None else {}
            entry["diff"] = difference(_comparable(before), _comparable(after))
        if with_objects and after is not None:
            entry["object"] = after
    except VersionGone as gone:
        entry["message"] = gone.message
    return entry


async def state(request: ResourceRequest) -> ObjectAnswer:
    """Returns the object as it was at any revision of the tenant."""
    revision = list_revision(request.query["atResourceVersion"][0])
    if not revision:
        raise bad_request("atResourceVersion: must be a resource version other than 0")
    row = await row_at(request, revision)
    if request.served.extraction.redacted_paths:
        return ObjectAnswer(request.served, obj=await redact(request, row))
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
