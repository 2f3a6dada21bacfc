"""Deletes an object that cannot be read: its conversion fails, its stored version is gone, or new defaults make it too
large.

A usual deletion reads the object first, so it fails as well. This one skips preconditions, finalizers and admission,
and refuses an object that can be read. It needs the right `unsafe-delete-ignore-read-errors`.

Follows apiserver pkg/endpoints/handlers/delete.go (authorizeUnsafeDelete) and
pkg/registry/generic/registry/corrupt_obj_deleter.go at v1.37.
"""

from __future__ import annotations

from typing import Final

from registry.api.answers import DocumentAnswer
from registry.api.decoding import object_of
from registry.api.errors import StatusError, forbidden, modified, not_found
from registry.api.options import DeleteOptions, WriteOptions, manager_of
from registry.api.request import CatalogStale, ResourceRequest
from registry.api.verbs.pipeline import Start
from registry.api.verbs.rows import remove
from registry.api.verbs.update import CONFLICT_TRIES, invalid_stored
from registry.authorization.attributes import Attributes
from registry.budget import BudgetExceeded
from registry.store.errors import GuardsChanged, NotFound, RevisionConflict
from registry.store.types import Row

_VERB: Final = "unsafe-delete-ignore-read-errors"
_AUDITED: Final = "apiserver.k8s.io/unsafe-delete-ignore-read-error"


async def delete_unreadable(request: ResourceRequest, options: DeleteOptions) -> DocumentAnswer:
    """Returns a Status. Raises 403 without the right, 404, and 409 if the object can be read."""
    request.context.annotate(_AUDITED, "")
    await _authorize(request)
    for _ in range(CONFLICT_TRIES):
        row, guards = await request.load()
        if await _is_readable(request, row):
            raise invalid_stored(request, "unsafe deletion is not allowed because the object is decodable from storage")
        if options.dry_run or await _is_removed(request, Start(row, guards)):
            return _success(request)
    raise modified(request.served.resource, request.name)


async def _authorize(request: ResourceRequest) -> None:
    resource = request.served.resource
    attributes = Attributes(_VERB, "", resource.name, "", resource.group, request.namespace, request.name)
    decision = await request.backend.authorizer.decide(request.tenant, request.context.user, attributes)
    if not decision.allowed:
        why = f'not permitted to do "{_VERB}", reason: {decision.reason}'
        raise forbidden(resource, request.name, why)


async def _is_readable(request: ResourceRequest, row: Row) -> bool:
    try:
        await request.object(row)
    except (StatusError, BudgetExceeded):
        return False
    return True


async def _is_removed(request: ResourceRequest, start: Start) -> bool:
    """Removes the row; False if another write came first."""
    assert start.row is not None
    stored = await object_of(start.row.body)
    actor = request.actor(manager_of(WriteOptions(), request.context.user_agent), "delete")
    try:
        await remove(request, start, stored, stored, actor)
    except RevisionConflict:
        return False
    except NotFound as error:
        raise not_found(request.served.resource, request.name) from error
    except GuardsChanged as changed:
        raise CatalogStale(changed.guards) from changed
    return True


def _success(request: ResourceRequest) -> DocumentAnswer:
    """The Status names the kind; that of a usual deletion names the resource."""
    return DocumentAnswer(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": request.name, "kind": request.served.kind.name},
            "code": 200,
        }
    )
