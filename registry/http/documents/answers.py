"""Sends documents: with an ETag where they are kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from starlette.types import Scope, Send

from registry.api.errors import method_not_allowed, not_acceptable, unsupported_media_type
from registry.http.documents.cache import Document
from registry.http.negotiation import NotAcceptable, UnsupportedMediaType, require_body_type, require_type
from registry.http.request_state import STATE, RequestState
from registry.http.responses import compress, headers_for, send_body

TEXT: Final = "text/plain; charset=utf-8"


def require_route(scope: Scope, media_types: Collection[str]) -> None:
    """Raises 405 for any other method than GET, even HEAD, and 415 if the request says that it has another content.

    In kube-apiserver the path has one route, for GET and for these media types.
    """
    if scope["method"] != "GET":
        raise method_not_allowed()
    state: RequestState = scope[STATE]
    try:
        require_body_type(state.header(b"content-type"), media_types)
    except UnsupportedMediaType as error:
        raise unsupported_media_type(str(error), with_details=True) from error


def require_get(scope: Scope, media_type: str) -> None:
    """Raises 405 for any other method, even HEAD, and 406 unless the client accepts this form of the document."""
    if scope["method"] != "GET":
        raise method_not_allowed()
    state: RequestState = scope[STATE]
    try:
        require_type(state.header(b"accept"), media_type)
    except NotAcceptable as error:
        raise not_acceptable(str(error), with_details=True) from error


async def send_document(send: Send, scope: Scope, code: int, media_type: str, body: bytes) -> None:
    state: RequestState = scope[STATE]
    await send_body(send, scope, code, headers_for(media_type, state.warnings), body)


async def send_nothing(send: Send, scope: Scope, code: int) -> None:
    """Sends an answer without a body or a media type."""
    state: RequestState = scope[STATE]
    headers = [header for header in headers_for("", state.warnings) if header[0] != b"content-type"]
    await send_body(send, scope, code, headers, b"")


async def send_with_etag(
    send: Send, scope: Scope, document: Document, media_type: str, more: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """Sends a document, or a 304 if the client has this version of it. `more` replaces headers.

    As Go's http.ServeContent does, any of several tags counts, a weak one and `*`: proxies that compress weaken tags.
    """
    state: RequestState = scope[STATE]
    replaced = {name for name, _ in more}
    headers = [header for header in headers_for(media_type, state.warnings) if header[0] not in replaced] + list(more)
    headers += [(b"etag", f'"{document.tag}"'.encode()), (b"vary", b"Accept")]
    known = state.header(b"if-none-match")
    if document.tag in known or known.strip() == "*":
        await send_body(send, scope, 304, headers, b"")
    else:
        body = await compress(document.body, headers, state.headers.get(b"accept-encoding", b""))
        await send_body(send, scope, 200, headers, body)
