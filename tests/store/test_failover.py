"""Failover to a standby: replicated commits are kept, and lost revisions are never reused."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

import pytest

from registry.store.commit import recovery
from registry.store.errors import RevisionExpired, StoreError, Unavailable, Uncertain
from registry.store.feed.subscription import Subscription
from registry.store.lost import resume_after, skip_lost
from registry.store.session import CALL_LIMIT_SECONDS
from registry.store.store import Store
from registry.store.types import Committed, Tenant, TenantName
from tests.databases import open_store
from tests.processes import registry, wait_until
from tests.replication import Node, cluster, url_of
from tests.store.writes import WIDGETS, changes_up_to, create, row_of

pytestmark = pytest.mark.slow  # each makes two servers

# What has to be over before the limit of a call would end it.
PATIENCE_SECONDS = CALL_LIMIT_SECONDS - 5

Nodes = tuple[Node, Node]

# Backends that have committed and wait for a synchronous standby.
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'registry writer'"


@pytest.fixture
def asynchronous(migrated_node: Node) -> Iterator[Nodes]:
    with cluster(migrated_node) as nodes:
        yield nodes


@pytest.fixture
def synchronous(migrated_node: Node) -> Iterator[Nodes]:
    with cluster(migrated_node, synchronous=True) as nodes:
        yield nodes


async def create_soon(store: Store, tenant: Tenant, key: str, seconds: float = 60) -> Committed:
    """Creates an object, again while PostgreSQL is away."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await store.commit(tenant, create(key))
        except StoreError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


async def expires(watch: Subscription) -> None:
    """Waits until the watch ends as one whose revision is compacted; nothing comes before."""
    with pytest.raises(RevisionExpired):
        async with asyncio.timeout(30):
            await _rest_of(watch)


