"""A span for each request, if tracing is on (registry/tracing.py). The span of a watch ends when the watch has begun.

Names of attributes follow OpenTelemetry's conventions for HTTP, and the metrics' names for Kubernetes' attributes.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry import tracing
from registry.http.request_state import STATE, RequestState

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class TracingMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        with tracing.request(method, state.headers) as span:
            ended = False

            async def send_traced(message: Message) -> None:
                nonlocal ended
                if message["type"] == "http.response.start" and state.info.verb == "watch" and not ended:
                    ended = True
                    _end(span, method, state, message["status"])
                await send(message)

            try:
                await self._app(scope, receive, send_traced)
                await state.take_stream()  # calls for it belong to the span
            finally:
                if not ended:
                    _end(span, method, state, state.code)


def _end(span: Any, method: str, state: RequestState, code: int) -> None:
    from opentelemetry.trace import StatusCode

    served = state.served
    if served is not None:
        # Only existing resources, as in metrics: clients must not choose the names of spans.
        span.update_name(f"{method} {state.info.resource}")
        span.set_attributes({"registry.resource": state.info.resource, "registry.group": state.info.group})
    span.set_attributes(
        {
            "http.request.method": method,
            "http.response.status_code": code,
            "registry.verb": state.info.verb,
            "registry.audit_id": state.logged.audit_id,
        }
    )
    if state.tenant.name:
        span.set_attribute("registry.tenant", str(state.tenant.name))
    if code >= 500:
        span.set_status(StatusCode.ERROR)
    span.end()
