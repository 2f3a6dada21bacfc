"""Answers further gets of a connection without the rest of the handler chain, which costs more than reading the object.

A client that gets one object usually gets others of the same kind, over the same connection, with the same headers. The
results of the handler chain for the first get hold for the next ones while everything that they depend on is unchanged.
So after a plain get (RequestState.plain_get) this middleware stores a `GetPlan` in the connection. For a further get,
each of these is checked without I/O:

    request info      the same path but for namespace and name, no query, and exactly the same headers
    fairness          a seat is free
    authentication    the credential is still valid, and identifies the same user
    tenancy           the tenant's row is still cached and equal
    catalog           the tenant's catalog is the same
    authorization     the cached policy is fresh, and allows the request
    guards            those that the read returns are those of the catalog

The answer is the stored text, with the same headers. In any other case (for example, the object does not exist, is
encrypted, needs conversion, or is long) the handler chain serves the request from the start: repeating a get has no
side effects.

The middleware is not in the chain if requests are audited, traced or logged. docs/decisions/fast-gets.md says why it
exists; tests/http/test_fast_gets.py compares its answers with those of the handler chain.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.api.catalog import TenantCatalog
from registry.api.request import Backend
from registry.api.served import Served
from registry.authentication.authenticator import bearer_token
from registry.authentication.user import User
from registry.flowcontrol.fair_queue import EXEMPT, FairQueue, Seat, TooManyRequests
from registry.http import metrics
from registry.http.negotiation import JSON, MEDIA_TYPES
from registry.http.request_info import RequestInfo
from registry.http.request_state import STATE, RequestState
from registry.http.responses import FIXED
from registry.http.serving.cycle import Cycle
from registry.http.serving.fast_path import FAST_PATHS, FastPaths
from registry.store.errors import StoreError
from registry.store.reads.points import Loaded
from registry.store.store import Store
from registry.store.types import Tenant

# Plans per connection, one for each kind; the next one drops all of them.
PLANS_LIMIT: Final = 8
# An idle connection keeps the headers of its plans: with a token, they rarely exceed 2 KiB.
HEADERS_LIMIT_BYTES: Final = 4 * 1024
# Longer answers may be compressed, or sent in parts (registry/http/responses.py).
LONGEST_CHARACTERS: Final = 32_000
# Consecutive reads that a plan could not answer, after which it is not used: each costs a second read.
MISSES_LIMIT: Final = 8

# Characters that are the same in the raw and in the decoded path.
_PLAIN: Final = b"abcdefghijklmnopqrstuvwxyz0123456789-./"
# Headers that concern a single request, its body or its connection.
_SPECIAL: Final = frozenset({b"audit-id", b"connection", b"expect", b"transfer-encoding", b"upgrade"})


class GetTarget(NamedTuple):
    """The parts of an object's path. A plan holds for all objects with the same `collection`."""

    collection: tuple[bytes, bytes]  # the path before the namespace; the plural name
    namespace: bytes
    name: bytes


def target_of(raw_path: bytes) -> GetTarget | None:
    """Splits `/apis/g/v1/namespaces/default/crontabs/a`; None if it has characters that may be escapes.

    Paths of other resources are split as well: a plan is only stored for the path of an object (`_is_of`).
    """
    if raw_path.translate(None, _PLAIN):
        return None
    parts = raw_path.rsplit(b"/", 4)
    if len(parts) < 4 or not parts[-1]:
        return None
    if parts[1] == b"namespaces" and len(parts) == 5:
        return GetTarget((parts[0], parts[3]), parts[2], parts[4]) if parts[2] else None
    prefix, plural, name = raw_path.rsplit(b"/", 2)
    return GetTarget((prefix, plural), b"", name)


@dataclass(slots=True)
class GetPlan:
    """The results of the handler chain for a get, valid for other objects of its collection.

    `authenticated` is the user of the credential, and `user` that user as the tenant sees it. `catalog` is the serial
    of the tenant's catalog and its revision of the definitions. It is not the catalog itself, because an idle
    connection must not keep outdated definitions.
    """

    headers: list[tuple[bytes, bytes]]
    token: str
    authenticated: User
    user: User
    tenant: Tenant
    info: RequestInfo
    catalog: tuple[int, int]
    misses: int = 0

    @property
    def flow(self) -> str:
        """The tenant that requests count for in the queue."""
        return self.authenticated.tenant or self.tenant.name


class FastGetsMiddleware:
    """Stores a plan in the connection after each plain get."""

    def __init__(self, app: ASGIApp, backend: Backend, queue: FairQueue) -> None:
        self._app = app
        self.backend = backend
        self.queue = queue

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        state: RequestState = scope[STATE]
        connection: FastPaths | None = scope.get(FAST_PATHS)
        if state.plain_get is None or connection is None or (plan := _plan_of(scope, state, state.plain_get)) is None:
            return
        target = target_of(scope["raw_path"])
        if target is None or not _is_of(target, state.info):
            return
        if not isinstance(connection.fast_path, FastGets):
            connection.fast_path = FastGets(self.backend, self.queue)
        connection.fast_path.remember(target, plan)


def _is_of(target: GetTarget, info: RequestInfo) -> bool:
    """Whether namespace, name and plural of the raw path are those of the parsed request."""
    return (target.namespace.decode(), target.name.decode(), target.collection[1].decode()) == (
        info.namespace,
        info.name,
        info.resource,
    )


