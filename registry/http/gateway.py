"""Every request: who asks, which tenant, may they, and then the endpoint that answers.

Order of the filters (facts: access.md): authentication (401), authorization (403), routing. Failures leave as a
Status in the form that the client accepts; what is not foreseen is logged with the request's id and leaves as a plain
500.

Follows apiserver pkg/server/config.go (DefaultBuildHandlerChain).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from starlette.types import Receive, Scope, Send

from registry import logs
from registry.api.errors import (
    Qualified,
    StatusError,
    bad_request,
    forbidden,
    from_store,
    internal_error,
    too_large,
    too_many_requests,
    unauthorized,
)
from registry.api.options import Query
from registry.api.request import Backend
from registry.api.selectors import name_of_selector
from registry.api.strategies.base import Context
from registry.api.tenant_bootstrap import TenantBootstrapper
from registry.api.verbs.history import SUBRESOURCES
from registry.audit.trail import KEY as TRAIL
from registry.audit.trail import Trail
from registry.authentication.authenticator import Authentication, Unauthenticated
from registry.authentication.impersonation_headers import NobodyNamed, requested_groups, requested_user
from registry.authentication.user import User
from registry.authorization.attributes import Attributes, Decision, refusal
from registry.authorization.authorizer import user_in_tenant
from registry.authorization.impersonation_authz import Impersonation, ImpersonationRefused
from registry.authorization.tenants import DEFAULT, SYSTEM, Tenants
from registry.authorization.wildcard import SUBRESOURCE, WildcardTarget, is_across, resolve_wildcard
from registry.budget import Budget, BudgetExceeded
from registry.flowcontrol.fair_queue import EXEMPT, LIST_SEAT_SECONDS, SEAT_SECONDS, FairQueue, TooManyRequests
from registry.flowcontrol.rates import Flow, Rates
from registry.flowcontrol.time_slice import IS_GONE, ClientGone, TimeSlice
from registry.http import metrics
from registry.http.documents import Documents
from registry.http.hosts import HostPattern, tenant_in_path
from registry.http.middleware.access_log import log_answer, loggable
from registry.http.negotiation import Representation, error_encoding
from registry.http.request_info import Target, parse, with_past
from registry.http.resources import PageNotFound, ResourceEndpoint, parse_query, verb_of
from registry.http.responses import send_page_not_found, send_status
from registry.http.serving.uploads import MIB, Upload, Uploads
from registry.store.errors import StoreError, TenantNotFound
from registry.store.types import DomainId, Guards, Tenant, TenantId, TenantName

logger = logging.getLogger("registry.requests")


# What the process answers for itself: whether it lives must not depend on the database.
_OF_PROCESS = frozenset(
    {"/healthz", "/livez", "/readyz", "/healthz/ping", "/livez/ping", "/readyz/ping", "/metrics", "/version"}
)
_LISTS = frozenset({"list", "deletecollection"})
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
# Verbs on one object, whose work is bounded as a whole; in lists and watches it is that for each object.
_OF_ONE = frozenset({"get", "create", "update", "patch", "delete"})
_SHORT = frozenset({"get", "watch"})
_NO_TENANT = Tenant(TenantId(0), TenantName(""), DomainId(0), Guards(0, 0))


class Gateway:
    """The ASGI application behind Starlette."""

    def start(
        self,
        backend: Backend,
        tenants: Tenants,
        authentication: Authentication,
        stopping: asyncio.Event,
        *,
        jwks_uri: str = "",
        host_pattern: str = "",
        access_log: bool = False,
        upload_limit_bytes: int = 128 * MIB,
    ) -> None:
        self._tenants = tenants
        self._store = backend.store
        self._authentication = authentication
        self._policies = backend.policies
        self._impersonation = Impersonation()
        self._hosts = HostPattern(host_pattern) if host_pattern else None
        self._turns = FairQueue()
        self._rates = Rates()
        self._uploads = Uploads(upload_limit_bytes)
        self._furnisher = TenantBootstrapper(backend)
        self._resources = ResourceEndpoint(backend, stopping)
        self._documents = Documents(backend, jwks_uri)
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        target = parse(scope["path"])
        query = parse_query(scope["query_string"])
        headers = dict(scope["headers"])
        request = logs.begin_request(headers.get(b"audit-id", b"").decode("latin-1"))
        context: Context | None = None
        flow: Flow | None = None
        upload: Upload | None = None
        place = EXEMPT
        warnings: list[str] = []
        verb = verb_of(scope["method"], target, query) if target.resource else scope["method"].lower()
        if query and target.resource:
            target = with_past(target, verb, query)
        code = 500
        try:
            # Before anything that takes time: who asks for what is known only later, but the path names the tenant.
            held = LIST_SEAT_SECONDS if verb in _LISTS else SEAT_SECONDS
            place = self._turns.try_acquire(target.tenant, started, held) or await self._turns.acquire(
                target.tenant, held
            )
            if place is not EXEMPT and verb not in _SHORT:
                await self._turns.wait_for_short_requests(place, reads=verb in _LISTS)
            TimeSlice(partial(self._turns.yield_now, target.tenant, place), scope.get(IS_GONE)).begin()
            context = await self._authorize(scope, target, verb, query, headers, warnings)
            tenant = context.tenant
            if verb == "watch":
                self._turns.release(place)  # it lasts, and is idle mostly
            if tenant is not _NO_TENANT:
                self._turns.mark_known(target.tenant)
                if "rates" in tenant.attributes:
                    flow = self._rates.enter(tenant.id, tenant.attributes["rates"], started, watch=verb == "watch")
                if "server" not in tenant.attributes:
                    await self._furnisher.ensure(tenant)
            if target.resource:
                if verb in _WRITES:
                    upload = self._uploads.begin(tenant.name)
                    receive = upload.receiving(receive)
                if verb in _OF_ONE:
                    Budget().begin()
                code = await self._resources(scope, receive, send, target, verb, query, context, headers)
            else:
                code = await self._documents(scope, send, target, query, context, headers)
        except PageNotFound:
            code = await send_page_not_found(send, scope, warnings)
        except ClientGone:
            code = 499
        except TooManyRequests as error:
            refused = too_many_requests(str(error), error.retry_after_seconds)
            code = await self._send_error(send, scope, headers, refused, warnings)
        except Unauthenticated:
            code = await self._send_error(send, scope, headers, unauthorized(), warnings)
        except StatusError as error:
            code = await self._send_error(send, scope, headers, error, warnings)
        except BudgetExceeded as error:
            logger.warning("%s %s: %s", scope["method"], loggable(scope["path"]), error)
            code = await self._send_error(send, scope, headers, too_large(str(error)), warnings)
        except StoreError as error:
            logger.warning("%s %s: %r", scope["method"], loggable(scope["path"]), error)
            code = await self._send_error(send, scope, headers, from_store(error), warnings)
        except asyncio.CancelledError:
            code = 499
            raise
        except Exception:
            logger.exception("request failed: %s %s", scope["method"], loggable(scope["path"]))
            failure = internal_error(f"the server met a condition that it does not expect (request {request.audit_id})")
            code = await self._send_error(send, scope, headers, failure, warnings)
        finally:
            if place is not EXEMPT:
                self._turns.release(place)
            if upload is not None:
                upload.end()
            if flow is not None:
                self._rates.leave(flow, watch=verb == "watch")
            seconds = time.perf_counter() - started
            _observe(scope, target, verb, code, seconds)
            if self._access_log:
                log_answer(scope, target, verb, context, headers, code, seconds)
            request.audit_id = ""

    async def _authorize(
        self, scope: Scope, target: Target, verb: str, query: Query, headers: dict[bytes, bytes], warnings: list[str]
    ) -> Context:
        """Who asks for which tenant, after they have been found to be allowed to."""
        user = await self._authentication.user_of(scope, headers.get(b"authorization", b"").decode("latin-1"), warnings)
        # A namespace object is judged inside itself (requestinfo.go).
        is_namespace = target.resource == "namespaces" and not target.group
        attributes = Attributes(
            verb,
            target.path,
            target.resource,
            target.subresource,
            target.group,
            target.name if is_namespace else target.namespace,
            target.name,
        )
        if verb in ("list", "watch") and not target.name and "fieldSelector" in query:
            attributes = replace(attributes, name=name_of_selector(query["fieldSelector"][0]))
        if user.tenant not in (None, SYSTEM) and target.path.rstrip("/") == "/metrics" and not target.tenant:
            raise _forbidden(user, attributes)  # they say which definitions there are, of all tenants
        trail: Trail | None = scope.get(TRAIL)
        if trail is not None:
            await trail.identify(user, attributes, target.tenant or user.tenant or DEFAULT)
        across: WildcardTarget | None = None
        if is_across(target.tenant):
            if target.resource:
                attributes = replace(attributes, subresource=SUBRESOURCE)
            across = await self._across(scope, headers.get(b"host", b""), user, target, attributes)
            tenant = across.judge
        else:
            tenant, user = await self._tenant(scope, headers.get(b"host", b""), user, target, attributes)
        if b"impersonate-user" in headers or any(h.startswith(b"impersonate-") for h in headers):
            user = await self._impersonate(tenant, user, scope, attributes, trail)
        if trail is not None:
            trail.of_tenant(tenant.name)
            trail.record_decision(True, "")
        if not user.is_administrator:
            decision = (
                await self._policies.decide(tenant, user, attributes)
                if tenant is not _NO_TENANT
                else await self._of_process(user, attributes)
            )
            if trail is not None:
                trail.record_decision(decision.allowed, decision.reason)
            if not decision.allowed:
                raise _forbidden(user, attributes, decision.reason)
        user_agent = headers.get(b"user-agent", b"").decode("latin-1")
        context = Context(
            tenant,
            user,
            user_agent,
            warnings,
            authorized_name=attributes.name,
            annotations=None if trail is None else trail.annotations,
        )
        if across is not None:
            context.tenant, context.across = across.lead, across.across
        return context

    async def _across(
        self, scope: Scope, host: bytes, user: User, target: Target, attributes: Attributes
    ) -> WildcardTarget:
        """The tenants that are asked for together. A stranger is told nothing of which there are."""
        name = tenant_in_path(scope["raw_path"], target.tenant)
        try:
            if self._hosts is not None:
                name = self._hosts.tenant_of(host, name)
            if not is_across(name):
                raise TenantNotFound("there are no such tenants")
            return await resolve_wildcard(self._tenants, self._store, user, name)
        except TenantNotFound:
            # The administrator of a tenant is one in there alone.
            if not user_in_tenant(user, SYSTEM).is_administrator:
                raise _forbidden(user, attributes) from None
            raise

    async def _tenant(
        self, scope: Scope, host: bytes, user: User, target: Target, attributes: Attributes
    ) -> tuple[Tenant, User]:
        """The tenant that is asked for, and who asks as that tenant sees him: an administrator from above as his own.

        A stranger is told of a tenant that does not exist what he would be told of one that does.
        """
        if not target.tenant and target.path.rstrip("/") in _OF_PROCESS:
            return _NO_TENANT, user if user.tenant is None else user_in_tenant(user, DEFAULT)
        name = target.tenant
        try:
            if name and b"%" in scope["raw_path"]:
                name = tenant_in_path(scope["raw_path"], name)
            if self._hosts is not None:
                name = self._hosts.tenant_of(host, name)
            tenant = await self._tenants.tenant_of(user, name)
        except TenantNotFound:
            stranger = user_in_tenant(user, name or DEFAULT)
            if stranger.is_administrator:
                raise
            if target.path.rstrip("/") in _OF_PROCESS:
                return _NO_TENANT, stranger  # what everybody may ask of every tenant is no sign that there is one
            raise _forbidden(stranger, attributes) from None
        if user.tenant is not None and user.tenant != tenant.name and await self._tenants.governs(user, tenant):
            return tenant, user
        return tenant, user_in_tenant(user, tenant.name)

    async def _impersonate(
        self, tenant: Tenant, requester: User, scope: Scope, attributes: Attributes, trail: Trail | None
    ) -> User:
        """Who the request is judged as from here on; 400 and 403 where it is asked wrongly or by the wrong one."""
        try:
            wanted = requested_user(scope["headers"])
        except NobodyNamed as error:
            raise bad_request(str(error)) from error
        if wanted is None:
            return requester
        if requester.tenant is not None:
            # Whoever is acted as by an administrator of a tenant is nobody outside it, whatever his groups.
            wanted = replace(wanted, tenant=tenant.name)
        groups = requested_groups(scope["headers"])
        try:
            found, constraint = self._impersonation.check(
                tenant.id, requester, wanted, groups, attributes, await self._deciding(tenant, requester)
            )
        except ImpersonationRefused as refused:
            raise _forbidden(requester, refused.attributes, refused.reason) from refused
        if trail is not None:
            trail.impersonates(found, constraint)
        return found

    async def _deciding(self, tenant: Tenant, user: User) -> Callable[[Attributes], Decision]:
        """What a user may, for several questions in a row."""
        if user.is_administrator:
            return _anything
        policy = self._policies.default if tenant is _NO_TENANT else await self._policies.of(tenant)
        return lambda needed: policy.decide(user, needed)

    async def _of_process(self, user: User, attributes: Attributes) -> Decision:
        """Whether a process lives can be asked without any tenant's rules, and so without the database."""
        decision = self._policies.default.decide(user, attributes)
        if decision.allowed:
            return decision
        try:
            home = await self._tenants.tenant_of(user, "")
        except TenantNotFound:  # A certificate may name any.
            return decision
        return await self._policies.decide(home, user, attributes)

    async def _send_error(
        self, send: Send, scope: Scope, headers: dict[bytes, bytes], error: StatusError, warnings: list[str]
    ) -> int:
        representation = Representation(error_encoding(headers.get(b"accept", b"").decode("latin-1")))
        return await send_status(send, scope, error, representation, warnings)


def _observe(scope: Scope, target: Target, verb: str, code: int, seconds: float) -> None:
    """Counts by what there is, not by what was asked for: else a stranger could have any number of series made."""
    served = scope.get("registry.served")
    if served is None:
        metrics.observe(verb if verb in _VERBS else "other", "", "", "", code, seconds)
        return
    known = target.subresource in served.subresources or target.subresource in SUBRESOURCES
    subresource = target.subresource if known else ""
    metrics.observe(verb, target.group, target.resource, subresource, code, seconds)


_VERBS = frozenset(
    {"get", "head", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "post", "put"}
)


def _anything(needed: Attributes) -> Decision:
    return _ALLOWED


_ALLOWED = Decision(True)


def _forbidden(user: User, attributes: Attributes, reason: str = "") -> StatusError:
    resource = Qualified(attributes.resource, attributes.group) if attributes.is_resource else Qualified("")
    return forbidden(resource, attributes.name if attributes.is_resource else "", refusal(user, attributes, reason))
