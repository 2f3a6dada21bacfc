"""Dispatches a request on a resource to the function of its verb."""

from __future__ import annotations

from registry.admission.configuration import GROUP as ADMISSION
from registry.admission.configuration import TENANT_BYTES
from registry.aggregation.model import GROUP as API_REGISTRATION
from registry.api.admission.escalation import Authority
from registry.api.answers import Answer
from registry.api.automatic_api_services import ensure_api_services
from registry.api.bound_definitions import DEFINITIONS
from registry.api.default_roles import ensure_default_roles
from registry.api.errors import method_not_supported, not_found
from registry.api.list_options import list_options
from registry.api.query.listing import query_list
from registry.api.query.parsing import is_query
from registry.api.request import Body, ResourceRequest
from registry.api.served import Served
from registry.api.strategies import definition
from registry.api.strategies.base import Context
from registry.api.verbs import dependents, statistics, usage
from registry.api.verbs.create import create
from registry.api.verbs.delete import delete, delete_collection
from registry.api.verbs.get import get, list_
from registry.api.verbs.history import subresources as history
from registry.api.verbs.patch import patch
from registry.api.verbs.review import review
from registry.api.verbs.scale import get_scale, patch_scale, update_scale
from registry.api.verbs.token_request import request_token
from registry.api.verbs.update import update
from registry.api.verbs.watch import watch
from registry.api.wildcard.requests import serve as serve_wildcard
from registry.authorization.rbac.model import GROUP as RBAC

# The verbs of each subresource; others are not supported.
SUBRESOURCE_VERBS = {
    "status": ("get", "update", "patch"),
    "scale": ("get", "update", "patch"),
    "finalize": ("update",),
    "token": ("create",),
}
# The verbs that decode an object, and so limit what it may be.
_WRITES = ("create", "update", "patch")


async def serve(
    request: ResourceRequest, verb: str, body: Body | None, options_body: dict[str, object] | None = None
) -> Answer:
    """Returns the answer of `verb`. `body` is for create, update and patch, `options_body` for a delete with one."""
    group = request.served.definition.group
    if group == RBAC:
        await ensure_default_roles(request.backend, request.tenant)
    elif group == API_REGISTRATION and request.context.wildcard is None:
        await ensure_api_services(request.backend, request.tenant)
    if verb in _WRITES and (group in (RBAC, ADMISSION) or request.served.resource_name == DEFINITIONS):
        request = request._replace(context=await _with_limits(request))
    if request.served.converts_contents:
        request = request._replace(served=request.converting(request.served))
    if statistics.is_of(verb, request.subresource, request.query):
        return await statistics.serve(request)
    if request.context.wildcard is not None:
        return await serve_wildcard(request, request.context.wildcard, verb)
    match request.subresource:
        case "":
            return await _serve_object(request, verb, body, options_body)
        case "scale":
            return await _serve_scale(request, verb, body)
        case "token":
            assert body is not None
            return await request_token(request, body)
        case usage.SUBRESOURCE:
            return await usage.serve(request, verb)
        case past if past in history.SUBRESOURCES:
            return await history.serve(request, verb, body)
        case _:
            return await _serve_part(request, verb, body)


async def _with_limits(request: ResourceRequest) -> Context:
    """Returns the context of a write of what the process keeps in memory, or of roles, with the limits of either."""
    context = request.context
    if request.served.resource_name == DEFINITIONS:
        return context.with_limits(definition.TENANT_BYTES - request.catalog.definitions_size)
    if request.served.definition.group == ADMISSION:
        # Exact: a commit under another configuration is refused, and the request evaluated again.
        return context.with_limits(TENANT_BYTES - request.catalog.configured.size)
    room, user, authority = await request.backend.authorizer.room(request.tenant), context.user, None
    if not user.is_administrator:
        policy = await request.backend.authorizer.of(request.tenant)
        authority = Authority(policy, user, request.served.resource.name, request.namespace, request.name)
    return context.with_limits(room, authority)


async def _serve_object(
    request: ResourceRequest, verb: str, body: Body | None, options_body: dict[str, object] | None
) -> Answer:
    match verb:
        case "get":
            wants_dependents = dependents.is_of(verb, "", request.query)
            return await (dependents.serve(request) if wants_dependents else get(request))
        case "list":
            options = list_options(request.query)
            selection = (options.label_selector, options.field_selector, options.filter)
            await request.wait_for_room(options.limit, hash(selection))
            return await (query_list(request, options) if is_query(request, options) else list_(request))
        case "watch":
            return await watch(request)
        case "create":
            assert body is not None
            return await (review(request, body) if request.served.strategy.virtual else create(request, body))
        case "update":
            assert body is not None
            return await update(request, body)
        case "patch":
            assert body is not None
            return await patch(request, body)
        case "delete":
            return await delete(request, options_body)
        case "deletecollection":
            return await delete_collection(request, options_body)
        case _:
            raise method_not_supported(request.served.resource, verb)


async def _serve_part(request: ResourceRequest, verb: str, body: Body | None) -> Answer:
    """Serves status and similar subresources: the whole object is sent, of which only a part is used."""
    request = request._replace(served=request.served.part(request.subresource))
    if verb == "get":
        return await get(request)
    assert body is not None
    return await (update(request, body) if verb == "update" else patch(request, body))


async def _serve_scale(request: ResourceRequest, verb: str, body: Body | None) -> Answer:
    if verb == "get":
        return await get_scale(request)
    assert body is not None
    return await (update_scale(request, body) if verb == "update" else patch_scale(request, body))


def check_subresource(served: Served, subresource: str, name: str, verb: str) -> None:
    """Raises 404 for a subresource that the version does not have, 405 for a verb that it does not support."""
    if subresource not in served.subresources:
        raise not_found(served.resource, name)
    if verb not in SUBRESOURCE_VERBS[subresource]:
        raise method_not_supported(served.resource, verb)
