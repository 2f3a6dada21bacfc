"""Faults of PostgreSQL: no acknowledged write is lost, none is partly stored, and unaffected work continues."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from registry.postgres.server import EmbeddedPostgres
from registry.store import migrate
from registry.store.commit import recovery
from registry.store.errors import AlreadyExists, NotFound, StoreError, Unavailable, Uncertain
from registry.store.store import Store
from registry.store.types import Committed, Tenant, TenantName
from tests.store.writes import WIDGETS, changes_up_to, commit_all, create, end_backends, row_of, update


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    """A server of the test's own, to be killed."""
    folder = Path(tempfile.mkdtemp(prefix="registry-test-"))
    folder.chmod(0o711)
    server = EmbeddedPostgres(folder / "postgres")
    try:
        server.start()
        migrate.upgrade(server.url)
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
async def test_a_writer_that_lost_its_connection_finds_out_what_was_committed(
    store: Store, tenant: Tenant, database_url: str
) -> None:
    """Each create happens exactly once, however often the connection breaks in the middle."""
    watch = await store.subscribe(tenant, WIDGETS, 0)
    cuts = 0

    async def cut() -> None:
        nonlocal cuts
        while cuts < 8:
            cuts += await end_backends(database_url, "writer")
            await asyncio.sleep(0.03)

    cutter = asyncio.create_task(cut())
    given: list[Committed] = []
    async with asyncio.timeout(120):
        while cuts < 8:
            given += await commit_all(store, tenant, [create(f"ns/{len(given)}-{i}") for i in range(20)])
    await cutter
    count = len(given)
    assert sorted(c.revision for c in given) == list(range(1, count + 1))
    assert [c.revision for c in await changes_up_to(watch, count)] == list(range(1, count + 1))


