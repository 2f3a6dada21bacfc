"""An audit trail around each request; the middleware only exists if an audit log is configured.

Follows apiserver pkg/endpoints/filters/audit.go.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.audit.log import AuditLog
from registry.audit.trail import Trail
from registry.http.request_state import STATE, RequestState


class AuditMiddleware:
    """Audits each request by the policy that was in force when it arrived."""

    def __init__(self, app: ASGIApp, log: AuditLog) -> None:
        self._app = app
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        policy, sinks = self._log.policy.current, self._log.sinks
        trail = Trail(policy, sinks, scope, state.info.version, state.attributes, state.logged.audit_id)
        state.trail = trail
        try:
            await self._app(scope, trail.receiving(receive), trail.sending(send))
            await state.take_stream()
        except BaseException:
            await trail.panic()
            raise
        await trail.end()
