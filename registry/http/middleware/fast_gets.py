"""Answers repeated gets of a connection without the other middlewares: they cost more than reading the object.

A client that gets one object usually gets others of the same kind, over the same connection, with the same headers.
What the middlewares have found for the first get holds for the next as long as everything that it depends on is
unchanged. So after a plain get (RequestState.plain_get) this middleware leaves a `Plan` in the connection. For a later
get, the plan checks each of these without waiting, in the order of the handler chain:

    request info      the same path but for namespace and name, no query, and exactly the same headers
    fairness          a seat is free
    authentication    the credential is still good, and of the same user
    tenancy           the tenant's row is still cached, and the same
    authorization     the cached policy is fresh, and allows it
    catalog           the tenant's catalog is the same; the read then returns the guards that it must have

The answer is the stored text, after the same head. In any other case (among others: the object does not exist, is
encrypted, in another form, or long) the handler chain serves the request from the start: a get may be repeated.

The middleware is not in the chain if requests are audited, traced or logged. tests/http/test_fast_gets.py compares the
answers of both ways.
"""

from __future__ import annotations

import asyncio
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
from registry.flowcontrol.fair_queue import EXEMPT, FairQueue, Seat
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

# Kinds of a connection whose plans are kept; beyond it all are dropped.
PLANS_LIMIT: Final = 8
# A plan keeps the headers, so that an idle connection holds them: with a token, they seldom have more than 2 KiB.
HEADERS_LIMIT_BYTES: Final = 4 * 1024
# Longer answers may be compressed, or are sent in parts (registry/http/responses.py).
LONGEST_CHARACTERS: Final = 32_000
# Reads in a row that the plan could not answer, after which it is not asked any more.
MISSES_LIMIT: Final = 8

# Names that are the same in the path as it was sent and as it was decoded.
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-./")
# Headers that concern one request, or how its body or its connection is used.
_SPECIAL: Final = frozenset({b"audit-id", b"connection", b"expect", b"transfer-encoding", b"upgrade"})


class Target(NamedTuple):
    """The path of an object, divided: a plan holds for a `collection`."""

    collection: tuple[bytes, bytes]  # what comes before the namespace, and the plural
    namespace: bytes
    name: bytes


def target_of(raw_path: bytes) -> Target | None:
    """Divides `/apis/g/v1/namespaces/default/crontabs/a`; None if it has letters that may be escapes.

    Whether it is the path of an object is not known here: that is why a plan is made for one that was.
    """
    if not _PLAIN.issuperset(raw_path):
        return None
    parts = raw_path.rsplit(b"/", 4)
    if len(parts) < 4 or not parts[-1]:
        return None
    if parts[1] == b"namespaces" and len(parts) == 5:
        return Target((parts[0], parts[3]), parts[2], parts[4]) if parts[2] else None
    prefix, plural, name = raw_path.rsplit(b"/", 2)
    return Target((prefix, plural), b"", name)


@dataclass(slots=True)
class Plan:
    """What the handler chain has found for a get, which holds for others of its collection.

    `given` is the user of the credential, `user` the same as the tenant sees it, `catalog` the serial of the tenant's
    catalog and its revision of the definitions: an idle connection must not keep old definitions.
    """

    headers: list[tuple[bytes, bytes]]
    token: str
    given: User
    user: User
    tenant: Tenant
    info: RequestInfo
    catalog: tuple[int, int]
    misses: int = 0


class FastGetsMiddleware:
    """Leaves a plan in the connection after each plain get."""

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


def _is_of(target: Target, info: RequestInfo) -> bool:
    """Whether the parts that may differ are those that were understood as namespace and name."""
    return (target.namespace.decode(), target.name.decode(), target.collection[1].decode()) == (
        info.namespace,
        info.name,
        info.resource,
    )


