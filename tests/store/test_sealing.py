"""Encryption at rest: no plaintext in the database, unchanged behaviour outside it, key rotation."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from registry.flowcontrol.evaluation import Evaluations
from registry.store.connection import Pool
from registry.store.encryption import master_keys, resealing, sealing
from registry.store.encryption.master_keys import MasterKeyError, MasterKeys
from registry.store.encryption.sealing import Encryption, Sealing
from registry.store.errors import AlreadyExists, RevisionConflict, Unreadable
from registry.store.settings import SharedSettings
from registry.store.store import Store
from registry.store.types import (
    Actor,
    ObjectKey,
    ResourceName,
    Tenant,
    TenantId,
    TenantName,
    Uid,
    Write,
    WriteOperation,
)

SECRETS = ResourceName("secrets")
WIDGETS = ResourceName("widgets.example.com")
ACTOR = Actor("somebody", "tests", "create")
OLD = "old:" + base64.b64encode(b"o" * 32).decode()
NEW = "new:" + base64.b64encode(b"n" * 32).decode()


def keys(*lines: str) -> MasterKeys:
    return master_keys.parse("\n".join(lines))


def encryption(*lines: str, resources: frozenset[str] = frozenset({SECRETS})) -> Encryption:
    return Encryption(keys(*lines), resources)


def write(
    operation: WriteOperation, key: str = "ns/a", text: str = "hidden", *, resource: ResourceName = SECRETS, **more: Any
) -> Write:
    body = "" if operation is WriteOperation.DELETE else f'"name":"a"}},"data":{{"x":"{text}"}}}}'
    return Write(operation, resource, ObjectKey(key), ACTOR, uid=Uid("u1"), version="v1", schema=1, body=body, **more)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    store = await Store.open(database_url, housekeeping=False, encryption=encryption(OLD))
    yield store
    await store.close()


@pytest.fixture
async def tenant(store: Store) -> Tenant:
    return await store.create_tenant(TenantName("acme"))


def stored_texts(url: str, resource: str = SECRETS) -> list[str]:
    """Every body in the database, of now and of the log."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT body FROM objects WHERE resource = %(r)s UNION ALL"
            " SELECT body FROM changes WHERE resource = %(r)s UNION ALL"
            " SELECT previous_body FROM changes WHERE resource = %(r)s",
            {"r": resource},
        )
        return [row[0] for row in rows if row[0] is not None]


