"""What a process commits reaches its watches without a read of the log, and as the log has it."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Mapping
from typing import Any

import pytest

from registry.store import change_log
from registry.store.commit.batch import size_of
from registry.store.commit.writer import LARGE_BYTES
from registry.store.errors import StoreError
from registry.store.own_changes import FEW_LABELS
from registry.store.store import Store
from registry.store.types import Change, DomainId, ObjectKey, Replaced, Row, Tenant, TenantId, Uid, Write
from tests.store.writes import WIDGETS, changes_up_to, create, delete, eventually, row_of, update

LABELS: tuple[list[str], ...] = (
    [],
    ["app=web"],
    ["app=web", "f:spec.color=red=green"],
    ["näme=wért", "nul=a\x00b"],
    [f"f:spec.text={'x' * 3000}"],
)


class Reads:
    """The reads of the log by the feeds of all stores."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._next_changes = change_log.next_changes
        self.count = 0
        self.gate = asyncio.Event()
        self.gate.set()
        monkeypatch.setattr(change_log, "next_changes", self._read)

    async def _read(
        self, pool: Any, positions: Mapping[DomainId, int]
    ) -> dict[DomainId, list[tuple[TenantId, Change]]]:
        self.count += 1
        await self.gate.wait()
        return await self._next_changes(pool, dict(positions))


def contents(change: Change) -> dict[str, object]:
    """What a change says, without what only the log knows, and caches."""
    names = {field.name for field in dataclasses.fields(Change)} - {"forms"}
    found = {name: getattr(change, name) for name in names}
    return found | {name: dict(found[name].by_key) for name in ("labels", "previous_labels")}


async def replaced_of(store: Store, tenant: Tenant, key: str, labels: list[str]) -> Replaced:
    row = await row_of(store, tenant, key)
    assert row is not None
    return Replaced(row, labels)


async def logged(store: Store, tenant: Tenant) -> list[Change]:
    changes, _ = await change_log.replay(store._feed_pool, tenant.id, tenant.domain, WIDGETS, 0)
    return list(changes)


async def test_they_are_not_read(store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = await store.subscribe(tenant, WIDGETS)
    await eventually(lambda: _listens(store))  # then it looks at all domains once
    reads = Reads(monkeypatch)
    await store.commit(tenant, create("ns/a", body='"n":1}', labels=LABELS[1]))
    first = await replaced_of(store, tenant, "ns/a", LABELS[1])
    await store.commit(tenant, update("ns/a", body='"n":2}', labels=LABELS[2], replaced=first))
    second = await replaced_of(store, tenant, "ns/a", LABELS[2])
    await store.commit(tenant, delete("ns/a", replaced=second))
    seen = await changes_up_to(watch, 3)
    assert reads.count == 0
    assert [contents(c) for c in seen] == [contents(c) for c in await logged(store, tenant)]
    assert len(seen) == 3


async def _listens(store: Store) -> bool:
    (known,) = store._feed._domains.values()
    return store._feed.listener.healthy and known.newest == known.position


@pytest.mark.parametrize("is_known", [True, False], ids=["of-another-revision", "unknown"])
async def test_what_replaces_something_unknown_is_read(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, *, is_known: bool
) -> None:
    watch = await store.subscribe(tenant, WIDGETS)
    reads = Reads(monkeypatch)
    await store.commit(tenant, create("ns/a", body='"n":1}'))
    older = await replaced_of(store, tenant, "ns/a", [])
    await store.commit(tenant, update("ns/a", body='"n":2}', replaced=older))
    third = update("ns/a", body='"n":3}')
    await store.commit(tenant, dataclasses.replace(third, replaced=older) if is_known else third)
    seen = await changes_up_to(watch, 3)
    assert reads.count > 0
    assert seen[2].previous_body == '"n":2}'
    assert [contents(c) for c in seen] == [contents(c) for c in await logged(store, tenant)]


async def test_those_of_many_labels_are_read(store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of 60,000 labels would take several times as much memory as the log's bytes, for as long as the ring."""
    watch = await store.subscribe(tenant, WIDGETS)
    await eventually(lambda: _listens(store))
    reads = Reads(monkeypatch)
    labels = [f"l{number}=x" for number in range(FEW_LABELS)]
    await store.commit(tenant, create("ns/few", labels=labels))
    await changes_up_to(watch, 1)
    assert reads.count == 0
    await store.commit(tenant, create("ns/many", labels=[*labels, "another=x"]))
    (seen,) = await changes_up_to(watch, 2)
    assert reads.count > 0
    assert len(seen.labels.by_key) == FEW_LABELS + 1


@pytest.mark.parametrize("by_other", [0, 3])
async def test_a_read_that_was_under_way_repeats_nothing(
    store: Store, other_store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, by_other: int
) -> None:
    watch = await store.subscribe(tenant, WIDGETS)
    reads = Reads(monkeypatch)
    reads.gate.clear()
    store._feed.wake_all()
    while not reads.count:  # noqa: ASYNC110 (the feed has no event for it)
        await asyncio.sleep(0)
    for number in range(3):
        await store.commit(tenant, create(f"ns/{number}"))
    assert [c.revision for c in (await watch.next_batch(60)).changes] == [1, 2, 3]
    for number in range(by_other):
        await other_store.commit(tenant, create(f"ns/of-other-{number}"))
    reads.gate.set()
    last = (await store.commit(tenant, create("ns/last"))).revision
    assert [c.revision for c in await changes_up_to(watch, last)] == list(range(4, last + 1))


async def test_they_are_as_the_log_has_them(
    store: Store, other_store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes write at the same time, each several objects, whose labels are known to both."""
    dice = random.Random(7)
    watches = [await s.subscribe(tenant, WIDGETS) for s in (store, other_store)]
    reads = Reads(monkeypatch)
    batches = 0

    async def work(s: Store, name: str) -> None:
        nonlocal batches
        labels: dict[str, list[str]] = {}
        for number in range(60):
            key = f"ns/{name}-{dice.randrange(3)}"
            chosen = dice.choice(LABELS)
            write: Write
            if key not in labels:
                write = create(key, body=f'"n":{number}}}', labels=chosen)
            else:
                known = await replaced_of(s, tenant, key, labels[key])
                if dice.random() < 0.2:
                    write = delete(key, replaced=known)
                else:
                    write = update(key, body=f'"n":{number}}}', labels=chosen, replaced=known)
            try:
                await s.commit(tenant, write)
            except StoreError:
                continue
            batches += 1
            labels[key] = chosen
            if write.operation == "delete":
                del labels[key]

    await asyncio.gather(*(work(s, f"{place}{n}") for place, s in enumerate((store, other_store)) for n in range(3)))
    last = (await store.state(tenant)).revision
    expected = [contents(c) for c in await logged(store, tenant)]
    assert len(expected) == last > 300
    for watch in watches:
        assert [contents(c) for c in await changes_up_to(watch, last)] == expected
    assert reads.count < batches, "some were delivered without a read"


def test_what_is_replaced_counts_however_many_labels_it_has() -> None:
    """PostgreSQL takes a second for an object of 60,000 labels, so its deletion uses the connection for large writes."""
    row = Row(WIDGETS, ObjectKey("ns/a"), Uid("uid"), 1, "v1", 1, "x" * LARGE_BYTES)
    assert size_of(delete("ns/a", replaced=Replaced(row, None))) >= LARGE_BYTES
