"""Get: one object, usually its stored bytes after a fixed head."""

from __future__ import annotations

from registry.api.answers import ObjectAnswer
from registry.api.errors import plain_internal
from registry.api.freshness import wait_for_revision
from registry.api.options import parse_revision
from registry.api.request import ResourceRequest


async def get(request: ResourceRequest) -> ObjectAnswer:
    """Returns the newest state; a resourceVersion only names a revision that must have been reached."""
    if request.query and (given := request.query.get("resourceVersion")) and given[0]:
        await wait_for_revision(request, _revision(given[0]))
    row, _ = await request.load()
    return ObjectAnswer(request.served, text=await request.text(row))


def _revision(text: str) -> int:
    try:
        return parse_revision(text)
    except ValueError as error:
        why = f'resourceVersion: Invalid value: "{text}": {error}'
        raise plain_internal(why) from error
