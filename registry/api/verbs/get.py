"""Get: one object, usually its stored bytes after a fixed head. List: the objects that a selection selects.

Follows apiserver pkg/endpoints/handlers/get.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from registry.api import continuation
from registry.api.answers import ListAnswer, ObjectAnswer
from registry.api.errors import StatusError, bad_request, expired
from registry.api.freshness import EVENTS, wait_for_revision
from registry.api.list_options import ListOptions, list_options
from registry.api.options import exports, first, requested_revision
from registry.api.request import ResourceRequest
from registry.api.verbs.readable import row_texts
from registry.api.verbs.selection import Selection, list_revision, select, selectors_size, wait_for_list
from registry.flowcontrol.evaluation import evaluate
from registry.store.errors import RevisionExpired


async def get(request: ResourceRequest) -> ObjectAnswer:
    """Returns the newest state; a resourceVersion only names a revision that must have been reached."""
    await begin_get(request)
    row, _ = await request.load()
    return ObjectAnswer(request.served, text=await request.text(row))


async def begin_get(request: ResourceRequest) -> None:
    """Validates the options of a get, and waits for its resourceVersion."""
    if not request.query:
        return
    if exports(request.query):
        raise bad_request("the export parameter, deprecated since v1.14, is no longer supported")
    if text := first(request.query, "resourceVersion"):
        await wait_for_revision(request, _revision(request, text))


def _revision(request: ResourceRequest, text: str) -> int:
    """Returns the resource version of a get. An invalid one is a 400, as in a list, for events, which are not in
    kube-apiserver's watch cache."""
    return list_revision(text) if request.served.resource_name == EVENTS else requested_revision(text)


# Bytes that a webhook converts before the first are sent; a later failure cuts off a longer list.
CONVERTED_AHEAD_BYTES = 16 << 20


async def list_(request: ResourceRequest) -> ListAnswer:
    """Returns the list at one revision. Named with an underscore because `list` is Python's."""
    options = list_options(request.query)
    selection = await evaluate(partial(select, request, options), selectors_size(options), repeatable=True)
    await wait_for_list(selection, options)
    try:
        return await _answer(replace(selection, from_memory=True))
    except RevisionExpired as error:
        raise list_expired(options, error) from error


async def _answer(selection: Selection) -> ListAnswer:
    """Streams the list: no more than two pages of rows are held at a time."""
    request = selection.request
    pages = selection.pages()
    first = await anext(pages)
    ahead = deque([await row_texts(request, first.rows)])
    if request.served.conversions is not None:
        # A refusal by a webhook decides the status code, so it must be known before the head is sent.
        size = first.size
        while size < CONVERTED_AHEAD_BYTES and (page := await anext(pages, None)) is not None:
            ahead.append(await row_texts(request, page.rows))
            size += page.size

    async def chunks() -> AsyncIterator[Sequence[str]]:
        async with aclosing(pages):
            while ahead:
                yield ahead.popleft()
            async for page in pages:
                yield await row_texts(request, page.rows)

    token = selection.continue_token(first) if selection.limit else ""
    return ListAnswer(request.served, first.revision, chunks(), token, first.remaining)


def list_expired(options: ListOptions, error: RevisionExpired) -> StatusError:
    """Returns a 410; for a page, with a token that continues the list at the newest revision."""
    if not options.continue_:
        return expired(
            f"The resourceVersion for the provided list is too old: {error.revision} ({error.compact_revision})"
        )
    after = continuation.decode(options.continue_).after
    return expired(continuation.EXPIRED, continuation.encode(continuation.NEWEST, after))
