"""Lists from memory show what PostgreSQL has at their revision, whichever process has written it, and within bounds."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from registry.store import watch_cache
from registry.store.errors import RevisionExpired, RevisionInFuture, TenantNotFound
from registry.store.reads.pages import Query
from registry.store.store import Store
from registry.store.types import ObjectKey, Page, ResourceName, Tenant, TenantName
from registry.store.watch_cache import WatchCache
from tests.store.shared import has_own_store, shares_store
from tests.store.writes import GADGETS, WIDGETS, commit_all, create, delete, delete_tenant, eventually, update

pytestmark = shares_store

LARGE = '"spec":"' + "x" * 40_000 + '"}'
ALL = Query(WIDGETS, from_memory=True)


class Reads:
    """Counts what a store reads from PostgreSQL, in pages and chunks."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        pages = store._pages
        read = pages._fetch

        async def fetch(*arguments: object) -> object:
            self.count += 1
            return await read(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(pages, "_fetch", fetch)

    def since(self) -> int:
        """Returns how many there were since the last call."""
        count, self.count = self.count, 0
        return count


@pytest.fixture
def reads(store: Store, monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(store, monkeypatch)


@pytest.fixture
def keeps_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_cache, "WORTH_BYTES", -1)


async def list_all(store: Store, tenant: Tenant, query: Query = ALL, rows: int = 4) -> list[Page]:
    return [page async for page in store._watch_cache.scan(tenant, query, rows)]


async def page_of(store: Store, tenant: Tenant, **where: Any) -> Page:
    return await store.page(tenant, WIDGETS, from_memory=True, **where)


def states(pages: list[Page]) -> list[tuple[str, int, str]]:
    return [(row.key, row.revision, row.body) for page in pages for row in page.rows]


async def test_the_third_list_is_read_from_memory(store: Store, tenant: Tenant, reads: Reads) -> None:
    await commit_all(store, tenant, [create(f"ns/{i}", body=LARGE) for i in range(8)])
    found = []
    for expected in (2, 2, 0, 0):
        found.append(await list_all(store, tenant))
        assert reads.since() == expected
    assert len(states(found[0])) == 8
    assert all(states(pages) == states(found[0]) for pages in found)
    assert {page.revision for pages in found for page in pages} == {8}


@pytest.mark.parametrize("body", ['"spec":{}}', LARGE], ids=["short", "long"])
async def test_short_lists_are_not_kept(store: Store, tenant: Tenant, reads: Reads, body: str) -> None:
    await store.commit(tenant, create("ns/a", body=body))
    for _ in range(3):
        await list_all(store, tenant)
    assert reads.since() == (3 if body != LARGE else 2)


async def test_a_write_is_seen_by_the_next_list(
    store: Store, other_store: Store, tenant: Tenant, reads: Reads, keeps_all: None
) -> None:
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(6)])
    for _ in range(2):
        await list_all(store, tenant)
    for writer in (store, other_store):
        for write in (update("ns/3", body='"n":1}'), create("ns/35"), delete("ns/35"), create("ns/9"), delete("ns/9")):
            committed = await writer.commit(tenant, write)
            await store._feed._domains[tenant.domain].reach(committed.revision, 60)
            expected = states([await store._pages.chunk(tenant, ALL, 100)])
            reads.since()
            assert states(await list_all(store, tenant)) == expected
            assert reads.since() == 0


async def test_lists_and_pages_are_those_of_postgresql(
    store: Store, other_store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, keeps_all: None
) -> None:
    """Writes of two processes, lists of all and of namespaces, and pages of the past, in a random order."""
    chance = random.Random(7)
    monkeypatch.setattr(watch_cache, "_PART_ROWS", 12)
    live: set[str] = set()
    started: list[tuple[Query, int]] = []
    from_memory = 0
    pages, fetched = store._pages, Reads(store, monkeypatch)

    async def write(half: int = 0) -> None:
        key = f"{chance.choice('ab')}/{15 * half + chance.randrange(15):02}"
        writer = chance.choice([store, other_store])
        body = f'"n":{chance.randrange(1_000_000)}}}'
        if key not in live:
            live.add(key)
            await writer.commit(tenant, create(key, body=body, uid="uid"))
        elif chance.random() < 0.3:
            live.remove(key)
            await writer.commit(tenant, delete(key))
        else:
            await writer.commit(tenant, update(key, body=body))

    async def compare_page(query: Query, limit: int) -> None:
        nonlocal from_memory
        fetched.since()
        page = await store._watch_cache.page(tenant, query, limit)
        from_memory += fetched.since() == 0
        truth = await pages.page(tenant, replace(query, at=page.revision), limit)
        assert (list(page.rows), page.more) == (list(truth.rows), truth.more)
        assert page.remaining == truth.remaining
        if page.more:
            after = page.rows[-1].key
            started.append((replace(query, at=page.revision, after=after, left=page.remaining), limit))

    async def compare_list(query: Query) -> None:
        nonlocal from_memory
        fetched.since()
        found: list[Page] = []
        async for page in store._watch_cache.scan(tenant, query, 5):
            found.append(page)
            if chance.random() < 0.2:
                await write()
        from_memory += fetched.since() == 0
        truth = await pages.chunk(tenant, replace(query, at=found[0].revision), 100)
        assert {page.revision for page in found} == {truth.revision}
        assert states(found) == states([truth])

    for _ in range(600):
        query = replace(ALL, namespace=chance.choice([None, "a", "b"]))
        match chance.randrange(5):
            case 0:
                await asyncio.gather(*(write(half) for half in range(chance.randrange(3))))
            case 1:
                await compare_page(query, chance.choice([4, 7]))
            case 2 if started:
                await compare_page(*started.pop(chance.randrange(len(started))))
            case _:
                await compare_list(query)
    assert from_memory > 50


