"""Lists of deleted objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from registry.api import continuation
from registry.api.answers import DocumentAnswer
from registry.api.conversions import VersionGone
from registry.api.errors import bad_request
from registry.api.list_options import ListOptions, list_options
from registry.api.query.gathered import Item, is_gathered, parse_gathered, require_bounded, too_many
from registry.api.query.reading import MAX_EXAMINED
from registry.api.request import ResourceRequest
from registry.api.selectors.requirements import satisfies
from registry.api.served import Object
from registry.api.verbs.history.states import API_VERSION, MAX_LIMIT, change_entry, old_row, page_of, redact
from registry.api.verbs.selection import parse_selection
from registry.flowcontrol.evaluation import evaluate
from registry.store.reads.history import HistoryPage
from registry.store.types import Change as LoggedChange
from registry.store.types import ObjectKey

_SELECTING: Final = frozenset({"fieldSelector", "labelSelector", "filter"})


async def list_deleted(request: ResourceRequest) -> DocumentAnswer:
    """Returns a DeletedList, ordered by namespace and name: each deleted object in its last state."""
    options = list_options(request.query)
    if is_gathered(options):
        return await _list_deleted_in_order(request, options)
    limit, token = page_of(request)
    past, more = await _next_deletions(request, ObjectKey(token.after if token else ""), limit)
    items = [await _deleted_entry(request, logged) for logged in past.changes]
    metadata = {"resourceVersion": str(past.state.revision), "retainedSince": str(past.compact_revision)}
    if more:
        metadata["continue"] = continuation.encode(past.state.revision, past.changes[-1].key)
    return DocumentAnswer({"apiVersion": API_VERSION, "kind": "DeletedList", "metadata": metadata, "items": items})


async def _deleted_entry(request: ResourceRequest, logged: LoggedChange) -> Object:
    entry = change_entry(logged)
    old = old_row(logged)
    try:
        if old is not None:
            entry["object"] = await redact(request, old)
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


async def _matches(request: ResourceRequest, logged: LoggedChange, matches: Callable[[str], bool]) -> bool:
    """Whether a filter matches the last state, in the form that the answer shows."""
    row = old_row(logged)
    try:
        text = await request.text(row) if row is not None else None
    except VersionGone:
        return False
    return text is not None and await evaluate(lambda: matches(text), repeatable=True)
