"""PostgreSQL schemas of single tenants: conflicting short names, existing views of others, bound definitions."""

from __future__ import annotations

import datetime
from typing import Any

import psycopg
import pytest

from registry.store.reporting import choice as reporting_choice
from registry.store.types import WriteOperation
from tests.reporting.bindings import bind, unbind
from tests.reporting.reports import Object, Reports, definition

TEXT = {"type": "string"}
PARTS = {"type": "array", "items": {"type": "object", "properties": {"q": TEXT}}}


def of(**properties: Any) -> Object:
    return {"type": "object", "properties": properties}


async def own_schema(reports: Reports, name: str) -> str:
    """Gives a tenant one that is called as it is; why not, where it cannot."""
    tenant = await reports.tenant(name)
    with psycopg.connect(reports.url) as connection:
        connection.execute("UPDATE tenants SET sql_schema = %s WHERE id = %s", (name, tenant.id))
    return await reports.reporting.name_schema(tenant)


def views(reports: Reports, schema: str) -> list[str]:
    rows = reports.ask("", f"SELECT viewname AS v FROM pg_views WHERE schemaname = '{schema}' ORDER BY 1")
    return [row["v"] for row in rows]


async def test_conflicting_names(reports: Reports) -> None:
    """Another of the same plural, one that is called as the long name of a view, one as a child view, one as a
    history."""
    await own_schema(reports, "acme")
    crds = [
        definition(plural, {"spec": of(parts=PARTS, **{f"f{number}": TEXT})}, group=group)
        for number, (plural, group) in enumerate(
            [("x", "g.com"), ("x", "y.com"), ("x-y-com", "z.com"), ("x--spec-parts", "g.com"), ("x-history", "g.com")]
        )
    ]
    for crd in crds:
        outcome = await reports.define("acme", crd)
        assert (outcome.state, outcome.reason) == ("ready", "")
        await reports.put("acme", crd, "a", {"spec": {"parts": [{"q": "1"}]}})
    reported = reports.ask("acme", "SELECT definition, short_name FROM definitions")
    short = {row["definition"]: row["short_name"] for row in reported}
    assert len(set(short.values())) == len(crds)
    assert short["x.g.com"] == "x"
    for number, crd in enumerate(crds):
        name = short[crd["metadata"]["name"]]
        assert reports.columns(name, "acme")[-1] == f"spec_f{number}"
        assert reports.columns(f"{name}__spec_parts", "acme")[-1] == "q"
        assert len(reports.ask("acme", f'SELECT * FROM acme."{name}_history"')) == 1
    # A name is kept once it is given.
    await reports.reporting.forget(await reports.tenant("acme"), "x.g.com")
    await reports.define("acme", crds[1])
    assert reports.ask("acme", "SELECT short_name FROM definitions WHERE definition = 'x.y.com'") == [
        {"short_name": short["x.y.com"]}
    ]


async def test_moving_a_tenant_to_another_schema(reports: Reports) -> None:
    """By a change that is too large for a view of two tenants: no column goes; by being switched off: all do."""
    crd = definition("crontabs", {"spec": of(user=TEXT, parts=PARTS)})
    await reports.define("third", crd)
    for tenant in ("acme", "beta"):
        await own_schema(reports, tenant)
        await reports.define(tenant, crd)
    before = reports.columns("crontabs", "acme")
    wide = definition("crontabs", {"spec": of(**{f"a{n}": TEXT for n in range(120)})})
    outcome = await reports.define("acme", wide)
    assert outcome.view != "crontabs_example_com"
    assert (
        reports.columns("crontabs", "acme")
        == reports.columns(outcome.view)
        == [*before, *(f"spec_a{n}" for n in range(120))]
    )
    assert reports.columns("crontabs", "beta") == before
    # To the view of an equal definition, whose columns are others.
    other = definition("crontabs", {"spec": of(**{f"z{n}": TEXT for n in range(120)})})
    await reports.define("gamma", other)
    await reports.define("beta", other)
    assert reports.columns("crontabs", "beta")[-1] == "spec_z119"
    assert "crontabs__spec_parts" not in views(reports, "beta")
    off = definition("crontabs", {"spec": of(a=TEXT)}, annotations={"reporting.registry/views": "off"})
    assert (await reports.define("acme", off)).state == "off"
    assert views(reports, "acme") == []
    assert (await reports.define("acme", crd)).state == "ready"
    assert reports.columns("crontabs", "acme")


