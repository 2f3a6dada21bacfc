"""The outermost middleware: parses the request and creates its state.

Follows apiserver pkg/endpoints/filters/{requestinfo,audit_init}.go.
"""

from __future__ import annotations

import html
import time
from collections.abc import Sequence
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from registry import logs
from registry.authentication.websocket_protocol import PROTOCOLS
from registry.codec.go_text import go_quote
from registry.http.request_info import UnknownResource, request_info
from registry.http.request_state import STATE, RequestState
from registry.http.responses import send_text
from registry.schema.field import shorten

# Of an error's quotation, which takes a microsecond for each character, and is made for anybody.
_LONGEST_URI: Final = 2_000
# Go's httpstream.IsUpgradeRequest and its websocket authenticator read all of these.
_LISTS: Final = frozenset({b"connection", PROTOCOLS})


class RequestInfoMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        headers = _by_name(scope["headers"])
        logged = logs.begin_request(headers.get(b"audit-id", b"").decode("latin-1"))
        try:
            info = request_info(scope["method"], scope["path"], scope["query_string"])
        except UnknownResource:
            await send_text(send, scope, 500, _unknown_resource(scope))
            logged.audit_id = ""
            return
        state = scope[STATE] = RequestState(info, headers, info.attributes(), logged, started, [])
        try:
            await self._app(scope, receive, send)
            if state.stream is not None:
                del scope, receive, send, headers, info  # a watch lives long
                await state.take_stream()
        finally:
            for end in state.when_streamed:
                end(state)
            logged.audit_id = ""


def _by_name(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Returns the first value of each header, which is all that kube-apiserver looks at, and all values of lists."""
    values = dict(reversed(headers))
    if len(values) < len(headers):
        for name in _LISTS & values.keys():
            values[name] = b", ".join(value for other, value in headers if other == name)
    return values


def _unknown_resource(scope: Scope) -> str:
    """The error's text (apiserver pkg/endpoints/handlers/responsewriters/errors.go, InternalError)."""
    query = scope["query_string"].decode("latin-1")
    uri = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1") + (query and f"?{query}")
    uri = shorten(uri, _LONGEST_URI)
    reason = f"failed to create RequestInfo: unable to determine kind and namespace from url, {uri}"
    return html.escape(f"Internal Server Error: {go_quote(uri)}: {reason}", quote=False)
