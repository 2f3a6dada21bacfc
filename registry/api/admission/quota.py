"""Quota admission: counts a create in the quotas of its namespace, and refuses it if that would exceed one. An update
counts by its increase: a service may become a load balancer, or get another port.

A quota's status counts: the limits in status.hard and the usage in status.used, which a controller (or a hand) has
written there; a quota without them refuses nothing. Admission itself raises the usage, under the quota's own revision,
so that two creates never share the last place; a deletion releases nothing (the controller recounts).

Whether a namespace has such quotas is cached in the catalog: a quota that begins to count changes the guards of the
tenant (strategies/resourcequota.py). So creates in other namespaces cost nothing.

Follows apiserver pkg/admission/plugin/resourcequota/controller.go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Final

from registry.api.dependents import effects_of
from registry.api.errors import Qualified, StatusError, forbidden, modified
from registry.api.ownership import field_manager_of
from registry.api.request import QUOTAS, CatalogStale, ResourceRequest
from registry.api.served import Object, Served, owners_of, replaced_by
from registry.authentication.user import SERVER_MANAGER
from registry.builtin.quantities import canonical_quantity, quantity
from registry.cel.ext.quantity import align
from registry.flowcontrol.evaluation import evaluate
from registry.flowcontrol.time_slice import ClientGone, TimeSlice
from registry.store.errors import NotFound, RevisionConflict
from registry.store.types import NO_FLAGS, Actor, ObjectKey, Row, Uid, Write, WriteFlag, WriteOperation

# Resources of the core group that also count under their plain name.
PLAIN = frozenset(
    {"configmaps", "secrets", "services", "resourcequotas", "replicationcontrollers", "persistentvolumeclaims"}
)
SERVICES = Qualified("services")
# Events are never counted.
_IGNORED = "events"
# Attempts to update a quota that many creates update at the same time; in one process they are serialized anyway.
_TRIES = 16


# The amounts that an object uses: {"services": 1, "count/services": 1, "services.nodeports": 2}.
Usage = Mapping[str, int]


def reserve_quota(
    request: ResourceRequest, new: Object, old: Object | None = None, *, dry_run: bool
) -> AbstractAsyncContextManager[None]:
    """Returns the context that reserves quota for a create, or for an update of `old`; it releases it if its body
    fails. It does not hold the objects.

    Entering it raises 403 if a quota is exhausted.
    """
    served = request.served
    if (
        not served.namespaced
        or request.namespace in request.catalog.unbounded_namespaces
        or (old is not None and served.resource != SERVICES)
    ):
        return _UNLIMITED
    freed = usage_of(served, old) if old is not None else {}
    return _reserve(request, new["metadata"]["name"], usage_of(served, new), freed, dry_run=dry_run)


_UNLIMITED: Final = nullcontext()


@asynccontextmanager
async def _reserve(
    request: ResourceRequest, name: str, wanted: Usage, freed: Usage, *, dry_run: bool
) -> AsyncIterator[None]:
    more = {what: max(0, amount - freed.get(what, 0)) for what, amount in wanted.items()}
    reserved: list[tuple[Row, Usage]] = []
    try:
        if any(more.values()):
            for row in await _counting(request, more, name):
                if await _count(request, row, more, name, dry_run=dry_run):
                    reserved.append((row, {what: -amount for what, amount in more.items()}))
        yield
    except BaseException:
        try:
            for row, less in reserved:
                await _change_use(request, row, partial(_with_usage, change=less))
        except (ClientGone, StatusError):
            request.backend.enqueue(request.tenant, QUOTAS, ObjectKey(f"{request.namespace}/"))
        raise
    if any(amount > wanted.get(what, 0) for what, amount in freed.items()) and not dry_run:
        request.backend.enqueue(request.tenant, QUOTAS, ObjectKey(f"{request.namespace}/"))


async def _counting(request: ResourceRequest, change: Usage, name: str) -> Sequence[Row]:
    """Returns the quotas of the namespace that count the change; caches that a namespace has none with a status.

    Raises 403 if the usage of one is not known yet.
    """
    page = await request.backend.store.page(request.tenant, QUOTAS, namespace=request.namespace)
    if page.state.guards != request.catalog.guards:
        raise CatalogStale(page.state.guards)
    rows = [row for row in page.rows if '"hard"' in row.body]
    if not rows:
        request.catalog.remember_unbounded(request.namespace)
    # Most of many quotas are about other resources: these are not decoded.
    names = [f'"{resource}"' for resource in change]
    served, slices, counting = _served_quota(request), TimeSlice.current(), []
    for row in rows:
        if slices.expired():
            await slices.yield_now()
        if any(resource in row.body for resource in names):
            quota = await _object(served, row)
            _check_known(request, quota, change, name)
            if not _hard(quota).keys().isdisjoint(change):
                counting.append(row)
    return counting


async def _count(request: ResourceRequest, row: Row, change: Usage, name: str, *, dry_run: bool) -> bool:
    """Reserves the change in a quota. Returns whether the quota counts it, and it was not a dry run."""

    def use(quota: Object) -> Object | None:
        hard = _hard(quota)
        if not any(amount and n in hard for n, amount in change.items()):
            return None
        _check_known(request, quota, change, name)
        _check(request, quota, change, name)
        return _with_usage(quota, change)

    if dry_run:
        use(await _object(_served_quota(request), row))
        return False
    return await _change_use(request, row, use)


async def _change_use(request: ResourceRequest, row: Row, use: Callable[[Object], Object | None]) -> bool:
    """Writes the usage that `use` returns; None leaves it as it is. Returns False also if the quota is gone."""
    served, store = _served_quota(request), request.backend.store
    async with request.backend.locks.lock((request.tenant.id, QUOTAS, row.key)):
        for _ in range(_TRIES):
            stored, _state = await store.load(request.tenant, QUOTAS, row.key)
            if stored is None:
                return False
            old = await _object(served, stored)
            new = use(old)
            if new is None:
                return False
            try:
                write = await evaluate(partial(_write, request, served, new, old, stored), len(stored.body))
                await store.commit(request.tenant, write)
                return True
            except RevisionConflict:
                continue  # another request has changed the count; the use is computed again
            except NotFound:
                return False
    raise modified(served.resource, row.key.rpartition("/")[2])


async def _object(served: Served, row: Row) -> Object:
    return await evaluate(partial(served.object, row), len(row.body), repeatable=True)


def _write(request: ResourceRequest, served: Served, new: Object, old: Object, row: Row) -> Write:
    owned = field_manager_of(served).update(
        old, new, SERVER_MANAGER, served.api_version, request.context.timestamp, "status"
    )
    new = served.strategy.finish(owned)
    stored = served.stored_form(new)
    effects = effects_of(served.strategy, new, old)
    if request.context.by_server:
        effects["flags"] = effects.get("flags", NO_FLAGS) | WriteFlag.BY_SERVER
    return Write(
        WriteOperation.UPDATE,
        QUOTAS,
        row.key,
        Actor(request.context.user.name, SERVER_MANAGER, "update"),
        uid=Uid(row.uid),
        version=stored.version,
        schema=stored.schema,
        body=stored.body,
        labels=stored.labels,
        owners=owners_of(new),
        indexed=served.extraction.index_entries(new, stored.body),
        expected_revision=row.revision,
        replaced=replaced_by(row, old, served.strategy),
        **effects,
    )


def _check_known(request: ResourceRequest, quota: Object, change: Usage, name: str) -> None:
    hard, used = _hard(quota), (quota.get("status") or {}).get("used") or {}
    concerned = sorted(n for n in change if n in hard)
    if all(n in used for n in concerned):
        return
    title = quota["metadata"]["name"]
    # The resource may have been defined after the quota was counted.
    request.backend.enqueue(request.tenant, QUOTAS, ObjectKey(f"{request.namespace}/{title}"))
    raise _refusal(request, name, f"status unknown for quota: {title}, resources: {','.join(concerned)}")


def _check(request: ResourceRequest, quota: Object, change: Usage, name: str) -> None:
    hard, used = _hard(quota), (quota.get("status") or {}).get("used") or {}
    over = sorted(
        n
        for n, amount in change.items()
        if amount and n in hard and quantity(_add(used[n], amount)).compare(quantity(hard[n])) > 0
    )
    if over:
        requested, use, limit = (",".join(f"{n}={amounts[n]}" for n in over) for amounts in (change, used, hard))
        raise _refusal(
            request,
            name,
            f"exceeded quota: {quota['metadata']['name']}, requested: {requested}, used: {use}, limited: {limit}",
        )


def _refusal(request: ResourceRequest, name: str, why: str) -> StatusError:
    return forbidden(request.served.resource, name, why)


def usage_of(served: Served, obj: Object) -> Usage:
    """Returns what an object counts as, `count/widgets.example.com`; some also by plain name, services as more."""
    group, plural = served.resource.group, served.resource.name
    if plural == _IGNORED and group in ("", "events.k8s.io"):
        return {}
    count = {f"count/{served.resource}": 1}
    if group or plural not in PLAIN:
        return count
    return {plural: 1, **count, **(service_usage(obj) if served.resource == SERVICES else {})}


def service_usage(service: Object) -> Usage:
    """Counts node ports and load balancers. Follows kubernetes pkg/quota/v1/evaluator/core/services.go."""
    spec = service.get("spec") or {}
    ports, kind = spec.get("ports") or (), spec.get("type")
    node_ports = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(1 for port in ports if port.get("nodePort"))
    return {"services.nodeports": node_ports, "services.loadbalancers": int(kind == "LoadBalancer")}


def _hard(quota: Object) -> dict[str, str]:
    """Returns the limits in force. Quotas with scopes do not apply to objects without scopes."""
    spec = quota.get("spec") or {}
    if spec.get("scopes") or spec.get("scopeSelector"):
        return {}
    hard: dict[str, str] = (quota.get("status") or {}).get("hard") or {}
    return hard


def _with_usage(quota: Object, change: Usage) -> Object:
    status = dict(quota.get("status") or {})
    used, hard = dict(status.get("used") or {}), _hard(quota)
    used.update({n: _add(used[n], amount) for n, amount in change.items() if amount and n in used and n in hard})
    return {**quota, "metadata": dict(quota["metadata"]), "status": {**status, "used": used}}


def _add(amount: str, change: int) -> str:
    left, right, scale = align(quantity(amount), quantity(str(abs(change))))
    total = max(0, left + right if change > 0 else left - right)
    return canonical_quantity(f"{total}e{scale}" if scale else str(total))


def _served_quota(request: ResourceRequest) -> Served:
    served = request.catalog.served("", "v1", "resourcequotas")
    assert served is not None
    return served
