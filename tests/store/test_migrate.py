"""Migrations create what tables.py declares, and can be reverted."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError

from registry.store import migrate, revision, tables
from registry.store.compaction import CHANGES_PARTITION_PREFIX
from registry.store.tenants import EMPTIED_TABLES
from tests.databases import with_database


def test_the_migrated_database_is_the_declared_one(database_url: str) -> None:
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(database_url))
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"include_object": _declared, "compare_type": True, "compare_server_default": True}
        )
        differences = compare_metadata(context, tables.metadata)
        declared = {t.name: dict(t.dialect_options["postgresql"]["with"] or {}) for t in tables.metadata.sorted_tables}
        rows = connection.exec_driver_sql(
            "SELECT relname, reloptions FROM pg_class WHERE relkind IN ('r', 'p') AND relname = ANY (%s)",
            ([*declared],),
        ).all()
        options = {name: dict(o.split("=") for o in given or []) for name, given in rows}
    engine.dispose()
    assert differences == []
    assert options == declared


def test_a_difference_would_be_found(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("DROP INDEX objects_owners_idx")
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(database_url))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": _declared})
        differences = compare_metadata(context, tables.metadata)
    engine.dispose()
    assert [difference[0] for difference in differences] == ["add_index"]


@pytest.mark.slow
def test_down_and_up_again(empty_database_url: str) -> None:
    assert migrate.current(empty_database_url) is None
    before = _everything(empty_database_url)
    migrate.upgrade(empty_database_url)
    assert migrate.current(empty_database_url) is not None
    made = _everything(empty_database_url)
    migrate.upgrade(empty_database_url)
    migrate.downgrade(empty_database_url, "base")
    assert migrate.current(empty_database_url) is None
    assert _everything(empty_database_url) - {"alembic_version", "alembic_version_pkc"} == before
    migrate.upgrade(empty_database_url)
    assert _everything(empty_database_url) == made


def _declared(item: Any, name: str | None, kind: str, reflected: bool, other: Any) -> bool:
    """Leaves out the partitions, which come and go, and Alembic's own table."""
    table = name if kind == "table" else getattr(getattr(item, "table", None), "name", "")
    return not str(table).startswith(CHANGES_PARTITION_PREFIX) and table != "alembic_version"


def _everything(url: str) -> set[str]:
    """The tables, indexes, sequences and functions that are not PostgreSQL's own; functions with their text."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            " UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        ).fetchall()
    return {row[0] for row in rows}


@pytest.mark.slow
def test_functions_are_those_of_the_code_at_the_newest_revision_only(empty_database_url: str) -> None:
    """A step down drops them; a server of the release with that revision makes its own, as here where they are gone."""
    migrate.upgrade(empty_database_url)
    made = _functions(empty_database_url)
    assert "registry_commit" in made
    migrate.downgrade(empty_database_url, "-1")
    assert not any(name.startswith("registry_") for name in _functions(empty_database_url))
    migrate.upgrade(empty_database_url)
    assert _functions(empty_database_url) == made
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("DROP FUNCTION registry_commit(bigint, registry_write[], bigint, boolean)")
    migrate.upgrade(empty_database_url)
    assert _functions(empty_database_url) == made


@pytest.mark.parametrize("folded", list(migrate.FOLDED))
def test_a_database_at_a_revision_that_was_never_released_is_migrated(database_url: str, folded: str) -> None:
    """Its functions may be of any text: here one is gone."""
    made = _functions(database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", (folded,))
        connection.execute("DROP FUNCTION registry_commit(bigint, registry_write[], bigint, boolean)")
    assert migrate.current(database_url) == "0021"
    assert [step.revision for step in migrate.plan_upgrade(database_url).steps] == ["0026"]
    migrate.upgrade(database_url)
    assert migrate.current(database_url) == revision.newest_revision()
    assert _functions(database_url) == made


def test_the_newest_revision_is_known_without_alembic() -> None:
    config = Config()
    config.set_main_option("script_location", migrate.SCRIPTS)
    assert revision.newest_revision() == ScriptDirectory.from_config(config).get_current_head()


def test_a_migrated_database_is_recognized(database_url: str) -> None:
    assert revision.is_newest(database_url)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("UPDATE alembic_version SET version_num = '0013'", id="older"),
        pytest.param("UPDATE alembic_version SET version_num = '9999'", id="newer"),
        pytest.param("DELETE FROM alembic_version", id="base"),
        pytest.param("DROP TABLE alembic_version", id="never-migrated"),
        pytest.param(
            "DROP FUNCTION registry_commit(bigint, registry_write[], bigint, boolean)", id="without-functions"
        ),
    ],
)
def test_a_database_to_be_migrated_is_recognized(database_url: str, change: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(change)
    assert not revision.is_newest(database_url)


def test_every_table_of_tenants_is_emptied_with_a_tenant() -> None:
    with_tenants = {table.name for table in tables.metadata.sorted_tables if "tenant_id" in table.c}
    assert with_tenants - set(EMPTIED_TABLES) == {"objects", "changes", "report_schemas"}
    assert set(EMPTIED_TABLES) <= with_tenants


def test_a_server_that_does_not_migrate_imports_neither_alembic_nor_sqlalchemy() -> None:
    code = "import sys, registry.http.app, registry.cli.server_process; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "psycopg" in found
    assert not {"alembic", "sqlalchemy"} & set(found)


def _functions(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace").fetchall()
    return {row[0] for row in rows}


def test_a_database_of_another_encoding_is_refused(database_url: str) -> None:
    """Names and bodies are Unicode: what PostgreSQL does not decode could not be compared or searched."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE not_unicode TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        try:
            with pytest.raises(DBAPIError, match="its encoding is SQL_ASCII"):
                migrate.upgrade(with_database(database_url, "not_unicode"))
        finally:
            connection.execute("DROP DATABASE not_unicode")