def _plan_of(scope: Scope, state: RequestState, catalog: TenantCatalog) -> GetPlan | None:
    """Returns the plan for gets like this one; None if its answer depends on more than a plan checks."""
    authenticated, tenant, headers = state.authenticated, state.tenant, state.headers
    if state.code != 200 or state.warnings or state.wildcard is not None:
        return None
    if "rates" in tenant.attributes or authenticated.tenant not in (None, tenant.name):
        return None
    if not _SPECIAL.isdisjoint(headers) or headers.get(b"content-length", b"0") != b"0":
        return None
    if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADERS_LIMIT_BYTES:
        return None
    if any(name.startswith(b"impersonate-") for name in headers):
        return None
    token = bearer_token(state.header(b"authorization"), [])
    return GetPlan(scope["headers"], token, authenticated, state.user, tenant, state.info, _identity_of(catalog))


def _identity_of(catalog: TenantCatalog) -> tuple[int, int]:
    return catalog.serial, catalog.guards.definitions


class _Request(NamedTuple):
    """A request that is answered by a plan, or given back."""

    plan: GetPlan
    target: GetTarget
    cycle: Cycle
    give_back: Callable[[], None]
    started: float

    def end_if_gone(self) -> bool:
        """Returns whether the client has disconnected. Then the request is given back: nothing else would free it."""
        if self.cycle.disconnected:
            self.give_back()
        return self.cycle.disconnected


class FastGets:
    """The plans of one connection."""

    def __init__(self, backend: Backend, queue: FairQueue) -> None:
        self._backend = backend
        self._queue = queue
        self._plans: dict[tuple[bytes, bytes], GetPlan] = {}

    def remember(self, target: GetTarget, plan: GetPlan) -> None:
        known = self._plans.get(target.collection)
        if known is not None and known.catalog == plan.catalog and known.headers == plan.headers:
            # With the same catalog and headers, the new plan is no more useful: the misses still count.
            plan.misses = known.misses
        elif len(self._plans) >= PLANS_LIMIT:
            self._plans.clear()
        self._plans[target.collection] = plan

    def begin(self, cycle: Cycle, give_back: Callable[[], None]) -> bool:
        scope = cycle.scope
        target = None if scope["query_string"] else target_of(scope["raw_path"])
        plan = None if target is None else self._plans.get(target.collection)
        if target is None or plan is None or plan.misses >= MISSES_LIMIT or plan.headers != scope["headers"]:
            return False
        started = time.perf_counter()
        request = _Request(plan, target, cycle, give_back, started)
        seat = self._queue.try_acquire(plan.flow, started)
        if seat is not None:
            return self._begin(request, seat)
        try:
            self._queue.acquire_later(plan.flow, partial(self._begin_later, request), request.end_if_gone)
        except TooManyRequests:
            return False
        return True

    def _begin_later(self, request: _Request, seat: Seat) -> None:
        if not self._begin(request, seat):
            request.give_back()

    def _begin(self, request: _Request, seat: Seat) -> bool:
        if self._begin_load(request, partial(self._end, request, seat)):
            metrics.IN_FLIGHT.count += 1
            return True
        if seat is not EXEMPT:
            self._queue.release(seat)
        return False

    def _begin_load(self, request: _Request, end: Callable[..., None]) -> bool:
        """Starts the read if everything the plan depends on is unchanged. `end` gets the resource and what was
        loaded."""
        plan, target, cycle = request.plan, request.target, request.cycle
        backend, tenant = self._backend, plan.tenant
        catalog = backend.catalogs.recall(tenant)
        # In a tuple, what is the same object is not compared field by field.
        known = (backend.authentication.recall(cycle.scope, plan.token), backend.store.tenancy.recall(tenant.name))
        if known != (plan.authenticated, tenant) or catalog is None:
            return False
        served = catalog.served(plan.info.group, plan.info.version, plan.info.resource)
        if served is None or _identity_of(catalog) != plan.catalog:
            return False
        namespace, name = target.namespace.decode(), target.name.decode()
        if not plan.user.is_administrator:
            attributes = plan.info._replace(namespace=namespace, name=name).attributes()
            decision = backend.authorizer.recall(tenant, plan.user, attributes)
            if decision is None or not decision.allowed:
                return False
        try:
            key = served.key(namespace, name)
            backend.store.begin_load(tenant, served.resource_name, key, partial(end, served))
        except StoreError:
            return False
        self._queue.mark_known(plan.flow)
        backend.activity.begin(tenant.name, watch=False, write=False)
        return True

    def _end(self, request: _Request, seat: Seat, served: Served, loaded: Loaded | None, _: StoreError | None) -> None:
        """Answers the request, or returns it to the handler chain."""
        plan, _target, cycle, give_back, started = request
        if seat is not EXEMPT:
            self._queue.release(seat)
        metrics.IN_FLIGHT.count -= 1
        text = _text_of(plan, served, loaded) if loaded is not None and cycle.can_answer else None
        if text is None:
            plan.misses += 1
            give_back()
            return
        plan.misses = 0
        cycle.answer(_head(), text.encode() + b"\n")
        info = plan.info
        metrics.observe(info.verb, info.group, info.resource, "", 200, time.perf_counter() - started)


def _text_of(plan: GetPlan, served: Served, loaded: Loaded) -> str | None:
    """Returns the object as served; None if that takes more than its stored text."""
    row, state = loaded
    if (
        row is None
        or state.guards.definitions != plan.catalog[1]
        or len(row.body) > LONGEST_CHARACTERS
        or Store.is_sealed(row)
        or not served.is_passthrough(row.version, row.schema)
    ):
        return None
    return served.text(row)


def _head() -> bytes:
    return b"audit-id: %b\r\n%b" % (os.urandom(16).hex().encode(), _REST)


_REST: Final = b"".join(
    name + b": " + value + b"\r\n" for name, value in (*FIXED, (b"content-type", MEDIA_TYPES[JSON].encode()))
)
