"""A request on a resource over HTTP: resolves the URL to a verb, and encodes the answer.

Order of the checks: the resource in the path, the Accept header (406) and the Content-Type (415), then the verb's own.
If the catalog of an attempt proves outdated, the request is served again by a newer one (registry/api/verbs/driver.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.types import Receive, Scope, Send

from registry.aggregation.model import GROUP as API_REGISTRATION
from registry.api.answers import Answer, ListAnswer, ObjectAnswer, WatchAnswer
from registry.api.catalog import TenantCatalog
from registry.api.confining import confine
from registry.api.errors import (
    Qualified,
    bad_request,
    internal_error,
    method_not_allowed,
    method_not_supported,
    namespace_required,
    not_acceptable,
    resource_not_found,
    unsupported_media_type,
)
from registry.api.list_options import list_options, with_clusterpedia_labels
from registry.api.options import Query, write_options
from registry.api.request import Backend, ResourceRequest
from registry.api.served import Served
from registry.api.strategies.base import Context
from registry.api.tables.table import Table
from registry.api.verbs import dependents, dispatch, statistics, usage
from registry.api.verbs.driver import NoLongerServed, run_current
from registry.api.verbs.history import subresources as history
from registry.api.verbs.selection import parse_selection, selectors_size
from registry.api.wildcard.requests import find_lead
from registry.authorization.rbac.model import GROUP as RBAC
from registry.budget import Budget
from registry.codec.protobuf.messages import kind_key
from registry.definitions.compiled import uncompiled_bytes
from registry.definitions.discovery import verbs_of
from registry.flowcontrol.byte_shares import NeedsMoreRoom
from registry.flowcontrol.evaluation import COUNTED_BYTES, Large, evaluate, large, note_size
from registry.http.bodies import aside_if_long, body_of, decode_delete_options, read_body
from registry.http.forms import form_of, list_form_of, prettify
from registry.http.list_stream import respond_list
from registry.http.negotiation import (
    TABLE,
    NotAcceptable,
    Representation,
    UnsupportedMediaType,
    body_encoding,
    is_protobuf,
    negotiate,
    negotiate_plain,
    patch_type,
    require_stream,
)
from registry.http.request_info import RequestInfo
from registry.http.request_state import STATE, RequestState
from registry.http.responses import PageNotFound, respond_document, respond_object
from registry.http.serving.stopping import Stopping
from registry.http.watch_stream import begin_watch


def resolve(catalog: TenantCatalog, info: RequestInfo) -> Served | None:
    """Returns the resource of a path; None if the path is unknown in this catalog."""
    served = catalog.served(info.group, info.version, info.resource)
    if served is None:
        return None
    of_all = not info.subresource or info.subresource == history.DELETED
    if served.namespaced and not info.has_namespace and (info.name or not of_all):
        return None
    if not served.namespaced and info.has_namespace:
        return None
    return served


# Verbs on one object, whose work is bounded as a whole; for lists and watches it is bounded for each object.
_OF_ONE = frozenset({"get", "create", "update", "patch", "delete"})
_DELETIONS = frozenset({"delete", "deletecollection"})
_WITH_BODY = _DELETIONS | {"create", "update", "patch"}


class ResourceEndpoint:
    """Answers requests on resources. Raises StatusError or PageNotFound."""

    def __init__(self, backend: Backend, stopping: Stopping) -> None:
        self._backend = backend
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        info, context, headers = state.info, state.authorized, state.headers
        verb, query = info.verb, info.query
        if context.wildcard is not None:
            if verb not in ("list", "watch"):
                raise method_not_supported(Qualified(info.resource, info.group), verb)
            lead = await find_lead(
                self._backend, context.tenant, context.wildcard, info.group, info.version, info.resource
            )
            state.context = context = replace(context, tenant=lead)
        catalog, served = await self._resolve(context, info)
        state.served = served
        lacks_namespace = served.namespaced and not info.namespace and verb not in ("list", "watch")
        if lacks_namespace and not (info.has_namespace and served.definition.builtin):
            raise _not_across_namespaces(served)
        if served.deprecation:
            context.warnings.append(served.deprecation)
            context.annotate(_DEPRECATED, "true")
        if "/" in info.subresource and not served.definition.builtin:
            info = info._replace(subresource=info.subresource.partition("/")[0])
        _check_method(served, info, verb, scope["method"], headers)
        if lacks_namespace and verb not in ("create", "update"):
            # /api/v1/namespaces//configmaps: only an empty variable of a script names it (generic/registry/store.go).
            raise namespace_required()
        representation, data, media_type = await _negotiate(scope, receive, served, info, headers)

        selected = with_clusterpedia_labels(query) if self._backend.clusterpedia_labels else query

        def address(catalog: TenantCatalog, context: Context) -> ResourceRequest | None:
            served = resolve(catalog, info)
            if served is None:
                state.served = None
                return None
            if served.deprecation and served.deprecation not in state.warnings:
                context.warnings.append(served.deprecation)  # deprecated since the catalog of this process was read
            namespace, name = info.namespace, context.authorized_name
            return ResourceRequest(self._backend, context, catalog, served, namespace, name, info.subresource, selected)

        async def answer_by(request: ResourceRequest) -> Answer:
            if verb in _OF_ONE:
                Budget().begin()
            return await _answer(request, verb, data, media_type, headers)

        reported = len(context.warnings)
        while True:
            try:
                if len(data) <= COUNTED_BYTES:
                    answer = await run_current(self._backend, catalog, context, address, answer_by)
                else:
                    async with large(Large.BODY, len(data)):
                        # Definitions may have changed while it waited: it would have to be evaluated, and wait, again.
                        catalog = await self._backend.catalogs.for_resource(context.tenant, info.group, info.resource)
                        answer = await run_current(self._backend, catalog, context, address, answer_by)
                return await self._respond(scope, receive, send, answer, representation, state, catalog)
            except NoLongerServed as gone:
                raise PageNotFound from gone
            except NeedsMoreRoom:  # nothing has been sent
                del context.warnings[reported:]

    async def _respond(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        answer: Answer,
        representation: Representation,
        state: RequestState,
        catalog: TenantCatalog,
    ) -> None:
        warnings, query = state.authorized.warnings, state.info.query
        accept_encoding = state.headers.get(b"accept-encoding", b"")
        table = None
        if representation.transform == TABLE and isinstance(answer, ObjectAnswer | ListAnswer | WatchAnswer):
            table = await _table_of(answer.served)
        match answer:
            case ObjectAnswer():
                form = form_of(representation, table, query, custom=not answer.served.definition.builtin)
                if form.is_plain and _is_plain_get(state.info, answer.served):
                    state.plain_get = catalog
                await respond_object(send, scope, answer, form, warnings, accept_encoding)
            case ListAnswer():
                form = list_form_of(representation, answer.served, table, query)
                await respond_list(send, scope, answer, form, warnings, accept_encoding)
            case WatchAnswer():
                form = form_of(representation, table, query, custom=not answer.served.definition.builtin)
                _require_stream(representation)
                state.stream = await begin_watch(scope, receive, send, answer, form, warnings, self._stopping)
            case _:
                await respond_document(send, scope, answer, representation, warnings, query)

    async def _resolve(self, context: Context, info: RequestInfo) -> tuple[TenantCatalog, Served]:
        catalog = await self._backend.catalogs.for_resource(context.tenant, info.group, info.resource)
        served = resolve(catalog, info)
        if served is None:
            # The resource may have been defined since: the catalog can be old, but never ahead.
            catalog = await self._backend.catalogs.current(context.tenant)
            served = resolve(catalog, info)
        if served is None:
            if catalog.is_builtin_group(info.group):
                raise resource_not_found()
            across = info.verb in ("list", "watch")
            if catalog.is_unresolvable(
                info.group, info.version, info.resource, in_namespace=info.has_namespace, across=across
            ):
                raise internal_error("error resolving resource")
            raise PageNotFound
        return catalog, served


async def _table_of(served: Served) -> Table:
    """Compiles the columns if that has not been done: their paths may have a million characters."""
    size = sum([len(column.json_path) for column in served.version.columns])
    return await evaluate(lambda: served.table, size, repeatable=True)


def _is_plain_get(info: RequestInfo, served: Served) -> bool:
    """Whether all that happens is reading one object: nothing is created first, and nothing else is converted or read
    (registry/api/verbs/dispatch.py)."""
    prepared = served.definition.group in (RBAC, API_REGISTRATION) or served.converts_contents
    return info.verb == "get" and not (info.subresource or info.query or prepared or served.strategy.virtual)


def _not_across_namespaces(served: Served) -> Exception:
    """Returns the error for a path without a namespace, or a custom resource's with an empty one, and a verb other than
    list or watch."""
    if not served.definition.builtin:
        return PageNotFound()  # without a warning: the path does not exist
    return method_not_allowed() if "list" in verbs_of(served.definition) else resource_not_found()


def _check_method(served: Served, info: RequestInfo, verb: str, method: str, headers: Mapping[bytes, bytes]) -> None:
    if info.subresource in history.SUBRESOURCES:
        history.check(served, info.subresource, info.name, verb)
        return
    if usage.is_of(served, info.subresource):
        usage.check(served, verb)
        return
    if served.definition.builtin:
        _check_builtin(served, info, verb)
        if method == "HEAD" or (verb == "watch" and method != "GET"):  # these are a GET on custom resources only
            raise method_not_allowed()
        if info.subresource and not info.name:
            raise bad_request("name must be provided")
        return
    if info.subresource:
        dispatch.check_subresource(served, info.subresource, info.name, verb)
    elif not verb:
        raise method_not_supported(served.resource, "")
    elif verb in ("update", "patch") and not info.name:
        if verb == "patch":
            _media_type(served, info.subresource, verb, headers)
        raise bad_request("name must be provided")


_DEPRECATED = "k8s.io/deprecated"  # apiserver pkg/endpoints/metrics/metrics.go
_OF_OBJECTS = ("get", "update", "patch", "delete")


def _check_builtin(served: Served, info: RequestInfo, verb: str) -> None:
    """A built-in resource has routes only for what it supports (installer.go)."""
    if verb == "proxy":
        raise resource_not_found()
    if info.subresource:
        if info.subresource not in served.subresources:
            raise resource_not_found()
        if not info.name and verb in ("list", "watch"):
            verb = "get"  # /api/v1/namespaces//status has the route of an object
        if verb not in dispatch.SUBRESOURCE_VERBS[info.subresource]:
            raise method_not_allowed()
    elif info.name and not any(v in verbs_of(served.definition) for v in _OF_OBJECTS):
        raise resource_not_found()  # it has no objects, so their path does not exist
    elif verb not in verbs_of(served.definition) or (verb != "watch" and bool(info.name) != (verb in _OF_OBJECTS)):
        raise method_not_allowed()


async def _negotiate(
    scope: Scope, receive: Receive, served: Served, info: RequestInfo, headers: Mapping[bytes, bytes]
) -> tuple[Representation, bytes, str]:
    """Returns the form of the answer, the body and its media type. Raises 406, 415 and 422 in upstream's order.

    A patch is refused for its Content-Type first, an update for its options before that, and so is a create in
    protobuf: that custom resources have no message is found when it is decoded. A deletion has a media type only if it
    has a body, so it is determined later (`_deletion_body`).
    """
    verb, media_type, data = info.verb, "", b""
    if verb == "patch":
        media_type = _media_type(served, info.subresource, verb, headers)
    representation = _representation(served, info, verb, info.query, headers)
    if verb == "update":
        write_options(info.query, "UpdateOptions")
    if verb == "create" and is_protobuf(headers.get(b"content-type", b"").decode("latin-1")):
        write_options(info.query, "CreateOptions")
    if verb in ("create", "update"):
        media_type = _media_type(served, info.subresource, verb, headers)
    if verb in _WITH_BODY:
        data = await read_body(scope, receive)
        note_size(max(len(data), uncompiled_bytes(served.version)))
    return representation, data, media_type


def _representation(
    served: Served, info: RequestInfo, verb: str, query: Query, headers: Mapping[bytes, bytes]
) -> Representation:
    accept = headers.get(b"accept", b"").decode("latin-1")
    try:
        builtin = served.definition.builtin
        if (info.subresource or query) and _is_document(served, info.subresource, verb, query):
            representation = negotiate_plain(accept)
        else:
            # The Scale of a custom resource is read from protobuf, but not written in it.
            protobuf = builtin and _has_message(served, info.subresource)
            table = info.subresource not in served.strategy.without_table
            representation = negotiate(
                accept, builtin=builtin, protobuf=protobuf, collection=verb in ("list", "watch"), table=table
            )
    except NotAcceptable as error:
        raise not_acceptable(str(error), with_details=str(error).startswith("406:")) from error
    return prettify(representation, query, headers)


def _require_stream(representation: Representation) -> None:
    """Raises 406 for a watch in YAML, after every error of its options (handlers/watch.go)."""
    try:
        require_stream(representation)
    except NotAcceptable as error:
        raise not_acceptable(str(error), with_details=False) from error


def _is_document(served: Served, subresource: str, verb: str, query: Query) -> bool:
    """Whether the answer is neither an object nor a list of objects."""
    return (
        usage.is_of(served, subresource)
        or history.is_document(subresource, verb, query)
        or statistics.is_of(verb, subresource, query)
        or dependents.is_of(verb, subresource, query)
    )


def _has_message(served: Served, subresource: str) -> bool:
    """Whether the resource has a protobuf form: a built-in kind, or the Scale of any."""
    return subresource == "scale" or kind_key(served.api_version, served.kind.name) is not None


def _media_type(served: Served, subresource: str, verb: str, headers: Mapping[bytes, bytes]) -> str:
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    try:
        if verb == "patch":
            return patch_type(content_type, builtin=served.definition.builtin)
        return body_encoding(content_type, protobuf=verb.startswith("delete") or _has_message(served, subresource))
    except UnsupportedMediaType as error:
        with_details = verb == "patch" and served.definition.builtin
        raise unsupported_media_type(str(error), with_details=with_details) from error


async def _answer(
    request: ResourceRequest, verb: str, data: bytes, media_type: str, headers: Mapping[bytes, bytes]
) -> Answer:
    if verb in _DELETIONS:
        return await dispatch.serve(request, verb, None, await _deletion_body(request, verb, data, headers))
    body = await body_of(data, media_type) if media_type else None
    return confine(await dispatch.serve(request, verb, body), request, verb)


async def _deletion_body(
    request: ResourceRequest, verb: str, data: bytes, headers: Mapping[bytes, bytes]
) -> dict[str, Any] | None:
    """Returns the DeleteOptions in the body, if any. Raises 415 and 400.

    The selection of a deletecollection is validated before its body (handlers/delete.go).
    """
    if not data:
        return None
    if verb == "deletecollection":
        options = list_options(request.query)
        await evaluate(partial(parse_selection, request, options), selectors_size(options), repeatable=True)
    media_type = _media_type(request.served, request.subresource, verb, headers)
    return await aside_if_long(data, media_type, lambda: decode_delete_options(data, media_type))
