"""Recently deleted objects, as their dependents refer to them, which saves a lookup of the owner for each dependent.

A uid is never reused, so an entry stays true. It is also the only way to know that an owner is gone whose definition is
gone, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from registry.api.dependents import DeletedObject, Reference
from registry.caches import LruCache
from registry.controllers.garbage.references import group_and_version
from registry.store.types import Tenant, TenantId

# About 300 bytes each; the owner of a later dependent is looked up.
LIMIT: Final = 10_000


class AbsentOwnerCache:
    def __init__(self, limit: int = LIMIT) -> None:
        self._gone: LruCache[tuple[TenantId, str], DeletedObject] = LruCache(limit)

    def add(self, tenant: Tenant, deleted: DeletedObject) -> None:
        # Without its own owners: references of megabytes.
        self._gone.put((tenant.id, deleted.uid), replace(deleted, owners=()))

    def knows(self, tenant: Tenant, namespace: str, reference: Reference) -> bool:
        """Returns whether the reference of an object in `namespace` means a deleted object, in all of its fields."""
        deleted = self._gone.get((tenant.id, reference.get("uid") or ""))
        if deleted is None or deleted.namespace not in ("", namespace) or deleted.name != reference.get("name"):
            return False
        group, _ = group_and_version(reference.get("apiVersion") or "")
        return group == deleted.group and deleted.kind in ("", reference.get("kind"))