async def test_views_of_bound_definitions(reports: Reports) -> None:
    crd = definition("crontabs", {"spec": of(user=TEXT)})
    await reports.define("provider", crd)
    await own_schema(reports, "user")
    # It has one of that plural already.
    await reports.define("user", definition("crontabs", {"spec": of(own=TEXT)}, group="own.com"))
    bind(reports, "user", "crontabs.example.com", "provider")
    await reports.reporting.follow_bindings()
    named = "SELECT short_name FROM definitions WHERE definition = 'crontabs.example.com'"
    short = reports.ask("user", named)[0]["short_name"]
    assert short.startswith("crontabs_")
    await reports.put("user", crd, "a", {"spec": {"user": "x"}})
    assert reports.ask("user", f'SELECT name, spec_user FROM "user".{short}') == [{"name": "a", "spec_user": "x"}]
    assert reports.columns("crontabs", "user")[-1] == "spec_own"
    # It follows the provider's definition, in its view and to another.
    await reports.define("provider", definition("crontabs", {"spec": of(user=TEXT, more=TEXT)}))
    assert reports.columns(short, "user")[-1] == "spec_more"
    await reports.define("other", definition("crontabs", {"spec": of(user=TEXT, more=TEXT)}))
    wide = definition("crontabs", {"spec": of(**{f"a{n}": TEXT for n in range(120)})})
    await reports.define("provider", wide)
    assert reports.columns(short, "user")[-1] == "spec_a119"
    # A schema that comes later shows it, too.
    await reports.tenant("late")
    bind(reports, "late", "crontabs.example.com", "provider")
    await reports.reporting.follow_bindings()
    assert await own_schema(reports, "late") == ""
    assert reports.columns("crontabs", "late")[-1] == "spec_a119"
    # Bound from somebody else, whose definition is another.
    await reports.define("second", definition("crontabs", {"spec": of(z=TEXT)}))
    unbind(reports, "user")
    await reports.reporting.follow_bindings()
    assert reports.columns(short, "user")[-1] == "spec_a119"
    await reports.put("user", crd, "a", {"spec": {"user": "y"}}, operation=WriteOperation.UPDATE)
    bind(reports, "user", "crontabs.example.com", "second")
    await reports.reporting.follow_bindings()
    assert reports.columns(short, "user")[-1] == "spec_z"


async def test_views_in_schemas_count_towards_the_limit(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting_choice, "MAX_VIEWS", 17)
    monkeypatch.setattr(reporting_choice, "ROOM_FOR_CHILD_HISTORIES", 0)
    crd = definition("crontabs", {"spec": of(a=TEXT, parts=PARTS)})
    await reports.define("acme", crd)
    for tenant, why in (("beta", ""), ("gamma", "not in the tenant's schema: there are too many views already")):
        await own_schema(reports, tenant)
        await reports.define(tenant, crd)
        rows = reports.ask(tenant, "SELECT state, reason FROM definitions")
        assert rows == [{"state": "ready", "reason": why}]
    assert len(views(reports, "beta")) == 5
    assert views(reports, "gamma") == []


async def test_foreign_objects_in_a_schema_do_not_block_other_reports(reports: Reports) -> None:
    await own_schema(reports, "acme")
    with psycopg.connect(reports.url) as connection:
        connection.execute("CREATE TABLE acme.crontabs (a int)")
    outcome = await reports.define("acme", definition("crontabs", {"spec": of(a=TEXT)}))
    assert outcome.view == "crontabs_example_com"
    assert reports.columns("crontabs_example_com")
    assert "not in the tenant's schema" in reports.ask("acme", "SELECT reason FROM definitions")[0]["reason"]


async def test_views_of_a_deleted_definition_are_dropped(reports: Reports) -> None:
    """They go in their time, though others have the view."""
    crd = definition("crontabs", {"spec": of(a=TEXT)})
    await own_schema(reports, "acme")
    for tenant in ("acme", "beta"):
        await reports.define(tenant, crd)
    await reports.reporting.forget(await reports.tenant("acme"), "crontabs.example.com")
    assert len(views(reports, "acme")) == 3
    assert await reports.reporting.drop_expired(reports.store.retention) == []
    assert len(views(reports, "acme")) == 3
    assert await reports.reporting.drop_expired(datetime.timedelta(0)) == []
    assert views(reports, "acme") == []
    assert reports.ask("acme", "SELECT * FROM definitions") == []
    assert reports.columns("crontabs_example_com")
