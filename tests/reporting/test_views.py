"""Views on a real PostgreSQL: what they show, how they grow, and that nothing breaks out of its quotes."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from registry.reporting.report import report_of
from registry.store.reporting import choice as reporting_choice
from registry.store.reporting.documents import put_documents, stale_documents
from registry.store.types import Operation, TenantName
from tests.reporting.reports import Object, Reports, definition

TEXT = {"type": "string"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


SPEC = of(
    phase={"type": "string", "description": "What it's doing; DROP TABLE"},
    replicas={"type": "integer"},
    weight={"type": "number"},
    on={"type": "boolean"},
    at={"type": "string", "format": "date-time"},
    day={"type": "string", "format": "date"},
    port={"x-kubernetes-int-or-string": True},
    labels={"type": "object", "additionalProperties": TEXT},
    list={"type": "array", "items": TEXT},
    parts={"type": "array", "items": of(name=TEXT, sizes={"type": "array", "items": of(size={"type": "integer"})})},
)
CONDITIONS = of(
    conditions={
        "type": "array",
        "items": of(type=TEXT, status=TEXT, reason=TEXT, lastTransitionTime={"type": "string", "format": "date-time"}),
    }
)
CRD = definition("crontabs", {"spec": SPEC, "status": CONDITIONS}, selectableFields=[{"jsonPath": ".spec.phase"}])
VIEW = "crontabs_example_com"


async def test_an_object_reads_back(reports: Reports) -> None:
    assert (await reports.define("acme", CRD)).view == VIEW
    await reports.put(
        "acme",
        CRD,
        "a",
        {
            "metadata": {
                "labels": {"team": "x"},
                "generation": 3,
                "annotations": {"note": "n", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            },
            "spec": {
                "phase": "Running",
                "replicas": 9007199254740993,
                "weight": 0.1,
                "on": True,
                "at": "2026-02-28T23:59:59.25+01:00",
                "day": "2024-02-29",
                "port": 80,
                "labels": {"k": "v"},
                "list": ["x"],
                "parts": [{"name": "p", "sizes": [{"size": 1}, {"size": 2}]}, {"name": "q"}],
            },
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "Slow", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                ]
            },
        },
    )
    row = reports.ask("acme", f"SELECT * FROM {VIEW}")[0]
    now = datetime.datetime.now(datetime.UTC)
    assert abs(row.pop("created_at") - now) < datetime.timedelta(hours=1)
    assert abs(row.pop("updated_at") - now) < datetime.timedelta(hours=1)
    assert row == {
        "tenant": "acme",
        "namespace": "default",
        "name": "a",
        "uid": "acme-crontabs.example.com-a",
        "labels": {"team": "x"},
        "annotations": {"note": "n"},
        "owner_references": None,
        "finalizers": None,
        "generation": 3,
        "resource_version": 1,
        "stored_version": "v1",
        "created_by": "ann",
        "updated_by": "ann",
        "deletion_timestamp": None,
        "ready": False,
        "ready_reason": "Slow",
        "ready_since": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        "spec_phase": "Running",
        "spec_replicas": 9007199254740993,
        "spec_weight": 0.1,
        "spec_on": True,
        "spec_at": datetime.datetime(2026, 2, 28, 22, 59, 59, 250_000, tzinfo=datetime.UTC),
        "spec_day": datetime.date(2024, 2, 29),
        "spec_port": "80",
        "spec_labels": {"k": "v"},
        "spec_list": ["x"],
    }
    assert [(r["position"], r["name_field"]) for r in reports.ask("acme", f"SELECT * FROM {VIEW}__spec_parts")] == [
        (0, "p"),
        (1, "q"),
    ]
    assert [
        (r["parent_position"], r["position"], r["size"])
        for r in reports.ask("acme", f"SELECT * FROM {VIEW}__spec_parts_sizes ORDER BY position")
    ] == [(0, 0, 1), (0, 1, 2)]
    assert [r["reason"] for r in reports.ask("acme", f"SELECT * FROM {VIEW}_conditions")] == ["Slow"]
    raw = reports.ask("acme", f"SELECT object FROM {VIEW}_raw")[0]["object"]
    assert raw["spec"]["parts"][0]["sizes"] == [{"size": 1}, {"size": 2}]
    assert raw["metadata"]["annotations"] == {"note": "n"}
    assert "facets" not in raw["metadata"]


WRONG: list[tuple[str, Object]] = [
    (
        "other types",
        {
            "phase": {"a": 1},
            "replicas": "x",
            "weight": "y",
            "on": 3,
            "at": 5,
            "day": [],
            "port": {},
            "parts": "no",
            "labels": 1,
            "list": "z",
        },
    ),
    ("out of range", {"replicas": 10**30, "weight": 10**400, "at": "2026-02-30T00:00:00Z", "day": "2023-02-29"}),
    ("between", {"replicas": 1.5, "at": "2026-01-01T24:00:00Z", "day": "0000-01-01"}),
    ("elements", {"parts": [1, None, [], {"name": {}, "sizes": 3}]}),
]


@pytest.mark.parametrize("spec", [case[1] for case in WRONG], ids=[case[0] for case in WRONG])
async def test_no_object_breaks_a_report(reports: Reports, spec: Object) -> None:
    """Objects of an earlier schema hold anything; a report shows NULL for it."""
    await reports.define("acme", CRD)
    await reports.put("acme", CRD, "a", {"spec": spec, "status": {"conditions": [1, {"type": []}]}})
    row = reports.ask("acme", f"SELECT * FROM {VIEW}")[0]
    assert row["spec_replicas"] is None
    assert row["spec_at"] is None
    for view in (f"{VIEW}__spec_parts", f"{VIEW}__spec_parts_sizes", f"{VIEW}_conditions", f"{VIEW}_history"):
        reports.ask("acme", f"SELECT * FROM {view}")


HOSTILE = [
    'a"b',
    "a'b",
    "a\\'; DROP TABLE objects; --",
    "a.b",
    "a b",
    "SELECT",
    "größe",
    "x" * 200,
    "x" * 199 + "y",
    "",
    "a_b",
    "aB",
    "$$",
    "%s",
    "{0}",
    "/*",
    "\x00",
    "日本",
    "1",
    "name",
    "ctid",
    "tenant",
    "E'",
]


async def test_hostile_names_are_quoted(reports: Reports) -> None:
    top = dict.fromkeys(HOSTILE, TEXT)
    nested = of(**{name: {"type": "string", "description": name} for name in HOSTILE})
    items = {"type": "array", "items": nested}
    crd = definition(
        "hostiles",
        {**top, "spec": nested, "status": of(**dict.fromkeys(HOSTILE, items))},
        annotations={"reporting.registry/sensitive": ".spec.'; DROP TABLE objects; --, .spec.$$"},
    )
    outcome = await reports.define("acme", crd)
    assert outcome.state == "ready"
    columns = reports.columns("hostiles_example_com")
    assert len(columns) == len(set(columns)) == 19 + len(HOSTILE) * 2 - 1
    values = {name: f"value of {n}" for n, name in enumerate(HOSTILE)}
    await reports.put("acme", crd, "a", {**values, "spec": values, "status": {n: [values] for n in values}})
    row = reports.ask("acme", "SELECT * FROM hostiles_example_com")[0]
    shown = [value for value in row.values() if isinstance(value, str) and value.startswith("value of")]
    assert set(shown) == set(values.values())
    assert len(shown) == 2 * len(HOSTILE) - 1
    children = reports.ask("acme", "SELECT DISTINCT part FROM catalogue WHERE part IS NOT NULL")
    assert len(children) == len(HOSTILE)


async def test_descriptions_become_comments(reports: Reports) -> None:
    await reports.define("acme", CRD)
    with psycopg.connect(reports.url) as connection:
        row = connection.execute(
            "SELECT col_description(attrelid, attnum) FROM pg_attribute WHERE attrelid = "
            f"'reports.{VIEW}'::regclass AND attname = 'spec_phase'"
        ).fetchone()
    assert row == ("What it's doing; DROP TABLE\n(spec.phase)",)


async def test_names_that_meet(reports: Reports) -> None:
    """`a.b` of `c` and `a` of `b.c` are one name; a view may not be called as another's history."""
    first = await reports.define("acme", definition("a", {"spec": of(x=TEXT)}, group="b.c.com"))
    second = await reports.define("acme", definition("a", {"spec": of(x=TEXT)}, group="b-c.com"))
    third = await reports.define("acme", definition("a", {"spec": of(x=TEXT)}, group="b.c.com.history"))
    assert first.view == "a_b_c_com"
    assert second.view.startswith("a_b_c_com_")
    assert third.state == "ready"
    assert third.view != "a_b_c_com_history"


