"""Helpers of store tests: constructors of writes, and waiting for changes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence

import psycopg

from registry.store.feed.subscription import Subscription
from registry.store.store import Store
from registry.store.types import (
    NO_FLAGS,
    Actor,
    Change,
    Committed,
    Guards,
    ObjectKey,
    Replaced,
    ResourceName,
    Row,
    Tenant,
    Uid,
    Write,
    WriteFlag,
    WriteOperation,
)

WIDGETS = ResourceName("widgets.example.com")
GADGETS = ResourceName("gadgets.example.com")
ACTOR = Actor("alice", "tests", "create")


def create(
    key: str,
    *,
    resource: ResourceName = WIDGETS,
    body: str = '"spec":{}}',
    labels: Sequence[str] = (),
    owners: Sequence[str] = (),
    guards: Guards | None = None,
    doc: str | None = None,
    uid: str = "",
    flags: WriteFlag = NO_FLAGS,
) -> Write:
    return Write(
        WriteOperation.CREATE,
        resource,
        ObjectKey(key),
        ACTOR,
        Uid(uid or str(uuid.uuid4())),
        "v1",
        1,
        body,
        labels,
        owners,
        doc,
        None,
        guards,
        flags,
    )


def update(
    key: str,
    *,
    resource: ResourceName = WIDGETS,
    body: str = '"spec":{"new":true}}',
    expected: int | None = None,
    labels: Sequence[str] = (),
    guards: Guards | None = None,
    replaced: Replaced | None = None,
) -> Write:
    """`replaced` is instead of `expected`."""
    return Write(
        WriteOperation.UPDATE,
        resource,
        ObjectKey(key),
        ACTOR,
        Uid("uid"),
        "v1",
        2,
        body,
        labels,
        expected_revision=expected if replaced is None else replaced.row.revision,
        expected_guards=guards,
        replaced=replaced,
    )


def delete(
    key: str, *, resource: ResourceName = WIDGETS, expected: int | None = None, replaced: Replaced | None = None
) -> Write:
    """`replaced` is instead of `expected`."""
    return Write(
        WriteOperation.DELETE,
        resource,
        ObjectKey(key),
        ACTOR,
        expected_revision=expected if replaced is None else replaced.row.revision,
        replaced=replaced,
        flags=WriteFlag.FOLLOW_UP,
    )


async def commit_all(store: Store, tenant: Tenant, writes: Sequence[Write]) -> list[Committed]:
    """Commits concurrently, so that the writes share transactions."""
    return list(await asyncio.gather(*(store.commit(tenant, write) for write in writes)))


async def keys(store: Store, tenant: Tenant, **query: object) -> list[str]:
    page = await store.page(tenant, WIDGETS, **query)  # type: ignore[arg-type]
    return [row.key for row in page.rows]


async def row_of(store: Store, tenant: Tenant, key: str, resource: ResourceName = WIDGETS) -> Row | None:
    row, _ = await store.load(tenant, resource, ObjectKey(key))
    return row


async def changes_up_to(subscription: Subscription, revision: int, seconds: float = 60) -> list[Change]:
    """Returns the changes of a subscription until it has reached the revision."""
    found: list[Change] = []
    async with asyncio.timeout(seconds):
        while subscription.position < revision:
            batch = await subscription.next_batch(0.1)
            found.extend(batch.changes)
    return found


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 (what is waited for is in PostgreSQL)
            await asyncio.sleep(0.01)


async def end_backends(url: str, purpose: str) -> int:
    """Terminates the backends of one purpose ("writer", "listener", ...), and returns how many there were."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        cursor = await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = %s AND datname = current_database()",
            (f"registry {purpose}",),
        )
        return len(await cursor.fetchall())


async def mark_deleted(store: Store, tenant: Tenant) -> None:
    """Marks a tenant as deleted, as a write to its object does (registry_follow, registry/store/sql/tenancy.sql)."""
    async with store._pool.connection() as connection, connection.transaction():
        await connection.execute("SELECT FROM domains WHERE id = %s FOR UPDATE", (tenant.domain,))
        await connection.execute("UPDATE tenants SET deleted_at = now() WHERE id = %s", (tenant.id,))
    store.tenancy.forget(tenant)


async def delete_tenant(store: Store, tenant: Tenant) -> None:
    """Marks a tenant as deleted and removes its rows."""
    await mark_deleted(store, tenant)
    await store.tenancy.finish_deletions()
