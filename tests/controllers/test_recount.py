"""The leader's recount of quotas: a round at a time, of all tenants."""

from __future__ import annotations

import pytest

from registry.api.request import QUOTAS
from registry.controllers import quota
from registry.controllers.quota import Recount
from registry.store.store import Store
from registry.store.types import Actor, ObjectKey, Tenant, TenantName, Uid, Write, WriteOperation
from tests.databases import open_store


async def tenant_with(store: Store, name: str, count: int) -> list[tuple[str, str]]:
    tenant = await store.create_tenant(TenantName(name))
    keys = [f"n/q{number:02}" for number in range(count)]
    for key in keys:
        write = Write(
            WriteOperation.CREATE, QUOTAS, ObjectKey(key), Actor("", "", ""), uid=Uid(f"{name}/{key}"), body="}"
        )
        await store.commit(tenant, write)
    return [(name, key) for key in keys]


async def test_a_tenant_with_many_quotas_delays_its_own_only(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "ROUND", 5)
    async with open_store(database_url) as store:
        expected = [*await tenant_with(store, "a", 3)]
        for name in ("b", "c"):
            expected += await tenant_with(store, name, 33)
        expected += await tenant_with(store, "d", 2)
        seen: list[tuple[str, str]] = []

        def count(tenant: Tenant, key: ObjectKey) -> None:
            seen.append((tenant.name, key))

        recount = Recount(store, count, seconds=3600)
        for _ in range(4):
            await recount.round()
        assert ("d", "n/q01") in seen
        assert len(seen) < 45
        for _ in range(20):
            await recount.round()
    assert sorted(seen) == sorted(expected)
