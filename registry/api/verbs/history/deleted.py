"""Lists of deleted objects."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from registry.api import continuation
from registry.api.answers import DocumentAnswer
from registry.api.conversions import VersionGone
from registry.api.errors import bad_request
from registry.api.list_options import ListOptions, list_options
from registry.api.query.gathered import Item, is_gathered, parse_gathered, require_bounded
from registry.api.query.reading import MAX_EXAMINED
from registry.api.request import ResourceRequest
from registry.api.selectors.requirements import holds, row_test
from registry.api.served import Object
from registry.api.verbs.history.changes import (
    API_VERSION,
    HELD_TIMES,
    MAX_LIMIT,
    change_entry,
    hold,
    old_row,
    page_of,
    redacted,
    size_of,
)
from registry.api.verbs.selection import parse_selection, selectors_size
from registry.codec.json_encode import encode_json_text
from registry.flowcontrol.evaluation import Large, evaluate, large
from registry.store.bounds import READ_BYTES
from registry.store.reads.history import HistoryPage
from registry.store.types import LoggedChange, ObjectKey

T = TypeVar("T")

_SELECTING: Final = frozenset({"fieldSelector", "labelSelector", "filter"})


async def list_deleted(request: ResourceRequest) -> DocumentAnswer:
    """Returns a DeletedList, ordered by namespace and name: each deleted object in its last state."""
    options = list_options(request.query)
    await request.wait_for_room(hash(str(request.query)))
    if is_gathered(options):
        return await _list_deleted_in_order(request, options)
    limit, token = page_of(request)
    chosen: list[LoggedChange] = []
    size = 0
    async with aclosing(_deletions(request, ObjectKey(token.after if token else ""), limit)) as pages:
        async for past, deletions in pages:
            more = past.more
            for position, logged in enumerate(deletions, 1):
                chosen.append(logged)
                size += size_of(logged)
                if len(chosen) == limit or size > READ_BYTES:
                    more = more or position < len(deletions)
                    break
            await hold(HELD_TIMES * size)
            if len(chosen) == limit or size > READ_BYTES:
                break
    items = [await _entry(request, logged, encode_json_text) for logged in chosen]
    metadata = {"resourceVersion": str(past.state.revision), "retainedSince": str(past.compact_revision)}
    if more:
        metadata["continue"] = continuation.encode(past.state.revision, chosen[-1].key)
    return _list(metadata, items)


async def _list_deleted_in_order(request: ResourceRequest, options: ListOptions) -> DocumentAnswer:
    """Returns a DeletedList ordered by `orderBy` of the last states, with an offset or a count.

    Pages show what was deleted when the first one was read, except what has been created again since.
    """
    query = parse_gathered(request, options, "deleted")

    def positioned(entry: Object) -> tuple[bytes, str]:
        return query.position(entry.get("object") or {}), encode_json_text(entry)

    items: list[Item[str]] = []
    size = 0
    async with aclosing(_deletions(request, ObjectKey(""), MAX_LIMIT)) as pages:
        async for past, deletions in pages:
            for logged in deletions:
                if query.revision is not None and logged.revision > query.revision:
                    continue
                size += size_of(logged)
                require_bounded(len(items) + 1, size)
                position, text = await _entry(request, logged, positioned)
                items.append(Item(position, logged.key, text))
            await hold(size)
            last = past
    revision = query.revision or last.state.revision
    page = query.page(items, revision)
    metadata: Object = {"resourceVersion": str(revision), "retainedSince": str(last.compact_revision)}
    if page.token:
        metadata |= {"continue": page.token, "remainingItemCount": page.remaining}
    return _list(metadata, page.values)


def _list(metadata: Object, items: Sequence[str]) -> DocumentAnswer:
    return DocumentAnswer({"apiVersion": API_VERSION, "kind": "DeletedList", "metadata": metadata}, items=items)


async def _entry(request: ResourceRequest, logged: LoggedChange, made: Callable[[Object], T]) -> T:
    """Returns what is `made` of an entry, beside the event loop for a large one. One entry at a time is decoded."""
    entry, size = change_entry(logged), size_of(logged)
    old = old_row(logged)
    async with large(Large.PAST, size):
        try:
            obj = await request.object(old) if old is not None else None
        except VersionGone as gone:
            namespace, _, name = logged.key.rpartition("/")
            return made(entry | {"namespace": namespace, "name": name, "message": gone.message})

        def complete() -> T:
            return made(entry if obj is None else {**entry, "object": redacted(request, obj)})

        return await evaluate(complete, size, repeatable=True)


async def _deletions(
    request: ResourceRequest, after: ObjectKey, limit: int
) -> AsyncGenerator[tuple[HistoryPage, Sequence[LoggedChange]], None]:
    """Yields pages of the log, at least one, each with the deletions of it that the selectors select. Without selectors
    a page has at most `limit`.

    Labels are those of the last state. Fields other than name and namespace cannot be selected by: they may be
    sensitive, and are left out of the answer.
    """
    options = list_options({k: v for k, v in request.query.items() if k in _SELECTING})
    plain = replace(options, order_by="", offset=0, count="")
    parse = partial(parse_selection, request, plain, by_identity=True)
    selection = await evaluate(parse, selectors_size(options), repeatable=True)
    matches, examined = selection.fields.shows, 0
    selects = row_test(selection.requirements)
    key, accepts = selection.fields.key, selection.fields.accepts
    rows = MAX_LIMIT if accepts is not None or selection.requirements or matches is not None else limit
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
        deletions: list[LoggedChange] = []
        for logged in past.changes:
            if (accepts is None or accepts(logged.key)) and await holds(selects, logged.previous_labels):
                if matches is not None:
                    examined += 1
                    if examined > MAX_EXAMINED:
                        raise bad_request(f"the query would look into more than {MAX_EXAMINED} objects")
                    if not await _matches(request, logged, matches):
                        continue
                deletions.append(logged)
        yield past, deletions
        if not past.more:
            return
        after = past.changes[-1].key


async def _matches(request: ResourceRequest, logged: LoggedChange, matches: Callable[[str], bool]) -> bool:
    """Whether a filter matches the last state, in the form that the answer shows."""
    row = old_row(logged)
    try:
        text = await request.text(row) if row is not None else None
    except VersionGone:
        return False
    return text is not None and await evaluate(lambda: matches(text), len(text), repeatable=True)
