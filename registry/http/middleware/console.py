"""The console, if enabled: before all middlewares that need to know the user.

Browsers that request the root are redirected to it. Other clients get kube-apiserver's answer.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.console.app import PREFIX, Console, redirect_to_console
from registry.http.request_state import STATE, RequestState


class ConsoleMiddleware:
    def __init__(self, app: ASGIApp, console: Console) -> None:
        self._app = app
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        info = state.info
        if info.is_api or info.tenant:
            await self._app(scope, receive, send)
        elif info.path == PREFIX or info.path.startswith(f"{PREFIX}/"):
            # An issuer redirects browsers back with a code in the query, which must not be logged.
            scope["query_string"] = b""
            await self._console(scope, receive, send)
        elif info.path == "/" and info.verb == "get" and "text/html" in state.header(b"accept"):
            await redirect_to_console()(scope, receive, send)
        else:
            await self._app(scope, receive, send)
