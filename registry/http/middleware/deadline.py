"""The deadline that a client asks for with `?timeout=`: what is no duration is refused, even before authentication.

Follows apiserver pkg/endpoints/filters/request_deadline.go.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.api.errors import bad_request
from registry.http.request_state import STATE, RequestState
from registry.schema.goduration import duration_error


class DeadlineMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        given = state.info.query.get("timeout")
        if given and given[0] and state.info.verb != "watch" and (why := duration_error(given[0])) is not None:
            raise bad_request(f"invalid timeout specified in the request URL - {why}")
        await self._app(scope, receive, send)
