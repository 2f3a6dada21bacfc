"""Get: one object, usually its stored bytes after a fixed head."""

from __future__ import annotations

from registry.api.answers import ObjectAnswer
from registry.api.errors import bad_request
from registry.api.freshness import EVENTS, wait_for_revision
from registry.api.options import exports, first, requested_revision
from registry.api.request import ResourceRequest
from registry.api.verbs.selection import list_revision


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
