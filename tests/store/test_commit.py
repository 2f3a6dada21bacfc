"""Commits: preconditions, results, and independence of writes that share a transaction."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import psycopg
import pytest

from registry.store.commit import batch as batches
from registry.store.commit.batch import Pending
from registry.store.errors import (
    AlreadyExists,
    GuardsChanged,
    NotFound,
    RevisionConflict,
    StoreError,
    TenantNotFound,
    ValueRefused,
)
from registry.store.session import Connection
from registry.store.statements import Statement
from registry.store.store import Store
from registry.store.types import (
    Committed,
    DomainId,
    Guards,
    Requirement,
    SelectorOperator,
    Tenant,
    TenantId,
    TenantName,
    WriteFlag,
)
from tests.store.shared import has_own_store, shares_store
from tests.store.writes import GADGETS, WIDGETS, commit_all, create, delete, row_of, update

pytestmark = shares_store


async def test_a_create_gets_the_next_revision_and_can_be_read(store: Store, tenant: Tenant) -> None:
    write = create("ns/a", body='"spec":{"text":"ä\\u0000😀"}}')
    committed = await store.commit(tenant, write)
    assert committed == Committed(1, Guards(0, 0))
    row, state = await store.load(tenant, write.resource, write.key)
    assert row is not None
    assert (row.uid, row.revision, row.version, row.schema, row.body) == (write.uid, 1, "v1", 1, write.body)
    assert state.revision == 1


async def test_an_update_takes_a_revision_and_replaces_the_object(store: Store, tenant: Tenant) -> None:
    created = create("ns/a", body='"n":1}')
    await store.commit(tenant, created)
    committed = await store.commit(tenant, update("ns/a", body='"n":2}', expected=1))
    assert committed.revision == 2
    row = await row_of(store, tenant, "ns/a")
    assert row is not None
    assert (row.revision, row.body, row.schema) == (2, '"n":2}', 2)


async def test_a_delete_takes_a_revision_and_removes_the_object(store: Store, tenant: Tenant) -> None:
    await store.commit(tenant, create("ns/a", body='"n":1}'))
    committed = await store.commit(tenant, delete("ns/a", expected=1))
    assert committed.revision == 2
    assert await row_of(store, tenant, "ns/a") is None


async def test_a_commit_does_not_send_back_what_it_replaces(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL would decompress it, for nobody: of an object of a megabyte as much as the write itself takes."""
    await store.commit(tenant, create("ns/a", body='"n":1}'))
    answers: list[Any] = []
    call = Connection.call

    async def recorded(connection: Connection, statement: Statement, values: Any, **options: Any) -> Any:
        rows = await call(connection, statement, values, **options)
        if statement is batches.COMMIT:
            answers.extend(rows)
        return rows

    monkeypatch.setattr(Connection, "call", recorded)
    await store.commit(tenant, update("ns/a", body='"n":2}', expected=1))
    with pytest.raises(RevisionConflict):
        await store.commit(tenant, update("ns/a", body='"n":3}', expected=1))
    await store.commit(tenant, delete("ns/a", expected=2))
    # Servers of the previous release read the body wherever there is a revision.
    found = [(outcome, revision, body) for _, outcome, _, _, _, _, revision, _, _, body, _ in answers]
    assert found == [("ok", None, None), ("conflict", 2, '"n":2}'), ("ok", None, None)]


async def test_a_create_of_what_exists_is_refused_and_shows_it(store: Store, tenant: Tenant) -> None:
    await store.commit(tenant, create("ns/a", body='"n":1}'))
    with pytest.raises(AlreadyExists) as caught:
        await store.commit(tenant, create("ns/a", body='"n":2}'))
    assert caught.value.current.body == '"n":1}'
    assert (await store.state(tenant)).revision == 1


@pytest.mark.parametrize("write", [update("ns/none"), delete("ns/none")], ids=["update", "delete"])
async def test_a_missing_object_cannot_be_changed(store: Store, tenant: Tenant, write: object) -> None:
    with pytest.raises(NotFound):
        await store.commit(tenant, write)  # type: ignore[arg-type]


async def test_another_revision_than_expected_is_a_conflict_that_shows_the_current_row(
    store: Store, tenant: Tenant
) -> None:
    await store.commit(tenant, create("ns/a"))
    await store.commit(tenant, update("ns/a", body='"n":2}'))
    for write in (update("ns/a", expected=1), delete("ns/a", expected=1)):
        with pytest.raises(RevisionConflict) as caught:
            await store.commit(tenant, write)
        assert (caught.value.current.revision, caught.value.current.body) == (2, '"n":2}')


