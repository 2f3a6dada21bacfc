"""A request on a resource over HTTP: from the target of its URL to the verb, and back to bytes.

Order of the checks (facts: rest.md): what the path leads to, the Accept header (406), the Content-Type (415), then
the verb's own. Where the catalog that the request was judged by proves old, the request is served again by a newer one
(registry/api/verbs/driver.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from registry.api.answers import Answer, ListAnswer, ObjectAnswer, WatchAnswer
from registry.api.catalog import TenantCatalog
from registry.api.confining import confined
from registry.api.errors import (
    Qualified,
    bad_request,
    internal_error,
    method_not_allowed,
    method_not_supported,
    not_acceptable,
    resource_not_found,
    unsupported_media_type,
)
from registry.api.options import Query, is_watch
from registry.api.request import Backend, ResourceRequest
from registry.api.served import Served
from registry.api.strategies.base import Context
from registry.api.verbs import dispatch, history, usage
from registry.api.verbs.driver import NoLongerServed, run_current
from registry.api.wildcard.requests import find_lead
from registry.definitions.discovery import verbs_of
from registry.http.bodies import aside_if_long, body_of, read_body
from registry.http.delete_options import decode_delete_options
from registry.http.negotiation import (
    JSON,
    NotAcceptable,
    Representation,
    UnsupportedMediaType,
    body_encoding,
    negotiate,
    negotiate_plain,
    negotiate_watch,
    patch_type,
    pretty,
)
from registry.http.request_info import Target
from registry.http.responses import form_of, list_form_of, respond_document, respond_list, respond_object
from registry.http.watch_stream import respond_watch


class PageNotFound(Exception):
    """The plain `404 page not found` of a path that leads nowhere."""


def parse_query(raw: bytes) -> Query:
    """`b"a=1&a=2&b"` gives {"a": ["1", "2"], "b": [""]}; pairs with a `;` or a bad escape are dropped."""
    if not raw:
        return {}
    query: dict[str, list[str]] = {}
    for pair in raw.decode("latin-1").split("&"):
        if pair and ";" not in pair and _escapes_are_whole(pair):
            for name, value in parse_qsl(pair, keep_blank_values=True):
                query.setdefault(name, []).append(value)
    return query


_HEX = frozenset("0123456789abcdefABCDEF")


def _escapes_are_whole(text: str) -> bool:
    return all(len(part) >= 2 and part[0] in _HEX and part[1] in _HEX for part in text.split("%")[1:])


def verb_of(method: str, target: Target, query: Query) -> str:
    """The API verb; "" for a method that resources do not have."""
    match method:
        case "GET" | "HEAD":
            if target.watch:
                return "watch"
            if target.name:
                return "get"
            return "watch" if is_watch(query) else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if target.name else "deletecollection"
        case _:
            return ""


def resolve(catalog: TenantCatalog, target: Target) -> Served | None:
    """The resource that the path leads to, None where it leads nowhere in this catalog."""
    served = catalog.served(target.group, target.version, target.resource)
    if served is None:
        return None
    of_all = not target.subresource or target.subresource == history.DELETED
    if served.namespaced and not target.has_namespace and (target.name or not of_all):
        return None
    if not served.namespaced and target.has_namespace:
        return None
    return served


class ResourceEndpoint:
    """Answers requests on resources."""

    def __init__(self, backend: Backend, stopping: asyncio.Event) -> None:
        self._backend = backend
        self._stopping = stopping

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        target: Target,
        verb: str,
        query: Query,
        context: Context,
        headers: Mapping[bytes, bytes],
    ) -> int:
        """Sends the answer and returns its code; raises StatusError or PageNotFound."""
        if context.across is not None:
            if verb not in ("list", "watch"):
                raise method_not_supported(Qualified(target.resource, target.group), verb)
            await find_lead(self._backend, context, target.group, target.version, target.resource)
        catalog, served = await self._resolve(context, target)
        scope["registry.served"] = served
        if served.namespaced and not target.has_namespace and verb not in ("list", "watch"):
            raise PageNotFound  # it leads nowhere, and is not warned of
        if served.deprecation:
            context.warnings.append(served.deprecation)
        _check_method(served, target, verb)
        representation = _representation(served, target, verb, query, headers)
        data, media_type = b"", ""
        if verb in ("create", "update", "patch", "delete", "deletecollection"):
            media_type = _media_type(served, verb, headers)
            data = await read_body(scope, receive)

        def address(catalog: TenantCatalog, context: Context) -> ResourceRequest | None:
            served = resolve(catalog, target)
            if served is None:
                del scope["registry.served"]
                return None
            namespace, name = target.namespace, context.authorized_name
            return ResourceRequest(self._backend, context, catalog, served, namespace, name, target.subresource, query)

        async def answer_by(request: ResourceRequest) -> Answer:
            return await _answer(request, verb, data, media_type)

        try:
            answer = await run_current(self._backend, catalog, context, address, answer_by)
        except NoLongerServed as gone:
            raise PageNotFound from gone
        return await self._respond(scope, receive, send, answer, representation, context, query, headers)

    async def _respond(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        answer: Answer,
        representation: Representation,
        context: Context,
        query: Query,
        headers: Mapping[bytes, bytes],
    ) -> int:
        match answer:
            case ObjectAnswer():
                form = form_of(representation, answer.served.table, query, custom=not answer.served.definition.strategy)
                return await respond_object(send, scope, answer, form, context)
            case ListAnswer():
                form = list_form_of(representation, answer.served, query)
                accept_encoding = headers.get(b"accept-encoding", b"")
                return await respond_list(send, scope, answer, form, context, accept_encoding)
            case WatchAnswer():
                form = form_of(representation, answer.served.table, query, custom=not answer.served.definition.strategy)
                return await respond_watch(scope, receive, send, answer, form, context, self._stopping)
            case _:
                return await respond_document(send, scope, answer, representation, context, query)

    async def _resolve(self, context: Context, target: Target) -> tuple[TenantCatalog, Served]:
        catalog = await self._backend.catalogs.get(context.tenant)
        served = resolve(catalog, target)
        if served is None:
            # Perhaps the resource has been defined since: the catalog is only old, never ahead.
            catalog = await self._backend.catalogs.current(context.tenant)
            served = resolve(catalog, target)
        if served is None:
            if catalog.is_builtin_group(target.group):
                raise resource_not_found()
            if catalog.is_unresolvable(target.group, target.version, target.resource):
                raise internal_error("error resolving resource")
            raise PageNotFound
        return catalog, served


def _check_method(served: Served, target: Target, verb: str) -> None:
    if target.subresource in history.SUBRESOURCES:
        history.check(served, target.subresource, target.name, verb)
        return
    if usage.is_of(served, target.subresource):
        usage.check(served, verb)
        return
    if served.definition.strategy:
        _check_builtin(served, target, verb)
        return
    if not verb:
        raise method_not_supported(served.resource, "")
    if verb in ("update", "patch") and not target.name:
        raise bad_request("name must be provided")
    if "%" in target.name:
        raise bad_request(f"Name parameter invalid: \"{target.name}\": may not contain '%'")
    if target.subresource:
        dispatch.check_subresource(served, target.subresource, target.name, verb)


_OF_OBJECTS = ("get", "update", "patch", "delete")


def _check_builtin(served: Served, target: Target, verb: str) -> None:
    """A built-in resource has routes for just what it can do (installer.go)."""
    if target.subresource:
        if target.subresource not in served.subresources:
            raise resource_not_found()
        if verb not in dispatch.SUBRESOURCE_VERBS[target.subresource]:
            raise method_not_allowed()
    elif target.name and not any(v in verbs_of(served.definition) for v in _OF_OBJECTS):
        raise resource_not_found()  # it has no objects, so there is no path of one
    elif verb not in verbs_of(served.definition) or (verb != "watch" and bool(target.name) != (verb in _OF_OBJECTS)):
        raise method_not_allowed()


def _representation(
    served: Served, target: Target, verb: str, query: Query, headers: Mapping[bytes, bytes]
) -> Representation:
    accept = headers.get(b"accept", b"").decode("latin-1")
    try:
        builtin = bool(served.definition.strategy)
        if usage.is_of(served, target.subresource) or history.is_document(target.subresource, verb, query):
            found = negotiate_plain(accept)
        elif verb == "watch":
            found = negotiate_watch(accept, builtin=builtin)
        else:
            found = negotiate(accept, builtin=builtin)
    except NotAcceptable as error:
        raise not_acceptable(str(error), with_details=bool(served.definition.strategy)) from error
    return prettify(found, query, headers)


def prettify(found: Representation, query: Query, headers: Mapping[bytes, bytes]) -> Representation:
    """Indented where the client asks for it, or is one that people look at."""
    if found.encoding != JSON or found.pretty:
        return found
    given = query.get("pretty")
    agent = headers.get(b"user-agent", b"").decode("latin-1")
    return replace(found, pretty=True) if pretty(given[0] if given else "", agent) else found


def _media_type(served: Served, verb: str, headers: Mapping[bytes, bytes]) -> str:
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    try:
        if verb == "patch":
            return patch_type(content_type, builtin=bool(served.definition.strategy))
        return body_encoding(content_type, protobuf=verb.startswith("delete") or bool(served.definition.strategy))
    except UnsupportedMediaType as error:
        told = verb == "patch" and bool(served.definition.strategy)
        raise unsupported_media_type(str(error), with_details=told) from error


async def _answer(request: ResourceRequest, verb: str, data: bytes, media_type: str) -> Answer:
    if verb in ("delete", "deletecollection"):
        options: dict[str, Any] | None = None
        if data:
            options = await aside_if_long(data, media_type, lambda: decode_delete_options(data, media_type))
        return await dispatch.serve(request, verb, None, options)
    body = await body_of(data, media_type) if media_type else None
    return confined(await dispatch.serve(request, verb, body), request, verb)