def stored_documents(url: str) -> list[Any]:
    """What reports read columns from, of now and of the log."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT doc FROM objects UNION ALL SELECT previous_doc FROM changes")
        return [row[0] for row in rows if row[0] is not None]


async def fill(store: Store, tenant: Tenant) -> None:
    doc = '{"data":{"x":"hidden"}}'
    await store.commit(tenant, write(WriteOperation.CREATE, text="hidden one", doc=doc))
    await store.commit(tenant, write(WriteOperation.UPDATE, text="hidden two", doc=doc))
    await store.commit(tenant, write(WriteOperation.CREATE, "ns/b", owners=["owner"]))
    await store.commit(tenant, write(WriteOperation.CREATE, "ns/c"))
    await store.commit(tenant, write(WriteOperation.DELETE, "ns/c"))


async def test_nothing_can_be_read_in_the_database(store: Store, tenant: Tenant, database_url: str) -> None:
    await fill(store, tenant)
    texts = stored_texts(database_url)
    assert len(texts) == 8
    assert all(text.startswith(sealing.prefix_of(tenant.id, 1)) for text in texts)
    assert not any("hidden" in text or "data" in text for text in texts)
    with psycopg.connect(database_url) as connection:
        # SQL that takes bodies for JSON does not fail on them.
        shown = connection.execute("SELECT object FROM resources WHERE resource = 'secrets'").fetchall()
    assert [set(row[0]["metadata"]) for row in shown] in (
        [{"resourceVersion", "sealed"}] * 2,
        [{"resourceVersion", "sealed"}, {"resourceVersion", "sealed", "ownerReferences"}],
    )


async def test_every_read_path_decrypts(store: Store, tenant: Tenant) -> None:
    subscription = await store.subscribe(tenant, SECRETS)
    await fill(store, tenant)
    row, state = await store.load(tenant, SECRETS, ObjectKey("ns/a"))
    assert row is not None
    assert "hidden two" in row.body
    assert "hidden one" in (await store.page(tenant, SECRETS, at=row.revision - 1)).rows[0].body
    assert [r.key for r in (await store.page(tenant, SECRETS)).rows if "hidden" in r.body] == ["ns/a", "ns/b"]
    scanned = [r async for page in store.scan(tenant, SECRETS, rows=1) for r in page.rows]
    assert all("hidden" in r.body for r in scanned)
    assert all("hidden" in r.body for r in await store.lookups.owned_by(tenant, [Uid("owner")]))
    changes = [
        c async for part in store.changes(tenant, SECRETS, after=state.revision - 5, upto=state.revision) for c in part
    ]
    past = await store.history.of_object(tenant, SECRETS, ObjectKey("ns/a"), before=1 << 62, limit=10)
    gone = await store.history.list_deleted(tenant, SECRETS, namespace="ns", after=ObjectKey(""), limit=10)
    watched: list[Any] = []
    while len(watched) < 5:
        watched += (await subscription.next_batch(20)).changes
    subscription.close()
    for change in (*changes, *past.changes, *gone.changes, *watched):
        assert "hidden" in change.body
        assert change.previous_body is None or "hidden" in change.previous_body
    with pytest.raises(AlreadyExists) as exists:
        await store.commit(tenant, write(WriteOperation.CREATE))
    assert "hidden two" in exists.value.current.body
    with pytest.raises(RevisionConflict) as conflict:
        await store.commit(tenant, write(WriteOperation.UPDATE, expected_revision=1))
    assert "hidden two" in conflict.value.current.body
    await store.commit(tenant, write(WriteOperation.DELETE))


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """What is sealed and opened: each with whether that was beside the event loop."""
    noted: list[tuple[str, bool]] = []

    def note(name: str) -> None:
        work = getattr(sealing, name)

        def noting(*arguments: Any) -> Any:
            noted.append((name, threading.current_thread() is not threading.main_thread()))
            return work(*arguments)

        monkeypatch.setattr(sealing, name, noting)

    note("seal_body")
    note("_open_text")
    return noted


@pytest.mark.parametrize(
    "length, aside", [(100, False), (sealing.LONG_CHARACTERS, True)], ids=["short ones", "long ones"]
)
async def test_long_bodies_are_sealed_and_opened_beside_the_event_loop(
    store: Store, tenant: Tenant, threads: list[tuple[str, bool]], length: int, aside: bool
) -> None:
    text = "x" * length
    after = (await store.state(tenant)).revision
    await store.commit(tenant, write(WriteOperation.CREATE, text=text))
    assert threads == [("seal_body", aside)]
    row, _ = await store.load(tenant, SECRETS, ObjectKey("ns/a"))
    assert row is not None
    assert text in row.body
    assert threads[1:] == [("_open_text", aside)]
    readers = [await store.subscribe(tenant, SECRETS, after) for _ in range(10)]
    batches = await asyncio.gather(*(reader.next_batch(5.0) for reader in readers))
    for reader in readers:
        reader.close()
    assert all(text in change.body for batch in batches for change in batch.changes)
    assert [len(batch.changes) for batch in batches] == [1] * 10
    assert {where for _, where in threads} == {aside}


async def test_bodies_that_are_long_together_are_opened_beside_the_event_loop(
    store: Store, tenant: Tenant, threads: list[tuple[str, bool]]
) -> None:
    for number in range(20):
        key = ObjectKey(f"ns/{number}")
        await store.commit(tenant, write(WriteOperation.CREATE, key=key, text="x" * (sealing.LONG_CHARACTERS // 10)))
    threads.clear()
    page = await store.page(tenant, SECRETS)
    assert len(page.rows) == 20
    assert threads == [("_open_text", True)] * 20


async def test_readers_of_the_same_long_changes_open_them_once(
    store: Store, tenant: Tenant, threads: list[tuple[str, bool]]
) -> None:
    readers = [await store.subscribe(tenant, SECRETS) for _ in range(10)]
    waiting = asyncio.gather(*(reader.next_batch(5.0) for reader in readers))
    await asyncio.sleep(0)  # all wait
    await store.commit(tenant, write(WriteOperation.CREATE, text="x" * sealing.LONG_CHARACTERS))
    batches = await waiting
    for reader in readers:
        reader.close()
    assert [len(batch.changes) for batch in batches] == [1] * 10
    assert threads.count(("_open_text", True)) == 1


async def test_long_bodies_of_a_tenant_are_opened_one_at_a_time(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.commit(tenant, write(WriteOperation.CREATE, text="x" * sealing.LONG_CHARACTERS))
    opens, alone, taken = sealing._open_text, [], threading.Lock()

    def open_text(*arguments: Any) -> str:
        alone.append(taken.acquire(blocking=False))
        try:
            time.sleep(0.01)  # as a long decryption without the interpreter
            return opens(*arguments)
        finally:
            if alone[-1]:
                taken.release()

    monkeypatch.setattr(sealing, "_open_text", open_text)
    evaluations = Evaluations()

    async def load() -> None:
        evaluations.begin(tenant.name)
        await store.load(tenant, SECRETS, ObjectKey("ns/a"))

    try:
        await asyncio.gather(*(load() for _ in range(10)))
    finally:
        evaluations.close()
    assert alone == [True] * 10


async def test_other_resources_are_not_encrypted(store: Store, tenant: Tenant, database_url: str) -> None:
    await store.commit(tenant, write(WriteOperation.CREATE, resource=WIDGETS))
    assert all("hidden" in text for text in stored_texts(database_url, WIDGETS))


async def test_a_sealed_body_moved_to_another_row_is_not_decrypted(
    store: Store, tenant: Tenant, database_url: str
) -> None:
    await fill(store, tenant)
    other = await store.create_tenant(TenantName("other"))
    await store.commit(other, write(WriteOperation.CREATE))
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "UPDATE objects o SET body = a.body FROM objects a WHERE a.key = 'ns/a' AND o.key = 'ns/b'"
            " AND o.tenant_id = a.tenant_id"
        )
        connection.execute(
            "UPDATE objects o SET body = a.body FROM objects a WHERE a.key = 'ns/a' AND o.key = 'ns/a'"
            " AND o.tenant_id = %s AND a.tenant_id = %s",
            [other.id, tenant.id],
        )
    for whose, key in ((tenant, "ns/b"), (other, "ns/a")):
        with pytest.raises(Unreadable):
            await store.load(whose, SECRETS, ObjectKey(key))


async def test_encrypted_objects_are_unreadable_without_the_key(
    store: Store, tenant: Tenant, database_url: str
) -> None:
    await fill(store, tenant)
    for other in (None, encryption(NEW), encryption("old:" + base64.b64encode(b"x" * 32).decode())):
        stranger = await Store.open(database_url, housekeeping=False, encryption=other)
        try:
            with pytest.raises(Unreadable):
                await stranger.load(tenant, SECRETS, ObjectKey("ns/a"))
            if other is None:
                with pytest.raises(Unreadable):
                    await stranger.require_readable()
        finally:
            await stranger.close()


def used_bytes(url: str) -> tuple[int, int]:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT (SELECT sum(octet_length(body)) FROM objects), (SELECT sum(bytes) FROM tenants)"
        ).fetchone()
        assert row is not None
        return row[0], row[1]


@pytest.mark.parametrize("before", [None, encryption(OLD)], ids=["plain", "old key"])
async def test_rotation_reseals_everything(
    database_url: str, monkeypatch: pytest.MonkeyPatch, before: Encryption | None
) -> None:
    monkeypatch.setattr(resealing, "CURRENT_SECONDS", -1.0)
    monkeypatch.setattr(resealing, "BATCH_ROWS", 2)
    store = await Store.open(database_url, housekeeping=False, encryption=before)
    tenant = await store.create_tenant(TenantName("acme"))
    await store.create_tenant(TenantName("empty"))
    await fill(store, tenant)
    state = await store.state(tenant)
    await store.close()
    pool = Pool(database_url, "tests", 1)
    both = encryption(NEW, OLD)
    try:
        done = await resealing.rotate(pool, Sealing(pool, both), rate=100_000)
        assert (done.tenants, done.objects, done.changes) == (1, 2, 5)
        assert await resealing.masters_in_use(pool) == {"new": 1}
        # Done with: the next one is another.
        assert not await SharedSettings(pool).get(resealing.SETTING)
    finally:
        await pool.close()
    number = 1 if before is None else 2
    assert stored_documents(database_url) == []
    assert all(text.startswith(sealing.prefix_of(tenant.id, number)) for text in stored_texts(database_url))
    stored, counted = used_bytes(database_url)
    assert stored == counted
    # The old key is not needed any more, and nobody has noticed anything.
    store = await Store.open(database_url, housekeeping=False, encryption=encryption(NEW))
    try:
        row, found = await store.load(tenant, SECRETS, ObjectKey("ns/a"))
        assert row is not None
        assert "hidden two" in row.body
        assert found.revision == state.revision
        past = await store.history.of_object(tenant, SECRETS, ObjectKey("ns/a"), before=1 << 62, limit=10)
        assert ["hidden two" in past.changes[0].body, "hidden one" in past.changes[1].body] == [True, True]
    finally:
        await store.close()


async def test_an_interrupted_rotation_is_resumed(
    store: Store, tenant: Tenant, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resealing, "CURRENT_SECONDS", -1.0)
    monkeypatch.setattr(resealing, "BATCH_ROWS", 1)
    await fill(store, tenant)
    pool = Pool(database_url, "tests", 1)

    class Stopped(Exception):
        pass

    def stop(_: resealing.Progress) -> None:
        raise Stopped

    try:
        with pytest.raises(Stopped):
            await resealing.rotate(pool, Sealing(pool, encryption(OLD)), rate=100_000, report=stop)
        done = await resealing.rotate(pool, Sealing(pool, encryption(OLD)), rate=100_000)
    finally:
        await pool.close()
    # One was done before, and no third key was made.
    assert (done.objects, done.changes) == (1, 5)
    assert all(text.startswith(sealing.prefix_of(tenant.id, 2)) for text in stored_texts(database_url))
    # A server that still knew the key before goes on.
    await store.commit(tenant, write(WriteOperation.UPDATE, text="hidden three"))


async def test_a_resource_that_is_no_longer_encrypted(
    store: Store, tenant: Tenant, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resealing, "CURRENT_SECONDS", -1.0)
    await fill(store, tenant)
    pool = Pool(database_url, "tests", 1)
    try:
        none = replace(encryption(OLD), resources=frozenset())
        await resealing.rotate(pool, Sealing(pool, none), rate=100_000)
    finally:
        await pool.close()
    assert all("hidden" in text for text in stored_texts(database_url))


BAD: dict[str, tuple[str, str]] = {
    "nothing": ("", "no key"),
    "a comment": ("# x", "no key"),
    "no name": (":" + "A" * 44, "line 1"),
    "no base64": ("a:%%%", "32 bytes"),
    "too short": ("a:" + base64.b64encode(b"x" * 16).decode(), "32 bytes"),
    "twice": (f"{OLD}\n{OLD}", "twice"),
    "a name with spaces": ("a b:" + "A" * 44, "line 1"),
}


@pytest.mark.parametrize("text, why", BAD.values(), ids=BAD.keys())
def test_invalid_key_lists(text: str, why: str) -> None:
    with pytest.raises(MasterKeyError, match=why):
        master_keys.parse(text)


def test_a_generated_key_can_be_used() -> None:
    made = keys(master_keys.generate("2026-11"), OLD)
    assert (made.first, made.names) == ("2026-11", ["2026-11", "old"])


SECRET = b"a key of the server"


def test_secrets_of_the_server() -> None:
    sealed = master_keys.seal(keys(OLD), SECRET, "signing")
    assert SECRET not in sealed
    assert master_keys.unseal(keys(NEW, OLD), sealed, "signing") == SECRET
    assert master_keys.unseal(None, master_keys.seal(None, SECRET, "signing"), "signing") == SECRET
    assert master_keys.unseal(keys(OLD), master_keys.seal(None, SECRET, "signing"), "signing") == SECRET


@pytest.mark.parametrize(
    "masters, spoil, purpose",
    [(None, b"", "signing"), (keys(NEW), b"", "signing"), (keys(OLD), b"", "another"), (keys(OLD), b"x", "signing")],
    ids=["no keys", "another key", "another purpose", "damaged"],
)
def test_secrets_that_cannot_be_unsealed(masters: MasterKeys | None, spoil: bytes, purpose: str) -> None:
    sealed = master_keys.seal(keys(OLD), SECRET, "signing")
    with pytest.raises(master_keys.CannotUnseal):
        master_keys.unseal(masters, sealed[: len(sealed) - len(spoil)] + spoil, purpose)


async def test_a_body_is_opened_only_where_it_was_sealed(store: Store, tenant: Tenant, database_url: str) -> None:
    await fill(store, tenant)
    pool = Pool(database_url, "tests", 1)
    try:
        opening = Sealing(pool, encryption(OLD))
        with psycopg.connect(database_url) as connection:
            [body] = connection.execute("SELECT body FROM objects WHERE key = 'ns/a'").fetchone() or [""]
        assert "hidden two" in await opening.text(tenant.id, SECRETS, "ns/a", body)
        with pytest.raises(Unreadable):
            await opening.text(TenantId(tenant.id + 1), SECRETS, "ns/a", body)
        with pytest.raises(Unreadable):
            await opening.text(tenant.id, SECRETS, "ns/b", body)
    finally:
        await pool.close()
