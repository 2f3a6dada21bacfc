"""Pages of a list: order, boundaries, and one revision for all pages in spite of concurrent writes."""

from __future__ import annotations

import asyncio
import random

import pytest

from registry.store.errors import RevisionExpired, RevisionInFuture, TenantNotFound
from registry.store.reads import pages
from registry.store.store import Store
from registry.store.types import ObjectKey, Page, Tenant, TenantName
from tests.store.shared import shares_store
from tests.store.writes import GADGETS, WIDGETS, commit_all, create, delete, delete_tenant, keys, update

pytestmark = shares_store


async def test_rows_come_in_the_order_of_their_bytes(store: Store, tenant: Tenant) -> None:
    names = ["a/b", "a-b/c", "a/a", "a.b/x", "A/z", "ä/a", "b/a", "a/b-c", "a/b.c", "a/B"]
    await commit_all(store, tenant, [create(name) for name in names])
    assert await keys(store, tenant) == sorted(names, key=lambda name: name.encode())


@pytest.mark.parametrize("prefix", ["team", "team-a", "team.a", "tea", ""])
async def test_a_namespace_does_not_match_its_prefixes(store: Store, tenant: Tenant, prefix: str) -> None:
    namespaces = ["tea", "team", "team-a", "team.a", "team0", "teams", "u"]
    await commit_all(store, tenant, [create(f"{n}/{i}") for n in namespaces for i in range(2)])
    expected = [f"{prefix}/0", f"{prefix}/1"] if prefix else []
    assert await keys(store, tenant, namespace=prefix) == expected


async def test_an_empty_list_has_the_revision_of_the_tenant(store: Store, tenant: Tenant) -> None:
    await store.commit(tenant, create("ns/a", resource=GADGETS))
    page = await store.page(tenant, WIDGETS)
    assert (list(page.rows), page.revision, page.more, page.remaining) == ([], 1, False, None)
    assert page.state.revision == 1


async def test_pages_follow_each_other_and_count_what_remains(store: Store, tenant: Tenant) -> None:
    await commit_all(store, tenant, [create(f"ns/{i:02}") for i in range(10)])
    first = await store.page(tenant, WIDGETS, limit=4)
    second = await store.page(tenant, WIDGETS, limit=4, at=first.revision, after=first.rows[-1].key)
    third = await store.page(tenant, WIDGETS, limit=4, at=first.revision, after=second.rows[-1].key)
    assert [[row.key for row in p.rows] for p in (first, second, third)] == [
        [f"ns/{i:02}" for i in chosen] for chosen in (range(4), range(4, 8), range(8, 10))
    ]
    assert [(p.more, p.remaining) for p in (first, second, third)] == [(True, 6), (True, 2), (False, None)]


async def test_what_remains_after_the_same_page_is_counted_again_when_something_has_changed(
    store: Store, tenant: Tenant
) -> None:
    await commit_all(store, tenant, [create(f"ns/{i:02}") for i in range(10)])
    found = [(await store.page(tenant, WIDGETS, limit=4)).remaining for _ in range(2)]
    await commit_all(store, tenant, [delete("ns/09")])
    found.append((await store.page(tenant, WIDGETS, limit=4)).remaining)
    assert found == [6, 6, 5]


async def test_a_page_that_ends_exactly_has_no_more(store: Store, tenant: Tenant) -> None:
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(4)])
    page = await store.page(tenant, WIDGETS, limit=4)
    assert (len(page.rows), page.more) == (4, False)


async def test_what_remains_is_counted_at_the_revision_by_another_process_too(
    store: Store, other_store: Store, tenant: Tenant
) -> None:
    await commit_all(store, tenant, [create(f"ns/{i:02}") for i in range(10)])
    first = await store.page(tenant, WIDGETS, limit=2)
    later = [delete("ns/09"), delete("ns/00"), create("ns/10"), create("ns/11"), update("ns/08")]
    await commit_all(store, tenant, later)
    second = await other_store.page(tenant, WIDGETS, limit=2, at=first.revision, after=first.rows[-1].key)
    assert second.remaining == 6


async def test_one_object_by_its_key(store: Store, tenant: Tenant) -> None:
    await commit_all(store, tenant, [create("ns/a"), create("ns/b"), create("other/a")])
    page = await store.page(tenant, WIDGETS, key=ObjectKey("ns/a"))
    assert [row.key for row in page.rows] == ["ns/a"]
    assert not (await store.page(tenant, WIDGETS, key=ObjectKey("ns/none"))).rows
    assert not (await store.page(tenant, WIDGETS, key=ObjectKey("ns/\x00"))).rows


