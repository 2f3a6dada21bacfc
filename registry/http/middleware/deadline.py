"""The deadline of requests: `?timeout=`, or a minute. An invalid duration is refused, even before authentication. A
request that exceeds its `?timeout=` is cancelled and answered with 504; one without calls no webhook after its minute.
One whose client disconnects is cancelled, too (registry/flowcontrol/interruption.py).

A write that is cancelled before it was sent to the database does not happen; one that is cancelled later does, as in
kube-apiserver (registry/store/commit/writer.py).

Follows apiserver pkg/endpoints/filters/request_deadline.go and pkg/server/filters/timeout.go.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.api.errors import bad_request, deadline_exceeded
from registry.codec.go_text import quote_time
from registry.flowcontrol.interruption import WHEN_GONE, Interruption, WhenGone
from registry.http.request_info import RequestInfo
from registry.http.request_state import STATE, RequestState
from registry.schema.goduration import parse_duration

# kube-apiserver's --request-timeout. There it cancels all requests; here lists of any length may go on.
_MAXIMUM_SECONDS: Final = 60.0
# Sixty kilobytes of parts took 50 ms to add up, before authentication.
_LONGEST_DURATION: Final = 256


class DeadlineMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        seconds = _timeout_seconds(state.info)
        left = (_MAXIMUM_SECONDS if seconds is None else seconds) - (time.perf_counter() - state.started)
        when_gone: WhenGone = scope.get(WHEN_GONE, _ignore)
        state.deadline = asyncio.get_running_loop().time() + max(left, 0)
        try:
            with Interruption() as interruption:
                when_gone(interruption.request)
                if seconds is None:
                    await self._app(scope, receive, send)
                else:
                    await self._serve_until(state.deadline, scope, receive, send)
        finally:
            when_gone(None)

    async def _serve_until(self, deadline: float, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout_at(deadline) as timer:
                if deadline <= asyncio.get_running_loop().time():
                    await asyncio.sleep(0)  # which is cancelled: nothing is started
                await self._app(scope, receive, send)
        except TimeoutError as error:
            if not timer.expired():
                raise
            raise deadline_exceeded() from error


def _ignore(_: object) -> None:
    """Servers other than ours do not report that a client has disconnected."""


def _timeout_seconds(info: RequestInfo) -> float | None:
    texts = info.query.get("timeout")
    if not texts or not texts[0] or info.is_long_running:
        return None
    text = texts[0]
    if len(text) > _LONGEST_DURATION:
        text = quote_time(text[:_LONGEST_DURATION])
        raise bad_request(f"invalid timeout specified in the request URL - time: invalid duration {text}...")
    try:
        seconds = parse_duration(text) / 1e9
    except ValueError as error:
        raise bad_request(f"invalid timeout specified in the request URL - {error}") from error
    return seconds if 0 < seconds < _MAXIMUM_SECONDS else None
