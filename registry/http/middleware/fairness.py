"""Fair queuing across tenants: a tenant that floods the server only delays its own requests.

This comes before anything that takes time, so before authentication. A request counts for the tenant of its user, or if
that is of all tenants, for the one that its path or host names. What has a credential that was not accepted before, or
none, counts for no tenant: all such requests share one queue, whatever tenant they name.

Follows apiserver pkg/server/filters/priority-and-fairness.go.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.authorization.authorizer import QUERIES
from registry.authorization.tenants import DEFAULT
from registry.flowcontrol.fair_permits import set_owner
from registry.flowcontrol.fair_queue import EXEMPT, LIST_SEAT_SECONDS, SEAT_SECONDS, FairQueue
from registry.flowcontrol.time_slice import IS_GONE, TimeSlice
from registry.http.middleware.authentication import KnownCredentials
from registry.http.middleware.tenancy import HostPattern, is_of_process
from registry.http.request_state import STATE, RequestState
from registry.http.serving.fast_path import FAST_PATHS

_LISTS: Final = frozenset({"list", "deletecollection"})
_SHORT: Final = frozenset({"get", "watch"})


class FairnessMiddleware:
    def __init__(
        self, app: ASGIApp, queue: FairQueue, credentials: KnownCredentials, hosts: HostPattern | None
    ) -> None:
        self._app = app
        self._queue = queue
        self._credentials = credentials
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        verb, queue = state.info.verb, self._queue
        tenant = self._tenant_of(scope, state)
        reads = verb in _LISTS or (verb == "create" and (state.info.group, state.info.resource) == QUERIES)
        if state.trail is not None:
            state.trail.counts_for(tenant)
        if (connection := scope.get(FAST_PATHS)) is not None:
            connection.tenant = tenant
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
            name = self._hosts.tenant_or_named(state.headers.get(b"host", b""), name)
        state.named_tenant = name
        if not name and is_of_process(state.info):
            return ""
        home = self._credentials.home(scope, state.authorization)
        return "" if home is None else home or name or DEFAULT
