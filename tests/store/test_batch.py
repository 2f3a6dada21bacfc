"""Which writes share a transaction."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from registry.store.commit import batch
from registry.store.commit.batch import Pending, Waiting
from registry.store.encoding import label_element
from registry.store.types import Contents, DomainId, Guards, Tenant, TenantId, TenantName, Write, WriteFlag
from tests.store.writes import GADGETS, WIDGETS, create, update

ACME = Tenant(TenantId(1), TenantName("acme"), DomainId(1), Guards(0, 0))
OTHER = Tenant(TenantId(2), TenantName("other"), DomainId(2), Guards(0, 0))


def fence(key: str) -> Write:
    return create(key, resource=GADGETS, flags=WriteFlag.CHANGES_DEFINITIONS)


def grouped(key: str, group: int) -> Write:
    return replace(fence(key), group=group)


def unless_used(key: str) -> Write:
    return replace(fence(key), unless_used=Contents(resource=WIDGETS))


@pytest.mark.parametrize(
    "writes, batches",
    [
        pytest.param([], [], id="nothing"),
        pytest.param([(ACME, create("a")), (ACME, create("b"))], [["a", "b"]], id="different-objects-go-together"),
        pytest.param(
            [(ACME, create("a")), (ACME, update("a")), (ACME, create("b"))],
            [["a", "b"], ["a"]],
            id="an-object-once-and-others-pass-it",
        ),
        pytest.param(
            [(ACME, create("a")), (ACME, update("a")), (ACME, update("a"))],
            [["a"], ["a"], ["a"]],
            id="writes-of-an-object-keep-their-order",
        ),
        pytest.param(
            [(ACME, create("a")), (OTHER, create("a")), (ACME, create("a", resource=GADGETS))],
            [["a", "a", "a"]],
            id="the-same-key-elsewhere-is-another-object",
        ),
        pytest.param(
            [(ACME, create("a")), (ACME, fence("crd")), (ACME, create("b")), (OTHER, create("c"))],
            [["a", "c", "crd"], ["b"]],
            id="nothing-of-the-tenant-after-a-guard",
        ),
        pytest.param(
            [(ACME, fence("crd")), (ACME, fence("crd2")), (ACME, create("b"))],
            [["crd"], ["crd2"], ["b"]],
            id="a-guard-that-waits-holds-back-too",
        ),
        pytest.param(
            [(ACME, create("a")), (ACME, grouped("crd", 1)), (ACME, grouped("crd2", 1)), (ACME, create("b"))],
            [["a", "crd", "crd2"], ["b"]],
            id="guards-of-one-group-go-together",
        ),
        pytest.param(
            [(ACME, grouped("crd", 1)), (ACME, grouped("crd2", 2)), (ACME, grouped("crd3", 1))],
            [["crd"], ["crd2"], ["crd3"]],
            id="groups-keep-their-order",
        ),
        pytest.param(
            [(ACME, create("crd", resource=GADGETS)), (ACME, grouped("crd", 1)), (ACME, grouped("crd2", 1))],
            [["crd", "crd2"], ["crd"]],
            id="of-a-group-too-an-object-once",
        ),
        pytest.param(
            [(ACME, create("a")), (OTHER, create("c")), (ACME, unless_used("crd")), (ACME, create("b"))],
            [["a", "c"], ["crd"], ["b"]],
            id="what-depends-on-what-there-is-comes-first-of-its-tenant",
        ),
        pytest.param(
            [(ACME, create(str(i))) for i in range(70)],
            [[str(i) for i in range(64)], [str(i) for i in range(64, 70)]],
            id="at-most-64",
        ),
        pytest.param(
            [(ACME, create(str(i), body="x" * 3_000_000)) for i in range(3)],
            [["0", "1"], ["2"]],
            id="at-most-some-megabytes",
        ),
        pytest.param([(ACME, create("a", body="x" * 9_000_000))], [["a"]], id="a-large-one-alone"),
    ],
)
async def test_batches(writes: list[tuple[Tenant, Write]], batches: list[list[str]]) -> None:
    waiting = Waiting()
    for tenant, write in writes:
        waiting.append(pending(tenant, write))
    found = []
    while waiting:
        found.append([p.write.key for p in waiting.take()])
    assert found == batches
    assert waiting.size == 0


async def test_writes_of_cancelled_callers_are_dropped() -> None:
    waiting = Waiting()
    for key in "abc":
        waiting.append(pending(ACME, create(key)))
    waiting.append(gone := pending(ACME, create("gone")))
    gone.done.cancel()
    assert [p.write.key for p in waiting.take()] == ["a", "b", "c"]
    assert len(waiting) == 0
    assert waiting.size == 0


@pytest.mark.parametrize(
    "text, stored",
    [
        pytest.param("plain=ä😀", "plain=ä😀", id="as-it-is"),
        pytest.param("a=\x00", "a=\ufffd", id="nul"),
        pytest.param("a=\ud800", "a=?", id="lone-surrogate"),
    ],
)
def test_characters_that_postgresql_cannot_store_are_replaced_in_labels(text: str, stored: str) -> None:
    assert label_element(text) == stored


def test_long_label_values_are_stored_as_digests() -> None:
    label = label_element("f:spec.text=" + "x" * 10_000)
    assert label.startswith("f:spec.text=sha256:")
    assert label == label_element("f:spec.text=" + "x" * 10_000)
    assert label != label_element("f:spec.text=" + "x" * 10_001)
    assert len(label) < 100


def pending(tenant: Tenant, write: Write) -> Pending:
    write = replace(write)
    return Pending(tenant, write, batch.size_of(write), asyncio.get_running_loop().create_future())


async def test_tenants_take_turns_in_the_writers_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "MAX_ROWS", 4)
    waiting = Waiting()
    loop = asyncio.get_running_loop()
    for number, name in [(1, f"flood-{i}") for i in range(20)] + [(2, "quiet"), (3, "other")]:
        tenant = Tenant(TenantId(number), TenantName(str(number)), DomainId(number), Guards(0, 0))
        waiting.append(Pending(tenant, create(name), 10, loop.create_future()))
    assert [p.write.key for p in waiting.take()] == ["flood-0", "quiet", "other", "flood-1"]
    assert [p.write.key for p in waiting.take()] == ["flood-2", "flood-3", "flood-4", "flood-5"]
    assert (len(waiting), waiting.size) == (14, 140)
