"""Fair queuing across tenants: a tenant that floods the server only delays its own requests.

This comes before anything that takes time. So the tenant is the one that the request names, by its path or its host,
or else that of a credential that was accepted before: other users are only known later, and wait as one tenant.

Follows apiserver pkg/server/filters/priority-and-fairness.go.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.authentication.authenticator import Authentication, bearer_token
from registry.authorization.authorizer import QUERIES
from registry.authorization.tenants import DEFAULT
from registry.flowcontrol.fair_permits import set_owner
from registry.flowcontrol.fair_queue import EXEMPT, LIST_SEAT_SECONDS, SEAT_SECONDS, FairQueue
from registry.flowcontrol.time_slice import IS_GONE, TimeSlice
from registry.http.hosts import HostPattern
from registry.http.middleware.tenancy import is_of_process
from registry.http.request_state import STATE, RequestState

_LISTS: Final = frozenset({"list", "deletecollection"})
_SHORT: Final = frozenset({"get", "watch"})


class FairnessMiddleware:
    def __init__(
        self, app: ASGIApp, queue: FairQueue, authentication: Authentication, hosts: HostPattern | None
    ) -> None:
        self._app = app
        self._queue = queue
        self._authentication = authentication
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        verb, queue = state.info.verb, self._queue
        tenant = self._tenant_of(scope, state)
        reads = verb in _LISTS or (verb == "create" and (state.info.group, state.info.resource) == QUERIES)
        held_seconds = LIST_SEAT_SECONDS if reads else SEAT_SECONDS
        set_owner(queue.owner(tenant))
        seat = state.seat = await queue.begin(tenant, state.started, held_seconds)
        try:
            if seat is not EXEMPT and verb not in _SHORT:
                await queue.wait_for_short_requests(seat, reads=reads)
            TimeSlice(partial(queue.yield_now, tenant, seat), scope.get(IS_GONE)).begin()
            await self._app(scope, receive, send)
        finally:
            if seat is not EXEMPT:
                queue.release(seat)

    def _tenant_of(self, scope: Scope, state: RequestState) -> str:
        """Returns the tenant that the request counts for, "" if that is not known yet."""
        name = state.info.tenant
        if self._hosts is not None:
            name = self._hosts.named(state.headers.get(b"host", b""), name)
        state.named_tenant = name
        if name or is_of_process(state.info):
            return name
        user = self._authentication.recall(scope, bearer_token(state.header(b"authorization"), []))
        return "" if user is None else user.tenant or DEFAULT
