"""A process that knows many tenants follows their changes, and reads a tenant again when it has changed."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

import pytest

from registry.store import tenants
from registry.store.errors import TenantNotFound
from registry.store.feed import feed
from registry.store.store import Store
from registry.store.types import Tenant, TenantName
from tests.store.writes import WIDGETS, create, eventually, mark_deleted, update

SHOP = TenantName("shop")
CACHE_SECONDS = 2.0


@pytest.fixture
async def following(other_store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store that follows the tenants that the widgets of `tenant` describe, and knows one."""
    monkeypatch.setattr(tenants, "FOLLOWED_FROM", 1)
    monkeypatch.setattr(tenants, "CACHE_SECONDS", CACHE_SECONDS)
    monkeypatch.setattr(feed, "POLL_SECONDS", 0.05)
    other_store.follow_tenants(tenant.name, WIDGETS)
    await other_store.create_tenant(SHOP, attributes={"display": "one"})
    await eventually(lambda: _is_followed(other_store))
    await other_store.tenant(SHOP)
    return other_store


async def _is_followed(store: Store) -> bool:
    changes = store.tenancy._changes
    return changes is not None and changes.known_at > 0


async def change(store: Store, display: str) -> None:
    """Changes the row of the tenant, as a write to its object does, but not the object."""
    async with store._pool.connection() as connection:
        await connection.execute(
            "UPDATE tenants SET attributes = jsonb_build_object('display', %s::text) WHERE name = %s", (display, SHOP)
        )


async def display(store: Store) -> Any:
    return (await store.tenant(SHOP)).attributes["display"]


async def test_a_tenant_whose_object_does_not_change_is_not_read_again(store: Store, following: Store) -> None:
    await change(store, "two")
    await asyncio.sleep(CACHE_SECONDS + 0.5)  # until what is in the cache has expired
    assert await display(following) == "one"


async def test_a_changed_tenant_is_read_again_at_once(store: Store, tenant: Tenant, following: Store) -> None:
    for number, write in enumerate((create(SHOP), update(SHOP, expected=1))):
        began = time.monotonic()
        await change(store, f"changed {number}")
        await store.commit(tenant, write)
        await eventually(partial(_displays, following, f"changed {number}"))
        assert time.monotonic() - began < CACHE_SECONDS


async def _displays(store: Store, wanted: str) -> bool:
    return bool(await display(store) == wanted)


async def test_a_deleted_tenant_is_missed_at_once(store: Store, tenant: Tenant, following: Store) -> None:
    began = time.monotonic()
    await mark_deleted(store, await store.tenant(SHOP))
    await store.commit(tenant, create(SHOP))
    await eventually(lambda: _is_missed(following))
    assert time.monotonic() - began < CACHE_SECONDS


async def _is_missed(store: Store) -> bool:
    try:
        await store.tenant(SHOP)
    except TenantNotFound:
        return True
    return False


async def test_while_it_is_not_known_whether_there_are_changes_tenants_are_read_again(
    store: Store, following: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "POLL_SECONDS", 3600)
    await change(store, "two")
    await asyncio.sleep(CACHE_SECONDS + 0.5)  # until what is in the cache has expired
    assert await display(following) == "two"


async def test_a_tenant_that_changes_while_it_is_read_is_read_again(
    store: Store, following: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    following.tenancy.forget_name(SHOP)
    fetch = following._pool.fetch

    async def fetch_meanwhile(*arguments: Any) -> Any:
        rows = await fetch(*arguments)
        following.tenancy.forget_name(SHOP)  # the change is reported before the answer is there
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(following._pool, "fetch", fetch_meanwhile)
        assert await display(following) == "one"
    await change(store, "two")
    await asyncio.sleep(CACHE_SECONDS + 0.5)  # until what is in the cache has expired
    assert await display(following) == "two"


async def test_following_begins_again_after_it_has_ended(
    store: Store, tenant: Tenant, following: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = following.tenancy._changes
    assert changes is not None
    followed = changes._followed
    assert followed is not None
    followed.end(TenantNotFound("the tenant does not exist"))
    assert changes.known_at < 0
    await eventually(lambda: _is_followed(following))
    await following.tenant(SHOP)
    await change(store, "two")
    await store.commit(tenant, create(SHOP))
    await eventually(lambda: _displays(following, "two"))


async def test_few_tenants_are_not_followed(store: Store, tenant: Tenant) -> None:
    store.follow_tenants(tenant.name, WIDGETS)
    for number in range(tenants.FOLLOWED_FROM - 2):  # and `tenant`
        name = TenantName(f"few-{number}")
        await store.create_tenant(name)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "registry tenant changes"]
    await store.create_tenant(TenantName("one-more"))
    assert [task for task in asyncio.all_tasks() if task.get_name() == "registry tenant changes"]
