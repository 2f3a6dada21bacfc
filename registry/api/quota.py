"""Quota admission: a create counts in the quotas of its namespace, and is refused where that would be too much.

What counts is a quota's status: the bound in status.hard and the use in status.used, which a controller (or a hand)
has written there; a quota without them refuses nothing. Admission itself raises the use, under the quota's own
revision, so that two creates never share the last place; a deletion gives nothing back (the controller counts anew).

Whether a namespace has such quotas is remembered in the catalog: a quota that begins to count changes the guards of the
tenant (strategies/resourcequota.py). So creates elsewhere cost nothing.

Follows apiserver pkg/admission/plugin/resourcequota/controller.go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from registry.api.errors import StatusError, forbidden, modified
from registry.api.ownership import field_manager_of
from registry.api.request import QUOTAS, CatalogStale, ResourceRequest
from registry.api.served import Object, Served, labels_of
from registry.builtin.quantities import canonical_quantity, quantity
from registry.cel.libraries.quantity import aligned
from registry.store.errors import NotFound, RevisionConflict
from registry.store.types import Actor, ObjectKey, Operation, Row, Uid, Write

_MANAGER = "kube-apiserver"
# Resources of the core group that are counted under their plain name, too.
PLAIN = frozenset({"configmaps", "secrets", "services", "resourcequotas", "replicationcontrollers",
                    "persistentvolumeclaims"})
# Events are never counted.
_IGNORED = "events"
# A quota that many creates count in at once is tried again this often; in a process they take turns anyway.
_TRIES = 16


@asynccontextmanager
async def counted(request: ResourceRequest, name: str, *, dry_run: bool) -> AsyncIterator[None]:
    """Counts a create of `name` in the quotas of its namespace; what fails within gives its place back.

    Raises 403 where a quota has no place left.
    """
    if not request.served.namespaced or request.namespace in request.catalog.unbounded_namespaces:
        yield
        return
    taken: list[Row] = []
    try:
        for row in await _counting(request):
            if await _count(request, row, name, dry_run=dry_run):
                taken.append(row)
        yield
    except BaseException:
        for row in taken:
            await _change_use(request, row, lambda quota: _used(quota, _names(request.served), -1))
        raise


async def _counting(request: ResourceRequest) -> Sequence[Row]:
    """The quotas of the namespace that have a status; a namespace without any is remembered."""
    page = await request.backend.store.page(request.tenant, QUOTAS, namespace=request.namespace)
    if page.state.guards != request.catalog.guards:
        raise CatalogStale(page.state.guards)
    served = _served(request)
    rows = [row for row in page.rows if '"hard"' in row.body and _hard(served.object(row))]
    if not rows:
        request.catalog.remember_unbounded(request.namespace)
    return rows


async def _count(request: ResourceRequest, row: Row, name: str, *, dry_run: bool) -> bool:
    """Whether the quota counts the create, and has been told of it."""
    names = _names(request.served)

    def use(quota: Object) -> Object | None:
        concerned = [n for n in names if n in _hard(quota)]
        if not concerned:
            return None
        _check(request, quota, concerned, name)
        return _used(quota, concerned, 1)

    if dry_run:
        use(_served(request).object(row))
        return False
    return await _change_use(request, row, use)


async def _change_use(request: ResourceRequest, row: Row, use: Callable[[Object], Object | None]) -> bool:
    """Writes the use that `use` makes of the quota; None leaves it as it is. A quota that is gone counts nothing."""
    served, store = _served(request), request.backend.store
    async with request.backend.turns.turn((request.tenant.id, QUOTAS, row.key)):
        for _ in range(_TRIES):
            found, _state = await store.load(request.tenant, QUOTAS, row.key)
            if found is None:
                return False
            old = served.object(found)
            new = use(old)
            if new is None:
                return False
            try:
                await store.commit(request.tenant, _write(request, served, new, old, found))
                return True
            except RevisionConflict:
                continue        # somebody else has counted; the use is computed anew
            except NotFound:
                return False
    raise modified(served.resource, row.key.rpartition("/")[2])


def _write(request: ResourceRequest, served: Served, new: Object, old: Object, row: Row) -> Write:
    owned = field_manager_of(served).update(old, new, _MANAGER, served.api_version,
                                                       request.context.timestamp, "status")
    version, schema, body = served.body(served.strategy.finish(owned))
    return Write(Operation.UPDATE, QUOTAS, row.key, Actor(request.context.user.name, _MANAGER, "update"),
                 uid=Uid(row.uid), version=version, schema=schema, body=body, labels=labels_of(new, served.strategy),
                 expected_revision=row.revision, by_server=request.context.by_server)


def _check(request: ResourceRequest, quota: Object, names: Sequence[str], name: str) -> None:
    hard, used = _hard(quota), (quota.get("status") or {}).get("used") or {}
    title = quota["metadata"]["name"]
    unknown = [n for n in names if n not in used]
    if unknown:
        # Perhaps it has been defined since the quota was counted for.
        request.backend.nudge(request.tenant, QUOTAS, ObjectKey(f"{request.namespace}/{title}"))
        raise _refused(request, name, f"status unknown for quota: {title}, resources: {','.join(unknown)}")
    over = [n for n in names if quantity(_added(used[n], 1)).compare(quantity(hard[n])) > 0]
    if over:
        requested, use, limit = (",".join(f"{n}={amounts[n]}" for n in over)
                                 for amounts in (dict.fromkeys(over, "1"), used, hard))
        raise _refused(request, name, f"exceeded quota: {title}, requested: {requested}, used: {use}, limited: {limit}")


def _refused(request: ResourceRequest, name: str, why: str) -> StatusError:
    return forbidden(request.served.resource, name, why)


def _names(served: Served) -> list[str]:
    """What a create counts as: `count/widgets.example.com`; some also by their plain name."""
    group, plural = served.resource.group, served.resource.name
    if plural == _IGNORED and group in ("", "events.k8s.io"):
        return []
    count = f"count/{served.resource}"
    return [plural, count] if not group and plural in PLAIN else [count]


def _hard(quota: Object) -> dict[str, str]:
    """The bounds in force. Quotas with scopes say nothing of objects that have none."""
    spec = quota.get("spec") or {}
    if spec.get("scopes") or spec.get("scopeSelector"):
        return {}
    hard: dict[str, str] = (quota.get("status") or {}).get("hard") or {}
    return hard


def _used(quota: Object, names: Sequence[str], change: int) -> Object:
    status = dict(quota.get("status") or {})
    used = dict(status.get("used") or {})
    used.update({n: _added(used[n], change) for n in names if n in used})
    return {**quota, "metadata": dict(quota["metadata"]), "status": {**status, "used": used}}


def _added(amount: str, change: int) -> str:
    left, right, scale = aligned(quantity(amount), quantity(str(abs(change))))
    total = max(0, left + right if change > 0 else left - right)
    return canonical_quantity(f"{total}e{scale}" if scale else str(total))


def _served(request: ResourceRequest) -> Served:
    found = request.catalog.served("", "v1", "resourcequotas")
    assert found is not None
    return found
