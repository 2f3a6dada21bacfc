"""Authorizes the request (403), before anything is looked up that a 404 would disclose.

Follows apiserver pkg/endpoints/filters/authorization.go.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.api.errors import Qualified, StatusError, forbidden
from registry.api.strategies.base import Context
from registry.authentication.user import User
from registry.authorization.attributes import Attributes, Decision, refusal
from registry.authorization.authorizer import Authorizer
from registry.authorization.tenants import TenantDirectory
from registry.http.request_state import NO_TENANT, STATE, RequestState
from registry.store.errors import TenantNotFound


class AuthorizationMiddleware:
    def __init__(self, app: ASGIApp, authorizer: Authorizer, tenants: TenantDirectory) -> None:
        self._app = app
        self._authorizer = authorizer
        self._tenants = tenants

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        tenant, user, attributes, trail = state.tenant, state.user, state.attributes, state.trail
        if trail is not None:
            trail.of_tenant(tenant.name)
            trail.record_decision(True, "")
        if not user.is_administrator:
            decision = (
                await self._authorizer.decide(tenant, user, attributes)
                if tenant is not NO_TENANT
                else await self._decide_without_tenant(user, attributes)
            )
            if trail is not None:
                trail.record_decision(decision.allowed, decision.reason)
            if not decision.allowed:
                raise forbidden_to(user, attributes, decision.reason)
        wildcard = state.wildcard
        state.context = Context(
            tenant if wildcard is None else wildcard.lead,
            user,
            state.header(b"user-agent"),
            state.warnings,
            wildcard=None if wildcard is None else wildcard.scope,
            authorized_name=attributes.name,
            annotations=None if trail is None else trail.annotations,
            deadline=state.deadline,
            reference=None if trail is None else trail.reference,
        )
        await self._app(scope, receive, send)

    async def _decide_without_tenant(self, user: User, attributes: Attributes) -> Decision:
        """Decides by the default rules, which need no database; if they refuse, by those of the user's own tenant."""
        decision = self._authorizer.default.decide(user, attributes)
        if decision.allowed:
            return decision
        try:
            home = await self._tenants.tenant_of(user, "")
        except TenantNotFound:  # a certificate may name any tenant
            return decision
        return await self._authorizer.decide(home, user, attributes)


def forbidden_to(user: User, attributes: Attributes, reason: str = "") -> StatusError:
    resource = Qualified(attributes.resource, attributes.group) if attributes.is_resource else Qualified("")
    return forbidden(resource, attributes.name if attributes.is_resource else "", refusal(user, attributes, reason))
