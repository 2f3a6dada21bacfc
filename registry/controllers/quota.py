"""What a resource quota limits and what of it is used, in its status: counted again whenever that may have changed.

Admission (registry/api/admission/quota.py) raises the use with each create; here it is counted from the objects that
there are, after the quota has been written and after deletions in its namespace. A count that finds something else is
followed by another, so that a create which was under way at the first is seen by the next.

So a process that dies leaves counts that are wrong, and so does a hand in the database: the leader has each namespace
counted again every five minutes (Recount), as kube-controller-manager does.

What the server does not know is left out, and creates of it are refused until it does. Kinds of a cluster's that have
no objects here are used 0.

Follows kubernetes pkg/controller/resourcequota/resource_quota_controller.go (syncResourceQuota).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from registry.api.admission.quota import PLAIN, service_usage
from registry.api.catalog import TenantCatalog
from registry.api.request import QUOTAS
from registry.api.served import Object
from registry.api.strategies.resource_names import is_standard_quota
from registry.api.verbs.update import copy_of
from registry.builtin.quantities import quantity
from registry.codec.stored import decode_stored
from registry.controllers.controller_client import CONTROLLER_MANAGER, ControllerClient
from registry.controllers.queue import Requeue
from registry.store.reads.lookups import BEGINNING
from registry.store.store import Store
from registry.store.types import ObjectKey, ResourceName, Tenant, TenantId

# Between two counts of a namespace: deletions that come one after the other are counted together.
PAUSE_SECONDS: Final = 0.1
_COUNT: Final = "count/"
SERVICES: Final = ResourceName("services")
# What a cluster counts, and is not served here: there is none of it.
_OF_CLUSTERS: Final = frozenset(
    {
        "pods",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "endpoints",
        "podtemplates",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
        "daemonsets.apps",
        "controllerrevisions.apps",
        "jobs.batch",
        "cronjobs.batch",
        "horizontalpodautoscalers.autoscaling",
        "ingresses.networking.k8s.io",
        "networkpolicies.networking.k8s.io",
        "endpointslices.discovery.k8s.io",
        "poddisruptionbudgets.policy",
        "csistoragecapacities.storage.k8s.io",
    }
)


# How often each namespace with quotas is counted without a reason, as by kube-controller-manager.
RECOUNT_SECONDS: Final = 300.0
# Quotas of a round: with more than 6,000 a recount of all takes longer.
ROUND: Final = 200


class Recount:
    """Goes through the quotas of all tenants, a round at a time, and starts again after `seconds`.

    `count` is called with each namespace, perhaps several times.
    """

    def __init__(
        self, store: Store, count: Callable[[Tenant, ObjectKey], object], *, seconds: float = RECOUNT_SECONDS
    ) -> None:
        self._store = store
        self._count = count
        self._seconds = seconds
        self._next: tuple[TenantId, ObjectKey] | None = None
        self._due = 0.0  # by the clock of the loop; at first at once, for those who counted before may have died

    async def round(self) -> None:
        if self._next is None:
            now = asyncio.get_running_loop().time()
            if now < self._due:
                return
            self._next, self._due = BEGINNING, now + self._seconds
        part = await self._store.everywhere(QUOTAS, self._next, ROUND)
        for tenant, key in part.found:
            self._count(tenant, key)
        self._next = part.next


async def reconcile(controlled: ControllerClient, key: ObjectKey) -> None:
    """Counts for the quotas of a namespace; `key` is that of one of them, or of anything else in the namespace."""
    namespace = key.partition("/")[0]
    controlled = controlled.with_manager(CONTROLLER_MANAGER)
    changed, lower = await _count(controlled, namespace, {})
    await asyncio.sleep(PAUSE_SECONDS)
    if lower:
        await _count(controlled, namespace, lower)
    if changed or lower:
        raise Requeue


# By the key of a quota: its revision, and the status that it should have.
_Lower = dict[ObjectKey, tuple[int, Object]]


async def _count(controlled: ControllerClient, namespace: str, seen: _Lower) -> tuple[bool, _Lower]:
    """Writes what quotas should say. Whether there was something to write, and what was not written yet.

    Admission raises the use before it stores the object (admission/quota.py). A count between the two would take the
    place back, and another create could have it: so a use is lowered only where a count a while ago has `seen` the
    same, and nobody has changed the quota since.
    """
    store = controlled.backend.store
    page = await store.page(controlled.tenant, QUOTAS, namespace=namespace)
    if not page.rows:
        return False, {}
    catalog = await controlled.catalog()
    counts = {str(name): count for name, count in await store.resources_in_namespace(controlled.tenant, namespace)}
    services = await _services(controlled, namespace) if counts.get("services") else {}
    changed, lower = False, _Lower()
    for row in page.rows:
        quota = decode_stored('{"metadata":{' + row.body)
        before, status = quota.get("status") or {}, _status(quota, catalog, counts, services)
        if not _differs(before, status):
            continue
        if _lowers(before, status) and seen.get(row.key) != (row.revision, status):
            lower[row.key] = (row.revision, status)
            continue
        changed = True
        await controlled.change(
            "", "resourcequotas", row.key, partial(_with_status, status, row.revision), subresource="status"
        )
    return changed, lower


def _status(quota: Object, catalog: TenantCatalog, counts: Mapping[str, int], services: Mapping[str, int]) -> Object:
    """The status that the quota should have; what cannot be counted keeps the use that it had."""
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
    """How much of it there is; None where nobody knows what it is."""
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


async def _services(controlled: ControllerClient, namespace: str) -> dict[str, int]:
    """What services take: ports of nodes, and load balancers."""
    found = {"services.nodeports": 0, "services.loadbalancers": 0}
    async for page in controlled.backend.store.scan(controlled.tenant, SERVICES, namespace=namespace):
        for row in page.rows:
            for name, amount in service_usage(decode_stored('{"metadata":{' + row.body)).items():
                found[name] += amount
    return found


def _differs(old: Object, new: Object) -> bool:
    return any(_amounts(old.get(part)) != _amounts(new.get(part)) for part in ("hard", "used"))


def _amounts(amounts: Mapping[str, str] | None) -> dict[str, Any]:
    return {name: quantity(amount) for name, amount in (amounts or {}).items()}


def _lowers(old: Object, new: Object) -> bool:
    before, after = _amounts(old.get("used")), _amounts(new.get("used"))
    return any(name in after and after[name].compare(amount) < 0 for name, amount in before.items())


def _with_status(status: Object, revision: int, old: Object) -> Object:
    """What has been changed since it was counted for is counted for again."""
    if old["metadata"]["resourceVersion"] != str(revision):
        return copy_of(old)
    return {**copy_of(old), "status": status}
