"""Changes that PostgreSQL lets a login make to itself are reverted and reported."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import pytest_asyncio
from psycopg import sql

from registry.controllers import reporting
from registry.store.connection import connect
from registry.store.reporting.repair import repair
from registry.store.reporting.setup import roles_of
from tests.api.client import eventually
from tests.application import running
from tests.databases import temporary_database, temporary_roles
from tests.reporting.outsiders import VIEW, Outsiders, logged_in
from tests.reporting.reports import Reports, open_reports, register_roles


@pytest.fixture
async def outsiders(reports: Reports) -> Outsiders:
    return await _with_a_schema(reports)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_outsiders(postgres_server: str, template_database: str) -> AsyncIterator[Outsiders]:
    """One database for the tests that leave all logins as they were granted."""
    with temporary_roles(postgres_server) as roles, temporary_database(postgres_server, template_database) as url:
        register_roles(roles, url)
        async with open_reports(url) as reports:
            yield await _with_a_schema(reports)


async def _with_a_schema(reports: Reports) -> Outsiders:
    made = await logged_in(reports)
    with psycopg.connect(reports.url) as connection:
        connection.execute("UPDATE tenants SET sql_schema = 'acme_parts' WHERE name = 'acme'")
    assert await reports.reporting.name_schema(await reports.tenant("acme")) == ""
    await made.add("two", ("acme",), across=False)
    return made


def state(outsiders: Outsiders, name: str) -> tuple[Any, ...]:
    """Its password as it is stored, its settings, and its rights."""
    with psycopg.connect(outsiders.reports.url) as connection:
        found = connection.execute(
            """
            SELECT a.rolpassword, ARRAY(SELECT ROW(s.setdatabase, s.setconfig)::text FROM pg_db_role_setting s
                    WHERE s.setrole = a.oid AND s.setdatabase IN (0, d.oid) ORDER BY 1),
                has_database_privilege(a.oid, d.oid, 'CONNECT'), has_schema_privilege(a.oid, 'reports', 'USAGE'),
                has_schema_privilege(a.oid, 'acme_parts', 'USAGE')
            FROM pg_authid a, pg_database d WHERE a.rolname = %s AND d.datname = current_database()
            """,
            (outsiders.prefix + name,),
        ).fetchone()
    assert found is not None
    return found


CHANGES = {
    "its password": ("ALTER ROLE CURRENT_USER PASSWORD 'own'", ["password"]),
    "no password": ("ALTER ROLE CURRENT_USER PASSWORD NULL", ["password"]),
    "a time-out everywhere": ("ALTER ROLE CURRENT_USER SET statement_timeout = 0", ["settings"]),
    "a time-out here": ("ALTER ROLE CURRENT_USER IN DATABASE {database} SET statement_timeout = 0", ["settings"]),
    "writing": ("ALTER ROLE CURRENT_USER IN DATABASE {database} SET default_transaction_read_only = off", ["settings"]),
    "another setting": ("ALTER ROLE CURRENT_USER IN DATABASE {database} SET work_mem = '1GB'", ["settings"]),
    "another role": ("ALTER ROLE CURRENT_USER SET role = 'somebody'", ["settings"]),
    "a library": ("ALTER ROLE CURRENT_USER SET local_preload_libraries = 'none'", ["settings"]),
    "none of them": ("ALTER ROLE CURRENT_USER IN DATABASE {database} RESET ALL", ["settings"]),
    "both": (
        "ALTER ROLE CURRENT_USER PASSWORD 'own'; ALTER ROLE CURRENT_USER SET work_mem = '1GB'",
        ["password", "settings"],
    ),
}
# What is accepted and changes nothing.
NOTHING = (
    "DROP OWNED BY CURRENT_USER",
    "REASSIGN OWNED BY CURRENT_USER TO CURRENT_USER",
    "REVOKE USAGE ON SCHEMA reports, acme_parts FROM CURRENT_USER",
    "REVOKE CONNECT ON DATABASE {database} FROM CURRENT_USER",
)
REFUSED = (
    "ALTER ROLE CURRENT_USER VALID UNTIL 'infinity'",
    "ALTER ROLE CURRENT_USER NOLOGIN",
    "ALTER ROLE CURRENT_USER CONNECTION LIMIT 50",
    "ALTER ROLE CURRENT_USER NOINHERIT",
    "ALTER ROLE CURRENT_USER IN DATABASE {database} SET temp_file_limit = -1",
    "ALTER ROLE {prefix}one PASSWORD 'own'",
    "ALTER ROLE {prefix}one SET statement_timeout = 0",
    "ALTER ROLE {prefix}one RESET ALL",
    "GRANT {prefix}one TO {prefix}two",
    "REVOKE {reader} FROM {prefix}two",
    "GRANT {reader} TO {prefix}all",
    "COMMENT ON ROLE {prefix}two IS 'x'",
    "ALTER ROLE {prefix}two RENAME TO x",
    "DROP ROLE {prefix}one",
    "ALTER ROLE ALL SET work_mem = '1GB'",
    "ALTER DATABASE {database} SET work_mem = '1GB'",
)


def change(outsiders: Outsiders, name: str, *texts: str) -> None:
    database = urlsplit(outsiders.reports.url).path[1:]
    with outsiders.connection(name) as connection:
        # What makes it possible, and cannot be forbidden.
        connection.execute("SET default_transaction_read_only = off")
        for text in texts:
            connection.execute(
                text.format(database=database, prefix=outsiders.prefix, reader=f"{database}_reader").encode()
            )


async def test_logins_of_an_earlier_version_get_the_current_limits(outsiders: Outsiders) -> None:
    """Quietly: it has not changed anything."""
    name, granted = outsiders.prefix + "two", state(outsiders, "two")
    with psycopg.connect(outsiders.reports.url, autocommit=True) as connection:
        if "temp_file_limit" not in str(granted):
            pytest.skip("the role that granted the login is not allowed to set its limits")
        database = urlsplit(outsiders.reports.url).path[1:]
        text = "ALTER ROLE {} IN DATABASE {} RESET log_min_messages"
        connection.execute(sql.SQL(text).format(sql.Identifier(name), sql.Identifier(database)))
        connection.execute(
            "UPDATE settings SET value = jsonb_set(value, '{settings}', to_jsonb((SELECT s.setconfig"
            " FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole WHERE r.rolname = %(name)s)))"
            " WHERE name = 'report-login:' || %(name)s",
            {"name": name},
        )
    assert state(outsiders, "two") != granted
    assert await outsiders.reports.reporting.repair_logins() == []
    assert state(outsiders, "two") == granted


@pytest.mark.parametrize("text, what", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.asyncio(loop_scope="module")
async def test_settings_changed_by_a_login_are_restored(
    shared_outsiders: Outsiders, text: str, what: list[str]
) -> None:
    outsiders = shared_outsiders
    repairs = outsiders.reports.reporting.repair_logins
    assert await repairs() == []
    granted = state(outsiders, "two")
    others = [state(outsiders, name) for name in ("one", "some", "all")]
    change(outsiders, "two", text)
    assert state(outsiders, "two") != granted
    assert await repairs() == [(f"{outsiders.prefix}two", one) for one in what]
    assert state(outsiders, "two") == granted
    assert await repairs() == []
    with outsiders.connection("two") as connection:
        assert connection.execute("SHOW default_transaction_read_only").fetchone() == ("on",)
        assert connection.execute("SHOW statement_timeout").fetchone() == ("1min",)
    assert [state(outsiders, name) for name in ("one", "some", "all")] == others


async def test_what_a_login_sets_is_not_read_whole(outsiders: Outsiders) -> None:
    """Forty megabytes held the event loop for 0.15 s, every ten seconds, and took four times as much memory. Set again and
    again, they would fill the disk: the login is locked."""
    granted = state(outsiders, "two")
    # From PostgreSQL 18 on a password has 512 bytes at most.
    pairs = 50 if await bounds_passwords(outsiders) else 2_000_000
    verifier = f"SCRAM-SHA-256$4096:{'QUFB' * pairs}${'A' * 43}=:{'A' * 43}="
    change(
        outsiders,
        "two",
        f"ALTER ROLE CURRENT_USER PASSWORD '{verifier}'",
        f"ALTER ROLE CURRENT_USER IN DATABASE {{database}} SET search_path = '{'x' * 8_000_000}'",
    )
    tracemalloc.start()
    try:
        drifts = await outsiders.reports.reporting.repair_logins()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [drift.what for drift in drifts] == ["password", "settings"]
    assert peak < 2_000_000
    assert state(outsiders, "two") == granted
    with pytest.raises(psycopg.OperationalError, match="not permitted to log in"):
        outsiders.ask("two", "SELECT 1")
    await outsiders.add("two", ("acme",), across=False)
    assert outsiders.ask("two", "SELECT 1") == [(1,)]


async def bounds_passwords(outsiders: Outsiders) -> bool:
    with psycopg.connect(outsiders.reports.url) as connection:
        return connection.info.server_version >= 180_000


@pytest.mark.parametrize("what", ["PASSWORD", "IN DATABASE {database} SET search_path ="])
async def test_a_session_that_sets_long_texts_ends(outsiders: Outsiders, what: str) -> None:
    if what == "PASSWORD" and await bounds_passwords(outsiders):
        pytest.skip("PostgreSQL 18 refuses passwords of more than 512 bytes")
    database = urlsplit(outsiders.reports.url).path[1:]
    text = f"SCRAM-SHA-256$4096:{'QUFB' * 5_000}${'A' * 43}=:{'A' * 43}="
    with outsiders.connection("two") as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER ROLE CURRENT_USER {what.format(database=database)} '{text}'".encode())
        await outsiders.reports.reporting.repair_logins()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


async def test_a_login_cannot_change_its_privileges_or_other_logins(outsiders: Outsiders) -> None:
    granted = [state(outsiders, name) for name in ("one", "two", "some", "all")]
    change(outsiders, "two", *NOTHING)
    for text in REFUSED:
        with pytest.raises(
            (
                psycopg.errors.InsufficientPrivilege,
                psycopg.errors.InvalidGrantOperation,
                psycopg.errors.FeatureNotSupported,
            )
        ):
            change(outsiders, "two", text)
    assert [state(outsiders, name) for name in ("one", "two", "some", "all")] == granted
    assert await outsiders.reports.reporting.repair_logins() == []


async def test_a_login_shows_nothing_to_another_that_it_lets_in(outsiders: Outsiders) -> None:
    """PostgreSQL 14 lets a role make others its members; from 15 on that is refused."""
    shown = f"SELECT tenant, name FROM reports_all.{VIEW}"
    assert len(outsiders.ask("some", shown)) == 2
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidGrantOperation):
        change(outsiders, "some", "GRANT {prefix}some TO {prefix}one")
    with outsiders.connection("one") as connection:
        is_member = connection.execute("SELECT pg_has_role(%s, 'MEMBER')", [f"{outsiders.prefix}some"]).fetchone()
        assert is_member == (connection.info.server_version < 150_000,)
        if is_member == (True,):
            for text in ("SELECT 1", f"SET ROLE {outsiders.prefix}some"):
                connection.execute(text.encode())
                assert set(connection.execute(shown.encode()).fetchall()) <= {("acme", "of-acme")}


async def test_granting_twice_changes_nothing(outsiders: Outsiders) -> None:
    await outsiders.add("two", ("beta",), across=False, timeout_seconds=7)
    granted = state(outsiders, "two")
    assert await outsiders.reports.reporting.repair_logins() == []
    assert state(outsiders, "two") == granted
    # The schema of its tenant goes: its settings name one that is gone, until it is granted again.
    with psycopg.connect(outsiders.reports.url) as connection:
        connection.execute("UPDATE tenants SET sql_schema = NULL WHERE name = 'acme'")
    assert await outsiders.reports.reporting.name_schema(await outsiders.reports.tenant("acme")) == ""
    assert await outsiders.reports.reporting.repair_logins() == []


async def test_an_existing_login_gets_the_settings_and_keeps_its_password(outsiders: Outsiders) -> None:
    granted = state(outsiders, "two")
    with psycopg.connect(outsiders.reports.url) as connection:
        connection.execute("DELETE FROM settings WHERE name LIKE 'report-login:%'")
    change(outsiders, "two", "ALTER ROLE CURRENT_USER SET work_mem = '1GB'")
    assert await outsiders.reports.reporting.repair_logins() == []
    assert state(outsiders, "two") == granted
    # From here on its settings are known.
    change(outsiders, "two", "ALTER ROLE CURRENT_USER SET work_mem = '1GB'")
    assert await outsiders.reports.reporting.repair_logins() == [(f"{outsiders.prefix}two", "settings")]


async def test_the_password_of_a_login_of_two_databases_is_kept(
    outsiders: Outsiders, roles: Callable[[str], None]
) -> None:
    """A copy of a database shares its logins: two servers would each put back their own."""
    roles(f"{outsiders.prefix}other")
    with psycopg.connect(outsiders.reports.url) as connection:
        other = sql.Identifier(f"{outsiders.prefix}other_reader")
        connection.execute(sql.SQL("CREATE ROLE {}").format(other))
        connection.execute(sql.SQL("GRANT {} TO {}").format(other, sql.Identifier(f"{outsiders.prefix}two")))
    change(outsiders, "two", "ALTER ROLE CURRENT_USER PASSWORD 'own'")
    assert await outsiders.reports.reporting.repair_logins() == []
    outsiders.passwords["two"] = "own"
    assert outsiders.ask("two", "SELECT 1") == [(1,)]


async def test_a_server_that_cannot_read_passwords_sets_them_again(
    outsiders: Outsiders, roles: Callable[[str], None]
) -> None:
    name = f"{outsiders.prefix}server"
    roles(name)
    granted = state(outsiders, "two")
    with psycopg.connect(outsiders.reports.url) as own:
        connection = await connect(outsiders.reports.url, "test")
        as_server = await roles_of(connection)
        server, login, reader = (sql.Identifier(n) for n in (name, f"{outsiders.prefix}two", as_server.reader))
        own.execute(sql.SQL("CREATE ROLE {} CREATEROLE").format(server))
        own.execute(sql.SQL("GRANT {}, {} TO {} WITH ADMIN OPTION").format(login, reader, server))
        own.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(as_server.owner), server))
        for text in (
            "SELECT, INSERT, UPDATE ON report_logins, settings TO {}",
            "SELECT ON report_schemas TO {}",
            "EXECUTE ON FUNCTION pg_advisory_xact_lock(bigint) TO {}",
            "CONNECT ON DATABASE {database} TO {} WITH GRANT OPTION",
        ):
            database = sql.Identifier(urlsplit(outsiders.reports.url).path[1:])
            own.execute(sql.SQL("GRANT " + text).format(server, database=database))
        own.execute(sql.SQL("DELETE FROM report_logins WHERE name <> {}").format(f"{outsiders.prefix}two"))
    change(outsiders, "two", "ALTER ROLE CURRENT_USER PASSWORD 'own'")
    try:
        await connection.execute(sql.SQL("SET ROLE {}").format(server))
        assert await repair(connection, as_server, unseen=False) == []
        assert state(outsiders, "two")[0] != granted[0]
        await repair(connection, as_server, unseen=True)
        assert state(outsiders, "two")[0] == granted[0]
    finally:
        await connection.close()


async def test_the_server_restores_settings_and_logs_it(
    roles: Callable[[str], None],
    api_database: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reporting, "SWEEP_SECONDS", 0.1)
    database = urlsplit(api_database).path[1:]
    roles(f"{database}_re")
    roles(f"login_{database}_")
    async with running(api_database, tmp_path, with_views=True):
        from registry.cli.commands import sql as sql_cli
        from registry.cli.root import parser

        typed = vars(
            parser().parse_args(
                [
                    "sql",
                    "grant",
                    f"login_{database}_a",
                    "--tenant",
                    "default",
                    "--database-url",
                    api_database,
                    "--password-file",
                    str(_password(tmp_path)),
                ]
            )
        )
        typed.pop("command")
        assert await asyncio.to_thread(sql_cli.run, typed) == 0
        own = api_database.replace("registry@", f"login_{database}_a:first@")
        before = reporting.LOGIN_DRIFTS.labels("password")._value.get()
        with caplog.at_level(logging.WARNING), psycopg.connect(own, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute("ALTER ROLE CURRENT_USER PASSWORD 'second'")

            async def is_reported() -> bool:
                return "had changed its own password" in caplog.text

            await eventually(is_reported)
        assert reporting.LOGIN_DRIFTS.labels("password")._value.get() == before + 1
        psycopg.connect(own).close()


def _password(folder: Path) -> Path:
    (folder / "password").write_text("first")
    return folder / "password"
