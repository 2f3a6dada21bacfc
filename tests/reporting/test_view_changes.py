"""How views follow their definition: columns that are added, limits, refusals, and views of an earlier version."""

from __future__ import annotations

import datetime

import psycopg
import pytest

from registry.reporting.report import report_of
from registry.store.reporting import choice as reporting_choice
from registry.store.reporting.locations import count_relations
from tests.reporting.crontabs import CONDITIONS, CRD, SPEC, TEXT, VIEW, of
from tests.reporting.reports import Reports, definition


async def test_a_change_adds_columns_at_the_end(reports: Reports) -> None:
    await reports.define("acme", definition("crontabs", {"spec": of(b=TEXT)}))
    before = reports.columns(VIEW)
    changed = definition("crontabs", {"spec": of(a=TEXT, b={"type": "integer"})})
    await reports.define("acme", changed)
    assert reports.columns(VIEW) == [*before, "spec_a", "spec_b_2"]
    assert (await reports.define("acme", changed)).view == VIEW
    assert reports.columns(VIEW) == [*before, "spec_a", "spec_b_2"]


async def test_tenants_upgraded_one_by_one_keep_sharing_a_view(reports: Reports) -> None:
    old, new = definition("crontabs", {"spec": of(a=TEXT)}), definition("crontabs", {"spec": of(a=TEXT, b=TEXT)})
    for tenant in ("acme", "beta"):
        await reports.define(tenant, old)
    assert [(await reports.define(t, new)).view for t in ("acme", "beta", "gamma")] == [VIEW] * 3
    assert (await reports.define("delta", old)).view == VIEW


