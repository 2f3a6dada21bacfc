"""Migrations of databases in use: data of every older revision survive downgrade and upgrade."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from registry.cli.root import main
from registry.store import migrate, tables
from tests.api.client import Client, eventually
from tests.api.widgets import DEFINITIONS, GROUP, WIDGETS, define, names_of, widget, widgets_definition
from tests.application import serving
from tests.tenancy.sharing import EXPORTS, bind, export
from tests.tenancy.tenants import make

SECRETS = "/api/v1/namespaces/default/secrets"
ACCOUNT_TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: Metadata}\n"
# What a revision adds is gone when it is undone; these are there in all.
OBJECTS = "SELECT tenant_id, resource, key, uid, revision, version, schema_id, body FROM objects ORDER BY 1, 2, 3"
CHANGES = "SELECT domain_id, revision, tenant_id, resource, key, type, body, previous_body FROM changes ORDER BY 1, 2"
# What the newest revision has added, tables and columns: documents of the log, which are made from bodies without it.
NEWEST: tuple[str, ...] = ()
NEWEST_COLUMNS: dict[str, str] = {"changes": "previous_doc"}
TENANTS = "SELECT id, name, domain_id, definitions_revision, namespaces_revision FROM tenants ORDER BY 1"


@asynccontextmanager
async def served(url: str, folder: Path) -> AsyncIterator[Client]:
    """A server that encrypts and audits into the database."""
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "keys").write_text(f"one:{base64.b64encode(bytes(32)).decode()}\n")
    async with serving(
        url,
        folder,
        with_views=True,
        audit_policy_file=folder / "policy.yaml",
        audit_to_database=True,
        encryption_key_file=folder / "keys",
    ) as client:
        yield client


async def fill(url: str, folder: Path) -> None:
    async with served(url, folder) as api:
        system = api.of_tenant("system")
        provider = await make(system, "provider", domain="shop")
        consumer = await make(system, "consumer", domain="shop", parent="provider")
        made = widgets_definition()
        made["metadata"]["annotations"] = {"query.registry/search": "spec.color"}
        await define(provider, made)
        (await provider.post(EXPORTS, export(all=True))).ok(201)
        await bind(consumer)
        for client in (provider, consumer):
            for name in "ab":
                (await client.post(WIDGETS, widget(name, size=1, color="red"))).ok(201)
            (await client.patch(f"{WIDGETS}/a", {"spec": {"size": 2}})).ok()
            (await client.delete(f"{WIDGETS}/b")).ok()
        (await api.post(SECRETS, {"metadata": {"name": "s"}, "stringData": {"x": "hidden"}})).ok(201)
        (await api.post(ACCOUNT_TOKEN, {"spec": {}})).ok(201)

        async def reported() -> bool:
            found: Any = (await provider.get(f"{DEFINITIONS}/widgets.{GROUP}")).ok()["status"]["conditions"]
            return bool(ask(url, "SELECT 1 FROM report_views")) and bool(found)

        await eventually(reported)


def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(query.encode()).fetchall()


def empty_tables(url: str) -> list[str]:
    return [
        table.name for table in tables.metadata.sorted_tables if not ask(url, f"SELECT 1 FROM {table.name} LIMIT 1")
    ]


def grant(url: str, login: str, *what: str) -> None:
    assert main(["sql", "grant", login, *what, "--database-url", url]) == 0


async def serve_again(url: str, folder: Path) -> None:
    """What was there is read, and what is written follows what is written there."""
    async with served(url, folder) as api:
        consumer = api.of_tenant("consumer")
        assert (await api.get(f"{SECRETS}/s")).ok()["data"] == {"x": "aGlkZGVu"}
        assert (await consumer.get(f"{WIDGETS}/a")).ok()["spec"]["size"] == 2
        made = (await consumer.post(WIDGETS, widget("late"))).ok(201)
        assert names_of((await consumer.get(WIDGETS)).ok()) == ["a", "late"]
        last = ask(url, "SELECT max(revision) FROM domains WHERE name = 'shop'")
        assert last == [(int(made["metadata"]["resourceVersion"]),)]


@pytest.mark.slow  # 3 s: a server three times, and every migration some times
def test_data_survives_every_migration(roles: Callable[[str], None], database_url: str, tmp_path: Path) -> None:
    """A step down and up again loses nothing that the older one can hold; from the bottom everything is created again."""
    url = database_url
    [(name,)] = ask(url, "SELECT current_database()")
    roles(f"{name}_re")
    roles(f"login_{name}_")
    asyncio.run(fill(url, tmp_path))
    grant(url, f"login_{name}_one", "--tenants", "provider,consumer")
    grant(url, f"login_{name}_two", "--provider", "provider")
    assert main(["token", "create", "--user", "alice", "--database-url", url]) == 0
    with psycopg.connect(url) as connection:
        # Housekeeping writes these when it comes round, and a server that ends leaves no lease.
        connection.execute("INSERT INTO settings VALUES ('a-test', '{}')")
        connection.execute("INSERT INTO leaders VALUES ('a-test', 'another', now())")
        connection.execute("INSERT INTO report_tenants SELECT id, 0 FROM tenants ON CONFLICT DO NOTHING")
    assert empty_tables(url) == []
    kept = [table.name for table in tables.metadata.sorted_tables if table.name not in NEWEST]
    whole = {name: everything(url, name) for name in kept}
    head = migrate.current(url)

    migrate.downgrade(url, "-1")
    migrate.upgrade(url)
    assert {name: everything(url, name) for name in kept} == whole
    asyncio.run(serve_again(url, tmp_path))

    before = [ask(url, query) for query in (OBJECTS, CHANGES, TENANTS)]
    while migrate.current(url) != "0013":
        migrate.downgrade(url, "-1")
        assert [ask(url, query) for query in (OBJECTS, CHANGES, TENANTS)] == before, migrate.current(url)
    migrate.upgrade(url)
    assert [ask(url, query) for query in (OBJECTS, CHANGES, TENANTS)] == before
    migrate.downgrade(url, "base")
    assert migrate.current(url) is None
    migrate.upgrade(url)
    assert migrate.current(url) == head
    assert empty_tables(url) == [table.name for table in tables.metadata.sorted_tables]
    asyncio.run(fill(url, tmp_path))
    migrate.downgrade(url, "base")
    assert migrate.current(url) is None


def everything(url: str, table: str) -> list[tuple[Any, ...]]:
    """All but what the newest revision has added."""
    return ask(url, f"SELECT (to_jsonb(t) - '{NEWEST_COLUMNS.get(table, '')}')::text FROM {table} t ORDER BY 1")