async def _rest_of(watch: Subscription) -> None:
    while True:
        with contextlib.suppress(Unavailable):
            assert not (await watch.next_batch(1)).changes


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is given up after three seconds, not twenty, and a look for the standby after one."""
    monkeypatch.setattr("registry.store.session.CALL_LIMIT_SECONDS", 3.0)
    monkeypatch.setattr(recovery, "REPLICATION_SECONDS", 1.0)


@pytest.mark.usefixtures("impatient")
async def test_writes_without_a_synchronous_standby_are_not_acknowledged(
    synchronous: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    """The commit is in the log of the primary, its connection is ended, and a look at the log finds it."""
    primary, standby = synchronous
    async with open_store(url_of(primary, standby)) as store:
        tenant = await store.create_tenant(TenantName("acme"))
        before = await store.commit(tenant, create("ns/before"))
        standby.freeze()
        outcomes = await asyncio.gather(
            *(store.commit(tenant, create(f"ns/{n}")) for n in range(3)), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [Uncertain] * 3
        assert "standby" in str(store.problems()["writes"]())
        assert "commits are not confirmed: " in caplog.text
        standby.freeze(frozen=False)
        primary.kill()
        standby.promote()
        after = await create_soon(store, tenant, "ns/after")
        assert after.revision > before.revision + 3
        keys = {str(row.key) for row in (await store.page(tenant, WIDGETS)).rows}
        assert {"ns/before", "ns/after"} <= keys


@pytest.mark.usefixtures("impatient")
async def test_a_cancelled_wait_for_the_standby_is_not_a_success(synchronous: Nodes) -> None:
    """PostgreSQL reports it as a success with a warning."""
    primary, standby = synchronous
    async with open_store(primary.url) as store:
        tenant = await store.create_tenant(TenantName("acme"))
        await store.commit(tenant, create("ns/before"))
        standby.freeze()
        write = asyncio.create_task(store.commit(tenant, create("ns/a")))
        await asyncio.to_thread(wait_until, lambda: bool(primary.execute(WAITING)), "the commit waits for the standby")
        [(pid,)] = primary.execute(WAITING)
        primary.execute(f"SELECT pg_cancel_backend({pid})")
        with pytest.raises(Uncertain):
            await write
        standby.freeze(frozen=False)
        assert (await create_soon(store, tenant, "ns/b")).revision == 3


async def test_writes_and_watches_continue_after_a_promotion_without_loss(synchronous: Nodes) -> None:
    primary, standby = synchronous
    async with open_store(url_of(primary, standby)) as store:
        tenant = await store.create_tenant(TenantName("acme"))
        watch = await store.subscribe(tenant, WIDGETS, 0)
        last = 0
        for number in range(20):
            last = (await store.commit(tenant, create(f"ns/{number}"))).revision
        await changes_up_to(watch, last)
        primary.kill()
        standby.promote()
        standby.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
        standby.execute("SELECT pg_reload_conf()")
        begun = time.monotonic()
        after = await create_soon(store, tenant, "ns/after")
        took = time.monotonic() - begun
        seen = await changes_up_to(watch, after.revision)
        assert [change.key for change in seen] == ["ns/after"]
        page = await store.page(tenant, WIDGETS, at=last)
        assert len(page.rows) == 20
        assert took < PATIENCE_SECONDS  # two seconds on a machine that has nothing else to do


async def test_a_hanging_primary_blocks_nothing_after_a_promotion(synchronous: Nodes) -> None:
    """Its connections stay open: they are ended when the new timeline is noticed, not after the limit of a call."""
    primary, standby = synchronous
    async with open_store(url_of(primary, standby)) as store:
        tenant = await store.create_tenant(TenantName("acme"))
        await store.commit(tenant, create("ns/a"))
        primary.freeze()
        write = asyncio.create_task(create_soon(store, tenant, "ns/b"))
        await asyncio.to_thread(standby.promote)
        standby.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
        standby.execute("SELECT pg_reload_conf()")
        begun = time.monotonic()
        await write
        took = time.monotonic() - begun
        assert {str(row.key) for row in (await store.page(tenant, WIDGETS)).rows} == {"ns/a", "ns/b"}
        assert took < PATIENCE_SECONDS
        primary.kill()


async def test_lost_revisions_are_never_reused(asynchronous: Nodes) -> None:
    """Thirty creates are lost: watches, pages and later watches from them get 410 (etcd: compacted)."""
    primary, standby = asynchronous
    async with open_store(url_of(primary, standby)) as one, open_store(url_of(primary, standby)) as two:
        tenant = await one.create_tenant(TenantName("acme"))
        kept = (await one.commit(tenant, create("ns/kept"))).revision
        standby.reaches(primary)
        early = await two.subscribe(tenant, WIDGETS, 0)
        await changes_up_to(early, kept)
        standby.leave(primary)
        seen = await two.subscribe(tenant, WIDGETS, kept)
        lost = [(await one.commit(tenant, create(f"ns/lost-{n}"))).revision for n in range(30)]
        await changes_up_to(seen, lost[-1])
        primary.kill()
        standby.promote()
        await expires(seen)
        again = await create_soon(two, tenant, "ns/new")
        assert again.revision > lost[-1]
        # Who has seen nothing that was lost has missed nothing.
        assert [change.key for change in await changes_up_to(early, again.revision)] == ["ns/new"]
        for store in (one, two):
            for revision in (lost[0], lost[-1], again.revision - 2):
                with pytest.raises(RevisionExpired):
                    await store.page(tenant, WIDGETS, at=revision)
                with pytest.raises(RevisionExpired):
                    await (await store.subscribe(tenant, WIDGETS, revision)).next_batch(60)
            late = await store.subscribe(tenant, WIDGETS, kept)
            assert [change.key for change in await changes_up_to(late, again.revision)] == ["ns/new"]
            assert [row.key for row in (await store.page(tenant, WIDGETS, at=kept)).rows] == ["ns/kept"]
            assert await row_of(store, tenant, "ns/lost-0") is None


async def test_an_old_primary_that_comes_back_is_refused(asynchronous: Nodes) -> None:
    primary, standby = asynchronous
    async with open_store(url_of(primary, standby)) as store:
        tenant = await store.create_tenant(TenantName("acme"))
        await store.commit(tenant, create("ns/a"))
        standby.reaches(primary)
        primary.kill()
        standby.promote()
        await create_soon(store, tenant, "ns/b")
        standby.kill()
        primary.start()
        with pytest.raises(Unavailable):
            await store.commit(tenant, create("ns/c"))
        with pytest.raises(Unavailable):
            await store.page(tenant, WIDGETS)
        with pytest.raises(Unavailable):
            await store.load(tenant, WIDGETS, create("ns/a").key)
        assert primary.execute("SELECT count(*) FROM objects WHERE key = 'ns/c'") == [(0,)]
        primary.kill()
        standby.start()
        await create_soon(store, tenant, "ns/d")


async def test_the_tenants_of_a_lost_server_share_no_number_with_new_ones(asynchronous: Nodes) -> None:
    primary, standby = asynchronous
    async with open_store(url_of(primary, standby)) as store:
        home = await store.create_tenant(TenantName("acme"))
        standby.reaches(primary)
        standby.leave(primary)
        lost = await store.create_tenant(TenantName("lost"))
        primary.kill()
        standby.promote()
        await create_soon(store, home, "ns/a")
        assert await store.lookups.count(home, WIDGETS) == 1
        assert (await store.create_tenant(TenantName("new"))).id > lost.id


async def test_a_restored_copy_that_looks_like_its_original_is_recovered_by_hand(database_url: str) -> None:
    """`registry recover` does what a new timeline does; a process that was connected goes on."""
    async with open_store(database_url) as store:
        tenant = await store.create_tenant(TenantName("acme"))
        last = (await store.commit(tenant, create("ns/a"))).revision
        watch = await store.subscribe(tenant, WIDGETS, last)
        done = await asyncio.to_thread(registry, "recover", "--database-url", database_url)
        assert done.returncode == 0, done.stderr
        assert "raised" in done.stdout
        after = await store.commit(tenant, create("ns/b"))
        assert after.revision > last + 1_000_000
        assert [change.key for change in await changes_up_to(watch, after.revision)] == ["ns/b"]
        with pytest.raises(RevisionExpired):
            await store.page(tenant, WIDGETS, at=last + 5)
        assert [row.key for row in (await store.page(tenant, WIDGETS, at=last)).rows] == ["ns/a"]


@pytest.mark.parametrize(
    ("revision", "expected"),
    [
        pytest.param(7, 7, id="before"),
        pytest.param(10, 30, id="the-last-that-counts"),
        pytest.param(11, None, id="the-first-that-is-lost"),
        pytest.param(29, None, id="the-last-that-is-lost"),
        pytest.param(40, 70, id="across-two-in-a-row"),
        pytest.param(50, 70, id="at-the-end-of-one-and-the-start-of-the-next"),
        pytest.param(71, 71, id="after"),
    ],
)
def test_where_to_resume_from_a_revision(revision: int, expected: int | None) -> None:
    assert resume_after(revision, [10, 30, 40, 50, 50, 70]) == expected


@pytest.mark.parametrize(
    ("after", "upto", "expected"),
    [
        pytest.param(1, 9, 9, id="short-of-it"),
        pytest.param(1, 10, 30, id="up-to-it"),
        pytest.param(1, 15, 30, id="into-it"),
        pytest.param(1, 35, 35, id="beyond-it"),
        pytest.param(10, 20, 30, id="from-its-edge"),
        pytest.param(30, 40, 70, id="across-two-in-a-row"),
    ],
)
def test_how_far_an_empty_log_leads(after: int, upto: int, expected: int) -> None:
    assert skip_lost(after, upto, [10, 30, 40, 50, 50, 70]) == expected
