"""Counts of objects by resource and namespace are exact after every kind of write and removal."""

from __future__ import annotations

import random

import psycopg
import pytest

from registry.store.reads import pages
from registry.store.store import Store
from registry.store.types import ResourceName, Tenant
from tests.store.writes import GADGETS, WIDGETS, commit_all, create, delete, update

COUNTED = "SELECT tenant_id, resource, namespace, objects FROM object_counts"
THERE = """
    SELECT tenant_id, resource, split_part(key, '/', 1), count(*) FROM objects WHERE strpos(key, '/') > 0 GROUP BY 1, 2, 3
    UNION ALL SELECT tenant_id, resource, '', count(*) FROM objects GROUP BY 1, 2
"""


def agree(url: str) -> None:
    with psycopg.connect(url) as connection:
        assert sorted(connection.execute(COUNTED).fetchall()) == sorted(connection.execute(THERE).fetchall())


async def test_counts_are_those_of_the_objects(store: Store, tenant: Tenant, database_url: str) -> None:
    chosen = random.Random(5)
    there: list[tuple[ResourceName, str]] = []
    for _ in range(12):
        writes = []
        for _ in range(10):
            resource = chosen.choice((WIDGETS, GADGETS))
            key = f"{chosen.choice('abc')}/{chosen.randrange(10)}" if resource == WIDGETS else f"{chosen.randrange(10)}"
            place = (resource, key)
            if place not in there:
                there.append(place)
                writes.append(create(key, resource=resource))
            elif chosen.random() < 0.7:
                there.remove(place)
                writes.append(delete(key, resource=resource))
            else:
                writes.append(update(key, resource=resource))
        await commit_all(store, tenant, writes)
        agree(database_url)
    await commit_all(store, tenant, [delete(key, resource=resource) for resource, key in there])
    with psycopg.connect(database_url) as connection:
        gone = "SELECT 1 FROM object_counts WHERE tenant_id = %s AND resource = ANY (%s)"
        assert connection.execute(gone, (tenant.id, [WIDGETS, GADGETS])).fetchall() == []


def test_rows_loaded_or_removed_by_sql_are_counted(tenant: Tenant, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO objects (tenant_id, resource, key, uid, revision, version, schema_id, body, created_at, updated_at)"
            " SELECT %s, 'x', n %% 3 || '/' || n, n, 1, 'v1', 0, '{}', now(), now() FROM generate_series(1, 1000) n",
            (tenant.id,),
        )
    agree(database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute("DELETE FROM objects WHERE resource = 'x' AND key LIKE '0/%'")
    agree(database_url)


@pytest.mark.parametrize("namespace, left", [(None, 7), ("a", 2)], ids=["all namespaces", "one"])
async def test_the_first_page_knows_what_remains_of_any_number(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, namespace: str | None, left: int
) -> None:
    """And so do the next, by what remained after the one before: nothing is counted."""
    monkeypatch.setattr(pages, "MAX_COUNTED", 1)
    await commit_all(store, tenant, [create(f"{n}/{i}") for n in "ab" for i in range(5)])
    await commit_all(store, tenant, [delete("b/4"), create("c/0"), update("a/0")])
    first = await store.page(tenant, WIDGETS, namespace=namespace, limit=3)
    assert first.remaining == left
    await commit_all(store, tenant, [delete("a/4"), create("a/5"), create("a/6")])
    after = first.rows[-1].key
    second = await store.page(
        tenant, WIDGETS, namespace=namespace, limit=1, at=first.revision, after=after, left=first.remaining
    )
    assert second.remaining == left - 1


async def test_the_count_of_a_list_in_the_past_is_bounded(
    store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await commit_all(store, tenant, [create(f"a/{i}") for i in range(9)])
    first = await store.page(tenant, WIDGETS, limit=2)
    await commit_all(store, tenant, [delete("a/8")])
    for after in (None, first.rows[-1].key):
        page = await store.page(tenant, WIDGETS, limit=2, at=first.revision, after=after)
        assert page.remaining == (7 if after is None else 5)
    newest = await store.page(tenant, WIDGETS, limit=2, after=first.rows[-1].key)
    assert newest.remaining == 4
    monkeypatch.setattr(pages, "MAX_COUNTED", 3)
    assert (await store.page(tenant, WIDGETS, limit=2, at=first.revision)).remaining is None
