"""The history of a widget over REST, and the change log as compaction leaves it."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.api.client import Client
from tests.api.widgets import WIDGETS


async def forget_history(database_url: str) -> None:
    """Raises the compact revision of every domain to its newest revision, as compaction does."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("UPDATE domains SET compact_revision = revision")


async def revision_of(api: Client, name: str) -> str:
    found: str = (await api.get(f"{WIDGETS}/{name}")).ok()["metadata"]["resourceVersion"]
    return found


async def past_of(api: Client, name: str, query: str = "") -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await api.get(f"{WIDGETS}/{name}/history{query}")).ok()["items"]
    return items
