"""Authenticates the user (401 for invalid credentials). Follows apiserver pkg/endpoints/filters/authentication.go."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.authentication.authenticator import Authentication
from registry.authentication.known_credentials import KnownCredentials
from registry.authorization.tenants import DEFAULT
from registry.http.request_state import STATE, RequestState


class AuthenticationMiddleware:
    def __init__(self, app: ASGIApp, authentication: Authentication, credentials: KnownCredentials) -> None:
        self._app = app
        self._authentication = authentication
        self._credentials = credentials

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        authorization = state.authorization
        user = await self._authentication.user_of(scope, authorization, state.warnings)
        self._credentials.remember(authorization, user)
        state.authenticated = state.user = user
        if state.trail is not None:
            # The tenant that the request names: whether it exists, and is open to this user, is not known yet.
            await state.trail.identify(user, state.attributes, state.named_tenant or user.tenant or DEFAULT)
        await self._app(scope, receive, send)
