"""A server killed while it removes a tenant: the next one finishes the removal, and nothing else is removed."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from registry.authentication.tokens.bearer import BearerTokens
from registry.store.reporting.tables import metadata
from registry.store.store import Store
from registry.store.types import TenantName
from tests.api.widgets import DEFINITIONS, GROUP, definition, widget, widgets_definition
from tests.faults.clients import ServerClient, eventually
from tests.processes import wait_until
from tests.running import RunningServer, start_server
from tests.tenancy.sharing import BINDINGS, EXPORTS, binding, export

pytestmark = pytest.mark.slow

TENANTS = "/clusters/system/apis/tenancy.registry/v1/tenants"
# Every table that says of a row whose it is.
TABLES = sorted(table.name for table in metadata.sorted_tables if "tenant_id" in table.c)
# What is written by a sweep every ten seconds is not waited for (tests/reporting/test_view_tenants.py).
FILLED = [name for name in TABLES if name not in ("report_schemas", "report_tenants")]
# Of these nothing changes by itself, once a tenant has what it is born with.
KEPT = [name for name in TABLES if not name.startswith("report_")]

Database = psycopg.Connection[Any]


def rows(database: Database, tenant: int) -> dict[str, int]:
    """How many rows a tenant has in each table."""
    return {name: len(contents(database, name, tenant)) for name in TABLES}


def contents(database: Database, table: str, tenant: int) -> list[Any]:
    # Documents for reports are written again at any time.
    row = "(resource, key, uid, revision, body)" if table == "objects" else "t"
    text = sql.SQL("SELECT {}::text FROM {} t WHERE tenant_id = %s ORDER BY 1").format(
        sql.SQL(row), sql.Identifier(table)
    )
    return [row[0] for row in database.execute(text, (tenant,)).fetchall()]


def found(database: Database, query: str, *values: Any) -> Any:
    row = database.execute(query.encode(), values).fetchone()
    return row[0] if row is not None else None


async def ok(client: ServerClient, method: str, path: str, body: Any = None) -> Any:
    answer = await client.request(method, path, body)
    assert answer.status_code < 300, answer.text
    return answer.json()


async def with_everything(client: ServerClient, database: Database, database_url: str, name: str) -> int:
    """A tenant that has rows in each table; its id."""
    at = f"/clusters/{name}"
    # In one domain, whose log they share.
    await ok(
        client,
        "POST",
        TENANTS,
        {
            "apiVersion": "tenancy.registry/v1",
            "kind": "Tenant",
            "metadata": {"name": name},
            "spec": {"domain": "fleet"},
        },
    )
    await ok(client, "POST", at + BINDINGS, binding())
    gadgets = definition("gadgets", "Gadget")
    gadgets["metadata"]["annotations"] = {"query.registry/index": "spec.size", "query.registry/search": "spec.color"}
    await ok(client, "POST", at + DEFINITIONS, gadgets)

    async def served() -> bool:
        gadget = {**widget("a", size=1, color="red"), "kind": "Gadget"}
        made = await client.request("POST", f"{at}/apis/{GROUP}/v1/namespaces/default/gadgets", gadget)
        return made.status_code in (201, 409)

    await eventually(served)
    await ok(
        client,
        "POST",
        f"{at}/api/v1/namespaces/default/secrets",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}},
    )
    store = await Store.open(database_url, housekeeping=False)
    await BearerTokens(store).create(await store.tenant(TenantName(name)), "ann", [], "", None)
    await store.close()
    tenant = int(found(database, "SELECT id FROM tenants WHERE name = %s", name))

    async def is_idle() -> bool:
        # What it is born with: four namespaces, in each an account and a config map.
        present = rows(database, tenant)
        return present["objects"] >= 12 + 4 and all(present[name] for name in FILLED)

    await eventually(is_idle)
    return tenant


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def blocker(database_url: str) -> Iterator[Database]:
    with psycopg.connect(database_url) as connection:
        yield connection


async def test_a_kill_in_the_middle_of_a_removal(
    folder: Path, database_url: str, database: Database, blocker: Database
) -> None:
    keys = folder / "keys"
    keys.write_text(f"one:{base64.b64encode(bytes(range(32))).decode()}\n")
    keys.chmod(0o600)
    arguments = ("--database-url", database_url, "--plain-http", "--encryption-key-file", str(keys))
    server: RunningServer | None = start_server(folder / "data", *arguments)
    assert server is not None
    try:
        async with ServerClient(server.url, server.token) as client:
            await ok(
                client,
                "POST",
                TENANTS,
                {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": "provider"}},
            )
            await ok(client, "POST", f"/clusters/provider{DEFINITIONS}", widgets_definition())
            await ok(client, "POST", f"/clusters/provider{EXPORTS}", export(all=True))
            other = await with_everything(client, database, database_url, "other")
            acme = await with_everything(client, database, database_url, "acme")
            before = {name: contents(database, name, other) for name in KEPT}
            # Its removal waits for us when it has begun with what is neither object nor log.
            blocker.execute("SELECT 1 FROM access_tokens WHERE tenant_id = %s FOR UPDATE", (acme,))
            await ok(client, "DELETE", f"{TENANTS}/acme")

        def halfway() -> bool:
            left = rows(database, acme)
            return left["objects"] == left["changes"] == 0 and bool(
                found(
                    database,
                    "SELECT true FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE "
                    "'%%delete-of-tenant%%' AND datname = current_database()",
                )
            )

        wait_until(halfway, "the removal is halfway", seconds=60)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid NOT IN (%s, %s)",
            (database.info.backend_pid, blocker.info.backend_pid),
        )
        blocker.rollback()
        left = rows(database, acme)
        assert left["access_tokens"]
        assert left["tenant_keys"]
        assert found(database, "SELECT deleted_at IS NOT NULL FROM tenants WHERE id = %s", acme)
        # The time of the dead leader is over.
        database.execute("UPDATE leaders SET expires_at = now() - interval '1 minute'")
        server = None
        server = start_server(folder / "data", *arguments)
        async with ServerClient(server.url, server.token) as client:

            async def gone() -> bool:
                return (await client.request("GET", f"{TENANTS}/acme")).status_code == 404

            await eventually(gone, 60)
            assert rows(database, acme) == dict.fromkeys(TABLES, 0)
            assert found(database, "SELECT 1 FROM tenants WHERE id = %s OR name = 'acme'", acme) is None
            assert {name: contents(database, name, other) for name in KEPT} == before
            secret = await ok(client, "GET", "/clusters/other/api/v1/namespaces/default/secrets/s")
            assert secret["data"] == {"a": "Yg=="}
            # Nothing is in the way of another of that name.
            assert await with_everything(client, database, database_url, "acme") != acme
    finally:
        if server is not None:
            server.process.kill()
            server.process.wait()
