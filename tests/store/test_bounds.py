"""One read is bounded by the uncompressed size of bodies, since large bodies may compress to very little."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from registry.store import bounds, change_log, watch_cache
from registry.store.bounds import CHUNK_ROWS
from registry.store.errors import TooManyBytes
from registry.store.reads import pages
from registry.store.reads.points import PointReader
from registry.store.reporting.documents import stale_documents
from registry.store.store import Store
from registry.store.types import ObjectKey, Requirement, SelectorOperator, Tenant, TenantName, Uid, WriteFlag
from tests.store.shared import has_own_store, shares_store
from tests.store.writes import GADGETS, WIDGETS, commit_all, create, delete, delete_tenant, update

pytestmark = shares_store

COUNT = 9
BODY = '"spec":{"text":"' + "a" * 1_500_000 + '"}}'
# Two of these bodies fit into one read.
READ = bounds.READ_BYTES
KEYS = [f"ns/{i}" for i in range(COUNT)]


@pytest_asyncio.fixture(loop_scope="module")
async def filled(store: Store, tenant: Tenant) -> Tenant:
    await commit_all(store, tenant, [create(key, body=BODY, labels=("a=b",), owners=("owner",)) for key in KEYS])
    return tenant


Part = tuple[Sequence[str], int]
"""Keys and bytes."""


async def _pages(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    at, after = None, None
    while True:
        page = await store.page(tenant, WIDGETS, limit=500, at=at, after=after)
        yield [row.key for row in page.rows], page.size
        if not page.more:
            return
        at, after = page.revision, page.rows[-1].key


async def test_batches_of_reads_are_bounded(store: Store, filled: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len((await store.page(filled, WIDGETS)).rows) == COUNT
    monkeypatch.setattr(watch_cache, "GATHERED_BYTES", READ)
    with pytest.raises(TooManyBytes):
        await store.page(filled, WIDGETS)


async def _selected(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    after = None
    while True:
        page = await store.page(
            tenant, WIDGETS, limit=500, after=after, requirements=[Requirement("a", SelectorOperator.IN, ("b",))]
        )
        yield [row.key for row in page.rows], page.size
        if not page.more:
            return
        after = page.rows[-1].key


async def _scan(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    async for page in store.scan(tenant, WIDGETS, rows=CHUNK_ROWS):
        yield [row.key for row in page.rows], page.size


async def _past(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    """As the objects were before they were made small."""
    at = (await store.state(tenant)).revision
    await commit_all(store, tenant, [update(key, body='"spec":{}}') for key in KEYS])
    async for page in store.scan(tenant, WIDGETS, at=at):
        yield [row.key for row in page.rows], page.size


async def _across(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    page = await store.wildcard.page(tenant.domain, None, WIDGETS, limit=500)
    while True:
        yield [one.row.key for one in page.rows], sum(len(one.row.body) for one in page.rows)
        if not page.more:
            return
        page = await store.wildcard.page(tenant.domain, None, WIDGETS, limit=500, after=page.rows[-1].place)


async def _history(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    for key in KEYS[1:]:
        await store.commit(tenant, delete(key))
    for i in range(COUNT - 1):
        await store.commit(tenant, update(KEYS[0], body=BODY.replace("aa", f"{i}a", 1)))
    before = 1 << 62
    while True:
        past = await store.history.of_object(tenant, WIDGETS, ObjectKey(KEYS[0]), before=before, limit=100)
        yield [KEYS[len(KEYS) - 1]] * len(past.changes), _bytes(past.changes)
        if not past.more:
            return
        before = past.changes[-1].revision


async def _deleted(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    await commit_all(store, tenant, [delete(key) for key in KEYS])
    after = ObjectKey("")
    while True:
        past = await store.history.list_deleted(tenant, WIDGETS, namespace=None, after=after, limit=100)
        yield [change.key for change in past.changes], _bytes(past.changes)
        if not past.more:
            return
        after = past.changes[-1].key


async def _owned(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    after = None
    while rows := await store.lookups.owned_by(tenant, [Uid("owner")], after=after):
        yield [row.key for row in rows], sum(len(row.body) for row in rows)
        after = rows[-1]


async def _outdated(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    after = ObjectKey("")
    while rows := await store.rewrites.outdated_rows(
        tenant, WIDGETS, version="v2", schema=None, after=after, limit=500
    ):
        yield [row.key for row in rows], sum(len(row.body) for row in rows)
        after = rows[-1].key


async def _owed(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    await commit_all(store, tenant, [delete(key) for key in KEYS])
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
    async for part, _ in store.heartbeats().missed_changes(since, tenant.domain):
        gone = [owed for owed in part if owed.tenant.id == tenant.id and owed.last_body is not None]
        yield [owed.key for owed in gone], sum(len(owed.last_body or "") for owed in gone)


async def _rows_of(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    await commit_all(store, tenant, [create("ns/x", resource=GADGETS)])
    async for part in store.lookups.rows_of(tenant, [WIDGETS, GADGETS], newer=0):
        yield [key for resource, key, *_ in part if resource == WIDGETS], sum(len(row[3] or "") for row in part)


async def _documents(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    after = ""
    while rows := await stale_documents(store.reporting_pool, tenant, WIDGETS, "a-layout", after, 200):
        yield [row[0] for row in rows], sum(len(row[2]) for row in rows)
        after = rows[-1][0]


async def _log(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    revision = (await store.state(tenant)).revision
    async for part in store.changes(tenant, WIDGETS, after=0, upto=revision):
        yield [change.key for change in part], _bytes(part)


async def _watched_late(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    watch = await store.subscribe(tenant, WIDGETS, 0)
    found = 0
    while found < COUNT:
        batch = await watch.next_batch(60)
        found += len(batch.changes)
        yield [change.key for change in batch.changes], _bytes(batch.changes)


async def _watched_live(store: Store, tenant: Tenant) -> AsyncIterator[Part]:
    """The reader comes when all has been read from the log: out of its queue, or out of memory."""
    watch = await store.subscribe(tenant, GADGETS)
    await watch.next_batch(0)
    await commit_all(store, tenant, [create(key, resource=GADGETS, body=BODY) for key in KEYS])
    witness = await store.subscribe(tenant, GADGETS)
    while (await witness.next_batch(0.1)).revision < 2 * COUNT:
        pass
    found = 0
    while found < COUNT:
        batch = await watch.next_batch(60)
        found += len(batch.changes)
        yield [change.key for change in batch.changes], _bytes(batch.changes)


def _bytes(changes: Sequence[Any]) -> int:
    """Of a deletion `body` is the text that `previous_body` is."""
    return sum(len(c.body) + len(c.previous_body or "") - (len(c.body) if c.type == "DELETED" else 0) for c in changes)


Read = Callable[[Store, Tenant], AsyncIterator[Part]]


@pytest.mark.parametrize("read", [
    _pages, _selected, _scan, _past, _across, _history, _deleted, _owned, _outdated, _owed, _rows_of, _documents, _log,
    _watched_late, _watched_live,
], ids=lambda read: read.__name__.strip("_"))  # fmt: skip
async def test_large_bodies_come_few_at_a_time(store: Store, filled: Tenant, read: Read) -> None:
    parts = [part async for part in read(store, filled)]
    assert max(size for _, size in parts) <= READ
    assert len([key for keys, _ in parts for key in keys]) == COUNT


async def test_one_body_that_is_larger_than_a_read_comes_alone(
    store: Store, filled: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MAX_PAGE_BYTES", 10)
    assert [keys async for keys, _ in _pages(store, filled)] == [[key] for key in KEYS]


async def test_point_reads_of_large_bodies_are_answered_one_after_the_other(
    store: Store, filled: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def noted(batch: Any, keys: Any, rows: Sequence[tuple[Any, ...]]) -> Any:
        sizes.append(sum(len(row[8] or "") for row in rows))
        return loaded(batch, keys, rows)

    from registry.store.reads import points as reader

    loaded = reader._loaded
    monkeypatch.setattr(reader, "_loaded", noted)
    gone = await store.create_tenant(TenantName("gone"))
    await delete_tenant(store, gone)
    loads: list[Awaitable[Any]] = [store.load(filled, WIDGETS, ObjectKey(key)) for key in [*KEYS, "ns/none"]]
    found: list[Any] = await asyncio.gather(
        *loads, store.load(gone, WIDGETS, ObjectKey("ns/1")), return_exceptions=True
    )
    assert [row.key for row, _ in found[:COUNT]] == KEYS
    assert found[COUNT][0] is None
    assert type(found[-1]).__name__ == "TenantNotFound"
    assert 0 < max(sizes) <= READ
    assert isinstance(store._reader, PointReader)


async def test_nobody_waits_for_the_large_objects_of_another_tenant(store: Store, tenant: Tenant) -> None:
    large = await store.create_tenant(TenantName("large"))
    keys = [f"ns/{i}" for i in range(30)]
    for key in keys:
        await commit_all(store, large, [create(key, body=BODY)])
    await commit_all(store, tenant, [create("ns/small")])
    ended: list[str] = []

    async def load(of: Tenant, key: str) -> None:
        row, _ = await store.load(of, WIDGETS, ObjectKey(key))
        assert row is not None
        ended.append(key)

    await load(large, keys[0])  # from now on this tenant's reads are taken for large
    async with asyncio.TaskGroup() as tasks:
        for some in (keys[1:15], keys[15:]):  # one after the other, so that each could have a connection
            for key in some:
                tasks.create_task(load(large, key))
            await asyncio.sleep(0.001)
        await load(tenant, "ns/small")
        before = len(ended)
    assert before < 10
    assert len(ended) == 1 + len(keys)


async def test_nobody_waits_for_the_large_writes_of_another_tenant(store: Store) -> None:
    large = await store.create_tenant(TenantName("writes-large"))
    # One for each connection.
    neighbours = [await store.create_tenant(TenantName(f"writes-small-{i}")) for i in range(2)]
    assert neighbours[0].domain % 2 != neighbours[1].domain % 2
    labels = tuple(f"l{i}=x" for i in range(60_000))
    ended: list[str] = []

    async def write(of: Tenant, key: str, **more: Any) -> None:
        await store.commit(of, create(key, **more))
        ended.append(of.name)

    async with asyncio.TaskGroup() as tasks:
        for i in range(6):  # three in a batch
            tasks.create_task(write(large, f"ns/{i}", body=BODY, labels=labels))
        await asyncio.sleep(0.05)  # they are under way
        for each in neighbours:
            await write(each, "ns/small")
        before = ended.count(large.name)
    assert before < 2
    assert len(ended) == 8


async def test_no_tenant_keeps_the_changes_of_another_from_being_read(
    store: Store, filled: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read of the log for several domains is bounded as a whole, and those that got nothing come next."""
    monkeypatch.setattr(change_log, "MAX_BYTES", 1_000)
    others = [await store.create_tenant(TenantName(f"other-{i}")) for i in range(5)]
    watches = [await store.subscribe(tenant, WIDGETS) for tenant in (filled, *others)]
    await asyncio.gather(
        *(
            commit_all(store, tenant, [create(f"ns/{tenant.name}-{i}", body=BODY) for i in range(2)])
            for tenant in (filled, *others)
        )
    )
    for watch, tenant in zip(watches, (filled, *others), strict=True):
        seen: list[str] = []
        while len(seen) < 2:
            seen += [change.key for change in (await watch.next_batch(60)).changes]
        assert seen == [f"ns/{tenant.name}-{i}" for i in range(2)]


