"""Applies the tenant's limits once a request is authorized: connections, rates, watches, and bytes.

Also creates the tenant's initial contents at its first request: until then it costs a row.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.api.tenant_bootstrap import TenantBootstrapper
from registry.flowcontrol.activity import Activity
from registry.flowcontrol.byte_shares import ABORT, Answers, HeldAnswer, Upload, Uploads
from registry.flowcontrol.fair_queue import FairQueue
from registry.flowcontrol.rates import Flow, Rates
from registry.http.request_state import NO_TENANT, STATE, RequestState
from registry.http.serving.fast_path import FAST_PATHS

_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class TenantLimitsMiddleware:
    def __init__(
        self,
        app: ASGIApp,
        queue: FairQueue,
        rates: Rates,
        uploads: Uploads,
        answers: Answers,
        activity: Activity,
        bootstrapper: TenantBootstrapper,
    ) -> None:
        self._app = app
        self._queue = queue
        self._rates = rates
        self._uploads = uploads
        self._answers = answers
        self._activity = activity
        self._bootstrapper = bootstrapper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        info, tenant, watch = state.info, state.authorized.tenant, state.info.verb == "watch"
        if watch:
            self._queue.release(state.seat)  # it lasts long, and is idle most of the time
        if tenant is NO_TENANT:
            # The process's own answers are limited as those of a tenant without a name: metrics may be megabytes.
            held = self._answers.begin("", scope.get(ABORT))
            try:
                await self._app(scope, receive, send)
            finally:
                held.end()
            return
        named = tenant.name if state.wildcard is None else info.tenant
        home = state.authenticated.tenant or named
        self._queue.mark_known(home)
        if (connection := scope.get(FAST_PATHS)) is not None:
            connection.count_for(home)
        write = info.resource != "" and info.verb in _WRITES
        self._activity.begin(tenant.name, watch=watch, write=write)
        flow = upload = None
        answer = self._answers.begin(tenant.name, scope.get(ABORT))
        try:
            if "rates" in tenant.attributes:
                flow = self._rates.enter(tenant.id, tenant.attributes["rates"], state.started, watch=watch)
            if "server" not in tenant.attributes:
                await self._bootstrapper.ensure(tenant)
            if write:
                upload = state.upload = Upload(self._uploads, tenant.name)
                receive = upload.receiving(receive)
            await self._app(scope, receive, send)
        finally:
            if state.stream is None:
                self._end(tenant.name, answer, upload, flow, state)
            else:
                state.when_streamed += (partial(self._end, tenant.name, answer, upload, flow),)

    def _end(
        self, tenant: str, answer: HeldAnswer, upload: Upload | None, flow: Flow | None, state: RequestState
    ) -> None:
        watch = state.info.verb == "watch"
        answer.end()
        if watch:
            self._activity.end_watch(tenant)
        if upload is not None:
            upload.end()
        if flow is not None:
            self._rates.leave(flow, watch=watch)
