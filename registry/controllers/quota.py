"""Keeps the status of resource quotas: recounts usage whenever it may have changed.

Admission (registry/api/admission/quota.py) raises the usage with each create; here it is counted from existing objects,
after writes of the quota and deletions in its namespace. A count that finds a difference is followed by another, so
that a create that was in progress during the first is seen by the next.

A crashed process, or a manual change in the database, leaves wrong counts, so the leader recounts each namespace every
five minutes (Recount), as kube-controller-manager does.

Unknown resources are left out, and creates of them are rejected until they are known. Kinds of a cluster that have no
objects here have usage 0.

Follows kubernetes pkg/controller/resourcequota/resource_quota_controller.go (syncResourceQuota).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from registry.api.admission.quota import PLAIN, service_usage
from registry.api.catalog import TenantCatalog
from registry.api.decoding import object_of
from registry.api.request import QUOTAS
from registry.api.served import Object
from registry.api.strategies.resource_names import is_standard_quota
from registry.builtin.quantities import quantity
from registry.controllers.controller_client import CONTROLLER_MANAGER, ControllerClient
from registry.controllers.queue import Requeue
from registry.flowcontrol.evaluation import evaluate
from registry.store.reads.lookups import BEGINNING
from registry.store.store import Store
from registry.store.types import ObjectKey, ResourceName, Tenant, TenantId

# The interval between two counts of a namespace, so that successive deletions are counted together.
PAUSE_SECONDS: Final = 0.1
_COUNT: Final = "count/"
SERVICES: Final = ResourceName("services")
# Resources that a cluster counts and that are not served here, so there are none.
_OF_CLUSTERS: Final = frozenset(
    """
    pods persistentvolumeclaims replicationcontrollers endpoints podtemplates deployments.apps replicasets.apps
    statefulsets.apps daemonsets.apps controllerrevisions.apps jobs.batch cronjobs.batch
    horizontalpodautoscalers.autoscaling ingresses.networking.k8s.io networkpolicies.networking.k8s.io
    endpointslices.discovery.k8s.io poddisruptionbudgets.policy csistoragecapacities.storage.k8s.io
    """.split()
)


# How often each namespace with quotas is recounted, as by kube-controller-manager.
RECOUNT_SECONDS: Final = 300.0
# Quotas per round: with more than 6,000 a full recount takes longer, but not because of one tenant.
ROUND: Final = 200


class Recount:
    """Goes through the quotas of all tenants, a round at a time, and starts again after `seconds`.

    `count` is called with each namespace, perhaps several times. Of a tenant that has more than a round, the others
    follow beside those of other tenants.
    """

    def __init__(self, store: Store, count: Callable[[Tenant, ObjectKey], object], *, seconds: float) -> None:
        self._store = store
        self._count = count
        self._seconds = seconds
        self._next: tuple[TenantId, ObjectKey] | None = None
        # Tenants of which some follow, with the last key that has been counted, in their order.
        self._rest: dict[TenantId, ObjectKey] = {}
        self._due = 0.0  # by the loop's clock; at once at first, since the previous leader may have crashed

    async def round(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._next is None and now >= self._due:
            self._next, self._due = BEGINNING, now + self._seconds
        if self._next is not None:
            part = await self._store.lookups.everywhere(QUOTAS, self._next, ROUND)
            self._next = part.next
            if (rest := self._count_all(part.keys)) is not None:
                self._rest.setdefault(*rest)
                self._next = TenantId(rest[0] + 1), ObjectKey("")
        if self._rest:
            place = next(iter(self._rest.items()))
            part = await self._store.lookups.everywhere(QUOTAS, place, ROUND)
            del self._rest[place[0]]
            if (rest := self._count_all([one for one in part.keys if one[0].id == place[0]])) is not None:
                self._rest.setdefault(*rest)

    def _count_all(self, keys: Sequence[tuple[Tenant, ObjectKey]]) -> tuple[TenantId, ObjectKey] | None:
        """Returns the last one if there is a whole round of one tenant's, else None."""
        for tenant, key in keys:
            self._count(tenant, key)
        if len(keys) < ROUND or keys[0][0].id != keys[-1][0].id:
            return None
        return keys[-1][0].id, keys[-1][1]


async def reconcile(client: ControllerClient, key: ObjectKey) -> None:
    """Recounts the quotas of a namespace; `key` is that of any object in the namespace."""
    namespace = key.partition("/")[0]
    client = client.with_manager(CONTROLLER_MANAGER)
    changed, lower = await _count(client, namespace, {})
    await asyncio.sleep(PAUSE_SECONDS)
    if lower:
        await _count(client, namespace, lower)
    if changed or lower:
        raise Requeue