async def test_one_of_several_writes_expecting_the_same_revision_succeeds(
    store: Store, other_store: Store, tenant: Tenant
) -> None:
    await store.commit(tenant, create("ns/a"))
    results = await asyncio.gather(
        *(s.commit(tenant, update("ns/a", expected=1)) for s in (store, other_store) for _ in range(20)),
        return_exceptions=True,
    )
    assert [type(r) for r in results].count(Committed) == 1
    assert [type(r) for r in results].count(RevisionConflict) == 39


async def test_one_of_several_creates_of_an_object_succeeds(store: Store, other_store: Store, tenant: Tenant) -> None:
    results = await asyncio.gather(
        *(s.commit(tenant, create("ns/a")) for s in (store, other_store) for _ in range(20)), return_exceptions=True
    )
    assert [type(r) for r in results].count(Committed) == 1
    assert [type(r) for r in results].count(AlreadyExists) == 39


async def test_a_change_of_definitions_moves_the_guard(store: Store, tenant: Tenant) -> None:
    committed = await store.commit(tenant, create("widgets", resource=GADGETS, flags=WriteFlag.CHANGES_DEFINITIONS))
    assert committed.guards == Guards(1, 0)
    committed = await store.commit(tenant, create("ns", resource=GADGETS, flags=WriteFlag.CHANGES_NAMESPACES))
    assert committed.guards == Guards(1, 2)
    assert (await store.state(tenant)).guards == Guards(1, 2)


async def test_a_write_validated_under_old_guards_is_refused_with_the_new_ones(store: Store, tenant: Tenant) -> None:
    await store.commit(tenant, create("widgets", resource=GADGETS, flags=WriteFlag.CHANGES_DEFINITIONS))
    with pytest.raises(GuardsChanged) as caught:
        await store.commit(tenant, create("ns/a", guards=Guards(0, 0)))
    assert caught.value.guards == Guards(1, 0)
    assert (await store.commit(tenant, create("ns/a", guards=Guards(1, 0)))).revision == 2


async def test_a_guard_changed_in_a_batch_applies_to_the_following_writes(store: Store, tenant: Tenant) -> None:
    results = await asyncio.gather(
        store.commit(tenant, create("ns/a", guards=Guards(0, 0))),
        store.commit(tenant, create("widgets", resource=GADGETS, flags=WriteFlag.CHANGES_DEFINITIONS)),
        store.commit(tenant, create("ns/b", guards=Guards(0, 0))),
        return_exceptions=True,
    )
    assert [type(r) for r in results] == [Committed, Committed, GuardsChanged]


async def test_writes_of_one_object_are_done_in_their_order(store: Store, tenant: Tenant) -> None:
    writes = [create("ns/a"), update("ns/a"), delete("ns/a"), create("ns/a"), update("ns/a", body='"last":1}')]
    committed = await commit_all(store, tenant, writes)
    assert [c.revision for c in committed] == [1, 2, 3, 4, 5]
    row = await row_of(store, tenant, "ns/a")
    assert row is not None
    assert row.body == '"last":1}'


async def test_a_failed_write_leaves_its_neighbours_alone(store: Store, tenant: Tenant) -> None:
    await store.commit(tenant, create("ns/there"))
    writes = [create("ns/a"), create("ns/there"), update("ns/none"), update("ns/there", expected=9), create("ns/b")]
    results = await asyncio.gather(*(store.commit(tenant, write) for write in writes), return_exceptions=True)
    assert [type(r) for r in results] == [Committed, AlreadyExists, NotFound, RevisionConflict, Committed]
    assert [r.revision for r in results if isinstance(r, Committed)] == [2, 3]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(create("ns/bad", body="\ud800"), id="cannot-be-encoded"),
        pytest.param(create("ns/bad", body="\x00"), id="postgresql-knows-no-nul"),
        pytest.param(create("ns/" + "x" * 100_000 + random.randbytes(5_000).hex()), id="too-long-for-an-index"),
    ],
)
async def test_one_unstorable_row_fails_alone(store: Store, tenant: Tenant, bad: object) -> None:
    good = [create(f"ns/{i}") for i in range(4)]
    results = await asyncio.gather(
        *(store.commit(tenant, write) for write in [*good[:2], bad, *good[2:]]),  # type: ignore[arg-type]
        return_exceptions=True,
    )
    assert [type(r) for r in results] == [Committed, Committed, ValueRefused, Committed, Committed]
    assert sorted(r.revision for r in results if isinstance(r, Committed)) == [1, 2, 3, 4]


