"""Impersonate-* headers: serves the request as another user, if the requester may act as that user.

Follows apiserver pkg/endpoints/filters/impersonation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.api.errors import bad_request
from registry.authentication.impersonation_headers import NoUserNamed, requested_groups, requested_user
from registry.authentication.user import User
from registry.authorization.attributes import Attributes, Decision
from registry.authorization.authorizer import Authorizer, decision_size
from registry.authorization.impersonation_authz import Impersonation, ImpersonationRefused
from registry.authorization.tenants import TenantDirectory
from registry.flowcontrol.evaluation import evaluate
from registry.http.middleware.authorization import forbidden_to
from registry.http.request_state import NO_TENANT, STATE, RequestState
from registry.store.errors import TenantNotFound
from registry.store.types import Tenant

_ALLOWED: Final = Decision(True)


class ImpersonationMiddleware:
    def __init__(self, app: ASGIApp, authorizer: Authorizer, tenants: TenantDirectory) -> None:
        self._app = app
        self._authorizer = authorizer
        self._tenants = tenants
        self._impersonation = Impersonation()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        for name in state.headers:
            if name.startswith(b"impersonate-"):
                state.user = await self._impersonated_user(scope, state)
                break
        await self._app(scope, receive, send)

    async def _impersonated_user(self, scope: Scope, state: RequestState) -> User:
        """Returns the impersonated user. Raises 400 for headers that name no user, 403 if it is not permitted."""
        tenant, requester = state.tenant, state.user
        try:
            wanted = requested_user(scope["headers"])
        except NoUserNamed as error:
            raise bad_request(str(error)) from error
        if wanted is None:
            return requester
        if requester.tenant is not None:
            # Whatever their groups, a user impersonated by an administrator of a tenant has no rights outside it.
            wanted = replace(wanted, tenant=tenant.name or requester.tenant)
        groups = requested_groups(scope["headers"])
        decide, size = await self._decider(tenant, requester)
        questions = 3 + len(groups) + sum(map(len, wanted.extra.values()))
        check = partial(self._impersonation.check, tenant.id, requester, wanted, groups, state.attributes, decide)
        try:
            user, constraint = await evaluate(check, size * questions, repeatable=True)
        except ImpersonationRefused as refused:
            raise forbidden_to(requester, refused.attributes, refused.reason) from refused
        if state.trail is not None:
            state.trail.impersonates(user, constraint)
        return user

    async def _decider(self, tenant: Tenant, user: User) -> tuple[Callable[[Attributes], Decision], int]:
        """Returns a function that decides questions about a user, all by the same policy, and the size of one."""
        if user.is_administrator:
            return _allow, 0
        if tenant is NO_TENANT:  # as in AuthorizationMiddleware, the rights in the user's own tenant count
            try:
                tenant = await self._tenants.tenant_of(user, "")
            except TenantNotFound:  # a certificate may name any tenant
                return partial(self._authorizer.default.decide, user), 0
        policy = await self._authorizer.of(tenant)
        return partial(policy.decide, user), decision_size(policy, user)


def _allow(attributes: Attributes) -> Decision:
    return _ALLOWED
