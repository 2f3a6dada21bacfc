"""State shared by processes: compare-and-set settings, and leader election."""

from __future__ import annotations

import asyncio

import psycopg

from registry.store.settings import SharedSettings
from registry.store.store import Store
from tests.store.writes import eventually


async def test_a_setting_is_compared_and_set(store: Store, other_store: Store) -> None:
    settings, others = SharedSettings(store.reporting_pool), SharedSettings(other_store.reporting_pool)
    assert await settings.get("key") is None
    won = await asyncio.gather(*(s.put("key", n) for n, s in enumerate([settings, others] * 3)))
    assert won.count(True) == 1
    value = won.index(True)
    assert await settings.get("key") == await others.get("key") == value
    assert not await settings.put("key", "new", expected="other")
    assert await settings.put("key", {"a": [1]}, expected=value)
    assert await others.get("key") == {"a": [1]}


async def test_a_leader_keeps_its_lease_until_it_releases_it(store: Store, other_store: Store) -> None:
    first, second = store.leader("job"), other_store.leader("job")
    assert await first.acquire()
    assert not await second.acquire()
    assert await first.acquire()
    await second.release()
    assert not await second.acquire()
    await first.release()
    assert await second.acquire()


async def test_leaders_of_different_jobs_are_different(store: Store, other_store: Store) -> None:
    assert await store.leader("a").acquire()
    assert await other_store.leader("b").acquire()


async def test_one_of_several_candidates_becomes_leader(store: Store, other_store: Store) -> None:
    won = await asyncio.gather(*(s.leader("job").acquire() for s in (store, other_store)))
    assert sorted(won) == [False, True]


async def test_a_lost_leader_is_replaced_when_its_lease_expires(store: Store, other_store: Store) -> None:
    assert await store.leader("job", seconds=600).acquire()
    heir = other_store.leader("job")
    assert not await heir.acquire()
    # Its time is made to be over rather than waited for: a slow machine could take as long to ask in between.
    assert await store.leader("job", seconds=0.01).acquire()
    await eventually(heir.acquire)


async def test_a_killed_leader_is_replaced_at_once(store: Store, database_url: str) -> None:
    """Its connections end with it; its time, which would be over in ten minutes, is not waited for."""
    killed = await Store.open(database_url, housekeeping=False)
    try:
        assert await killed.leader("job", seconds=600).acquire()
        assert not await store.leader("job").acquire()
    finally:
        await killed.close()
    await eventually(store.leader("job").acquire)


async def test_a_leader_of_before_names_no_session(store: Store, database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(
            "INSERT INTO leaders (name, holder, expires_at) "
            "VALUES ('job', 'a process', clock_timestamp() + interval '10 minutes')"
        )
        assert not await store.leader("job").acquire()
        await connection.execute("UPDATE leaders SET expires_at = clock_timestamp()")
    assert await store.leader("job").acquire()
