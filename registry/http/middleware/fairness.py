"""Fair queuing across tenants: a tenant that floods the server only delays its own requests.

This comes before anything that takes time, so the tenant is the one in the path: the user is only known later.

Follows apiserver pkg/server/filters/priority-and-fairness.go.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.authorization.authorizer import QUERIES
from registry.flowcontrol.fair_queue import EXEMPT, LIST_SEAT_SECONDS, SEAT_SECONDS, FairQueue
from registry.flowcontrol.time_slice import IS_GONE, TimeSlice
from registry.http.request_state import STATE, RequestState

_LISTS: Final = frozenset({"list", "deletecollection"})
_SHORT: Final = frozenset({"get", "watch"})


class FairnessMiddleware:
    def __init__(self, app: ASGIApp, queue: FairQueue) -> None:
        self._app = app
        self._queue = queue

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        tenant, verb, queue = state.info.tenant, state.info.verb, self._queue
        reads = verb in _LISTS or (verb == "create" and (state.info.group, state.info.resource) == QUERIES)
        held_seconds = LIST_SEAT_SECONDS if reads else SEAT_SECONDS
        seat = queue.try_acquire(tenant, state.started, held_seconds) or await queue.acquire(tenant, held_seconds)
        state.seat = seat
        try:
            if seat is not EXEMPT and verb not in _SHORT:
                await queue.wait_for_short_requests(seat, reads=reads)
            TimeSlice(partial(queue.yield_now, tenant, seat), scope.get(IS_GONE)).begin()
            await self._app(scope, receive, send)
        finally:
            if seat is not EXEMPT:
                queue.release(seat)