async def test_equal_definitions_share_a_view_and_tenants_see_their_own(reports: Reports) -> None:
    for tenant in ("acme", "beta"):
        assert (await reports.define(tenant, CRD)).view == VIEW
        await reports.put(tenant, CRD, f"of-{tenant}", {"spec": {"phase": "x"}})
    assert [r["name"] for r in reports.ask("acme", f"SELECT name FROM {VIEW}")] == ["of-acme"]
    assert [r["name"] for r in reports.ask("beta", f"SELECT name FROM {VIEW}")] == ["of-beta"]
    await reports.reporting.make_across()
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


async def test_a_change_adds_columns_at_the_end(reports: Reports) -> None:
    await reports.define("acme", definition("crontabs", {"spec": of(b=TEXT)}))
    before = reports.columns(VIEW)
    changed = definition("crontabs", {"spec": of(a=TEXT, b={"type": "integer"})})
    await reports.define("acme", changed)
    assert reports.columns(VIEW) == [*before, "spec_a", "spec_b_2"]
    assert (await reports.define("acme", changed)).view == VIEW
    assert reports.columns(VIEW) == [*before, "spec_a", "spec_b_2"]


async def test_tenants_that_change_one_after_the_other_stay_together(reports: Reports) -> None:
    old, new = definition("crontabs", {"spec": of(a=TEXT)}), definition("crontabs", {"spec": of(a=TEXT, b=TEXT)})
    for tenant in ("acme", "beta"):
        await reports.define(tenant, old)
    assert [(await reports.define(t, new)).view for t in ("acme", "beta", "gamma")] == [VIEW] * 3
    assert (await reports.define("delta", old)).view == VIEW


