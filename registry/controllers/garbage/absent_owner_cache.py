"""Recently deleted objects, as their dependents refer to them, which saves a lookup of the owner for each dependent.

A uid is never reused, so an entry stays true. It is also the only way to know that an owner is gone whose definition is
gone, too.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Final

from registry.api.dependents import DeletedObject, Reference
from registry.controllers.garbage.references import group_and_version
from registry.store.types import Tenant, TenantId

# About 300 bytes each; the owner of a later dependent is looked up.
LIMIT: Final = 10_000


class AbsentOwnerCache:
    """Evicts the least recently used, but none of a tenant that has fewer than the one that adds: the dependents of an
    owner whose entry is gone with its definition would stay."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        # Invariant: both have the same entries, the least recently used first, and no tenant without any.
        self._gone: OrderedDict[tuple[TenantId, str], DeletedObject] = OrderedDict()
        self._of_tenant: dict[TenantId, OrderedDict[str, None]] = {}

    def add(self, tenant: Tenant, deleted: DeletedObject) -> None:
        # Without its own owners: references of megabytes.
        self._gone[tenant.id, deleted.uid] = replace(deleted, owners=())
        self._of_tenant.setdefault(tenant.id, OrderedDict())[deleted.uid] = None
        self._use(tenant.id, deleted.uid)
        if len(self._gone) > self._limit:
            self._evict(tenant.id)

    def _use(self, tenant: TenantId, uid: str) -> None:
        self._gone.move_to_end((tenant, uid))
        self._of_tenant[tenant].move_to_end(uid)

    def _evict(self, adding: TenantId) -> None:
        oldest, _ = next(iter(self._gone))
        tenant = oldest if len(self._of_tenant[oldest]) >= len(self._of_tenant[adding]) else adding
        uid, _ = self._of_tenant[tenant].popitem(last=False)
        del self._gone[tenant, uid]
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant]

    def knows(self, tenant: Tenant, namespace: str, reference: Reference) -> bool:
        """Returns whether the reference of an object in `namespace` means a deleted object, in all of its fields."""
        uid = reference.get("uid") or ""
        deleted = self._gone.get((tenant.id, uid))
        if deleted is None:
            return False
        self._use(tenant.id, uid)
        if deleted.namespace not in ("", namespace) or deleted.name != reference.get("name"):
            return False
        group, _ = group_and_version(reference.get("apiVersion") or "")
        return group == deleted.group and deleted.kind in ("", reference.get("kind"))
