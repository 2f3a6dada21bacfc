from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from registry.store.store import Store
from registry.store.types import Tenant, TenantName


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    store = await Store.open(database_url, housekeeping=False)
    yield store
    await store.close()


@pytest.fixture
async def other_store(database_url: str) -> AsyncIterator[Store]:
    """Another process, as far as the store can tell."""
    store = await Store.open(database_url, housekeeping=False)
    yield store
    await store.close()


@pytest.fixture
async def tenant(store: Store) -> Tenant:
    return await store.create_tenant(TenantName("acme"))