async def test_a_list_goes_on_behind_a_chunk_that_has_become_empty(
    store: Store, tenant: Tenant, reads: Reads, keeps_all: None
) -> None:
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(8)])
    for _ in range(2):
        await list_all(store, tenant)
    await commit_all(store, tenant, [delete(f"ns/{i}") for i in range(4)])
    store._watch_cache._parts.pop((tenant.id, WIDGETS, "*", -4, ObjectKey("ns/3")))
    reads.since()
    assert [key for key, *_ in states(await list_all(store, tenant))] == ["ns/4", "ns/5", "ns/6", "ns/7"]
    assert reads.since() == 1


async def test_a_page_of_the_past_is_checked_by_postgresql(
    store: Store, tenant: Tenant, reads: Reads, keeps_all: None
) -> None:
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(6)])
    for _ in range(3):
        first = await page_of(store, tenant, limit=4)
        after = first.rows[-1].key
        second = await page_of(store, tenant, limit=4, at=first.revision, after=after, left=first.remaining)
        assert ([row.key for row in second.rows], first.remaining, second.more) == (["ns/4", "ns/5"], 2, False)
    reads.since()
    with pytest.raises(RevisionInFuture):
        await page_of(store, tenant, limit=4, at=first.revision + 1, after=after)
    async with store._pool.connection() as connection:
        await connection.execute("UPDATE domains SET compact_revision = revision WHERE id = %s", (tenant.domain,))
    assert (await page_of(store, tenant, limit=4, at=first.revision, after=after)).rows == second.rows
    await store.commit(tenant, create("ns/7", resource=GADGETS))
    async with store._pool.connection() as connection:
        await connection.execute("UPDATE domains SET compact_revision = revision WHERE id = %s", (tenant.domain,))
    with pytest.raises(RevisionExpired):
        await page_of(store, tenant, limit=4, at=first.revision, after=after)
    assert reads.since() == 0


async def test_other_reads_are_from_postgresql(store: Store, tenant: Tenant, reads: Reads, keeps_all: None) -> None:
    await store.commit(tenant, create("ns/a"))
    for _ in range(3):
        await list_all(store, tenant)
    reads.since()
    await store.page(tenant, WIDGETS)
    await store.page(tenant, WIDGETS, limit=4)
    await list_all(store, tenant, replace(ALL, from_memory=False))
    assert reads.since() == 3


async def test_a_deleted_tenant_has_no_list(store: Store, keeps_all: None) -> None:
    tenant = await store.create_tenant(TenantName("short-lived"))
    await store.commit(tenant, create("ns/a"))
    for _ in range(3):
        await list_all(store, tenant)
    await delete_tenant(store, tenant)
    with pytest.raises(TenantNotFound):
        await list_all(store, tenant)


async def test_after_a_hole_in_the_log_it_is_read_again(
    store: Store, tenant: Tenant, reads: Reads, keeps_all: None
) -> None:
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(3)])
    for _ in range(3):
        await list_all(store, tenant)
    reads.since()
    await store._feed._start_again([store._feed._domains[tenant.domain]])
    for expected in (1, 0):
        assert len(states(await list_all(store, tenant))) == 3
        assert reads.since() == expected
    store._forget()  # as when PostgreSQL is on a new timeline
    assert not store._watch_cache._collections
    await eventually(lambda: _is_readable(store, tenant))
    assert reads.since() > 0


