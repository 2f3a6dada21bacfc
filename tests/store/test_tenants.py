"""Tenants: created once, found by name, hidden as soon as they are deleted."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from registry.store import tenants
from registry.store.errors import TenantExists, TenantNotFound
from registry.store.store import Store
from registry.store.types import DomainId, ObjectKey, Tenant, TenantName, Uid, WriteFlag
from tests.store.writes import GADGETS, WIDGETS, commit_all, create, delete, delete_tenant, mark_deleted, update


async def test_a_tenant_is_found_by_its_name(store: Store, other_store: Store) -> None:
    made = await store.create_tenant(TenantName("acme"), attributes={"display": "Acme"})
    assert await store.tenant(TenantName("acme")) == made
    assert await other_store.tenant(TenantName("acme")) == made
    assert made.attributes == {"display": "Acme"}


@pytest.mark.parametrize("name", ["", "none", "Acme", "\x00", "acme\x00", "\ud800"])
async def test_other_names_are_not_found(store: Store, tenant: Tenant, name: str) -> None:
    with pytest.raises(TenantNotFound):
        await store.tenant(TenantName(name))


async def test_a_tenant_name_is_unique(store: Store, other_store: Store) -> None:
    results = await asyncio.gather(
        *(s.create_tenant(TenantName("acme")) for s in (store, other_store) for _ in range(3)), return_exceptions=True
    )
    assert sorted(type(r).__name__ for r in results) == ["Tenant"] + ["TenantExists"] * 5


async def test_each_has_a_domain_of_its_own_by_default(store: Store) -> None:
    first, second = [await store.create_tenant(TenantName(name)) for name in ("a", "b")]
    third = await store.create_tenant(TenantName("c"), first.domain)
    assert first.domain != second.domain
    assert third.domain == first.domain
    with pytest.raises(TenantNotFound):
        await store.create_tenant(TenantName("d"), DomainId(999))


async def test_they_are_listed_in_pages_by_name(store: Store) -> None:
    for name in ("b", "a", "d", "c"):
        await store.create_tenant(TenantName(name))
    first = await store.tenants(limit=3)
    assert [t.name for t in first] == ["a", "b", "c"]
    assert [t.name for t in await store.tenants(first[-1].name)] == ["d"]


async def test_a_deleted_tenant_is_removed_with_its_data(
    store: Store, other_store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "DELETE_ROWS", 3)
    neighbour = await store.create_tenant(TenantName("neighbour"), tenant.domain)
    for each in (tenant, neighbour):
        await commit_all(store, each, [create(f"ns/{i}") for i in range(10)])
    await other_store.tenant(tenant.name)
    await delete_tenant(store, tenant)
    for attempt in (
        store.commit(tenant, create("ns/late")),
        other_store.commit(tenant, create("ns/late")),
        other_store.load(tenant, WIDGETS, ObjectKey("ns/1")),
        store.page(tenant, WIDGETS),
        store.state(tenant),
        store.tenant(tenant.name),
        # It was in this process's cache until the write was refused.
        other_store.tenant(tenant.name),
    ):
        with pytest.raises(TenantNotFound):
            await attempt
    assert await store.lookups.count(tenant, WIDGETS) == 0
    assert await store.lookups.count(neighbour, WIDGETS) == 10
    assert (await store.commit(neighbour, create("ns/more"))).revision == 21


async def test_the_name_is_free_again_and_the_new_tenant_is_empty(store: Store, tenant: Tenant) -> None:
    await store.commit(tenant, create("ns/a"))
    await delete_tenant(store, tenant)
    again = await store.create_tenant(tenant.name)
    assert again.id != tenant.id
    assert (await store.state(again)).revision == 0
    assert not (await store.page(again, WIDGETS)).rows


async def test_a_deletion_that_was_interrupted_is_finished(store: Store, tenant: Tenant) -> None:
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(5)])
    await mark_deleted(store, tenant)
    with pytest.raises(TenantExists):
        await store.create_tenant(tenant.name)
    await store.tenancy.finish_deletions()
    assert await store.lookups.count(tenant, WIDGETS) == 0
    await store.create_tenant(tenant.name)


async def test_queries_of_controllers(store: Store, tenant: Tenant) -> None:
    neighbour = await store.create_tenant(TenantName("neighbour"))
    writes = [create(f"ns/{i}", owners=["u1", 'o"d\\d'] if i % 2 else ()) for i in range(4)]
    writes += [create("ns-b/a", owners=["u2"]), create("cluster", resource=GADGETS), create("ns/z", resource=GADGETS)]
    await commit_all(store, tenant, writes)
    await store.commit(neighbour, create("ns/a", owners=["u1"]))
    owned = await store.lookups.owned_by(tenant, [Uid("u1")])
    assert [row.key for row in owned] == ["ns/1", "ns/3"]
    assert [row.key for row in await store.lookups.owned_by(tenant, [Uid("u1")], after=owned[0])] == ["ns/3"]
    owned = await store.lookups.owned_by(tenant, [Uid("u2"), Uid('o"d\\d')])
    assert [row.key for row in owned] == ["ns-b/a", "ns/1", "ns/3"]
    assert await store.lookups.owned_by(tenant, [Uid("none")]) == []
    assert await store.lookups.resources_in_namespace(tenant, "ns") == [(GADGETS, 1), (WIDGETS, 4)]
    assert await store.lookups.resources_in_namespace(tenant, "n") == []
    assert await store.lookups.resources(tenant) == [(GADGETS, 2), (WIDGETS, 5)]
    assert await store.lookups.count(tenant, WIDGETS) == 5


async def test_pending_rows_are_found_until_a_write_clears_them(store: Store, tenant: Tenant) -> None:
    neighbour = await store.create_tenant(TenantName("neighbour"))
    await store.commit(tenant, replace(create("ns/a"), flags=WriteFlag.PENDING))
    await store.commit(neighbour, create("ns/b"))
    await store.commit(neighbour, replace(update("ns/b"), flags=WriteFlag.PENDING))
    found = [(t.name, resource, key) for t, resource, key in await store.lookups.pending(10)]
    assert found == [("acme", WIDGETS, "ns/a"), ("neighbour", WIDGETS, "ns/b")]
    await store.commit(tenant, update("ns/a"))
    await store.commit(neighbour, delete("ns/b"))
    assert await store.lookups.pending(10) == []


async def test_a_tenant_with_many_pending_rows_does_not_hide_others(store: Store, tenant: Tenant) -> None:
    neighbour = await store.create_tenant(TenantName("neighbour"))
    for i in range(5):
        await store.commit(tenant, replace(create(f"ns/a{i}"), flags=WriteFlag.PENDING))
    await store.commit(neighbour, replace(create("ns/b"), flags=WriteFlag.PENDING))
    found = [(t.name, key) for t, _, key in await store.lookups.pending(3)]
    assert found == [("acme", "ns/a0"), ("neighbour", "ns/b"), ("acme", "ns/a1")]


async def test_the_changes_since_a_revision(store: Store, tenant: Tenant) -> None:
    await commit_all(store, tenant, [create("ns/a"), create("ns/b"), create("ns/a", resource=GADGETS)])
    found = [c.revision async for part in store.changes(tenant, WIDGETS, after=1, upto=3) for c in part]
    assert found == [2]
