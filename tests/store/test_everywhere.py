"""Lists of a resource over all tenants, in pages."""

from __future__ import annotations

import pytest

from registry.store.reads import lookups
from registry.store.reads.lookups import BEGINNING
from registry.store.store import Store
from registry.store.types import Actor, ObjectKey, ResourceName, TenantName, Uid, Write, WriteOperation

THINGS = ResourceName("things")


@pytest.mark.parametrize("limit, tenants", [(1, 1), (2, 2), (3, 1), (1, 100), (100, 100)])
async def test_objects_of_all_tenants_are_returned_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, limit: int, tenants: int
) -> None:
    """Among tenants that have none, and objects of other resources."""
    monkeypatch.setattr(lookups, "_TENANTS", tenants)
    expected = []
    for name, keys in (("a", ()), ("b", ("n/1", "n/2", "o/1")), ("c", ()), ("d", ("n/1",)), ("e", ())):
        tenant = await store.create_tenant(TenantName(name))
        for key in keys:
            for resource in (THINGS, ResourceName("thing"), ResourceName("thingsx")):
                await store.commit(
                    tenant,
                    Write(
                        WriteOperation.CREATE,
                        resource,
                        ObjectKey(key),
                        Actor("", "", ""),
                        uid=Uid(f"{name}{resource}{key}"),
                        body="}",
                    ),
                )
            expected.append((name, key))
    found, at, parts = [], BEGINNING, 0
    while True:
        part = await store.lookups.everywhere(THINGS, at, limit)
        parts += 1
        assert len(part.keys) <= limit
        found += [(tenant.name, key) for tenant, key in part.keys]
        if part.next is None:
            break
        assert part.next > at
        at = part.next
    assert found == expected
    assert parts <= 12
