"""Authenticates the user (401 for invalid credentials), and keeps which tenants the accepted credentials belong to.

Follows apiserver pkg/endpoints/filters/authentication.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.authentication.authenticator import Authentication
from registry.authentication.user import ANONYMOUS, User
from registry.authentication.x509 import certified_user
from registry.authorization.tenants import DEFAULT
from registry.caches import LruCache
from registry.http.request_state import STATE, RequestState

_COUNT: Final = 20_000


class KnownCredentials:
    """Which tenants the credentials belong to that were accepted before: the most recently used ones of a process.

    This says for whom a request counts before its credential is checked, so that a flood of strangers' requests does
    not delay those of a tenant that they name. It grants nothing. Of a header only its hash is kept, which differs
    between processes.
    """

    def __init__(self) -> None:
        self._homes: LruCache[int, str] = LruCache(_COUNT)

    def home(self, scope: Mapping[str, Any], authorization: str) -> str | None:
        """Returns the tenant of a request's user, "" for one of all tenants; None if the credential is not known."""
        certified = certified_user(scope)
        if certified is not None:
            return certified.tenant or ""
        return self._homes.get(hash(authorization)) if authorization else None

    def remember(self, authorization: str, user: User) -> None:
        """Notes that the credential in this header was accepted."""
        if authorization and user is not ANONYMOUS:
            key, home = hash(authorization), user.tenant or ""
            if self._homes.peek(key) != home:
                self._homes.put(key, home)


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
