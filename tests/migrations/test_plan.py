"""What `registry migrate` prints before it changes a database in use, and when it refuses."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import psycopg
import pytest

from migrations.locks import Rows
from registry.cli.root import main
from registry.store import migrate, migration_plan
from registry.store.migration_plan import FIRST_RELEASE, Incompatible
from registry.store.revision import newest_revision
from tests.processes import ROOT

# Modes that keep others away from a table: from writing, or from reading too.
BLOCKING = ("ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock")
NAMES = {
    "ACCESS EXCLUSIVE": "AccessExclusiveLock",
    "SHARE": "ShareLock",
    "SHARE ROW EXCLUSIVE": "ShareRowExclusiveLock",
}
TABLES = """
    SELECT relname, relfilenode FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND relname <> 'alembic_version'
"""
LOCKS = """
    SELECT c.relname, l.mode FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
    WHERE l.pid = pg_backend_pid() AND c.relkind IN ('r', 'p') AND NOT c.relispartition
"""


@pytest.mark.slow
def test_revisions_lock_what_they_declare(empty_database_url: str) -> None:
    """What PostgreSQL says at the end of each transaction: the locks that it holds, and which tables it has rewritten."""
    migrate.upgrade(empty_database_url, FIRST_RELEASE)
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("INSERT INTO domains (floor) SELECT n FROM generate_series(1, 100) n")
        before: dict[str, int] = dict(connection.execute(TABLES).fetchall())
    seen = []

    def compare(*, ctx: Any, step: Any, **_: Any) -> None:
        module = step.up_revision.module
        declared = {lock.table: NAMES[lock.mode] for lock in module.LOCKS}
        rewritten_at_will = {lock.table for lock in module.LOCKS if lock.rows is Rows.WRITTEN}
        found = {name: mode for name, mode in ctx.connection.exec_driver_sql(LOCKS) if mode in BLOCKING}
        assert {name: mode for name, mode in found.items() if name in before} == declared, module.revision
        after = dict(ctx.connection.exec_driver_sql(TABLES).all())
        rewritten = {name for name, file in before.items() if after.get(name) != file}
        assert rewritten <= rewritten_at_will, module.revision
        before.update(after)
        seen.append(module.revision)

    migrate.upgrade(empty_database_url, observer=compare)
    assert seen[-1] == newest_revision() == migrate.current(empty_database_url)


@pytest.mark.slow
def test_the_plan_names_tables_rows_and_times(empty_database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    migrate.upgrade(empty_database_url, FIRST_RELEASE)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("INSERT INTO domains (floor) SELECT n FROM generate_series(1, 50000) n")
        connection.execute("ANALYZE domains")
    assert main(["migrate", "plan", "--database-url", empty_database_url]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"the database is at {FIRST_RELEASE}\n0014  The lowest revision")
    assert "      domains: ACCESS EXCLUSIVE, every row is written, about 50,000: about 2 s\n" in said
    assert "      objects: ACCESS EXCLUSIVE, no row is touched: less than a second\n" in said
    assert said.endswith("servers of 0013 and newer go on meanwhile\n")
    assert migrate.current(empty_database_url) == FIRST_RELEASE, "a plan changes nothing"
    migrate.upgrade(empty_database_url)
    with psycopg.connect(empty_database_url) as connection:
        [(wrong,)] = connection.execute("SELECT count(*) FROM domains WHERE compact_revision <> floor").fetchall()
    assert wrong == 0
    assert main(["migrate", "plan", "--database-url", empty_database_url]) == 0
    assert "there is nothing to do" in capsys.readouterr().out


def test_both_names_of_a_renamed_column_stay_equal(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("INSERT INTO domains (name) VALUES ('one'), ('two')")
        connection.execute("UPDATE domains SET floor = 7 WHERE name = 'one'")
        connection.execute("UPDATE domains SET compact_revision = 8 WHERE name = 'two'")
        rows = connection.execute(
            "SELECT name, floor, compact_revision FROM domains WHERE name IN ('one', 'two') ORDER BY 1"
        ).fetchall()
    assert rows == [("one", 7, 7), ("two", 8, 8)]


def _announce(url: str, process: str, release: str | None) -> None:
    """As a server process does every few seconds (process_heartbeats.py); those of 0013 do not say their release."""
    with psycopg.connect(url) as connection:
        for name, holder in (("duties", "2026-01-01"), ("release", release)):
            if holder is not None:
                connection.execute(
                    "INSERT INTO leaders VALUES (%s, %s, now() + interval '1 hour')", (f"{name}/{process}", holder)
                )


@pytest.fixture
def next_release(tmp_path: Path) -> Any:
    """Migrations with one more, which declares what the test says: the location, for `upgrade`."""

    def make(servers: str) -> str:
        folder = tmp_path / "migrations"
        shutil.copytree(ROOT / "migrations", folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "versions" / f"r{9999}_next.py").write_text(
            f'"""The next."""\n\nrevision = "9999"\ndown_revision = "{newest_revision()}"\nLOCKS = ()\nSERVERS = "{servers}"\n'
            "\ndef upgrade() -> None:\n    pass\n\ndef downgrade() -> None:\n    pass\n"
        )
        return str(folder)

    return make


@pytest.mark.parametrize(
    "release, servers, refused",
    [
        pytest.param(None, newest_revision(), True, id="two-releases-apart"),
        pytest.param(None, FIRST_RELEASE, False, id="compatible-with-the-first"),
        pytest.param(newest_revision(), newest_revision(), False, id="one-release-apart"),
        pytest.param(newest_revision(), "9999", True, id="needs-all-of-the-newest"),
    ],
)
def test_a_migration_is_refused_while_servers_run_that_it_is_too_far_from(
    database_url: str, next_release: Any, release: str | None, servers: str, refused: bool
) -> None:
    scripts = next_release(servers)
    _announce(database_url, "web-1", release)
    if refused:
        with pytest.raises(Incompatible, match=f"migration 9999 needs servers of {servers} or newer, and 1 older run"):
            migrate.upgrade(database_url, scripts=scripts)
        assert migrate.current(database_url) == newest_revision()
        with psycopg.connect(database_url) as connection:
            connection.execute("UPDATE leaders SET expires_at = now()")
    migrate.upgrade(database_url, scripts=scripts)
    assert migrate.current(database_url) == "9999"


def test_the_plan_shows_the_refusal(database_url: str, next_release: Any) -> None:
    _announce(database_url, "web-1", None)
    planned = migrate.plan_upgrade(database_url, scripts=next_release("9999"))
    assert [step.revision for step in planned.steps] == ["9999"]
    assert planned.running == [(FIRST_RELEASE, "web-1")]
    assert "web-1" in str(planned.refusal())


def test_a_database_of_a_newer_release_is_used_as_far_as_that_allows(database_url: str, next_release: Any) -> None:
    migrate.upgrade(database_url, scripts=next_release(newest_revision()))
    migrate.upgrade(database_url)
    assert migrate.current(database_url) == "9999"
    with psycopg.connect(database_url) as connection:
        connection.execute("COMMENT ON TABLE alembic_version IS 'servers of 9999 and newer'")
    with pytest.raises(Incompatible, match="is at migration 9999, which servers of 9999 and newer can use"):
        migrate.upgrade(database_url)


def test_a_step_down_is_refused_while_servers_run(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    _announce(database_url, "web-1", newest_revision())
    assert main(["migrate", "down", FIRST_RELEASE, "--database-url", database_url]) == 1
    assert "1 servers run (web-1): stop them first" in capsys.readouterr().err
    assert migrate.current(database_url) == newest_revision()


@pytest.mark.slow
def test_a_lock_that_is_not_granted_is_retried(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate.upgrade(empty_database_url, FIRST_RELEASE)
    monkeypatch.setattr(migrate, "LOCK_TIMEOUT", "100ms")
    waited = []
    with psycopg.connect(empty_database_url) as reader:
        reader.execute("SELECT count(*) FROM domains")

        def pause(seconds: float) -> None:
            waited.append(seconds)
            reader.rollback()

        monkeypatch.setattr(migrate, "sleep", pause)
        migrate.upgrade(empty_database_url)
    assert waited == [migrate.LOCK_PAUSE_SECONDS]
    assert migrate.current(empty_database_url) == newest_revision()


def test_the_functions_of_a_release_are_recorded_unchanged() -> None:
    """Of 0013 as pg_dump found them (tests/store/schema_0013.sql), for a step down to it."""
    dumped = (ROOT / "tests/store/schema_0013.sql").read_text().replace("public.", "")
    kept = (ROOT / "migrations/versions/r0013_functions.sql").read_text()
    functions = kept.split("CREATE OR REPLACE FUNCTION ")[1:]
    assert len(functions) == dumped.count("\nCREATE FUNCTION registry_")
    for text in functions:
        assert f"CREATE FUNCTION {text.strip()}" in dumped


def test_the_newest_revision_is_found_without_alembic(database_url: str) -> None:
    assert migrate.current(database_url) == newest_revision()
    assert migration_plan.FIRST_RELEASE == "0013"