async def _is_readable(store: Store, tenant: Tenant) -> bool:
    return len(states(await list_all(store, tenant))) == 3


@has_own_store
async def test_what_is_not_read_is_dropped(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, keeps_all: None
) -> None:
    monkeypatch.setattr(watch_cache, "KEPT_SECONDS", 0.2)
    await store.commit(tenant, create("ns/a"))
    for _ in range(3):
        await list_all(store, tenant)
    cache = store._watch_cache
    assert cache._parts.weight
    assert store._feed._domains[tenant.domain].subscriptions

    async def is_dropped() -> bool:
        return not cache._collections and not cache._parts.weight and cache._sweep is None

    await eventually(is_dropped)
    assert not store._feed._domains[tenant.domain].subscriptions


@has_own_store
async def test_bounds(store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, keeps_all: None) -> None:
    monkeypatch.setattr(watch_cache, "COLLECTIONS", 2)
    monkeypatch.setattr(watch_cache, "_LIMITS", 2)
    monkeypatch.setattr(watch_cache, "_PARTS", 3)
    cache = store._watch_cache = WatchCache(store._pages, store._reader, store._feed)
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(20)])
    resources = [WIDGETS, GADGETS, ResourceName("a"), ResourceName("b")]
    for resource in resources:
        for _ in range(2):
            await list_all(store, tenant, replace(ALL, resource=resource))
    assert [resource for _, resource in cache._collections] == resources[2:]
    for _ in range(2):
        for limit in (1, 2, 3):
            after = None
            for _ in range(5):
                page = await page_of(store, tenant, limit=limit, after=after)
                after = page.rows[-1].key
    starts = cache._collections[tenant.id, WIDGETS]._starts["*"]
    assert len(starts) == 2
    assert all(len(some) <= 3 for some in starts.values())
    assert len(cache._parts) <= 8


@has_own_store
async def test_a_list_that_does_not_fit_leaves_room_for_others(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, keeps_all: None
) -> None:
    monkeypatch.setattr(watch_cache, "CAPACITY_BYTES", 40_000)
    cache = store._watch_cache = WatchCache(store._pages, store._reader, store._feed)
    short = [create(f"ns/{i}", resource=GADGETS) for i in range(8)]
    await commit_all(store, tenant, [*short, *(create(f"ns/{i:03}") for i in range(200))])
    reads = Reads(store, monkeypatch)
    for _ in range(3):
        await list_all(store, tenant, replace(ALL, resource=GADGETS))
        await list_all(store, tenant)
    assert cache._parts.weight <= 40_000
    reads.since()
    await list_all(store, tenant, replace(ALL, resource=GADGETS))
    assert reads.since() == 0
    assert len(states(await list_all(store, tenant))) == 200
    assert 0 < reads.since() < 15


async def test_a_part_that_has_grown_is_read_again(store: Store, tenant: Tenant, reads: Reads, keeps_all: None) -> None:
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(3)])
    for _ in range(3):
        await list_all(store, tenant)
    reads.since()
    await store.commit(tenant, update("ns/1", body='"spec":"' + "x" * 10_000 + '"}'))
    await list_all(store, tenant)
    assert reads.since() == 0
    await store.commit(tenant, update("ns/2", body='"spec":"' + "x" * 10_000 + '"}'))
    await list_all(store, tenant)
    assert reads.since() == 1


async def test_a_change_does_not_reach_a_list_that_has_begun(store: Store, tenant: Tenant, keeps_all: None) -> None:
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(3)])
    for _ in range(2):
        await list_all(store, tenant)
    before = await list_all(store, tenant)
    revisions = [row.revision for page in before for row in page.rows]
    await commit_all(store, tenant, [update("ns/1"), delete("ns/2")])
    assert [row.revision for page in before for row in page.rows] == revisions
    assert [key for key, *_ in states(await list_all(store, tenant))] == ["ns/0", "ns/1"]


@has_own_store
async def test_lists_of_few_namespaces_are_kept(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, keeps_all: None
) -> None:
    monkeypatch.setattr(watch_cache, "_NAMESPACES", 3)
    cache = store._watch_cache
    await commit_all(store, tenant, [create(f"n{i}/a") for i in range(5)])
    for _ in range(2):
        for number in range(5):
            await list_all(store, tenant, replace(ALL, namespace=f"n{number}"))
    starts = cache._collections[tenant.id, WIDGETS]._starts
    assert list(starts) == ["n0", "n1", "n2"]
    cache._parts.pop((tenant.id, WIDGETS, "n1", -4, ""))
    await list_all(store, tenant, replace(ALL, namespace="n4"))
    assert list(starts) == ["n0", "n2", "n4"]
