"""History views on a real PostgreSQL: each state of an object, its interval, its operation and its user."""

from __future__ import annotations

import datetime
from typing import Any

import psycopg

from registry.store.types import WriteOperation
from tests.reporting.crontabs import CONDITIONS, CRD, TEXT, VIEW, of
from tests.reporting.reports import Reports, definition


async def test_history(reports: Reports) -> None:
    await reports.define("acme", CRD)
    first = await reports.put("acme", CRD, "a", {"spec": {"phase": "One"}})
    second = await reports.put(
        "acme", CRD, "a", {"spec": {"phase": "Two"}}, operation=WriteOperation.UPDATE, user="bob"
    )
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
    await reports.put("acme", CRD, "a", {"spec": {"parts": parts[1:]}, "status": {}}, operation=WriteOperation.UPDATE)
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


async def test_arrays_named_like_the_history_of_another_view(reports: Reports) -> None:
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


async def test_history_includes_states_from_before_the_change_log(reports: Reports) -> None:
    await reports.define("acme", CRD)
    await reports.put("acme", CRD, "still", {"spec": {"phase": "Old"}})
    await reports.put("acme", CRD, "changed", {"spec": {"phase": "Before"}})
    with psycopg.connect(reports.url) as connection:
        # As compaction leaves it: the changes are gone, and the compact revision says so.
        connection.execute("DELETE FROM changes")
        connection.execute("UPDATE domains SET compact_revision = revision")
    await reports.put("acme", CRD, "changed", {"spec": {"phase": "After"}}, operation=WriteOperation.UPDATE)
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


async def test_the_history_outlives_its_definition_for_the_retention_time(reports: Reports) -> None:
    await reports.define("acme", CRD)
    await reports.put("acme", CRD, "a", {"spec": {"phase": "x"}})
    await reports.remove("acme", CRD, "a")
    await reports.reporting.forget(await reports.tenant("acme"), "crontabs.example.com")
    assert len(reports.ask("acme", f"SELECT * FROM {VIEW}_history")) == 2
    assert await reports.reporting.drop_expired(datetime.timedelta(days=1)) == []
    assert await reports.reporting.drop_expired(datetime.timedelta(0)) == [VIEW]
    assert reports.ask("acme", "SELECT * FROM definitions") == []


async def test_who_created_and_who_last_wrote_an_object(reports: Reports) -> None:
    """By the log: so within its retention time, and of the object that is there now."""
    await reports.define("acme", CRD)
    await reports.put("acme", CRD, "a", {"spec": {"phase": "Old"}}, user="ann")
    await reports.remove("acme", CRD, "a")
    await reports.put("acme", CRD, "a", {"spec": {"phase": "One"}}, user="bob")
    await reports.put("acme", CRD, "a", {"spec": {"phase": "Two"}}, operation=WriteOperation.UPDATE, user="eve")
    assert reports.ask("acme", f"SELECT created_by, updated_by FROM {VIEW}") == [
        {"created_by": "bob", "updated_by": "eve"}
    ]
    with psycopg.connect(reports.url, autocommit=True) as connection:
        connection.execute("DELETE FROM changes WHERE type = 'ADDED'")
    assert reports.ask("acme", f"SELECT created_by, updated_by FROM {VIEW}") == [
        {"created_by": None, "updated_by": "eve"}
    ]
