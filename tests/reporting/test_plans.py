"""Plans of typical reports: index lookups, counts without heap access, order without a sort."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from benchmarks.reporting import CRD, QUERIES, VIEW, fill
from registry.reporting.report import documents_of, report_of
from registry.store.connection import connect
from registry.store.reporting.logins import LoginSpec, grant
from tests.reporting.reports import Reports

# What must be in the plan, and what must not.
PLANS: list[tuple[str, str, tuple[str, ...]]] = [
    ("filter by an indexed text", "objects_facet_text1_idx", ("Seq Scan on objects",)),
    ("filter by an indexed number", "objects_facet_int1_idx", ("Seq Scan on objects",)),
    ("group by, filtered", "objects_facet_text1_idx", ("Seq Scan on objects",)),
    ("group by, all objects", "Only Scan using objects_facet_text1_idx", ("Seq Scan on objects",)),
    ("top 20 by a number", "objects_facet_int1_idx", ("Sort", "Seq Scan on objects")),
    ("not ready for an hour", "objects_facet_ready_idx", ("Sort", "Seq Scan on objects")),
    ("join of a child view", "objects_uid_idx", ("Seq Scan on objects",)),
]


@pytest.mark.slow
async def test_plans(reports: Reports) -> None:
    for name, count in (("small", 2_000), ("big", 20_000)):
        tenant = await reports.tenant(name)
        await fill(reports.url, tenant.id, documents_of(CRD).layout, count)
        await reports.reporting.apply_report(tenant, report_of(CRD), 1, indexed=True)
    connection = await connect(reports.url, "test")
    try:
        with psycopg.connect(reports.url) as one:
            row = one.execute("SELECT current_database()").fetchone()
            assert row is not None
        name = f"login_{row[0]}_planner"
        password = await grant(connection, LoginSpec(name, ("big",), False))
    finally:
        await connection.close()
    plans = await asyncio.to_thread(_plans, reports.url, name, password)
    wrong = [
        f"{question}\n{plans[question]}"
        for question, must, must_not in PLANS
        if must not in plans[question] or any(text in plans[question] for text in must_not)
    ]
    assert not wrong, "\n\n".join(wrong)


def _plans(url: str, name: str, password: str) -> dict[str, str]:
    found: dict[str, str] = {}
    with psycopg.connect(url, user=name, password=password) as connection:
        for question, text in QUERIES.items():
            rows: list[tuple[Any, ...]] = connection.execute(
                f"EXPLAIN (COSTS OFF) {text.format(view=VIEW)}".encode()
            ).fetchall()
            found[question] = "\n".join(row[0] for row in rows)
    return found
