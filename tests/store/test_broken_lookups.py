"""If the connection breaks while the outcome of a commit is looked up, another connection looks it up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry.store.commit import recovery
from registry.store.session import Connection
from registry.store.statements import Statement
from registry.store.store import Store
from registry.store.types import TenantName
from tests.store.writes import WIDGETS, create

# The commit itself, and the wait for replication of what was found.
BREAKS = ("registry_commit", recovery.BARRIER.sql)


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each of these calls reaches PostgreSQL once, and its answer is lost with the connection."""
    left = list(BREAKS)
    execute, call = Connection.execute, Connection.call

    async def break_now(connection: Connection, query: object) -> None:
        if left and left[0] in str(query):
            left.pop(0)
            connection.abort()
            await execute(connection, "SELECT")

    async def broken(self: Connection, query: Any, *arguments: Any, **options: Any) -> Any:
        cursor = await execute(self, query, *arguments, **options)
        await break_now(self, query)
        return cursor

    async def broken_call(self: Connection, statement: Statement, values: Any, **options: Any) -> Any:
        rows = await call(self, statement, values, **options)
        await break_now(self, statement.sql)
        return rows

    monkeypatch.setattr(Connection, "execute", broken)
    monkeypatch.setattr(Connection, "call", broken_call)
    return left


async def test_a_second_break_is_no_failure(store: Store, breaking: list[str]) -> None:
    async with asyncio.timeout(60):
        tenant = await store.create_tenant(TenantName("acme"))
        committed = await store.commit(tenant, create("ns/a"))
        assert breaking == []
        page = await store.page(tenant, WIDGETS)
        assert [(row.key, row.revision) for row in page.rows] == [("ns/a", committed.revision)]
        assert (await store.commit(tenant, create("ns/b"))).revision == committed.revision + 1
