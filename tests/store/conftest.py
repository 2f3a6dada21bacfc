from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from registry.store.store import Store
from registry.store.types import Tenant, TenantName
from tests.databases import open_store


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    async with open_store(database_url) as store:
        yield store


@pytest.fixture
async def other_store(database_url: str) -> AsyncIterator[Store]:
    """A second store on the same database, as of another server process."""
    async with open_store(database_url) as store:
        yield store


@pytest.fixture
async def tenant(store: Store) -> Tenant:
    return await store.create_tenant(TenantName("acme"))
