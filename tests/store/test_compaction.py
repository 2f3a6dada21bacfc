"""Compaction drops whole partitions of the log by time; a reader of a dropped revision gets RevisionExpired."""

from __future__ import annotations

import asyncio
import datetime

import psycopg
import pytest
from psycopg import sql

from registry.store import compaction, tables
from registry.store.errors import RevisionExpired, Unavailable
from registry.store.store import Store
from registry.store.types import Tenant
from tests.api.client import eventually
from tests.store.aging import age, partitions_of
from tests.store.writes import WIDGETS, changes_up_to, commit_all, create, keys, update

HOUR = datetime.timedelta(hours=1)
NOON = datetime.datetime(2030, 1, 1, 12, tzinfo=datetime.UTC)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for who reads the log just now: on a busy machine that may take longer than a server would wait."""
    monkeypatch.setattr(compaction, "LOCK_TIMEOUT", "60s")


@pytest.mark.parametrize(
    "end, ranges",
    [
        pytest.param(None, [(None, 1), (1, 2)], id="the-first-has-no-beginning"),
        pytest.param(0.5, [(0.5, 1.5)], id="one-ahead"),
        pytest.param(1.1, [], id="enough"),
        pytest.param(7, [], id="more-than-enough"),
        pytest.param(-0.5, [(-0.5, 0.5), (0.5, 1.5)], id="nobody-came-for-a-while"),
        pytest.param(-1000, [(-1, 0), (0, 1), (1, 2)], id="nobody-came-for-long"),
    ],
)
def test_which_partitions_are_wanted(end: float | None, ranges: list[tuple[float | None, float]]) -> None:
    def at(hours: float | None) -> datetime.datetime | None:
        return None if hours is None else NOON + hours * HOUR

    assert compaction.missing_ranges(at(end), NOON, HOUR) == [(at(lower), at(upper)) for lower, upper in ranges]


async def test_a_new_database_gets_partitions_and_has_enough_then(store: Store, database_url: str) -> None:
    assert len(await partitions_of(store)) == 2
    assert await store.make_partitions() == []
    assert await store.compact() == []


async def test_at_most_twelve_partitions_hold_the_retention() -> None:
    """Plays 30 days of housekeeping each hour, and counts."""
    retention, now, ends = datetime.timedelta(days=7), NOON, list[datetime.datetime]()
    most = 0
    for _ in range(30 * 24):
        made = compaction.missing_ranges(ends[-1] if ends else None, now, retention / compaction.PARTS)
        ends += [upper for _, upper in made]
        ends = [end for end in ends if end > now - retention]
        most = max(most, len(ends))
        now += HOUR
    assert most <= 12


async def test_dropping_a_partition_raises_the_compact_revision(
    store: Store, tenant: Tenant, database_url: str, patient: None
) -> None:
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(5)])
    await age(store, database_url)
    assert await store.compact() == []
    await commit_all(store, tenant, [update("ns/0"), create("ns/9")])
    sleeper = await store.subscribe(tenant, WIDGETS, 5)
    dropped = await Store.compact(_with_retention(store, HOUR))
    assert len(dropped) == 1
    with pytest.raises(RevisionExpired) as caught:
        await store.subscribe(tenant, WIDGETS, 4)
    assert (caught.value.compact_revision, caught.value.current) == (5, 7)
    with pytest.raises(RevisionExpired):
        await store.page(tenant, WIDGETS, at=4)
    # What is left is whole: the compact revision itself, and all above it.
    assert [c.revision for c in await changes_up_to(sleeper, 7)] == [6, 7]
    assert await keys(store, tenant, at=5) == [f"ns/{i}" for i in range(5)]
    assert len(await keys(store, tenant)) == 6
    assert (await store.commit(tenant, create("ns/more"))).revision == 8


async def test_a_partition_in_use_is_dropped_later(
    store: Store, tenant: Tenant, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.commit(tenant, create("ns/a"))
    await age(store, database_url)
    short = _with_retention(store, HOUR)
    async with await psycopg.AsyncConnection.connect(database_url) as reader:
        await reader.execute("SELECT count(*) FROM changes")
        assert await Store.compact(short) == []
        with pytest.raises(RevisionExpired):
            await store.page(tenant, WIDGETS, at=0)
    # The reader has hung up, and its backend may still be about to notice.
    monkeypatch.setattr(compaction, "LOCK_TIMEOUT", "60s")
    assert len(await Store.compact(short)) == 1


async def test_a_late_commit_is_not_dropped_before_it_is_read(
    store: Store, tenant: Tenant, database_url: str, patient: None
) -> None:
    """A watch from below it would miss it without a word: its revision is above the compact revision."""
    await store.commit(tenant, create("ns/a"))
    await age(store, database_url)
    short = _with_retention(store, HOUR)
    async with await psycopg.AsyncConnection.connect(database_url) as late:
        await late.execute("UPDATE domains SET revision = 2 WHERE id = %s", [tenant.domain])
        columns = sql.SQL(", ").join(sql.Identifier(c.name) for c in tables.changes.columns if c.name != "revision")
        await late.execute(
            sql.SQL("INSERT INTO changes (revision, {0}) SELECT 2, {0} FROM changes WHERE revision = 1").format(columns)
        )
        compacting = asyncio.create_task(Store.compact(short))
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as observer:

            async def waits() -> bool:
                cursor = await observer.execute(
                    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
                )
                return await cursor.fetchone() is not None

            await eventually(waits)
        await late.commit()
    assert await compacting == []
    assert len(await Store.compact(short)) == 1
    with pytest.raises(RevisionExpired) as caught:
        await store.subscribe(tenant, WIDGETS, 1)
    assert caught.value.compact_revision == 2


async def test_a_log_without_a_partition_for_now_gets_one_when_it_is_written(
    store: Store, tenant: Tenant, database_url: str
) -> None:
    """As when no process was there to look after it for longer than it had been made ahead."""
    for name in await partitions_of(store):
        async with store._pool.connection() as connection:
            await connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
    given = await commit_all(store, tenant, [create(f"ns/{i}") for i in range(5)])
    assert sorted(c.revision for c in given) == [1, 2, 3, 4, 5]
    assert len(await partitions_of(store)) == 2


async def test_a_clock_before_the_log_refuses_writes(store: Store, tenant: Tenant) -> None:
    """PostgreSQL's clock was put back beyond all partitions: none is made for the past, and none is needed soon."""
    for name in await partitions_of(store):
        async with store._pool.connection() as connection:
            await connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
            await connection.execute("CREATE TABLE IF NOT EXISTS changes_later (LIKE changes INCLUDING ALL)")
    async with store._pool.connection() as connection:
        await connection.execute(
            "ALTER TABLE changes ATTACH PARTITION changes_later FOR VALUES FROM ('3000-01-01') TO ('3000-01-02')"
        )
    with pytest.raises(Unavailable, match="the change log lacks a partition: "):
        await store.commit(tenant, create("ns/a"))
    assert "lacks a partition" in str(store.problems()["writes"]())
    assert await store.lookups.count(tenant, WIDGETS) == 0


async def test_partitions_have_the_indexes_of_the_log(store: Store) -> None:
    async with store._pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT tablename, count(*) FROM pg_indexes WHERE tablename LIKE 'changes_p%' GROUP BY tablename"
        )
        declared = len(tables.changes.indexes)
        assert [count for _, count in await cursor.fetchall()] == [declared, declared]
        cursor = await connection.execute(
            "SELECT count(*) FROM pg_inherits WHERE inhparent::regclass::text LIKE '%idx'"
        )
        assert await cursor.fetchone() == (2 * declared,)


def _with_retention(store: Store, retention: datetime.timedelta) -> Store:
    store.retention = retention
    return store