async def test_a_commit_whose_answer_was_lost_is_found_in_the_log(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction is committed, then the connection breaks before the answer is read."""
    await store.commit(tenant, create("ns/there", body='"n":1}'))
    link = store._writer._first._link
    assert link is not None
    call = link.connection.call

    async def call_and_break(*arguments: Any) -> None:
        await call(*arguments)
        link.connection.finish()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(link.connection, "call", call_and_break)
    results = await asyncio.gather(
        store.commit(tenant, update("ns/there", body='"n":2}', expected=1)),
        store.commit(tenant, create("ns/there")),
        store.commit(tenant, create("ns/new")),
        store.commit(tenant, update("ns/none")),
        return_exceptions=True,
    )
    first, second, third, fourth = results
    assert isinstance(first, Committed)
    assert first.revision == 2
    assert isinstance(second, AlreadyExists)
    assert isinstance(third, Committed)
    assert third.revision == 3
    assert isinstance(fourth, NotFound)
    assert (await store.state(tenant)).revision == 3


async def test_where_the_outcome_cannot_be_found_out_it_is_uncertain(
    store: Store, tenant: Tenant, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.commit(tenant, create("ns/a"))

    async def unknown(*_: object) -> list[Committed | None]:
        raise Uncertain("nobody knows")

    monkeypatch.setattr(recovery, "outcome", unknown)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other, other.transaction():
        await other.execute("SELECT 1 FROM domains FOR UPDATE")
        write = asyncio.create_task(store.commit(tenant, create("ns/b")))
        await _waiting_for_a_lock(other)
        await end_backends(database_url, "writer")
        with pytest.raises(Uncertain):
            await write
    monkeypatch.undo()
    assert (await store.commit(tenant, create("ns/c"))).revision == 2


async def test_reads_survive_a_cut_connection(store: Store, tenant: Tenant, database_url: str) -> None:
    await store.commit(tenant, create("ns/a"))
    for _ in range(3):
        assert await row_of(store, tenant, "ns/a") is not None
        assert len((await store.page(tenant, WIDGETS)).rows) == 1
        assert await end_backends(database_url, "reader") + await end_backends(database_url, "pool") >= 2


async def test_a_read_only_database_is_unavailable_and_nothing_is_written(
    store: Store, tenant: Tenant, database_url: str
) -> None:
    await store.commit(tenant, create("ns/a"))
    name = sql.Identifier(str(psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]))
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        await other.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
        await end_backends(database_url, "writer")
        results = await asyncio.gather(
            *(store.commit(tenant, create(f"ns/{i}")) for i in range(5)), return_exceptions=True
        )
        assert [type(r) for r in results] == [Unavailable] * 5
        assert await row_of(store, tenant, "ns/a") is not None
        await other.execute("SET default_transaction_read_only = off")
        await other.execute(sql.SQL("ALTER DATABASE {} RESET default_transaction_read_only").format(name))
        await end_backends(database_url, "writer")
    assert (await store.commit(tenant, create("ns/b"))).revision == 2


async def test_a_full_disk_is_unavailable_and_nothing_is_half_written(
    store: Store, tenant: Tenant, database_url: str
) -> None:
    """The disk is full for the log only, after the object has been written in the same transaction."""
    await store.commit(tenant, create("ns/a"))
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        await other.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$"
            " BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100'; END $$"
        )
        await other.execute(
            "CREATE TRIGGER full_disk BEFORE INSERT ON changes FOR EACH ROW EXECUTE FUNCTION full_disk()"
        )
        for write in (create("ns/b"), update("ns/a")):
            with pytest.raises(Unavailable):
                await store.commit(tenant, write)
        await other.execute("DROP TRIGGER full_disk ON changes")
    assert [(row.key, row.revision) for row in (await store.page(tenant, WIDGETS)).rows] == [("ns/a", 1)]
    assert (await store.commit(tenant, create("ns/b"))).revision == 2


@pytest.mark.slow
async def test_an_unreachable_postgresql_is_reported_within_the_timeout(database_url: str) -> None:
    store = Store("host=127.0.0.1 port=1 dbname=none", connect_timeout_seconds=0.2)
    tenant = Tenant(1, TenantName("acme"), 1, None)  # type: ignore[arg-type]
    # Each would wait for the timeout of a fifth of a second; one after the other they would take three minutes.
    async with asyncio.timeout(60):
        results = await asyncio.gather(
            *(store.commit(tenant, create(f"ns/{i}")) for i in range(900)),
            store.load(tenant, WIDGETS, create("ns/a").key),
            store.page(tenant, WIDGETS),
            store.subscribe(tenant, WIDGETS, 0),
            return_exceptions=True,
        )
    assert {type(r) for r in results} == {Unavailable}
    await store.close()


async def test_the_queue_of_writes_is_bounded(store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.store.commit.writer.MAX_WAITING", 10)
    results = await asyncio.gather(
        *(store.commit(tenant, create(f"ns/{i}")) for i in range(30)), return_exceptions=True
    )
    refused = [r for r in results if isinstance(r, Unavailable)]
    assert len(refused) == 20
    assert (await store.state(tenant)).revision == 10


@pytest.mark.slow
async def test_a_kill_of_postgresql_in_the_middle_of_writes_loses_nothing_acknowledged(
    own_server: EmbeddedPostgres,
) -> None:
    store = await Store.open(own_server.url, housekeeping=False, connect_timeout_seconds=15)
    tenant = await store.create_tenant(TenantName("acme"))
    watch = await store.subscribe(tenant, WIDGETS, 0)
    acknowledged: dict[str, int] = {}
    stop = asyncio.Event()

    async def write(label: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            key = f"{label}/{number}"
            try:
                acknowledged[key] = (await store.commit(tenant, create(key))).revision
            except StoreError:
                await asyncio.sleep(0.05)

    writers = [asyncio.create_task(write(label)) for label in range(16)]
    for _ in range(2):
        before = len(acknowledged)
        async with asyncio.timeout(120):
            while len(acknowledged) < before + 300:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        pid = own_server.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    before = len(acknowledged)
    async with asyncio.timeout(120):
        while len(acknowledged) < before + 100:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    stop.set()
    await asyncio.gather(*writers)
    state = await store.state(tenant)
    seen = await changes_up_to(watch, state.revision)
    rows = {row.key: row.revision for row in (await store.page(tenant, WIDGETS)).rows}
    await store.close()
    assert [c.revision for c in seen] == list(range(1, state.revision + 1))
    assert {c.key: c.revision for c in seen} == rows
    assert acknowledged.items() <= {str(key): revision for key, revision in rows.items()}.items()


async def _waiting_for_a_lock(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
    async with asyncio.timeout(60):
        while True:
            cursor = await connection.execute(
                "SELECT 1 FROM pg_stat_activity WHERE application_name = 'registry writer'"
                " AND datname = current_database() AND wait_event_type = 'Lock'"
            )
            if await cursor.fetchall():
                return
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_cancelled_reads_leave_the_pool_intact(store: Store, tenant: Tenant) -> None:
    await commit_all(store, tenant, [create(f"ns/{i:02}") for i in range(50)])
    key = create("ns/00").key
    for moment in range(24):
        tasks: list[asyncio.Task[Any]] = [
            asyncio.create_task(store.page(tenant, WIDGETS, limit=10)),
            asyncio.create_task(store.page(tenant, WIDGETS)),
            asyncio.create_task(store.load(tenant, WIDGETS, key)),
            asyncio.create_task(store.subscribe(tenant, WIDGETS, 0)),
        ]
        for _ in range(moment):
            await asyncio.sleep(0.0002 * (moment % 3))
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(r, asyncio.CancelledError) or not isinstance(r, BaseException) for r in results)
    # More of each than there are connections: none was lost on the way.
    pages = await asyncio.gather(*(store.page(tenant, WIDGETS) for _ in range(10)))
    assert all(len(page.rows) == 50 for page in pages)
    assert (await store.load(tenant, WIDGETS, key))[0] is not None
