"""Authenticates the user (401 for invalid credentials). Follows apiserver pkg/endpoints/filters/authentication.go."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.authentication.authenticator import Authentication
from registry.authorization.tenants import DEFAULT
from registry.http.request_state import STATE, RequestState


class AuthenticationMiddleware:
    def __init__(self, app: ASGIApp, authentication: Authentication) -> None:
        self._app = app
        self._authentication = authentication

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        user = await self._authentication.user_of(scope, state.header(b"authorization"), state.warnings)
        state.authenticated = state.user = user
        if state.trail is not None:
            # The tenant that the request names: whether it exists, and is open to this user, is not known yet.
            await state.trail.identify(user, state.attributes, state.named_tenant or user.tenant or DEFAULT)
        await self._app(scope, receive, send)
