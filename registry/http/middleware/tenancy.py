"""Resolves the tenant of a request, or those of /clusters/*, and the user as seen by this tenant.

A request for a tenant that does not exist is answered as one for a tenant that the user may not enter, so that the
existence of tenants is not disclosed. Requests for the process itself (/livez, /metrics) have no tenant.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.authentication.user import User
from registry.authorization.authorizer import user_in_tenant
from registry.authorization.tenants import DEFAULT, SUBRESOURCE, SYSTEM, TenantDirectory, is_wildcard, resolve_wildcard
from registry.flowcontrol.evaluation import Evaluations
from registry.http.documents.health import ROOTS
from registry.http.middleware.authorization import forbidden_to
from registry.http.request_info import RequestInfo
from registry.http.request_state import NO_TENANT, STATE, RequestState
from registry.store.errors import TenantNotFound
from registry.store.store import Store
from registry.store.types import Tenant


class HostPattern:
    """Tenants by host name: with `{tenant}.example.com`, acme.example.com is the tenant acme.

    A request that names a tenant by its host cannot name another by its path.
    """

    def __init__(self, pattern: str) -> None:
        """`pattern` is "{tenant}" and its suffix, or "" for none."""
        self._suffix = pattern.removeprefix("{tenant}").encode()

    def tenant_of(self, host: bytes, named: str) -> str:
        """Returns the tenant for a Host header and `named`, the name in the path (perhaps ""). Raises TenantNotFound.

        acme.example.com:6443   acme          ACME.example.com   acme
        example.com             what the path names
        """
        if not self._suffix:
            return named
        name = host.lower()
        if not name.startswith(b"["):
            name = name.partition(b":")[0].removesuffix(b".")
        if not name.endswith(self._suffix):
            return named
        tenant = name[: -len(self._suffix)].decode("latin-1")
        if named and named != tenant:
            raise TenantNotFound("the tenant does not exist")
        return tenant or "/"

    def tenant_or_named(self, host: bytes, named: str) -> str:
        """Like `tenant_of`, but if host and path differ, what the path names: the request will be refused."""
        try:
            return self.tenant_of(host, named)
        except TenantNotFound:
            return named


def tenant_in_path(raw_path: bytes, tenant: str) -> str:
    """Returns the tenant in a path as it was sent: a name with escapes is not a tenant's.

    `tenant` is the name in the decoded path; decoded, `/clusters/a%2Fb` would be the tenant a.
    """
    if b"%" not in raw_path:
        return tenant
    segments = raw_path.lstrip(b"/").split(b"/", 2)
    if tenant.startswith("*"):
        # Go clients escape the star of /clusters/*.
        segments[1:2] = [segments[1].replace(b"%2A", b"*").replace(b"%2a", b"*")]
    return tenant if segments[1:2] == [tenant.encode()] else "/"


# Served by the process itself: its liveness must not depend on the database.
_OF_PROCESS: Final = frozenset({"/metrics", "/version"})
_HEALTH: Final = tuple(f"/{root}/" for root in ROOTS)


def is_of_process(info: RequestInfo) -> bool:
    """Returns whether the process itself serves the path, if it names no tenant."""
    if info.is_api:
        return False
    path = info.document_path
    return path in _OF_PROCESS or f"{path}/".startswith(_HEALTH)


class TenancyMiddleware:
    def __init__(
        self, app: ASGIApp, tenants: TenantDirectory, store: Store, hosts: HostPattern | None, evaluations: Evaluations
    ) -> None:
        self._app = app
        self._tenants = tenants
        self._store = store
        self._hosts = hosts
        self._evaluations = evaluations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        info, user = state.info, state.user
        if user.tenant not in (None, SYSTEM) and not info.tenant and info.document_path == "/metrics":
            # Metrics name the definitions of all tenants.
            raise forbidden_to(user, state.attributes)
        if is_wildcard(info.tenant):
            await self._resolve_wildcard(scope, state)
        else:
            state.tenant, state.user = await self._resolve(scope, state)
        if state.tenant is not NO_TENANT:
            self._evaluations.begin(state.tenant.name)
        await self._app(scope, receive, send)

    async def _resolve_wildcard(self, scope: Scope, state: RequestState) -> None:
        if state.info.resource:
            state.attributes = state.attributes._replace(subresource=SUBRESOURCE)
        name = tenant_in_path(scope["raw_path"], state.info.tenant)
        try:
            if self._hosts is not None:
                name = self._hosts.tenant_of(state.headers.get(b"host", b""), name)
            if not is_wildcard(name):
                raise TenantNotFound("there are no such tenants")
            state.wildcard = await resolve_wildcard(self._tenants, self._store, state.user, name)
        except TenantNotFound:
            # The administrator of a tenant has no such rights outside it.
            if not user_in_tenant(state.user, SYSTEM).is_administrator:
                raise forbidden_to(state.user, state.attributes) from None
            raise
        state.tenant = state.wildcard.authorizing

    async def _resolve(self, scope: Scope, state: RequestState) -> tuple[Tenant, User]:
        """Returns the tenant and the user as it sees them; the administrator of a tenant above remains unchanged."""
        user, name = state.user, state.info.tenant
        of_process = is_of_process(state.info)
        if of_process and not name:
            return NO_TENANT, user if user.tenant is None else user_in_tenant(user, DEFAULT)
        try:
            if name and b"%" in scope["raw_path"]:
                name = tenant_in_path(scope["raw_path"], name)
            if self._hosts is not None:
                name = self._hosts.tenant_of(state.headers.get(b"host", b""), name)
            tenant = await self._tenants.tenant_of(user, name)
        except TenantNotFound:
            stranger = user_in_tenant(user, name or DEFAULT)
            if stranger.is_administrator:
                raise
            if of_process:
                return NO_TENANT, stranger  # anyone may request this of every tenant, so the answer discloses nothing
            raise forbidden_to(stranger, state.attributes) from None
        if user.tenant is not None and user.tenant != tenant.name and await self._tenants.administers(user, tenant):
            return tenant, user
        return tenant, user_in_tenant(user, tenant.name)
