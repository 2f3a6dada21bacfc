"""Get: one object, usually its stored bytes after a fixed head."""

from __future__ import annotations

from registry.api.answers import ObjectAnswer
from registry.api.freshness import wait_for_revision
from registry.api.options import first, requested_revision
from registry.api.request import ResourceRequest


async def get(request: ResourceRequest) -> ObjectAnswer:
    """Returns the newest state; a resourceVersion only names a revision that must have been reached."""
    if request.query and (text := first(request.query, "resourceVersion")):
        await wait_for_revision(request, requested_revision(text))
    row, _ = await request.load()
    return ObjectAnswer(request.served, text=await request.text(row))
