"""Reporting views on a real PostgreSQL: what their rows show, and that no name or value breaks out of its quotes."""

from __future__ import annotations

import datetime

import psycopg
import pytest

from registry.store.reporting.documents import put_documents, stale_documents
from tests.reporting.crontabs import CONDITIONS, CRD, SPEC, TEXT, VIEW, of
from tests.reporting.reports import Object, Reports, definition


async def test_the_columns_have_the_values_of_the_object(reports: Reports) -> None:
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


async def test_conflicting_column_names(reports: Reports) -> None:
    """`a.b` of `c` and `a` of `b.c` are one name; a view may not be called as another's history."""
    first = await reports.define("acme", definition("a", {"spec": of(x=TEXT)}, group="b.c.com"))
    second = await reports.define("acme", definition("a", {"spec": of(x=TEXT)}, group="b-c.com"))
    third = await reports.define("acme", definition("a", {"spec": of(x=TEXT)}, group="b.c.com.history"))
    assert first.view == "a_b_c_com"
    assert second.view.startswith("a_b_c_com_")
    assert third.state == "ready"
    assert third.view != "a_b_c_com_history"


async def test_the_catalogue_lists_the_names_of_views(reports: Reports) -> None:
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


async def test_existing_objects_get_documents(reports: Reports) -> None:
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


async def test_a_field_named_like_a_common_column_has_the_column(reports: Reports) -> None:
    """Where the view was made before the column was there: PostgreSQL takes no name twice."""
    crd = definition("crontabs", {"createdBy": TEXT, "spec": SPEC})
    view = (await reports.define("acme", crd)).view
    assert view is not None
    await reports.put("acme", crd, "a", {"createdBy": "me"}, user="ann")
    [row] = reports.ask("acme", f"SELECT * FROM {view}")
    assert row["created_by"] == "ann"
    assert [name for name, value in row.items() if value == "me"] == ["created_by_field"]