async def test_a_field_marked_sensitive_is_hidden_immediately(reports: Reports) -> None:
    spec = of(token=TEXT, free={"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    crd = definition("crontabs", {"spec": spec})
    await reports.define("acme", crd)
    await reports.put("acme", crd, "a", {"spec": {"token": "geheim", "free": {"key": "geheim", "x": 1}}})
    marked = definition(
        "crontabs", {"spec": spec}, annotations={"reporting.registry/sensitive": ".spec.token, .spec.free.key"}
    )
    await reports.define("acme", marked)
    for view in (VIEW, f"{VIEW}_raw", f"{VIEW}_history"):
        rows = reports.ask("acme", f"SELECT * FROM {view}")
        assert len(rows) == 1
        assert "geheim" not in str(rows)


async def test_views_can_be_switched_off(reports: Reports) -> None:
    crd = definition("crontabs", {"spec": of(a=TEXT)}, annotations={"reporting.registry/views": "off"})
    assert (await reports.define("acme", crd)).state == "off"
    assert reports.ask("acme", "SELECT view, state FROM definitions") == [{"view": None, "state": "off"}]


async def test_columns_beyond_the_limit_are_left_out(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the histories of child views, then child views, then all."""
    found = []
    for number, (limit, kept) in enumerate([(40, 0), (40, 36), (38, 0), (38, 0)]):
        monkeypatch.setattr(reporting_choice, "MAX_VIEWS", limit)
        monkeypatch.setattr(reporting_choice, "ROOM_FOR_CHILD_HISTORIES", kept)
        outcome = await reports.define("acme", definition(f"limits{number}", {"spec": SPEC, "status": CONDITIONS}))
        views = reports.ask(
            "acme",
            "SELECT viewname FROM pg_views WHERE schemaname = 'reports' AND viewname LIKE %s",
            f"limits{number}%",
        )
        found.append((outcome.state, len(views), outcome.reason.partition(":")[0]))
    assert found == [
        ("ready", 9, ""),
        ("ready", 6, "no histories of child views"),
        ("ready", 3, "no child views"),
        ("refused", 0, "a database has 38 reporting views at most"),
    ]


async def test_a_view_stops_growing_at_the_column_limit(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting_choice, "MAX_VIEWS", 50)
    monkeypatch.setattr(reporting_choice, "ROOM_FOR_CHILD_HISTORIES", 0)
    part = {"type": "array", "items": of(q=TEXT)}
    found = []
    for number in range(3):
        parts = {f"{letter}{number}": part for letter in "abcd"}
        found.append((await reports.define("acme", definition("crontabs", {"spec": of(x=TEXT, **parts)}))).reason)
    assert found == ["", "", "no child views of spec_a2, spec_b2, spec_c2, spec_d2: there are too many views already"]
    count = reports.ask("acme", "SELECT count(*) AS n FROM views WHERE definition = 'crontabs.example.com'")[0]["n"]
    assert count == 3 + 2 * 8


async def test_columns_left_out_are_reported(reports: Reports) -> None:
    full = "no columns of 300 fields: PostgreSQL has no more, and those of earlier fields are kept"
    for number, reason in enumerate(["", full, "", full]):
        crd = definition("crontabs", {"spec": of(**{f"a{number % 2}x{n}": TEXT for n in range(900)})})
        assert (await reports.define("acme", crd)).reason == reason
    assert len(reports.columns(VIEW)) == 19 + 1_500


async def test_a_definition_recreated_with_another_scope(reports: Reports) -> None:
    await reports.define("acme", definition("crontabs", {"spec": of(a=TEXT)}))
    await reports.reporting.forget(await reports.tenant("acme"), "crontabs.example.com")
    crd = definition("crontabs", {"spec": of(a=TEXT, b=TEXT)}, scope="Cluster")
    assert (await reports.define("acme", crd)).view == VIEW
    await reports.put("acme", crd, "a", {"spec": {"b": "x"}})
    assert reports.ask("acme", f"SELECT namespace, name, spec_b FROM {VIEW}") == [
        {"namespace": None, "name": "a", "spec_b": "x"}
    ]


async def test_a_failed_view_change_is_retried(reports: Reports) -> None:
    """When there is room, and by a later version, which may make it differently."""
    tenant = await reports.tenant("acme")
    for number in range(2):
        with psycopg.connect(reports.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE reports.others_example_com (a int)")
            assert (await reports.define("acme", definition("others", {"spec": of(a=TEXT)}))).state == "refused"
            connection.execute("DROP TABLE reports.others_example_com")
            await reports.reporting.mark_done(tenant, tenant.guards.definitions + 1)
            counting = "SELECT count(*) FROM report_tenants"
            assert connection.execute(counting).fetchone() == (1,)
            if number == 0:
                connection.execute("COMMENT ON SCHEMA reports IS 'older'")
                await reports.reporting.prepare()
            else:
                await reports.define("beta", CRD)
                await reports.reporting.forget(await reports.tenant("beta"), "crontabs.example.com")
                assert await reports.reporting.drop_expired(datetime.timedelta(0)) == [VIEW]
            assert connection.execute(counting).fetchone() == (0,)
    assert (await reports.define("acme", definition("others", {"spec": of(a=TEXT)}))).state == "ready"


async def test_errors_of_postgresql_are_reported(reports: Reports) -> None:
    await reports.define("acme", CRD)
    with psycopg.connect(reports.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE reports.others_example_com (a int)")
        other = definition("others", {"spec": of(a=TEXT)})
        outcome = await reports.define("acme", other)
        assert outcome.state == "refused"
        assert outcome.reason.startswith("PostgreSQL does not take its views")
        query = "SELECT state, reason FROM definitions WHERE definition = 'others.example.com'"
        assert reports.ask("acme", query) == [{"state": "refused", "reason": outcome.reason}]
        connection.execute("DROP TABLE reports.others_example_com")
        assert (await reports.define("acme", other)).state == "ready"
        # Nor does it keep others from being created again by a later version.
        connection.execute("DROP VIEW reports.others_example_com; CREATE TABLE reports.others_example_com (a int)")
        connection.execute("COMMENT ON SCHEMA reports IS 'older'")
        await reports.reporting.prepare()
    assert [row["state"] for row in reports.ask("acme", query)] == ["refused"]
    assert reports.ask("acme", f"SELECT * FROM {VIEW}") == []


async def test_views_are_created_again_by_a_later_version(reports: Reports) -> None:
    await reports.define("acme", CRD)
    with psycopg.connect(reports.url) as connection:
        connection.execute("COMMENT ON SCHEMA reports IS 'older'")
        connection.execute(f"DROP VIEW reports.{VIEW}_raw")
    await reports.reporting.prepare()
    assert reports.columns(f"{VIEW}_raw")[-1] == "object"


async def test_an_index_is_created_and_dropped(reports: Reports) -> None:
    tenant = await reports.tenant("acme")
    await reports.define("acme", CRD, indexed=False)
    await reports.put("acme", CRD, "a", {"spec": {"phase": "x", "replicas": 5}})
    shown = f"SELECT spec_phase, spec_replicas FROM {VIEW}"
    indexed = 'SELECT "column" FROM catalogue WHERE indexed'
    for facets, columns in ((report_of(CRD).facets, ["spec_phase"]), ((), []), (report_of(CRD).facets, ["spec_phase"])):
        await reports.reporting.mark_indexed(tenant, "crontabs.example.com", facets)
        assert [r["column"] for r in reports.ask("acme", indexed)] == columns
        assert reports.ask("acme", shown) == [{"spec_phase": "x", "spec_replicas": 5}]
    hidden = definition(
        "crontabs", {"spec": SPEC, "status": CONDITIONS}, annotations={"reporting.registry/sensitive": ".spec.phase"}
    )
    await reports.define("acme", hidden)
    assert reports.ask("acme", shown) == [{"spec_phase": None, "spec_replicas": 5}]


async def test_the_catalog_of_postgresql_agrees_with_the_count_of_views(reports: Reports) -> None:
    await reports.define("acme", definition("counted", {"spec": SPEC, "status": CONDITIONS}))
    await reports.define("acme", definition("more", {"spec": of(a=TEXT)}))
    [row] = reports.ask(
        "acme",
        "SELECT count(*) AS n FROM pg_views WHERE schemaname = 'reports'"
        " AND (viewname LIKE 'counted%%' OR viewname LIKE 'more%%')",
    )
    async with reports.store.reporting_pool.connection() as connection:
        assert await count_relations(connection) == 2 * row["n"]
