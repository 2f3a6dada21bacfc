"""A database with reports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import psycopg
import pytest

from registry.controllers.reporting import reporting_of
from registry.store.store import Store
from tests.reporting.reports import Reports


@pytest.fixture
async def reports(roles: Callable[[str], None], database_url: str) -> AsyncIterator[Reports]:
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT current_database()").fetchone()
        assert row is not None
        roles(f"{row[0]}_re")
        roles(f"login_{row[0]}_")
    store = await Store.open(database_url, housekeeping=False)
    try:
        made = Reports(store, reporting_of(store.reporting_pool), database_url, {})
        await made.reporting.prepare()
        yield made
    finally:
        await store.close()
