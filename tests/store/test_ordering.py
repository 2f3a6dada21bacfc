"""Revisions are gapless and in commit order, and every listener receives each change once in that order."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import pytest

from registry.store.errors import StoreError
from registry.store.feed.subscription import Subscription
from registry.store.store import Store
from registry.store.types import Change, ChangeType, Tenant
from tests.store.writes import WIDGETS, changes_up_to, create, delete, update

ROOT = Path(__file__).parents[2]


async def test_revisions_are_gapless_under_concurrent_writers(store: Store, other_store: Store, tenant: Tenant) -> None:
    given = await asyncio.gather(*((store, other_store)[i % 2].commit(tenant, create(f"ns/{i}")) for i in range(400)))
    assert sorted(c.revision for c in given) == list(range(1, 401))


async def test_refused_writes_take_no_revision(store: Store, other_store: Store, tenant: Tenant) -> None:
    dice = random.Random(3)

    async def work(s: Store) -> list[int]:
        given = []
        for _ in range(100):
            key = f"ns/{dice.randrange(8)}"
            write = dice.choice([create(key), update(key), delete(key), update(key, expected=1)])
            try:
                given.append((await s.commit(tenant, write)).revision)
            except StoreError:
                pass
        return given

    lists = await asyncio.gather(*(work(s) for s in (store, other_store) for _ in range(3)))
    given = sorted(revision for found in lists for revision in found)
    assert given == list(range(1, len(given) + 1))
    # Each writer saw its own revisions rise.
    assert all(found == sorted(found) for found in lists)


@pytest.mark.slow
async def test_every_listener_sees_every_change_once_and_in_order(
    store: Store, other_store: Store, tenant: Tenant
) -> None:
    """Watches that start at different revisions in two processes, while both write; the events rebuild the list."""
    total, stores = 600, (store, other_store)
    watches: list[tuple[int, asyncio.Task[list[Change]]]] = []
    done = asyncio.Event()

    async def follow(watch: Subscription) -> list[Change]:
        seen: list[Change] = []
        while not (done.is_set() and watch.position >= total):
            seen.extend((await watch.next_batch(0.2)).changes)
        watch.close()
        return seen

    async def write(number: int) -> None:
        if number % 60 == 0:
            s = stores[(number // 60) % 2]
            after = (await s.state(tenant)).revision // 2
            watches.append((after, asyncio.create_task(follow(await s.subscribe(tenant, WIDGETS, after)))))
        await stores[number % 2].commit(tenant, create(f"ns/{number}"))

    for portion in range(0, total, 20):
        await asyncio.gather(*(write(number) for number in range(portion, portion + 20)))
    done.set()
    for after, task in watches:
        async with asyncio.timeout(60):
            seen = await task
        assert [c.revision for c in seen] == list(range(after + 1, total + 1))


async def test_events_and_lists_agree(store: Store, other_store: Store, tenant: Tenant) -> None:
    """A list at any revision plus the events after it is the list now: what every client's cache relies on."""
    dice = random.Random(11)
    lists = []
    for _ in range(150):
        key = f"ns/{dice.randrange(10)}"
        write = dice.choice([create(key), update(key), delete(key)])
        try:
            await (store, other_store)[dice.randrange(2)].commit(tenant, write)
        except StoreError:
            continue
        if dice.random() < 0.2:
            lists.append(await other_store.page(tenant, WIDGETS))
    final = await store.page(tenant, WIDGETS)
    for start in lists:
        cache = {row.key: row.revision for row in start.rows}
        watch = await store.subscribe(tenant, WIDGETS, start.revision)
        for change in await changes_up_to(watch, final.revision):
            if change.type is ChangeType.DELETED:
                assert cache.pop(change.key) == change.previous_revision
            else:
                assert cache.get(change.key, 0) == change.previous_revision
                cache[change.key] = change.revision
        watch.close()
        assert cache == {row.key: row.revision for row in final.rows}


@pytest.mark.slow
async def test_several_processes_write_one_gapless_sequence(store: Store, tenant: Tenant, database_url: str) -> None:
    watch = await store.subscribe(tenant, WIDGETS, 0)
    processes = [await _process(database_url, f"p{number}", 200) for number in range(2)]
    outputs = await asyncio.gather(*(process.communicate() for process in processes))
    acknowledged = [_acknowledged(output.decode()) for output, _ in outputs]
    assert [len(found) for found in acknowledged] == [200, 200]
    assert sorted(r for found in acknowledged for r in found.values()) == list(range(1, 401))
    seen = await changes_up_to(watch, 400)
    assert [c.revision for c in seen] == list(range(1, 401))
    assert {c.key: c.revision for c in seen} == {**acknowledged[0], **acknowledged[1]}


@pytest.mark.slow
async def test_acknowledged_writes_of_a_killed_process_are_stored(
    store: Store, tenant: Tenant, database_url: str
) -> None:
    watch = await store.subscribe(tenant, WIDGETS, 0)
    process = await _process(database_url, "p", 100_000)
    assert process.stdout is not None
    lines = [(await process.stdout.readline()).decode() for _ in range(100)]
    process.kill()
    rest, _ = await process.communicate()
    acknowledged = _acknowledged("".join(lines) + rest.decode())
    # Its last transaction may still be on its way to the end.
    await store.commit(tenant, create("ns/last"))
    await _check_invariants(store, tenant, acknowledged, watch)


async def _process(url: str, label: str, count: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.store.writer_process", url, "acme", label, str(count),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )  # fmt: skip


def _acknowledged(output: str) -> dict[str, int]:
    """The lines that are whole; a killed process may leave half of one."""
    found = {}
    for line in output.split("\n")[:-1]:
        if not line.startswith("#"):
            key, revision = line.split(" ")
            found[key] = int(revision)
    return found


async def _check_invariants(store: Store, tenant: Tenant, acknowledged: dict[str, int], watch: Subscription) -> None:
    """Nothing acknowledged is lost, the log is whole, and objects, log and counter say the same."""
    # At one revision: a transaction that the killed process has sent may still be under way.
    page = await store.page(tenant, WIDGETS)
    rows = {row.key: row.revision for row in page.rows}
    seen = [c for c in await changes_up_to(watch, page.revision) if c.revision <= page.revision]
    assert [c.revision for c in seen] == list(range(1, page.revision + 1))
    assert {str(c.key): c.revision for c in seen} == rows
    assert acknowledged.items() <= rows.items()