async def test_places_report_sizes_and_possibly_terminating_objects(
    store: Store, tenant: Tenant, database_url: str
) -> None:
    """The flag of the last write says it; of rows that are older than the flag, and of past states, it is not known."""
    writes = [
        create("ns/a"),
        create("ns/b", flags=WriteFlag.TERMINATING),
        create("ns/c"),
        create("ns/d", body='"x":1}'),
    ]
    written = await commit_all(store, tenant, writes)
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE objects SET terminating = NULL WHERE key = 'ns/c'")

    async def places(at: int | None = None) -> list[tuple[str, int, bool]]:
        return [
            (p.key, p.size, p.may_be_terminating)
            async for part in store.places(tenant, WIDGETS, at=at)
            for p in part.places
        ]

    before = [("ns/a", 10, False), ("ns/b", 10, True), ("ns/c", 10, True), ("ns/d", 6, False)]
    assert await places() == before
    await commit_all(store, tenant, [update("ns/a", body='"n":1}'), update("ns/b", body='"n":1}')])
    assert await places() == [("ns/a", 6, False), ("ns/b", 6, False), *before[2:]]
    then = max(one.revision for one in written)
    assert await places(then) == [("ns/a", 10, True), ("ns/b", 10, True), *before[2:]]


@has_own_store
@pytest.mark.parametrize(
    "flag, found",
    [pytest.param(True, True, id="to-be-followed-up"), pytest.param(False, False, id="not"),
     pytest.param(None, True, id="of-an-older-server")],
)  # fmt: skip
async def test_work_of_a_crashed_process_is_found_by_its_flag(
    store: Store, tenant: Tenant, database_url: str, flag: bool | None, found: bool
) -> None:
    """Whatever a body says; that of a deleted object comes along."""
    await commit_all(store, tenant, [create("ns/a", body='"ownerReferences":[{}]}')])
    await store.commit(tenant, delete("ns/a"))
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE changes SET follow_up = %s", (flag,))
    since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=1)
    missed = [change async for part, _ in store.heartbeats().missed_changes(since, tenant.domain) for change in part]
    bodies = [None, '"ownerReferences":[{}]}']
    assert [change.last_body for change in missed] == (bodies if found else [])


async def test_places_are_those_of_one_revision(store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    from registry.store import store as stores

    monkeypatch.setattr(stores, "PLACES", 2)
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(5)])
    seen = []
    async for part in store.places(tenant, WIDGETS):
        seen += [place.key for place in part.places]
        if len(seen) == 2:
            await commit_all(store, tenant, [delete("ns/3"), create("ns/6")])
    assert seen == [f"ns/{i}" for i in range(5)]