@has_own_store
async def test_a_doc_that_jsonb_refuses_does_not_fail_the_write(
    store: Store, tenant: Tenant, database_url: str
) -> None:
    docs = {"ns/a": '{"n":1}', "ns/b": '{"n":"\\u0000"}', "ns/c": '{"n":1e999999}'}
    writes = [create(key, doc=doc) for key, doc in docs.items()]
    await commit_all(store, tenant, writes)
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        cursor = await connection.execute("SELECT key, doc FROM objects ORDER BY key")
        assert await cursor.fetchall() == [("ns/a", {"n": 1}), ("ns/b", None), ("ns/c", None)]


async def test_a_batch_creates_and_updates_and_only_creates_begin_an_object(
    store: Store, tenant: Tenant, database_url: str
) -> None:
    await commit_all(store, tenant, [create(key) for key in ("ns/changed", "ns/removed", "ns/kept")])
    query = (
        "SELECT key, created_at, updated_at, revision FROM objects WHERE tenant_id = %s AND resource = %s ORDER BY key"
    )
    with psycopg.connect(database_url, autocommit=True) as connection:
        before = {row[0]: row[1:] for row in connection.execute(query, (tenant.id, WIDGETS))}
        writes = [update("ns/changed"), create("ns/new"), delete("ns/removed"), update("ns/kept", expected=99)]
        results = await asyncio.gather(*(store.commit(tenant, write) for write in writes), return_exceptions=True)
        after = {row[0]: row[1:] for row in connection.execute(query, (tenant.id, WIDGETS))}
    assert [type(result) for result in results] == [Committed, Committed, Committed, RevisionConflict]
    assert sorted(after) == ["ns/changed", "ns/kept", "ns/new"]
    assert after["ns/kept"] == before["ns/kept"]
    assert after["ns/changed"][0] == before["ns/changed"][0] < after["ns/changed"][1]
    assert after["ns/new"][0] == after["ns/new"][1]
    changed = await row_of(store, tenant, "ns/changed")
    assert changed is not None
    assert (changed.revision, changed.body) == (4, update("ns/changed").body)


@has_own_store
async def test_indexed_columns_stay_uncompressed_so_that_updates_are_hot(
    store: Store, tenant: Tenant, database_url: str
) -> None:
    labels = [f"1/widgets.example.com/app.kubernetes.io/{name}=benchmark" for name in ("name", "instance", "part-of")]
    noise = random.Random(7).randbytes(1000).hex()
    # About the size at which PostgreSQL compresses what it can before it moves anything out of the row.
    writes = [
        create(f"ns/{size}", body=f'"text":"{noise[:size]}{" " * 2000}"}}', labels=labels, owners=["1/a" * 20])
        for size in range(1500, 2000, 20)
    ]
    await commit_all(store, tenant, writes)
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "SELECT pg_column_compression(body), pg_column_compression(labels),"
            " pg_column_compression(owners) FROM objects"
        ).fetchall()
    assert {row[0] for row in rows} == {"lz4"} or {row[0] for row in rows} == {"pglz"}
    assert {row[1:] for row in rows} == {(None, None)}


async def test_labels_with_odd_characters_are_stored_as_they_are(store: Store, tenant: Tenant) -> None:
    odd = ['a="', "b=\\", "c={}", "d=,", "e= ", "f=ä😀", "g=NULL", "h='"]
    await store.commit(tenant, create("ns/a", labels=odd))
    subscription = await store.subscribe(tenant, after=0)
    batch = await subscription.next_batch(60)
    subscription.close()
    assert [f"{key}={value}" for key, value in batch.changes[0].labels.by_key.items()] == odd


@pytest.mark.parametrize(
    ("count", "beside"), [pytest.param(20, False, id="few"), pytest.param(30_000, True, id="many")]
)
async def test_many_labels_are_encoded_beside_the_event_loop(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, count: int, beside: bool
) -> None:
    threads = []
    encode = batches.parameters

    def noting(batch: list[Pending], *rest: Any, **more: Any) -> Any:
        if any(pending.tenant is tenant for pending in batch):
            threads.append(threading.current_thread())
        return encode(batch, *rest, **more)

    monkeypatch.setattr(batches, "parameters", noting)
    await store.commit(tenant, create("ns/a", labels=[f"l{i}=x" for i in range(count)]))
    assert [thread is not threading.main_thread() for thread in threads] == [beside]
    last = Requirement(f"l{count - 1}", SelectorOperator.IN, ("x",))
    assert [row.key async for page in store.scan(tenant, WIDGETS, requirements=(last,)) for row in page.rows] == [
        "ns/a"
    ]


