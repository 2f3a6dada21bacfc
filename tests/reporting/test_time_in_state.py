"""`time_in_state`: how long objects had each value of a column, between two times."""

from __future__ import annotations

import datetime
from typing import Any

import psycopg
import pytest

from registry.store.types import WriteOperation
from tests.reporting.outsiders import VIEW, logged_in
from tests.reporting.reports import Reports, definition

CRD = definition(
    "jobs",
    {
        "spec": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "other": {"type": "integer"},
                'it\'s "odd"': {"type": "string"},
            },
        }
    },
)
NOON = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)

# One object: its writes with the minutes past noon at which they were made; None deletes it. The period, in minutes
# past noon. What is expected: value, minutes, stays, whether it still lasts at the end of the period.
Write = tuple[int, dict[str, Any] | None]
Answer = list[tuple[str | None, int, int, bool]]
ONE: list[Write] = [(10, {"phase": "A"}), (20, {"phase": "B"}), (30, {"phase": "A"})]
GONE: list[Write] = [(10, {"phase": "A"}), (20, {"phase": "B"}), (30, None)]
BACK: list[Write] = [(10, {"phase": "A"}), (20, None), (35, {"phase": "A"})]
CASES: list[tuple[str, list[Write], int, int, Answer]] = [
    ("the whole life, still open", ONE, 0, 60, [("A", 40, 2, True), ("B", 10, 1, False)]),
    ("both ends cut", ONE, 15, 25, [("A", 5, 1, False), ("B", 5, 1, True)]),
    ("within one state", ONE, 21, 22, [("B", 1, 1, True)]),
    ("ends where a state ends", ONE, 10, 20, [("A", 10, 1, False)]),
    ("begins where a state begins", ONE, 20, 30, [("B", 10, 1, False)]),
    ("before it was there", ONE, 0, 10, []),
    ("nothing between", ONE, 20, 20, []),
    ("the wrong way round", ONE, 25, 15, []),
    ("deleted", GONE, 0, 60, [("A", 10, 1, False), ("B", 10, 1, False)]),
    ("after it was deleted", GONE, 30, 60, []),
    ("deleted and there again", BACK, 0, 60, [("A", 35, 2, True)]),
    (
        "writes that change something else",
        [(10, {"phase": "A"}), (20, {"phase": "A", "other": 1})],
        0,
        60,
        [("A", 50, 1, True)],
    ),
    (
        "absent",
        [(10, {}), (20, {"other": 1}), (30, {"phase": "A"}), (50, {})],
        0,
        60,
        [("A", 20, 1, False), (None, 30, 2, True)],
    ),
]


async def lives(reports: Reports, name: str, writes: list[Write]) -> None:
    """Writes an object, and moves the writes to the times that they are to have been made at."""
    known = False
    for minutes, spec in writes:
        if spec is None:
            await reports.remove("acme", CRD, name)
        else:
            await reports.put(
                "acme", CRD, name, {"spec": spec}, operation=WriteOperation.UPDATE if known else WriteOperation.CREATE
            )
        known = spec is not None
        with psycopg.connect(reports.url) as connection:
            connection.execute(
                "UPDATE changes SET at = %s WHERE revision = (SELECT max(revision) FROM changes)",
                (NOON + datetime.timedelta(minutes=minutes),),
            )


def time_in_state(reports: Reports, field: str, since: Any, until: Any) -> dict[str, list[tuple[Any, ...]]]:
    rows = reports.ask(
        "acme",
        "SELECT * FROM time_in_state('jobs_example_com_history', %s, %s, %s) ORDER BY name, value NULLS LAST",
        field,
        since,
        until,
    )
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        assert (row["tenant"], row["namespace"]) == ("acme", "default")
        minutes = row["duration"].total_seconds() / 60
        found.setdefault(row["name"], []).append((row["value"], minutes, row["stays"], row["still"]))
    return found


async def test_periods_and_lifetimes(reports: Reports) -> None:
    await reports.define("acme", CRD)
    for number, (_, writes, *_) in enumerate(CASES):
        await lives(reports, f"case-{number:02}", writes)
    for number, (name, _, since, until, expected) in enumerate(CASES):
        start, end = (NOON + datetime.timedelta(minutes=minutes) for minutes in (since, until))
        assert time_in_state(reports, "spec_phase", start, end).get(f"case-{number:02}", []) == expected, name


async def test_periods_end_at_the_current_time(reports: Reports) -> None:
    await reports.define("acme", CRD)
    await lives(reports, "a", [(0, {"phase": "A"})])
    asked = "SELECT duration FROM time_in_state('jobs_example_com_history', 'spec_phase', %s{})"
    with psycopg.connect(reports.url, options="-c registry.tenant=acme -c search_path=reports") as connection:
        # In one transaction, so that it is one now.
        rows = [
            connection.execute(asked.format(until).encode(), (NOON,)).fetchall()
            for until in ("", ", now()", ", now() + interval '1 day'", ", 'infinity'")
        ]
        now = connection.execute("SELECT now()").fetchone()
    assert now is not None
    assert rows == [[(now[0] - NOON,)]] * 4


async def test_states_older_than_the_log_count_from_its_beginning(reports: Reports) -> None:
    await reports.define("acme", CRD)
    await lives(reports, "a", [(0, {"phase": "Old"})])
    with psycopg.connect(reports.url) as connection:
        # As compaction leaves it.
        connection.execute("DELETE FROM changes")
        connection.execute("UPDATE domains SET compact_revision = revision")
    await lives(reports, "b", [(0, {"phase": "x"})])
    await reports.put("acme", CRD, "a", {"spec": {"phase": "New"}}, operation=WriteOperation.UPDATE)
    with psycopg.connect(reports.url) as connection:
        connection.execute(
            "UPDATE changes SET at = %s WHERE revision = (SELECT max(revision) FROM changes)",
            (NOON + datetime.timedelta(minutes=30),),
        )
    found = time_in_state(reports, "spec_phase", NOON, NOON + datetime.timedelta(minutes=40))
    assert found["a"] == [("New", 10, 1, True), ("Old", 30, 1, False)]


async def test_columns(reports: Reports) -> None:
    await reports.define("acme", CRD)
    await lives(reports, "a", [(0, {"phase": "A", 'it\'s "odd"': "x"})])
    hour = NOON + datetime.timedelta(hours=1)
    for column, value in (("ready", None), ("operation", "create"), ("spec_it_s_odd", "x")):
        assert time_in_state(reports, column, NOON, hour) == {"a": [(value, 60, 1, True)]}
    for column in ("no_such", "spec_phase::text); DROP TABLE objects; --", 'spec_phase"'):
        with pytest.raises(psycopg.errors.UndefinedColumn):
            time_in_state(reports, column, NOON, hour)


async def test_logins_see_the_tenants_of_their_views_only(reports: Reports) -> None:
    outsiders = await logged_in(reports)
    asked = f"SELECT tenant, name, value FROM time_in_state('{VIEW}_history', 'spec_owner', '2020-01-01') ORDER BY 1"
    assert outsiders.ask("one", asked) == [("acme", "of-acme", "acme")]
    assert outsiders.ask("some", asked) == [("acme", "of-acme", "acme"), ("beta", "of-beta", "beta")]
    with outsiders.connection("one") as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(f"SELECT * FROM time_in_state('reports_all.{VIEW}_history', 'uid', '2020-01-01')".encode())
