"""The outermost middleware: parses the request and creates its state.

Follows apiserver pkg/endpoints/filters/{requestinfo,audit_init}.go.
"""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Receive, Scope, Send

from registry import logs
from registry.http.request_info import request_info
from registry.http.request_state import STATE, RequestState


class RequestInfoMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        info = request_info(scope["method"], scope["path"], scope["query_string"])
        headers = dict(scope["headers"])
        logged = logs.begin_request(headers.get(b"audit-id", b"").decode("latin-1"))
        scope[STATE] = RequestState(info, headers, info.attributes(), logged, started, [])
        try:
            await self._app(scope, receive, send)
        finally:
            logged.audit_id = ""