@pytest.mark.parametrize(
    "stranger",
    [
        pytest.param(Tenant(TenantId(999), TenantName("x"), DomainId(999), Guards(0, 0)), id="no-such-tenant"),
        pytest.param(Tenant(TenantId(1), TenantName("x"), DomainId(999), Guards(0, 0)), id="another-domain"),
    ],
)
async def test_an_unknown_tenant_cannot_be_written_to(store: Store, tenant: Tenant, stranger: Tenant) -> None:
    with pytest.raises(TenantNotFound):
        await store.commit(stranger, create("ns/a"))
    assert (await store.state(tenant)).revision == 0


async def test_tenants_do_not_see_each_other(store: Store, tenant: Tenant) -> None:
    neighbour = await store.create_tenant(TenantName("neighbour"))
    await store.commit(tenant, create("ns/a", body='"of":"acme"}'))
    assert await row_of(store, neighbour, "ns/a") is None
    assert (await store.commit(neighbour, create("ns/a"))).revision == 1
    assert not (await store.page(neighbour, GADGETS)).rows
    row = await row_of(store, tenant, "ns/a")
    assert row is not None
    assert row.body == '"of":"acme"}'


async def test_tenants_of_one_domain_share_its_revisions_but_not_their_objects(store: Store, tenant: Tenant) -> None:
    sibling = await store.create_tenant(TenantName("sibling"), tenant.domain)
    revisions = [
        (await store.commit(t, create(f"ns/{i}"))).revision for i, t in enumerate([tenant, sibling, tenant, sibling])
    ]
    assert revisions == [1, 2, 3, 4]
    assert await store.lookups.count(tenant, create("x").resource) == 2


async def test_a_cancelled_caller_does_not_affect_others(store: Store, tenant: Tenant) -> None:
    tasks = [asyncio.create_task(store.commit(tenant, create(f"ns/{i}"))) for i in range(50)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(r, Committed) for r in results[1::2])
    state = await store.state(tenant)
    assert state.revision == len((await store.page(tenant, create("x").resource)).rows)


async def test_a_closed_store_refuses_writes_and_has_finished_accepted_ones(database_url: str) -> None:
    store = await Store.open(database_url, housekeeping=False)
    tenant = await store.create_tenant(TenantName("acme"))
    tasks = [asyncio.create_task(store.commit(tenant, create(f"ns/{i}"))) for i in range(200)]
    await asyncio.sleep(0)
    await store.close()
    assert sorted(task.result().revision for task in tasks) == list(range(1, 201))
    with pytest.raises(StoreError):
        await store.commit(tenant, create("ns/late"))


async def test_writes_of_several_domains_share_a_transaction(store: Store, database_url: str) -> None:
    tenants = [await store.create_tenant(TenantName(f"sharing-{number}")) for number in range(4)]
    await store.commit(tenants[0], create("ns/first"))  # the connection is open
    await asyncio.gather(*(store.commit(tenant, create("ns/a")) for tenant in tenants))
    query = "SELECT DISTINCT xmin::text FROM objects WHERE tenant_id = ANY (%s) AND key = 'ns/a'"
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        transactions = await (await other.execute(query, [[tenant.id for tenant in tenants]])).fetchall()
    assert len(transactions) == 1


async def test_a_domain_that_is_locked_does_not_hold_up_others(store: Store, database_url: str) -> None:
    locked, *others = [await store.create_tenant(TenantName(f"locking-{number}")) for number in range(5)]
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        async with other.transaction():
            await other.execute("SELECT 1 FROM domains WHERE id = %s FOR UPDATE", [locked.domain])
            waiting = asyncio.create_task(store.commit(locked, create("ns/a")))
            await asyncio.sleep(0.1)  # its call waits for the lock
            async with asyncio.timeout(60):
                await asyncio.gather(*(store.commit(tenant, create("ns/a")) for tenant in others))
                again = asyncio.create_task(store.commit(locked, create("ns/b")))  # in the order of its domain
                await asyncio.sleep(0)
            assert not waiting.done()
        revisions = [(await one).revision for one in (waiting, again)]
    assert revisions == [1, 2]
    assert not store._writer._used
