"""Subscriptions deliver every change after a revision once and in order, whatever happens to connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from registry.flowcontrol import rounds
from registry.store import change_log
from registry.store.errors import RevisionExpired, TenantNotFound, Unavailable
from registry.store.feed import feed, signals, subscription
from registry.store.feed.subscription import Subscription
from registry.store.store import Store
from registry.store.types import ChangeType, DomainId, ResourceName, Tenant, TenantName
from registry.tasks import running
from tests.databases import open_store
from tests.http.loops import on_asyncio, on_uvloop
from tests.store.writes import (
    ACTOR,
    GADGETS,
    WIDGETS,
    changes_up_to,
    commit_all,
    create,
    delete,
    delete_tenant,
    end_backends,
    eventually,
    update,
)


async def test_a_change_has_the_state_before_and_after(store: Store, tenant: Tenant) -> None:
    watch = await store.subscribe(tenant, WIDGETS, 0)
    created = create("ns/a", body='"n":1}', labels=["app=web"])
    await store.commit(tenant, created)
    await store.commit(tenant, update("ns/a", body='"n":2}', labels=["app=db"]))
    await store.commit(tenant, delete("ns/a"))
    added, modified, deleted = await changes_up_to(watch, 3)
    watch.close()
    assert (added.type, added.revision, added.key, added.uid) == (ChangeType.ADDED, 1, "ns/a", created.uid)
    assert (added.body, added.labels.by_key, added.previous_body, added.previous_revision) == (
        '"n":1}', {"app": "web"}, None, 0,
    )  # fmt: skip
    assert (modified.type, modified.revision, modified.body) == (ChangeType.MODIFIED, 2, '"n":2}')
    assert (modified.previous_revision, modified.previous_body) == (1, '"n":1}')
    assert (modified.labels.by_key, modified.previous_labels.by_key) == ({"app": "db"}, {"app": "web"})
    assert (modified.previous_version, modified.previous_schema) == ("v1", 1)
    assert (deleted.type, deleted.revision, deleted.body) == (ChangeType.DELETED, 3, '"n":2}')
    assert (deleted.labels.by_key, deleted.version, deleted.schema) == ({"app": "db"}, "v1", 2)
    assert deleted.actor == ACTOR


async def test_subscriptions_get_their_resource_and_the_progress_of_all(store: Store, tenant: Tenant) -> None:
    neighbour = await store.create_tenant(TenantName("neighbour"), tenant.domain)
    widgets = await store.subscribe(tenant, WIDGETS)
    everything = await store.subscribe(tenant)
    await store.commit(tenant, create("ns/a"))
    await store.commit(tenant, create("ns/a", resource=GADGETS))
    await store.commit(neighbour, create("ns/a"))
    await store.commit(neighbour, create("ns/b"))
    assert [c.revision for c in await changes_up_to(widgets, 4)] == [1]
    assert [c.revision for c in await changes_up_to(everything, 4)] == [1, 2]
    assert widgets.position == everything.position == 4


@pytest.mark.parametrize("after", [0, 1, 7, 10])
async def test_starts_from_any_revision_of_the_log(store: Store, tenant: Tenant, after: int) -> None:
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(10)])
    watch = await store.subscribe(tenant, WIDGETS, after)
    await store.commit(tenant, create("ns/live"))
    assert [c.revision for c in await changes_up_to(watch, 11)] == list(range(after + 1, 12))


async def test_without_a_revision_it_starts_now(store: Store, tenant: Tenant) -> None:
    await store.commit(tenant, create("ns/a"))
    watch = await store.subscribe(tenant, WIDGETS)
    assert (await watch.next_batch(0.01)).changes == ()
    await store.commit(tenant, create("ns/b"))
    assert [c.key for c in (await watch.next_batch(60)).changes] == ["ns/b"]


async def test_a_future_revision_is_waited_for(store: Store, tenant: Tenant) -> None:
    watch = await store.subscribe(tenant, WIDGETS, 3)
    assert (await watch.next_batch(0.01)).revision == 3
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(5)])
    assert [c.revision for c in await changes_up_to(watch, 5)] == [4, 5]


async def test_a_replay_in_many_small_steps_misses_nothing(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "MAX_ROWS", 3)
    monkeypatch.setattr(change_log, "REPLAY_WINDOW", 5)
    writes = [create(f"ns/{i}", resource=WIDGETS if i % 4 == 0 else GADGETS) for i in range(60)]
    await commit_all(store, tenant, writes)
    expected = [c for c in range(1, 61) if (c - 1) % 4 == 0]
    watch = await store.subscribe(tenant, WIDGETS, 0)
    assert [c.revision for c in await changes_up_to(watch, 60)] == expected
    assert [c.revision for c in await changes_up_to(await store.subscribe(tenant, None, 50), 60)] == list(range(51, 61))


async def test_a_replay_is_bounded_by_bytes_too(store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "MAX_BYTES", 10)
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(5)])
    watch = await store.subscribe(tenant, WIDGETS, 0)
    batch = await watch.next_batch(60)
    assert len(batch.changes) == 1
    assert [c.revision for c in await changes_up_to(watch, 5)] == [2, 3, 4, 5]


async def test_new_watches_are_served_from_memory(store: Store, tenant: Tenant) -> None:
    first = await store.subscribe(tenant, WIDGETS)
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(5)])
    shared = await changes_up_to(first, 5)
    for after in range(5):
        watch = await store.subscribe(tenant, WIDGETS, after)
        batch = await watch.next_batch(60)
        # The same objects: what one has encoded the others reuse.
        assert [id(c) for c in batch.changes] == [id(c) for c in shared[after:]]
        watch.close()


async def test_the_ring_is_bounded_and_the_log_takes_over(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "RING_CHANGES", 4)
    first = await store.subscribe(tenant, WIDGETS)
    for number in range(10):
        await store.commit(tenant, create(f"ns/{number}"))
        await changes_up_to(first, number + 1)
    assert len(store._feed._ages) == 4
    for after in (0, 3, 5, 6, 8):
        watch = await store.subscribe(tenant, WIDGETS, after)
        assert [c.revision for c in await changes_up_to(watch, 10)] == list(range(after + 1, 11))
        watch.close()


async def test_a_slow_reader_is_bounded_and_loses_nothing(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "MAX_QUEUED", 5)
    monkeypatch.setattr(feed, "RING_CHANGES", 20)
    slow = await store.subscribe(tenant, WIDGETS)
    fast = await store.subscribe(tenant, WIDGETS)
    assert (await slow.next_batch(0.01)).changes == ()
    for number in range(60):
        await store.commit(tenant, create(f"ns/{number:02}"))
        await changes_up_to(fast, number + 1)
        assert slow._queued <= 6
    assert not slow.live
    assert [c.revision for c in await changes_up_to(slow, 60)] == list(range(1, 61))
    await store.commit(tenant, create("ns/after"))
    assert [c.revision for c in await changes_up_to(slow, 61)] == [61]
    assert slow.live


@pytest.mark.parametrize("is_in_ring", [True, False], ids=["ring", "log"])
async def test_a_batch_that_is_given_back_is_read_again(store: Store, tenant: Tenant, is_in_ring: bool) -> None:
    watch = await store.subscribe(tenant, WIDGETS)
    other = await store.subscribe(tenant, WIDGETS)
    assert (await watch.next_batch(0.01)).changes == ()
    for number in range(1, 3):
        await store.commit(tenant, create(f"ns/{number}"))
        await changes_up_to(other, number)
    batch = await watch.next_batch(60)
    assert [change.revision for change in batch.changes] == [1, 2]
    await store.commit(tenant, create("ns/3"))
    await changes_up_to(other, 3)
    if not is_in_ring:
        watch._feed.base = 3
        watch._feed.ring.clear()
    watch.give_back(batch, 0)
    again = await watch.next_batch(60)
    assert [change.body for change in again.changes] == [change.body for change in batch.changes]
    assert again.revision == 2
    assert [change.revision for change in await changes_up_to(watch, 3)] == [3]
    await store.commit(tenant, create("ns/4"))
    assert [change.revision for change in await changes_up_to(watch, 4)] == [4]
    assert watch.live


async def test_what_is_queued_is_given_in_parts(store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = await store.subscribe(tenant, WIDGETS)
    fast = await store.subscribe(tenant, WIDGETS)
    assert (await slow.next_batch(0.01)).changes == ()
    for number in range(5):
        await store.commit(tenant, create(f"ns/{number}"))
        (change,) = await changes_up_to(fast, number + 1)
    monkeypatch.setattr(subscription, "MAX_BATCH_BYTES", 2 * change.size)
    parts = [await slow.next_batch() for _ in range(3)]
    assert [[c.revision for c in part.changes] for part in parts] == [[1, 2], [3, 4], [5]]
    assert [part.revision for part in parts] == [2, 4, 5]
    monkeypatch.setattr(subscription, "MAX_BATCH_BYTES", 1)
    for number in range(5, 7):
        await store.commit(tenant, create(f"ns/{number}"))
        await changes_up_to(fast, number + 1)
    assert [(await slow.next_batch()).revision for _ in range(2)] == [6, 7]  # at least one at a time
    assert slow.live
    assert (slow._queued, slow._queued_bytes) == (0, 0)


async def test_a_reader_that_gives_up_waiting_loses_nothing(store: Store, tenant: Tenant) -> None:
    watch = await store.subscribe(tenant, WIDGETS, 0)
    seen = []
    for number in range(20):
        waiting = asyncio.create_task(watch.next_batch())
        await asyncio.sleep(0)
        write = asyncio.create_task(store.commit(tenant, create(f"ns/{number}")))
        if number % 2:
            await write
        waiting.cancel()
        result = (await asyncio.gather(waiting, return_exceptions=True))[0]
        if not isinstance(result, BaseException):
            seen += [c.revision for c in result.changes]
        await write
    seen += [c.revision for c in await changes_up_to(watch, 20)]
    assert seen == list(range(1, 21))


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_a_reader_waits_again_just_before_its_time_is_over(run: Callable[[Any], None], database_url: str) -> None:
    """Then uvloop returns a handle that does not say when it is due. The watch ended with an AttributeError."""

    async def wait_twice(watch: Subscription) -> None:
        assert (await watch.next_batch(0.0001)).changes == ()
        assert (await watch.next_batch(0.01)).changes == ()

    async def wake_between() -> None:
        async with open_store(database_url) as store:
            tenant = await store.create_tenant(TenantName("twice"))
            watch = await store.subscribe(tenant, WIDGETS)
            await watch.next_batch(0.01)
            for _ in range(100):
                waiting = asyncio.create_task(wait_twice(watch))
                await asyncio.sleep(0)
                watch.wake()
                await waiting

    run(wake_between)


async def test_changes_of_other_processes_are_delivered(
    store: Store, other_store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a notification: what would find them too, the poll of each second, is switched off."""
    monkeypatch.setattr(feed, "POLL_SECONDS", 3600.0)
    monkeypatch.setattr(feed, "UNHEALTHY_POLL_SECONDS", 3600.0)
    watch = await other_store.subscribe(tenant, WIDGETS)
    await eventually(lambda: _healthy(other_store))
    for number in range(5):
        await store.commit(tenant, create(f"ns/{number}"))
    assert [c.revision for c in await changes_up_to(watch, 5)] == [1, 2, 3, 4, 5]