# By the key of a quota: its revision, and the status that it should have.
_Lower = dict[ObjectKey, tuple[int, Object]]


async def _count(client: ControllerClient, namespace: str, seen: _Lower) -> tuple[bool, _Lower]:
    """Writes the status that quotas should have. Returns whether anything was written, and what was not written yet.

    Admission raises the usage before it stores the object (admission/quota.py). A count between the two would release
    the reservation, which another create could take: so a usage is lowered only if an earlier count has `seen` the
    same, and the quota has not changed since.
    """
    store = client.backend.store
    page = await store.page(client.tenant, QUOTAS, namespace=namespace)
    if not page.rows:
        return False, {}
    catalog = await client.catalog()
    counts = {str(name): count for name, count in await store.lookups.resources_in_namespace(client.tenant, namespace)}
    services = await _services(client, namespace) if counts.get("services") else {}
    changed, lower = False, _Lower()
    for row in page.rows:
        quota = await object_of(row.body)
        compare = partial(_compare, quota, catalog, counts, services)
        status, differs, lowers = await evaluate(compare, len(row.body), repeatable=True)
        if not differs:
            continue
        if lowers and seen.get(row.key) != (row.revision, status):
            lower[row.key] = (row.revision, status)
            continue
        changed = True
        await client.change_status("", "resourcequotas", row.key, partial(_new_status, status, row.revision))
    return changed, lower


def _compare(
    quota: Object, catalog: TenantCatalog, counts: Mapping[str, int], services: Mapping[str, int]
) -> tuple[Object, bool, bool]:
    """Returns the status that the quota should have, whether it has another one, and whether some usage is lower."""
    before, status = quota.get("status") or {}, _status(quota, catalog, counts, services)
    differs = _differs(before, status)
    return status, differs, differs and _lowers(before, status)


def _status(quota: Object, catalog: TenantCatalog, counts: Mapping[str, int], services: Mapping[str, int]) -> Object:
    """Returns the status that the quota should have; what cannot be counted keeps its usage."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    before = (quota.get("status") or {}).get("used") or {}
    used = {}
    for name in hard:
        count = _usage(name, catalog, counts, services)
        if count is not None:
            used[name] = str(count)
        elif name in before:
            used[name] = before[name]
    return {k: v for k, v in (("hard", dict(hard)), ("used", used)) if v}


def _usage(name: str, catalog: TenantCatalog, counts: Mapping[str, int], services: Mapping[str, int]) -> int | None:
    """Returns the usage of a resource; None if it is unknown."""
    if name in PLAIN:
        return counts.get(name, 0)
    if not name.startswith(_COUNT):
        return services.get(name, 0) if is_standard_quota(name) or name.startswith("requests.") else None
    resource = name.removeprefix(_COUNT)
    plural, _, group = resource.partition(".")
    if plural == "events" and group in ("", "events.k8s.io"):
        return None
    definition = catalog.definition(group, plural)
    if definition is not None and definition.namespaced:
        return counts.get(definition.name, 0)
    return 0 if resource in _OF_CLUSTERS else None


async def _services(client: ControllerClient, namespace: str) -> dict[str, int]:
    """Returns what services use: node ports and load balancers."""
    used = {"services.nodeports": 0, "services.loadbalancers": 0}
    async for page in client.backend.store.scan(client.tenant, SERVICES, namespace=namespace):
        for row in page.rows:
            for name, amount in service_usage(await object_of(row.body)).items():
                used[name] += amount
    return used


def _differs(old: Object, new: Object) -> bool:
    return any(_amounts(old.get(part)) != _amounts(new.get(part)) for part in ("hard", "used"))


def _amounts(amounts: Mapping[str, str] | None) -> dict[str, Any]:
    return {name: quantity(amount) for name, amount in (amounts or {}).items()}


def _lowers(old: Object, new: Object) -> bool:
    before, after = _amounts(old.get("used")), _amounts(new.get("used"))
    return any(name in after and after[name].compare(amount) < 0 for name, amount in before.items())


def _new_status(status: Object, revision: int, old: Object) -> Object:
    """Returns the status, unless the quota has changed since the count; then it is counted again."""
    return status if old["metadata"]["resourceVersion"] == str(revision) else old.get("status") or {}