@pytest.mark.parametrize("near", [pages.NEAR, -1], ids=["by-revision", "by-key"])
async def test_a_revision_in_the_past_is_shown_as_it_was(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, near: int
) -> None:
    """Compares every past revision with a list that was read at that time."""
    monkeypatch.setattr(pages, "NEAR", near)
    dice = random.Random(7)
    known: list[list[tuple[str, int, str]]] = [[]]
    there: set[str] = set()
    for number in range(120):
        name = f"ns/{dice.randrange(12):02}"
        if name not in there:
            await store.commit(tenant, create(name, body=f'"n":{number}}}'))
            there.add(name)
        elif dice.random() < 0.3:
            await store.commit(tenant, delete(name))
            there.remove(name)
        else:
            await store.commit(tenant, update(name, body=f'"n":{number}}}'))
        known.append(_rows_of(await store.page(tenant, WIDGETS)))
    for revision, expected in enumerate(known):
        assert _rows_of(await store.page(tenant, WIDGETS, at=revision)) == expected
        assert await _paged(store, tenant, revision, dice.randrange(1, 5)) == expected


async def test_pages_are_exact_while_others_write(store: Store, other_store: Store, tenant: Tenant) -> None:
    """A hundred objects whose numbers are raised in turn: at any revision no two differ by more than one."""
    names = [f"ns/{i:03}" for i in range(100)]
    await commit_all(store, tenant, [create(name, body="0") for name in names])
    stop = asyncio.Event()

    async def write() -> None:
        round_ = 0
        while not stop.is_set():
            round_ += 1
            for name in names:
                await other_store.commit(tenant, update(name, body=str(round_)))

    writer = asyncio.create_task(write())
    try:
        for size in (3, 7, 40):
            first = await store.page(tenant, WIDGETS, limit=size)
            rows = list(first.rows)
            while first.more:
                first = await store.page(tenant, WIDGETS, limit=size, at=first.revision, after=rows[-1].key)
                rows.extend(first.rows)
            assert [row.key for row in rows] == names
            assert all(row.revision <= first.revision for row in rows)
            numbers = [int(row.body) for row in rows]
            assert numbers == sorted(numbers, reverse=True)
            assert numbers[0] - numbers[-1] <= 1
    finally:
        stop.set()
        await writer


async def test_a_scan_gives_all_in_chunks_at_one_revision(store: Store, tenant: Tenant) -> None:
    await commit_all(store, tenant, [create(f"ns/{i:02}") for i in range(35)])
    chunks: list[Page] = []
    async for chunk in store.scan(tenant, WIDGETS, rows=10):
        chunks.append(chunk)
        await commit_all(store, tenant, [update("ns/34"), create(f"ns/{90 + len(chunks)}")])
    assert {chunk.revision for chunk in chunks} == {35}
    assert [row.key for chunk in chunks for row in chunk.rows] == [f"ns/{i:02}" for i in range(35)]
    assert all(row.revision <= 35 for chunk in chunks for row in chunk.rows)


async def test_an_abandoned_scan_leaves_nothing_behind(store: Store, tenant: Tenant) -> None:
    await commit_all(store, tenant, [create(f"ns/{i:02}") for i in range(30)])
    for _ in range(10):
        scan = store.scan(tenant, WIDGETS, rows=2)
        assert len((await anext(scan)).rows) == 2
        await scan.aclose()
    assert len((await store.page(tenant, WIDGETS)).rows) == 30


async def test_a_page_of_enormous_objects_ends_early(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MAX_PAGE_BYTES", 3_000)
    bodies = [random.Random(i).randbytes(500).hex() for i in range(10)]
    await commit_all(store, tenant, [create(f"ns/{i}", body=body) for i, body in enumerate(bodies)])
    page = await store.page(tenant, WIDGETS, limit=10)
    assert 1 <= len(page.rows) < 10
    assert page.more
    assert [row.body for row in (await store.page(tenant, WIDGETS)).rows] == bodies


async def test_a_future_revision_is_refused(store: Store, tenant: Tenant) -> None:
    await store.commit(tenant, create("ns/a"))
    with pytest.raises(RevisionInFuture) as caught:
        await store.page(tenant, WIDGETS, at=2)
    assert (caught.value.revision, caught.value.current) == (2, 1)


async def test_a_revision_below_the_compact_revision_is_expired(
    store: Store, tenant: Tenant, database_url: str
) -> None:
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(5)])
    async with store._pool.connection() as connection:
        await connection.execute("UPDATE domains SET compact_revision = 3")
    with pytest.raises(RevisionExpired) as caught:
        await store.page(tenant, WIDGETS, at=2)
    assert (caught.value.revision, caught.value.compact_revision, caught.value.current) == (2, 3, 5)
    assert len((await store.page(tenant, WIDGETS, at=3)).rows) == 3


async def test_a_list_of_an_unknown_tenant(store: Store, tenant: Tenant) -> None:
    neighbour = await store.create_tenant(TenantName("neighbour"))
    await delete_tenant(store, neighbour)
    with pytest.raises(TenantNotFound):
        await store.page(neighbour, WIDGETS)


def _rows_of(page: Page) -> list[tuple[str, int, str]]:
    return [(row.key, row.revision, row.body) for row in page.rows]


async def _paged(store: Store, tenant: Tenant, at: int, limit: int) -> list[tuple[str, int, str]]:
    page = await store.page(tenant, WIDGETS, at=at, limit=limit)
    seen = _rows_of(page)
    while page.more:
        page = await store.page(tenant, WIDGETS, at=at, limit=limit, after=page.rows[-1].key)
        seen += _rows_of(page)
    return seen
