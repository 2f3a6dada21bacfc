"""Objects that have just gone, as their dependents know them: asking for the owner of each of them is not needed then.

A uid is never given twice, so what is known here stays true. It is also the only way to tell that an owner is gone
whose definition has gone with it.
"""

from __future__ import annotations

from typing import Final

from registry.api.dependents import DeletedObject, Reference
from registry.caches import LruCache
from registry.controllers.garbage.references import group_and_version
from registry.store.types import Tenant, TenantId

# About 300 bytes each; a dependent that comes later is looked up.
LIMIT: Final = 10_000


class AbsentOwnerCache:
    def __init__(self, limit: int = LIMIT) -> None:
        self._gone: LruCache[tuple[TenantId, str], DeletedObject] = LruCache(limit)

    def add(self, tenant: Tenant, gone: DeletedObject) -> None:
        self._gone.put((tenant.id, gone.uid), gone)

    def knows(self, tenant: Tenant, namespace: str, reference: Reference) -> bool:
        """Whether the reference of an object in `namespace` means one of those that are gone, in all that it says."""
        gone = self._gone.get((tenant.id, reference.get("uid") or ""))
        if gone is None or gone.namespace not in ("", namespace) or gone.name != reference.get("name"):
            return False
        group, _ = group_and_version(reference.get("apiVersion") or "")
        return group == gone.group and gone.kind in ("", reference.get("kind"))
