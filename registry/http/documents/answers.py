"""Sends documents, with an ETag where they are kept, and caches those of discovery and OpenAPI.

Documents of thousands of definitions take seconds and megabytes: they are made outside of the event loop, once for all
concurrent requests, and the cache is bounded in bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.types import Scope, Send

from registry.api.errors import method_not_allowed, not_acceptable, unsupported_media_type
from registry.api.singleflight import share
from registry.caches import LruCache
from registry.flowcontrol.evaluation import evaluate
from registry.http.negotiation import NotAcceptable, UnsupportedMediaType, require_body_type, require_type
from registry.http.request_state import STATE, RequestState
from registry.http.responses import compress, headers_for, hold, send_body

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


# For all tenants, in one process. A larger document is made each time.
MAX_BYTES: Final = 64 << 20
# The limit on processor time for a document: those of thousands of definitions take seconds.
LIMIT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Document:
    body: bytes
    tag: str  # for ETag, unquoted


def document(body: bytes, tag: str = "") -> Document:
    """Returns a document; the default tag is a hash of its bytes."""
    return Document(body, tag or hashlib.sha512(body).hexdigest()[:64].upper())


class DocumentCache:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._documents: LruCache[Hashable, Document] = LruCache(max_bytes, lambda made: len(made.body))
        self._making: dict[Hashable, asyncio.Future[Document]] = {}

    async def get(
        self, key: Hashable, make: Callable[[], Document], size: int, expected: Callable[[], int] = lambda: 0
    ) -> Document:
        """Returns the document of `key`, made by `make` if there is none. `size` is that of its sources, in bytes;
        `expected` about that of the document, which takes several times as much while it is made: that of the built-in
        kinds is long as well.

        Raises the errors of `make`, those of `evaluate`, and TooManyRequests if there is no room for the document.
        """
        cached = self._documents.get(key)
        if cached is not None:
            return cached

        def begin() -> Awaitable[Document]:
            length = expected()
            hold(length)
            return self._make(key, make, max(size, length))

        return await share(self._making, key, begin)

    async def _make(self, key: Hashable, make: Callable[[], Document], size: int) -> Document:
        new = await evaluate(make, size, repeatable=True, limit_seconds=LIMIT_SECONDS)
        return self._documents.put(key, new)
