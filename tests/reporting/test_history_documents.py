"""What history views read: the documents of objects and of the log, and bodies only where there are none."""

from __future__ import annotations

import itertools
from typing import Any

import psycopg
import pytest

from registry.store.types import WriteOperation
from tests.reporting.reports import Object, Reports, definition

TEXT = {"type": "string"}
CRD = definition(
    "crontabs",
    {
        "spec": {
            "type": "object",
            "properties": {
                "phase": TEXT,
                "parts": {"type": "array", "items": {"type": "object", "properties": {"name": TEXT}}},
            },
        }
    },
)
VIEW = "crontabs_example_com"
STATES = f"SELECT name, revision, operation, spec_phase FROM {VIEW}_history ORDER BY revision"
PARTS = f"SELECT name, revision, operation, name_field FROM {VIEW}__spec_parts_history ORDER BY revision"


def content(phase: str) -> Object:
    return {"spec": {"phase": phase, "parts": [{"name": phase.lower()}]}}


async def fill(reports: Reports) -> None:
    """States of every kind: current, replaced, deleted, from before the log, and never mentioned by it."""
    await reports.define("acme", CRD)
    for name in ("still", "changed", "deleted"):
        await reports.put("acme", CRD, name, content("Old"))
    change(reports.url, "DELETE FROM changes")
    change(reports.url, "UPDATE domains SET compact_revision = revision")
    await reports.put("acme", CRD, "new", content("One"))
    for phase in ("Two", "Three"):
        for name in ("new", "changed"):
            await reports.put("acme", CRD, name, content(phase), operation=WriteOperation.UPDATE)
    await reports.remove("acme", CRD, "deleted")


EXPECTED = [
    ("still", "earlier", "Old"),
    ("changed", "earlier", "Old"),
    ("deleted", "earlier", "Old"),
    ("new", "create", "One"),
    ("new", "update", "Two"),
    ("changed", "update", "Two"),
    ("new", "update", "Three"),
    ("changed", "update", "Three"),
    ("deleted", "delete", "Old"),
]


def change(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement.encode())


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param("UPDATE changes SET body = '\"no JSON', previous_body = '\"no JSON'", id="from documents alone"),
        pytest.param("UPDATE changes SET previous_doc = NULL", id="rows of an earlier release"),
    ],
)
async def test_states_are_read(reports: Reports, spoil: str) -> None:
    await fill(reports)
    change(reports.url, spoil)
    rows = reports.ask("acme", STATES)
    assert [(r["name"], r["operation"], r["spec_phase"]) for r in rows] == EXPECTED
    parts = reports.ask("acme", PARTS)
    assert [(r["name"], r["operation"], r["name_field"]) for r in parts] == [
        (name, operation, phase.lower()) for name, operation, phase in EXPECTED
    ]


async def test_periods_follow_each_other(reports: Reports) -> None:
    await fill(reports)
    rows = reports.ask("acme", f"SELECT * FROM {VIEW}_history ORDER BY name, revision")
    for name in ("new", "changed", "deleted"):
        states = [row for row in rows if row["name"] == name]
        for state, following in itertools.pairwise(states):
            assert state["next_revision"] == following["revision"]
            assert state["valid_to"] == following["valid_from"] is not None
        assert states[-1]["next_revision"] == (states[-1]["revision"] if name == "deleted" else None)
    [still] = [row for row in rows if row["name"] == "still"]
    assert (still["valid_to"], still["next_revision"]) == (None, None)


async def test_setting_the_clock_back_loses_no_period(reports: Reports) -> None:
    await fill(reports)
    query = f"SELECT name, revision, next_revision, spec_phase FROM {VIEW}_history ORDER BY name, revision"
    before = reports.ask("acme", query)
    change(
        reports.url,
        "UPDATE changes SET at = (SELECT min(at) FROM changes)"
        " WHERE revision = (SELECT max(revision) FROM changes WHERE type = 'MODIFIED')",
    )
    assert reports.ask("acme", query) == before


async def test_only_replaced_states_look_up_the_next_change(reports: Reports) -> None:
    """A look into each partition of the log for each state would cost more than all the rest."""
    await fill(reports)
    add_earlier_partition(reports.url)
    options = "-c registry.tenant=acme -c search_path=reports -c enable_seqscan=off -c enable_bitmapscan=off"
    with psycopg.connect(reports.url, options=options) as connection:
        row = connection.execute(
            f"EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF) SELECT max(valid_to) FROM {VIEW}_history".encode()
        ).fetchone()
    assert row is not None
    found = nodes(row[0][0]["Plan"])
    looks = [node for node in found if node.get("Index Cond", "").endswith("(revision > c.revision))")]
    # "new" was replaced twice, "changed" once after its first change in the log: three looks, and none in the
    # earlier partition, which cannot have what replaced a state of the later one.
    assert [node["Actual Loops"] for node in looks if node["Actual Loops"]] == [3]


def add_earlier_partition(url: str) -> None:
    """Divides the first partition of the log at the year 2000."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT c.relname, substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \\((.*)\\)')"
            " FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid"
            " WHERE inhparent = 'changes'::regclass AND pg_get_expr(c.relpartbound, c.oid) LIKE '%MINVALUE%'"
        ).fetchone()
        assert row is not None
        first, end = row
        for statement in (
            f"ALTER TABLE changes DETACH PARTITION {first}",
            "CREATE TABLE changes_earlier PARTITION OF changes FOR VALUES FROM (MINVALUE) TO ('2000-01-01')",
            f"ALTER TABLE changes ATTACH PARTITION {first} FOR VALUES FROM ('2000-01-01') TO ({end})",
        ):
            connection.execute(statement.encode())


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in nodes(child))]