async def test_a_field_that_becomes_sensitive_disappears_at_once(reports: Reports) -> None:
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


async def test_views_that_are_off(reports: Reports) -> None:
    crd = definition("crontabs", {"spec": of(a=TEXT)}, annotations={"reporting.registry/views": "off"})
    assert (await reports.define("acme", crd)).state == "off"
    assert reports.ask("acme", "SELECT view, state FROM definitions") == [{"view": None, "state": "off"}]


async def test_history(reports: Reports) -> None:
    await reports.define("acme", CRD)
    first = await reports.put("acme", CRD, "a", {"spec": {"phase": "One"}})
    second = await reports.put("acme", CRD, "a", {"spec": {"phase": "Two"}}, operation=Operation.UPDATE, user="bob")
    await reports.remove("acme", CRD, "a")
    rows = reports.ask("acme", f"SELECT * FROM {VIEW}_history ORDER BY revision")
    assert [(r["operation"], r["user_name"], r["spec_phase"]) for r in rows] == [
        ("create", "ann", "One"),
        ("update", "bob", "Two"),
        ("delete", "bob", "Two"),
    ]
    assert rows[0]["valid_to"] == rows[1]["valid_from"]
    assert rows[1]["valid_to"] == rows[2]["valid_from"] == rows[2]["valid_to"]
    assert reports.ask("acme", f"SELECT * FROM {VIEW}") == []
    for committed, phase in ((first, "One"), (second, "Two")):
        found = reports.ask("acme", f"SELECT spec_phase FROM {VIEW}_at_revision(%s)", committed.revision)
        assert found == [{"spec_phase": phase}]
    moment = rows[0]["valid_from"]
    assert reports.ask("acme", f"SELECT spec_phase FROM {VIEW}_as_of(%s)", moment) == [{"spec_phase": "One"}]
    assert reports.ask("acme", f"SELECT * FROM {VIEW}_as_of(now())") == []


