"""Records metrics of each answer, and its line in the access log, if enabled: with user, resource and result.

    info registry.access: PATCH /apis/example.com/v1/namespaces/default/widgets/a 200 method=PATCH code=200
    milliseconds=3.1 user=admin tenant=default verb=patch group=example.com resource=widgets userAgent=kubectl
    client=127.0.0.1 request=0b57...

A watch is logged when it ends. Control characters in what clients send are escaped, so that no line can be forged.

Follows apiserver pkg/endpoints/metrics/metrics.go (MonitorRequest) and pkg/server/httplog.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry.api.verbs.history.subresources import SUBRESOURCES
from registry.http import metrics
from registry.http.request_state import CLIENT_CLOSED_REQUEST, STATE, RequestState
from registry.logs import loggable

_VERBS: Final = frozenset(
    {"get", "head", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "post", "put"}
)


class InstrumentationMiddleware:
    def __init__(self, app: ASGIApp, *, access_log: bool) -> None:
        self._app = app
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        state.send = send
        end = partial(_end_logged, scope) if self._access_log else _end

        async def recording(message: Message) -> None:
            if message["type"] == "http.response.start":
                state.code, state.has_begun = message["status"], True
            await send(message)

        is_watch = state.info.verb == "watch"
        if not is_watch:
            metrics.IN_FLIGHT.count += 1
        try:
            await self._app(scope, receive, recording)
        except asyncio.CancelledError:
            state.code = CLIENT_CLOSED_REQUEST
            raise
        finally:
            if not is_watch:
                metrics.IN_FLIGHT.count -= 1
            if state.stream is None:
                end(state)
            else:
                state.when_streamed += (end,)


def _end_logged(scope: Scope, state: RequestState) -> None:
    _end(state)
    log_answer(scope, state, time.perf_counter() - state.started)


def _end(state: RequestState) -> None:
    """Records metrics. Labels are only of existing resources: otherwise clients could create any number of series."""
    info, served, seconds = state.info, state.served, time.perf_counter() - state.started
    if served is None:
        metrics.observe(info.verb if info.verb in _VERBS else "other", "", "", "", state.code, seconds)
        return
    known = info.subresource in served.subresources or info.subresource in SUBRESOURCES
    metrics.observe(info.verb, info.group, info.resource, info.subresource if known else "", state.code, seconds)


logger = logging.getLogger("registry.access")


def log_answer(scope: Scope, state: RequestState, seconds: float) -> None:
    """Logs an answer. Omits user and tenant if the request was refused before they were known."""
    info, context, client = state.info, state.context, scope.get("client")
    fields: dict[str, object] = {
        "method": scope["method"],
        "path": loggable(scope["path"]),
        "query": loggable(scope["query_string"].decode("latin-1")),
        "code": state.code,
        "milliseconds": round(seconds * 1000, 1),
        "user": loggable(context.user.name) if context else "",
        "tenant": context.tenant.name if context else "",
        "verb": info.verb,
        "group": loggable(info.group),
        "resource": loggable(info.resource),
        "userAgent": loggable(state.header(b"user-agent")),
        "client": client[0] if client else "",
    }
    message = f"{fields['method']} {fields['path']} {state.code}"
    logger.info(message, extra={"fields": {name: value for name, value in fields.items() if value != ""}})