@pytest.mark.slow
async def test_a_process_alone_sends_no_notifications(
    store: Store, tenant: Tenant, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They cost more than reading the change would. Another process is heard when it begins to listen, and no longer when
    it has ended."""
    monkeypatch.setattr(signals, "REPEATED_TEST_SECONDS", 0.05)
    monkeypatch.setattr(signals, "ALONE_SECONDS", 5.0)
    sent: list[dict[DomainId, int]] = []
    notify = store._feed.notifier.notify

    def note(news: dict[DomainId, int]) -> None:
        sent.append(dict(news))
        notify(news)

    monkeypatch.setattr(store._feed.notifier, "notify", note)
    watch = await store.subscribe(tenant, WIDGETS)
    await store.commit(tenant, create("ns/1"))
    assert sent == [{tenant.domain: 1}]
    await eventually(lambda: _is_alone(store))
    await store.commit(tenant, create("ns/2"))
    assert sent == [{tenant.domain: 1}]
    monkeypatch.setattr(feed, "POLL_SECONDS", 3600.0)
    async with open_store(database_url) as other:
        other_watch = await other.subscribe(tenant, WIDGETS)
        await eventually(lambda: _healthy(other))
        await eventually(lambda: _is_alone(store, alone=False))
        await store.commit(tenant, create("ns/3"))
        assert [c.revision for c in await changes_up_to(other_watch, 3)] == [3]
    await eventually(lambda: _is_alone(store))
    await store.commit(tenant, create("ns/4"))
    assert sent == [{tenant.domain: 1}, {tenant.domain: 3}]
    assert [c.revision for c in await changes_up_to(watch, 4)] == [1, 2, 3, 4]


@pytest.mark.slow
async def test_without_notifications_the_poll_finds_them(
    store: Store, other_store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In all domains, of which one is looked at after the other here."""
    monkeypatch.setattr(store._feed.notifier, "notify", lambda news: None)
    monkeypatch.setattr(feed, "MAX_DOMAINS", 1)
    tenants = [tenant, *[await store.create_tenant(TenantName(f"also-{n}")) for n in range(2)]]
    watches = [await other_store.subscribe(one, WIDGETS) for one in tenants]
    for one in tenants:
        await store.commit(one, create("ns/1"))
    for watch in watches:
        assert [c.revision for c in await changes_up_to(watch, 1)] == [1]


@pytest.mark.slow
async def test_a_listener_that_loses_its_connection_catches_up(
    store: Store, other_store: Store, tenant: Tenant, database_url: str
) -> None:
    watch = await other_store.subscribe(tenant, WIDGETS)

    async def ended() -> bool:
        # It is healthy until it notices what was done to it before.
        return await _healthy(other_store) and await end_backends(database_url, "listener") >= 1

    for round_ in range(3):
        await eventually(ended)
        await commit_all(store, tenant, [create(f"ns/{round_}-{i}") for i in range(10)])
    await eventually(lambda: _healthy(other_store))
    assert [c.revision for c in await changes_up_to(watch, 30)] == list(range(1, 31))


@pytest.mark.slow
async def test_a_feed_continues_after_losing_its_connections(store: Store, tenant: Tenant, database_url: str) -> None:
    watch = await store.subscribe(tenant, WIDGETS)
    for round_ in range(3):
        await store.commit(tenant, create(f"ns/{round_}"))
        await end_backends(database_url, "feed")
        await end_backends(database_url, "reader")
    assert [c.revision for c in await changes_up_to(watch, 3)] == [1, 2, 3]


async def test_a_start_below_the_compact_revision_is_expired(store: Store, tenant: Tenant) -> None:
    await commit_all(store, tenant, [create(f"ns/{i}") for i in range(5)])
    async with store._pool.connection() as connection:
        await connection.execute("UPDATE domains SET compact_revision = 3")
        await connection.execute("DELETE FROM changes WHERE revision <= 3")
    with pytest.raises(RevisionExpired) as caught:
        await store.subscribe(tenant, WIDGETS, 2)
    assert (caught.value.compact_revision, caught.value.current) == (3, 5)
    assert [c.revision for c in await changes_up_to(await store.subscribe(tenant, WIDGETS, 3), 5)] == [4, 5]


async def test_a_reader_that_sleeps_through_the_compaction_gets_an_error(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "MAX_QUEUED", 1)
    monkeypatch.setattr(feed, "RING_CHANGES", 1)
    sleeper = await store.subscribe(tenant, WIDGETS)
    awake = await store.subscribe(tenant, WIDGETS)
    assert (await sleeper.next_batch(0.01)).changes == ()
    for number in range(5):
        await store.commit(tenant, create(f"ns/{number}"))
        await changes_up_to(awake, number + 1)
    async with store._pool.connection() as connection:
        await connection.execute("UPDATE domains SET compact_revision = 4")
        await connection.execute("DELETE FROM changes WHERE revision <= 4")
    with pytest.raises(RevisionExpired):
        await sleeper.next_batch(60)


@pytest.mark.slow
async def test_the_watches_of_a_deleted_tenant_end(store: Store, other_store: Store, tenant: Tenant) -> None:
    sibling = await store.create_tenant(TenantName("sibling"), tenant.domain)
    watches = [await s.subscribe(tenant, WIDGETS) for s in (store, other_store)]
    remaining = await store.subscribe(sibling, WIDGETS)
    await delete_tenant(store, tenant)
    for watch in watches:
        with pytest.raises(TenantNotFound):
            await watch.next_batch(60)
    await store.commit(sibling, create("ns/a"))
    assert len((await remaining.next_batch(60)).changes) == 1
    lonely = await store.subscribe(sibling, WIDGETS)
    await delete_tenant(store, sibling)
    with pytest.raises(TenantNotFound):
        await lonely.next_batch(60)


async def test_a_closed_subscription_gets_nothing_more(store: Store, tenant: Tenant) -> None:
    watch = await store.subscribe(tenant, WIDGETS)
    waiting = asyncio.create_task(watch.next_batch())
    await asyncio.sleep(0)
    watch.close()
    with pytest.raises(Unavailable):
        await waiting
    watch.close()
    assert all(not f.subscriptions for f in store._feed._domains.values())


async def test_an_unwatched_domain_is_dropped_after_a_while(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "UNHEALTHY_POLL_SECONDS", 0.01)
    monkeypatch.setattr(feed, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(feed, "LINGER_SECONDS", 0.05)
    (await store.subscribe(tenant, WIDGETS)).close()
    assert store._feed._domains

    async def forgotten() -> bool:
        return not store._feed._domains

    await eventually(forgotten)
    watch = await store.subscribe(tenant, WIDGETS, 0)
    await store.commit(tenant, create("ns/a"))
    assert [c.revision for c in await changes_up_to(watch, 1)] == [1]


async def test_a_closed_store_ends_its_watches(database_url: str) -> None:
    store = await Store.open(database_url, housekeeping=False)
    tenant = await store.create_tenant(TenantName("acme"))
    watch = await store.subscribe(tenant, ResourceName("any"))
    waiting = asyncio.create_task(watch.next_batch())
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(Unavailable):
        await waiting
    with pytest.raises(Unavailable):
        await store.subscribe(tenant, None, 0)


async def _is_alone(store: Store, *, alone: bool = True) -> bool:
    return store._feed.listener.is_alone is alone


async def _healthy(store: Store) -> bool:
    return store._feed.listener.healthy


async def test_a_reader_waits_until_its_own_deadline(store: Store, tenant: Tenant) -> None:
    """Whatever deadlines it had before: they share a timer."""
    watch = await store.subscribe(tenant, WIDGETS)
    loop = asyncio.get_running_loop()
    for before, seconds in ((60.0, 0.1), (0.1, 0.4), (None, 0.1)):
        waiting = asyncio.create_task(watch.next_batch(before))
        await asyncio.sleep(0)  # it waits
        await store.commit(tenant, create(f"ns/{before}"))
        assert len((await waiting).changes) == 1
        began = loop.time()
        assert (await watch.next_batch(seconds)).changes == ()
        # The loop counts whole milliseconds.
        assert seconds - 0.002 < loop.time() - began < 30
    watch.close()


async def test_few_readers_are_woken_at_a_time(store: Store, tenant: Tenant) -> None:
    """A change for two thousand watches held the event loop for a tenth of a second. Tenants take turns."""
    neighbour = await store.create_tenant(TenantName("neighbour"), tenant.domain)  # so that one commit wakes both
    watches = [await store.subscribe(tenant, WIDGETS) for _ in range(500)]
    other = await store.subscribe(neighbour, WIDGETS)
    iterations: list[int] = []
    iteration = 0

    async def count() -> None:
        nonlocal iteration
        while True:
            iteration += 1
            await asyncio.sleep(0)

    async def read(watch: subscription.Subscription) -> int:
        assert len((await watch.next_batch(60)).changes) == 1
        iterations.append(iteration)
        return iteration

    async with running(count(), "the iterations of the event loop"):
        readers = [asyncio.create_task(read(watch)) for watch in watches]
        last = asyncio.create_task(read(other))
        await asyncio.sleep(0.1)  # all of them wait
        await asyncio.gather(store.commit(tenant, create("ns/a")), store.commit(neighbour, create("ns/b")))
        await asyncio.gather(*readers)
        assert max(Counter(iterations).values()) <= 2 * rounds.WOKEN_AT_ONCE
        assert await last < max(iterations)
        # Those that wait in vain, too.
        iterations.clear()
        quiet = [asyncio.create_task(watch.next_batch(0.05)) for watch in watches]
        for task in quiet:
            task.add_done_callback(lambda _: iterations.append(iteration))
        assert {batch.changes for batch in await asyncio.gather(*quiet)} == {()}
        assert max(Counter(iterations).values()) <= 2 * rounds.WOKEN_AT_ONCE
    for watch in (*watches, other):
        watch.close()
