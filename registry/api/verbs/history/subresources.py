"""The subresources of the past: which there are, and who serves each."""

from __future__ import annotations

from typing import Final

from registry.api.answers import Answer
from registry.api.errors import forbidden, method_not_supported, not_found
from registry.api.options import Query
from registry.api.request import Body, ResourceRequest
from registry.api.served import Served
from registry.api.verbs.history.changes import history, state
from registry.api.verbs.history.deleted import list_deleted
from registry.api.verbs.history.restore import restore, undelete

DELETED: Final = "deleted"
# The verbs of each subresource.
SUBRESOURCES: Final = {"history": ("get",), "restore": ("create",), "undelete": ("create",), DELETED: ("list",)}
# Names of resources as stored: the right to read today's secrets does not include those of the past.
BARRED: Final = frozenset({"secrets"})


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