def _plan_of(scope: Scope, state: RequestState, catalog: TenantCatalog) -> Plan | None:
    """Returns the plan for gets like this one; None if something about it is not as usual."""
    given, tenant, headers = state.authenticated, state.tenant, state.headers
    if state.code != 200 or state.warnings or state.wildcard is not None:
        return None
    if "rates" in tenant.attributes or given.tenant not in (None, tenant.name):
        return None
    if not _SPECIAL.isdisjoint(headers) or headers.get(b"content-length", b"0") != b"0":
        return None
    if sum(len(name) + len(value) for name, value in scope["headers"]) > HEADERS_LIMIT_BYTES:
        return None
    if any(name.startswith(b"impersonate-") for name in headers):
        return None
    token = bearer_token(state.header(b"authorization"), [])
    return Plan(scope["headers"], token, given, state.user, tenant, state.info, _identity_of(catalog))


def _identity_of(catalog: TenantCatalog) -> tuple[int, int]:
    return catalog.serial, catalog.guards.definitions


class FastGets:
    """The plans of one connection."""

    def __init__(self, backend: Backend, queue: FairQueue) -> None:
        self._backend = backend
        self._queue = queue
        self._plans: dict[tuple[bytes, bytes], Plan] = {}

    def remember(self, target: Target, plan: Plan) -> None:
        known = self._plans.get(target.collection)
        if known is not None and known.catalog == plan.catalog and known.headers == plan.headers:
            # A plan that is of no use stays so; whatever else has changed is in the new one.
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
        seat = self._queue.try_acquire(plan.info.tenant, started)
        if seat is None:
            return False
        begun = self._begin_load(plan, target, cycle)
        if begun is None:
            self._queue.release(seat)
            return False
        served, loading = begun
        metrics.IN_FLIGHT.inc()
        loading.add_done_callback(partial(self._end, plan, served, cycle, give_back, seat, started))
        return True

    def _begin_load(self, plan: Plan, target: Target, cycle: Cycle) -> tuple[Served, asyncio.Future[Loaded]] | None:
        """Starts the read if all that the plan depends on is unchanged; returns the resource and the row to come."""
        backend, tenant = self._backend, plan.tenant
        if backend.authentication.recall(cycle.scope, plan.token) != plan.given:
            return None
        catalog = backend.catalogs.recall(tenant)
        if backend.store.tenancy.recall(tenant.name) != tenant or catalog is None:
            return None
        served = catalog.served(plan.info.group, plan.info.version, plan.info.resource)
        if served is None or _identity_of(catalog) != plan.catalog:
            return None
        namespace, name = target.namespace.decode(), target.name.decode()
        if not plan.user.is_administrator:
            attributes = plan.info._replace(namespace=namespace, name=name).attributes()
            decision = backend.authorizer.recall(tenant, plan.user, attributes)
            if decision is None or not decision.allowed:
                return None
        try:
            loading = backend.store.begin_load(tenant, served.resource_name, served.key(namespace, name))
        except StoreError:
            return None
        self._queue.mark_known(plan.info.tenant)
        backend.activity.begin(tenant.name, watch=False, write=False)
        return served, loading

    def _end(
        self,
        plan: Plan,
        served: Served,
        cycle: Cycle,
        give_back: Callable[[], None],
        seat: Seat,
        started: float,
        loading: asyncio.Future[Loaded],
    ) -> None:
        """Answers, or gives the request back."""
        if seat is not EXEMPT:
            self._queue.release(seat)
        metrics.IN_FLIGHT.dec()
        text = _text_of(plan, served, loading) if cycle.can_answer else None
        if text is None:
            plan.misses += 1
            give_back()
            return
        plan.misses = 0
        cycle.answer(_head(), text.encode() + b"\n")
        info = plan.info
        metrics.observe(info.verb, info.group, info.resource, "", 200, time.perf_counter() - started)


def _text_of(plan: Plan, served: Served, loading: asyncio.Future[Loaded]) -> str | None:
    """Returns the object as it is served; None if that takes more than its stored text."""
    if loading.cancelled() or loading.exception() is not None:
        return None
    row, state = loading.result()
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
