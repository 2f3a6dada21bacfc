"""Records metrics of each answer, and its line in the access log.

Follows apiserver pkg/endpoints/metrics/metrics.go (MonitorRequest) and pkg/server/httplog.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry.api.verbs.history.subresources import SUBRESOURCES
from registry.http import metrics
from registry.http.middleware.access_log import log_answer
from registry.http.request_state import CLIENT_CLOSED_REQUEST, STATE, RequestState

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
