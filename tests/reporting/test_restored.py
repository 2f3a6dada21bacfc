"""A copied, renamed or restored database, whose views belong to roles of the original."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

from registry.controllers.reporting import reporting_of
from registry.store.store import Store
from tests.api.client import eventually
from tests.databases import drop_database, with_database
from tests.reporting.reports import Reports, definition

PARTS = definition("parts", {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}})


async def fill(reports: Reports) -> None:
    """A view in every schema that there can be."""
    tenant = await reports.tenant("acme")
    await reports.reporting.make_wildcard_views()
    await reports.define("acme", PARTS)
    await reports.put("acme", PARTS, "a", {"spec": {"size": 3}})
    with psycopg.connect(reports.url) as connection:
        connection.execute("UPDATE tenants SET sql_schema = 'acme_parts' WHERE name = 'acme'")
        connection.execute(
            "INSERT INTO report_logins (name, across, tenant_ids, timeout_seconds)"
            " VALUES ('login_of_elsewhere', false, %s, 60)",
            ([tenant.id],),
        )
    assert await reports.reporting.name_schema(tenant) == ""


@pytest.mark.parametrize("restored", [False, True], ids=["copied", "restored"])
async def test_views_are_created_again_with_roles_of_their_own(
    reports: Reports, postgres_server: str, roles: Callable[[str], None], restored: bool
) -> None:
    await fill(reports)
    await reports.store.close()
    name = urlsplit(reports.url).path[1:]
    copy = f"{name}_copy"
    roles(f"{copy}_re")
    with psycopg.connect(postgres_server, autocommit=True) as connection:

        async def idle() -> bool:
            """Backends end a moment after their connections; a database in use is not copied."""
            return not connection.execute("SELECT 1 FROM pg_stat_activity WHERE datname = %s", (name,)).fetchone()

        await eventually(idle)
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(copy), sql.Identifier(name)))
    url = with_database(postgres_server, copy)
    try:
        if restored:  # what pg_restore leaves where the roles are not: all is of who restored it
            with psycopg.connect(url) as connection:
                for role in ("reports", "reports_all"):
                    connection.execute(
                        sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(sql.Identifier(f"{name}_{role}"))
                    )
        store = await Store.open(url, housekeeping=False)
        try:
            reporting = reporting_of(store.reporting_pool)
            for _ in range(2):  # the second time nothing is to be done
                await reporting.prepare()
                assert await reporting.name_schema(reports.tenants["acme"]) == ""
        finally:
            await store.close()
        found = Reports(store, reporting, url, {})
        for schema in ("reports.parts_example_com", "reports_all.parts_example_com", "acme_parts.parts"):
            assert [row["spec_size"] for row in found.ask("acme", f"SELECT spec_size FROM {schema}")] == [3], schema
        owners = found.ask("acme", "SELECT DISTINCT viewowner AS owner FROM pg_views WHERE viewname LIKE 'parts%'")
        assert {row["owner"] for row in owners} == {f"{copy}_reports", f"{copy}_reports_all"}
    finally:
        drop_database(postgres_server, copy)
