from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from registry.store.store import Store
from registry.store.types import Tenant, TenantName
from tests.databases import open_store, temporary_database
from tests.store.shared import is_shared

_numbers = itertools.count()


@pytest.fixture(scope="module")
def shared_database_url(postgres_server: str, template_database: str) -> Iterator[str]:
    with temporary_database(postgres_server, template_database) as url:
        yield url


@pytest.fixture
def database_url(request: pytest.FixtureRequest, postgres_server: str, template_database: str) -> Iterator[str]:
    """A migrated database: empty, or that of the module (shared.py)."""
    if is_shared(request):
        yield request.getfixturevalue("shared_database_url")
        return
    with temporary_database(postgres_server, template_database) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_store(shared_database_url: str) -> AsyncIterator[Store]:
    async with open_store(shared_database_url) as store:
        yield store


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_other_store(shared_database_url: str) -> AsyncIterator[Store]:
    async with open_store(shared_database_url) as store:
        yield store


@pytest_asyncio.fixture(loop_scope="module")
async def new_tenant(shared_store: Store) -> Tenant:
    return await shared_store.create_tenant(TenantName(f"acme-{next(_numbers)}"))


@pytest.fixture
async def own_store(database_url: str) -> AsyncIterator[Store]:
    async with open_store(database_url) as store:
        yield store


@pytest.fixture
async def own_other_store(database_url: str) -> AsyncIterator[Store]:
    async with open_store(database_url) as store:
        yield store


@pytest.fixture
async def own_tenant(own_store: Store) -> Tenant:
    return await own_store.create_tenant(TenantName("acme"))


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Store:
    found: Store = request.getfixturevalue("shared_store" if is_shared(request) else "own_store")
    return found


@pytest.fixture
def other_store(request: pytest.FixtureRequest) -> Store:
    """A second store on the same database, as of another server process."""
    found: Store = request.getfixturevalue("shared_other_store" if is_shared(request) else "own_other_store")
    return found


@pytest.fixture
def tenant(request: pytest.FixtureRequest) -> Tenant:
    found: Tenant = request.getfixturevalue("new_tenant" if is_shared(request) else "own_tenant")
    return found