async def test_histories_of_child_views(reports: Reports) -> None:
    await reports.define("acme", CRD)
    parts: list[Any] = [{"name": "p", "sizes": [{"size": 1}, {"size": 2}]}, {"name": "q"}]
    ready = {"conditions": [{"type": "Ready", "status": "False"}]}
    await reports.put("acme", CRD, "a", {"spec": {"parts": parts}, "status": ready})
    await reports.put("acme", CRD, "a", {"spec": {"parts": parts[1:]}, "status": {}}, operation=Operation.UPDATE)
    await reports.remove("acme", CRD, "a")
    states = reports.ask("acme", f"SELECT operation, valid_from, valid_to FROM {VIEW}_history ORDER BY revision")
    rows = reports.ask("acme", f"SELECT * FROM {VIEW}__spec_parts_history ORDER BY revision, position")
    assert [(r["operation"], r["position"], r["name_field"]) for r in rows] == [
        ("create", 0, "p"),
        ("create", 1, "q"),
        ("update", 0, "q"),
        ("delete", 0, "q"),
    ]
    found = {(r["operation"], r["valid_from"], r["valid_to"]) for r in rows}
    assert found == {tuple(state.values()) for state in states}
    rows = reports.ask("acme", f"SELECT * FROM {VIEW}__spec_parts_sizes_history ORDER BY position")
    assert [(r["parent_position"], r["position"], r["size"]) for r in rows] == [(0, 0, 1), (0, 1, 2)]
    rows = reports.ask("acme", f"SELECT * FROM {VIEW}_conditions_history")
    assert [(r["operation"], r["type"], r["status"]) for r in rows] == [("create", "Ready", "False")]


async def test_arrays_that_are_called_as_others_histories(reports: Reports) -> None:
    parts = {"type": "array", "items": of(x=TEXT)}
    crd = definition(
        "crontabs", {"spec": of(parts=parts, partsHistory=parts), "conditions": parts, "status": CONDITIONS}
    )
    assert (await reports.define("acme", crd)).state == "ready"
    one = [{"x": "1"}]
    await reports.put(
        "acme",
        crd,
        "a",
        {
            "spec": {"parts": one, "partsHistory": one * 2},
            "conditions": one * 3,
            "status": {"conditions": [{"type": "Ready"}]},
        },
    )
    rows = reports.ask("acme", "SELECT DISTINCT part FROM catalogue WHERE part IS NOT NULL ORDER BY 1")
    names = [row["part"] for row in rows]
    assert [name for name in names if "history" not in name] == ["conditions", "conditions_field", "spec_parts"]
    counts = {
        name: len(reports.ask("acme", f"SELECT 1 FROM {VIEW}{'_' if name == 'conditions' else '__'}{name}"))
        for name in names
    }
    assert sorted(counts.values()) == [1, 1, 2, 3]
    assert len(reports.ask("acme", f"SELECT 1 FROM {VIEW}__spec_parts_history")) == 1


