"""The statement that docs/operations.md gives for a restored database runs, and expires what clients have seen."""

from __future__ import annotations

import re

import psycopg

from tests.docs.pages import ROOT


def test_the_statement_after_a_restore_raises_counters_and_expires_watches(database_url: str) -> None:
    [statement] = re.findall(r"^    (UPDATE domains .+)$", (ROOT / "docs/operations.md").read_text(), re.MULTILINE)
    with psycopg.connect(database_url) as connection:
        select = "SELECT id, revision, compact_revision FROM domains ORDER BY id"
        connection.execute("INSERT INTO domains (revision) VALUES (7), (0)")
        before = connection.execute(select).fetchall()
        connection.execute(statement.encode())
        after = connection.execute(select).fetchall()
    assert len(before) >= 2
    assert after == [(domain, revision + 1_000_000, revision + 1_000_000) for domain, revision, _ in before]
