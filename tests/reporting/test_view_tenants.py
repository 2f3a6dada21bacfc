"""Views of several tenants: shared where definitions are equal, and never with rows of another tenant."""

from __future__ import annotations

import datetime
from dataclasses import replace

import psycopg

from registry.store.types import TenantName
from tests.reporting.crontabs import CRD, TEXT, VIEW, of
from tests.reporting.reports import Reports, definition
from tests.store.writes import delete_tenant


async def test_equal_definitions_share_a_view_and_tenants_see_their_own(reports: Reports) -> None:
    for tenant in ("acme", "beta"):
        assert (await reports.define(tenant, CRD)).view == VIEW
        await reports.put(tenant, CRD, f"of-{tenant}", {"spec": {"phase": "x"}})
    assert [r["name"] for r in reports.ask("acme", f"SELECT name FROM {VIEW}")] == ["of-acme"]
    assert [r["name"] for r in reports.ask("beta", f"SELECT name FROM {VIEW}")] == ["of-beta"]
    await reports.reporting.make_wildcard_views()
    rows = reports.ask("acme", f"SELECT tenant, name FROM reports_all.{VIEW} ORDER BY name")
    assert rows == [{"tenant": "acme", "name": "of-acme"}, {"tenant": "beta", "name": "of-beta"}]


async def test_different_definitions_of_a_name_have_views_of_their_own(reports: Reports) -> None:
    await reports.define("acme", CRD)
    other = definition("crontabs", {"spec": of(color=TEXT)})
    outcome = await reports.define("beta", other)
    assert outcome.view != VIEW
    await reports.put("acme", CRD, "a", {"spec": {"phase": "x"}})
    await reports.put("beta", other, "b", {"spec": {"color": "red"}})
    assert [r["name"] for r in reports.ask("acme", f"SELECT name FROM {VIEW}")] == ["a"]
    assert reports.ask("beta", f"SELECT name FROM {VIEW}") == []
    assert reports.ask("beta", f'SELECT spec_color FROM "{outcome.view}"') == [{"spec_color": "red"}]


async def test_a_tenant_may_have_its_own_schema(reports: Reports) -> None:
    await reports.define("acme", CRD)
    await reports.put("acme", CRD, "a", {"spec": {"phase": "x"}})
    tenant = await reports.tenant("acme")
    with psycopg.connect(reports.url, autocommit=True) as connection:
        connection.execute("UPDATE tenants SET sql_schema = 'acme' WHERE id = %s", (tenant.id,))
        assert await reports.reporting.name_schema(tenant) == ""
        assert reports.ask("acme", "SELECT name FROM acme.crontabs") == [{"name": "a"}]
        await reports.define("acme", definition("others", {"spec": of(x=TEXT)}))
        assert reports.columns("others", "acme")
        for name, refusal in (
            ("reports", "cannot be"),
            ("pg_x", "cannot be"),
            ("a; DROP", "cannot be"),
            ("other", "already"),
        ):
            connection.execute("CREATE SCHEMA IF NOT EXISTS other")
            connection.execute("UPDATE tenants SET sql_schema = %s WHERE id = %s", (name, tenant.id))
            assert refusal in await reports.reporting.name_schema(tenant)
        found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'acme'").fetchall()
    assert found == []


async def test_deleting_a_tenant_drops_its_schema_and_views(reports: Reports) -> None:
    tenant, _ = await reports.tenant("acme"), await reports.define("acme", CRD)
    with psycopg.connect(reports.url, autocommit=True) as connection:
        connection.execute("UPDATE tenants SET sql_schema = 'acme' WHERE id = %s", (tenant.id,))
        assert await reports.reporting.name_schema(tenant) == ""
        await delete_tenant(reports.store, tenant)
        left = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname = 'acme' UNION ALL"
            " SELECT name FROM report_schemas WHERE tenant_id IS NOT NULL"
        ).fetchall()
        assert left == []
        # What was under way when it was deleted makes nothing.
        connection.execute(
            "INSERT INTO tenants (name, domain_id, deleted_at, sql_schema) VALUES"
            " ('going', %s, now(), 'going') RETURNING id",
            (tenant.domain,),
        )
        row = connection.execute("SELECT id FROM tenants WHERE name = 'going'").fetchone()
        assert row is not None
        reports.tenants["going"] = going = replace(tenant, id=row[0], name=TenantName("going"))
        assert await reports.reporting.name_schema(going) == ""
        await reports.define("going", CRD)
        await reports.reporting.mark_done(going, 1)
        for table in ("report_definitions", "report_tenants"):
            assert connection.execute(f"SELECT 1 FROM {table} WHERE tenant_id = %s", (row[0],)).fetchall() == []
        assert connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'going'").fetchall() == []
    # Nobody has its views any more: they go in their time, which begins when that is noticed.
    assert await reports.reporting.drop_expired(datetime.timedelta(0)) == []
    assert await reports.reporting.drop_expired(datetime.timedelta(0)) == [VIEW]


async def test_objects_of_bound_definitions_are_in_the_views_of_the_provider(reports: Reports) -> None:
    await reports.define("provider", CRD)
    provider, user = await reports.tenant("provider"), await reports.tenant("user")
    await reports.put("user", CRD, "a", {"spec": {"phase": "x"}})
    with psycopg.connect(reports.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO api_bindings (tenant_id, resource, since, provider_id, export, binding)"
            " VALUES (%s, 'crontabs.example.com', 0, %s, 'e', 'b')",
            (user.id, provider.id),
        )
        await reports.reporting.follow_bindings()
        assert reports.ask("user", f"SELECT name, spec_phase FROM {VIEW}") == [{"name": "a", "spec_phase": "x"}]
        assert reports.ask("provider", f"SELECT name FROM {VIEW}") == []
        assert [t.name for t in await reports.reporting.bound(provider, "crontabs.example.com")] == ["user"]
        connection.execute("UPDATE api_bindings SET until = 5")
        await reports.reporting.follow_bindings()
    assert [r["state"] for r in reports.ask("user", "SELECT state FROM definitions")] == ["deleted"]