async def test_what_is_left_out_where_there_is_no_room(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the histories of child views, then child views, then all."""
    found = []
    for number, (limit, kept) in enumerate([(40, 0), (40, 36), (46, 0), (46, 0)]):
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
        ("refused", 0, "a database has 46 reporting views at most"),
    ]


async def test_growth_ends_where_there_is_no_room(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_columns_without_room_are_reported(reports: Reports) -> None:
    full = "no columns of 300 fields: PostgreSQL has no more, and those of earlier fields are kept"
    for number, reason in enumerate(["", full, "", full]):
        crd = definition("crontabs", {"spec": of(**{f"a{number % 2}x{n}": TEXT for n in range(900)})})
        assert (await reports.define("acme", crd)).reason == reason
    assert len(reports.columns(VIEW)) == 19 + 1_500


async def test_a_definition_that_comes_again_in_another_scope(reports: Reports) -> None:
    await reports.define("acme", definition("crontabs", {"spec": of(a=TEXT)}))
    await reports.reporting.forget(await reports.tenant("acme"), "crontabs.example.com")
    crd = definition("crontabs", {"spec": of(a=TEXT, b=TEXT)}, scope="Cluster")
    assert (await reports.define("acme", crd)).view == VIEW
    await reports.put("acme", crd, "a", {"spec": {"b": "x"}})
    assert reports.ask("acme", f"SELECT namespace, name, spec_b FROM {VIEW}") == [
        {"namespace": None, "name": "a", "spec_b": "x"}
    ]


async def test_the_catalogue_tells_the_names_of_views(reports: Reports) -> None:
    """Of child views and histories too, which are shortened where they are long."""
    parts = of(**{"x" * 60: {"type": "array", "items": of(q=TEXT)}}, leaf=TEXT)
    crd = definition("crontabs", {"spec": parts, "status": CONDITIONS})
    await reports.define("acme", crd)
    await reports.put("acme", crd, "a", {"spec": {"x" * 60: [{"q": "1"}]}})
    rows = reports.ask("acme", "SELECT DISTINCT part, relation, history FROM catalogue")
    assert len(rows) == 3
    assert {(row["relation"], row["history"]) for row in rows} >= {
        (VIEW, f"{VIEW}_history"),
        (f"{VIEW}_conditions", f"{VIEW}_conditions_history"),
    }
    for row in rows:
        reported = reports.ask("acme", 'SELECT "column" AS c FROM catalogue WHERE relation = %s', row["relation"])
        for relation in (row["relation"], row["history"]):
            assert {r["c"] for r in reported} <= set(reports.columns(relation))


async def test_what_was_refused_is_tried_again(reports: Reports) -> None:
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
                assert await reports.reporting.tidy(datetime.timedelta(0)) == [VIEW]
            assert connection.execute(counting).fetchone() == (0,)
    assert (await reports.define("acme", definition("others", {"spec": of(a=TEXT)}))).state == "ready"


async def test_what_postgresql_refuses_is_reported(reports: Reports) -> None:
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


async def test_history_knows_what_was_before_the_log(reports: Reports) -> None:
    await reports.define("acme", CRD)
    await reports.put("acme", CRD, "still", {"spec": {"phase": "Old"}})
    await reports.put("acme", CRD, "changed", {"spec": {"phase": "Before"}})
    with psycopg.connect(reports.url) as connection:
        # As compaction leaves it: the changes are gone, and the compact revision says so.
        connection.execute("DELETE FROM changes")
        connection.execute("UPDATE domains SET compact_revision = revision")
    await reports.put("acme", CRD, "changed", {"spec": {"phase": "After"}}, operation=Operation.UPDATE)
    rows = reports.ask(
        "acme",
        f"SELECT name, operation, spec_phase, valid_from IS NULL AS open, valid_to IS NULL AS "
        f"lasts FROM {VIEW}_history ORDER BY name, revision",
    )
    assert [tuple(r.values()) for r in rows] == [
        ("changed", "earlier", "Before", True, False),
        ("changed", "update", "After", False, True),
        ("still", "earlier", "Old", False, True),
    ]


async def test_a_definition_that_goes_leaves_its_history_for_a_while(reports: Reports) -> None:
    await reports.define("acme", CRD)
    await reports.put("acme", CRD, "a", {"spec": {"phase": "x"}})
    await reports.remove("acme", CRD, "a")
    await reports.reporting.forget(await reports.tenant("acme"), "crontabs.example.com")
    assert len(reports.ask("acme", f"SELECT * FROM {VIEW}_history")) == 2
    assert await reports.reporting.tidy(datetime.timedelta(days=1)) == []
    assert await reports.reporting.tidy(datetime.timedelta(0)) == [VIEW]
    assert reports.ask("acme", "SELECT * FROM definitions") == []


async def test_views_are_created_again_by_a_later_version(reports: Reports) -> None:
    await reports.define("acme", CRD)
    with psycopg.connect(reports.url) as connection:
        connection.execute("COMMENT ON SCHEMA reports IS 'older'")
        connection.execute(f"DROP VIEW reports.{VIEW}_raw")
    await reports.reporting.prepare()
    assert reports.columns(f"{VIEW}_raw")[-1] == "object"


async def test_a_schema_of_a_tenants_own(reports: Reports) -> None:
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


async def test_a_tenant_goes_with_its_schema_and_its_views(reports: Reports) -> None:
    tenant, _ = await reports.tenant("acme"), await reports.define("acme", CRD)
    with psycopg.connect(reports.url, autocommit=True) as connection:
        connection.execute("UPDATE tenants SET sql_schema = 'acme' WHERE id = %s", (tenant.id,))
        assert await reports.reporting.name_schema(tenant) == ""
        await reports.store.delete_tenant(tenant)
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
    assert await reports.reporting.tidy(datetime.timedelta(0)) == []
    assert await reports.reporting.tidy(datetime.timedelta(0)) == [VIEW]


async def test_an_index_comes_and_goes(reports: Reports) -> None:
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


async def test_documents_of_objects_that_were_there_before(reports: Reports) -> None:
    await reports.define("acme", CRD, indexed=False)
    tenant, pool = await reports.tenant("acme"), reports.store.reporting_pool
    await reports.put("acme", CRD, "a", {"spec": {"phase": "x"}})
    with psycopg.connect(reports.url) as connection:
        connection.execute("UPDATE objects SET doc = NULL")
    rows = await stale_documents(pool, tenant, "crontabs.example.com", "l", "", 10)
    assert [row[0] for row in rows] == ["default/a"]
    key, revision, _ = rows[0]
    good = '{"metadata":{"facets":{"layout":"l"}},"spec":{"phase":"y"}}'
    await put_documents(pool, tenant, "crontabs.example.com", [(key, revision - 1, good)])
    assert reports.ask("acme", f"SELECT spec_phase FROM {VIEW}") == [{"spec_phase": None}]
    await put_documents(
        pool, tenant, "crontabs.example.com", [(key, revision, '{"metadata":{"facets":{"layout":"l"}},"broken')]
    )
    assert await stale_documents(pool, tenant, "crontabs.example.com", "l", "", 10) == []
    await put_documents(pool, tenant, "crontabs.example.com", [(key, revision, good)])
    assert reports.ask("acme", f"SELECT spec_phase FROM {VIEW}") == [{"spec_phase": "y"}]


async def test_who_uses_anothers_definition_sees_its_objects_in_that_view(reports: Reports) -> None:
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


async def test_who_created_and_who_last_wrote_an_object(reports: Reports) -> None:
    """By the log: so within its retention time, and of the object that is there now."""
    await reports.define("acme", CRD)
    await reports.put("acme", CRD, "a", {"spec": {"phase": "Old"}}, user="ann")
    await reports.remove("acme", CRD, "a")
    await reports.put("acme", CRD, "a", {"spec": {"phase": "One"}}, user="bob")
    await reports.put("acme", CRD, "a", {"spec": {"phase": "Two"}}, operation=Operation.UPDATE, user="eve")
    assert reports.ask("acme", f"SELECT created_by, updated_by FROM {VIEW}") == [
        {"created_by": "bob", "updated_by": "eve"}
    ]
    with psycopg.connect(reports.url, autocommit=True) as connection:
        connection.execute("DELETE FROM changes WHERE type = 'ADDED'")
    assert reports.ask("acme", f"SELECT created_by, updated_by FROM {VIEW}") == [
        {"created_by": None, "updated_by": "eve"}
    ]


async def test_a_field_of_that_name_has_it(reports: Reports) -> None:
    """Where the view was made before the column was there: PostgreSQL takes no name twice."""
    crd = definition("crontabs", {"createdBy": TEXT, "spec": SPEC})
    view = (await reports.define("acme", crd)).view
    assert view is not None
    await reports.put("acme", crd, "a", {"createdBy": "me"}, user="ann")
    [row] = reports.ask("acme", f"SELECT * FROM {view}")
    assert row["created_by"] == "ann"
    assert [name for name, value in row.items() if value == "me"] == ["created_by_field"]
