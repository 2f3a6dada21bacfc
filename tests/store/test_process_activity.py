"""The activity of tenants that processes publish, seen by two stores on one database."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import psycopg
import pytest

from registry.flowcontrol.activity import Figures
from registry.store.process_activity import MAX_PUBLISHED
from registry.store.store import Store


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Callable[[], Awaitable[Store]]]:
    """Opens a store, as another process would."""
    async with contextlib.AsyncExitStack() as stack:

        async def open_store() -> Store:
            store = await Store.open(database_url, housekeeping=False)
            stack.push_async_callback(store.close)
            return store

        yield open_store


async def test_the_activity_of_other_processes_is_summed(process: Callable[[], Awaitable[Store]]) -> None:
    one, two, three = await process(), await process(), await process()
    await one.activity().publish({"acme": Figures(100, 10, 1)})
    await two.activity().publish({"acme": Figures(20, 2, 0), "beta": Figures(0, 0, 3)})
    assert await one.activity().of_others() == {"acme": Figures(20, 2, 0), "beta": Figures(0, 0, 3)}
    assert await three.activity().of_others() == {"acme": Figures(120, 12, 1), "beta": Figures(0, 0, 3)}
    await two.activity().publish({"acme": Figures(30, 2, 0)})
    assert await three.activity().of_others() == {"acme": Figures(130, 12, 1)}, "the newest counts"
    await two.activity().withdraw()
    assert await three.activity().of_others() == {"acme": Figures(100, 10, 1)}


async def test_what_a_crashed_process_published_expires(
    process: Callable[[], Awaitable[Store]], database_url: str
) -> None:
    one, two = await process(), await process()
    await one.activity().publish({"acme": Figures(1, 0, 0)})
    with psycopg.connect(database_url, autocommit=True) as connection:
        expire = "UPDATE leaders SET expires_at = now() - interval '1 second' WHERE name LIKE 'activity/%'"
        assert connection.execute(expire).rowcount == 1
        assert await two.activity().of_others() == {}
        await two.activity().publish({"beta": Figures(1, 0, 0)})
        left = connection.execute("SELECT count(*) FROM leaders WHERE name LIKE 'activity/%'").fetchone()
        assert left == (1,), "the expired row is removed"


async def test_only_the_busiest_are_published(process: Callable[[], Awaitable[Store]], database_url: str) -> None:
    one = await process()
    await one.activity().publish({f"t{n}": Figures(n, 0, 0) for n in range(1, 2 * MAX_PUBLISHED)})
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT holder FROM leaders WHERE name LIKE 'activity/%'").fetchone()
        assert row is not None
    published = json.loads(row[0])
    assert len(published) == MAX_PUBLISHED
    assert min(published.values()) == [MAX_PUBLISHED, 0, 0]
