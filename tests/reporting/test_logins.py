"""Report logins from outside: each connects with its password and attempts what it may not do."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio
from psycopg import sql

from registry.postgres.priority import NICE, ReportPriorities
from registry.store import compaction
from registry.store.connection import connect
from registry.store.errors import Unavailable
from registry.store.reporting.logins import TEMP_FILES, LoginError, LoginSpec, close_side_doors, grant, logins, revoke
from tests.api.client import PATIENCE_SECONDS
from tests.databases import temporary_database, temporary_roles
from tests.processes import wait_until
from tests.reporting.outsiders import CRD, VIEW, Outsiders, logged_in
from tests.reporting.reports import Reports, definition, open_reports, register_roles
from tests.store.aging import age, partitions_of


@pytest.fixture
async def outsiders(reports: Reports) -> Outsiders:
    return await logged_in(reports)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_outsiders(postgres_server: str, template_database: str) -> AsyncIterator[Outsiders]:
    """One database for the tests that leave all logins, and what they may see, as they are."""
    with temporary_roles(postgres_server) as roles, temporary_database(postgres_server, template_database) as url:
        register_roles(roles, url)
        async with open_reports(url) as reports:
            yield await logged_in(reports)


leaves_the_logins = pytest.mark.asyncio(loop_scope="module")


@leaves_the_logins
async def test_logins_see_their_tenants_only(shared_outsiders: Outsiders) -> None:
    outsiders = shared_outsiders
    names = f"SELECT name FROM {VIEW} ORDER BY name"
    assert outsiders.ask("one", names) == [("of-acme",)]
    assert outsiders.ask("some", names) == [("of-acme",), ("of-beta",)]
    assert outsiders.ask("all", names) == [("of-acme",), ("of-beta",), ("of-gamma",)]
    history = f"SELECT DISTINCT tenant FROM {VIEW}_history ORDER BY 1"
    assert outsiders.ask("one", history) == [("acme",)]
    assert outsiders.ask("some", history) == [("acme",), ("beta",)]
    assert len(outsiders.ask("all", history)) == 3
    for view in ("definitions", "usage", "revision"):
        assert {r[0] for r in outsiders.ask("one", f"SELECT tenant FROM {view}")} == {"acme"}
        assert {r[0] for r in outsiders.ask("some", f"SELECT tenant FROM {view}")} == {"acme", "beta"}
    assert outsiders.ask("one", "SELECT DISTINCT definition FROM catalogue") == [("crontabs.example.com",)]
    for name in ("one", "some", "all"):
        with outsiders.connection(name) as connection:
            for suffix in ("", "_raw", "_history"):
                rows = connection.execute(f"SELECT * FROM {VIEW}{suffix}".encode()).fetchall()
                assert rows
                assert "geheim" not in str(rows)


REFUSED = [
    "SELECT * FROM public.objects",
    "SELECT doc FROM public.objects",
    "SELECT * FROM public.changes",
    "SELECT * FROM public.tenants",
    "SELECT * FROM public.domains",
    "SELECT * FROM public.settings",
    "SELECT * FROM public.resources",
    "SELECT * FROM public.resource_history",
    "SELECT * FROM public.access_tokens",
    "SELECT * FROM public.signing_keys",
    "SELECT * FROM public.report_logins",
    "SELECT * FROM public.report_views",
    "SELECT * FROM reports_all.crontabs_example_com",
    "SELECT * FROM reports_all.definitions",
    "SELECT count(*) FROM ONLY public.objects",
    "TABLE public.objects",
    "COPY public.objects TO STDOUT",
    "COPY (SELECT 1) TO PROGRAM 'id'",
    "COPY (SELECT 1) TO '/dev/null'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT query_to_xml('SELECT * FROM public.objects', true, true, '')",
    "SELECT table_to_xml('public.objects', true, true, '')",
    "SELECT * FROM pg_authid",
    "SELECT * FROM pg_shadow",
    "SELECT * FROM pg_stats_ext_exprs, pg_statistic",
    "SELECT * FROM pg_largeobject",
    "SELECT pg_current_xact_id()",
    "SELECT txid_current()",
    "SET ROLE registry",
    "SET ROLE {database}_reports",
    "SET ROLE {database}_reports_all",
    "SET ROLE {database}_reader_all",
    "SET SESSION AUTHORIZATION registry",
    "SELECT set_config('role', 'registry', false)",
    "SELECT set_config('session_authorization', 'registry', false)",
    "SELECT registry_commit(1,'{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}')",
]

# With the session's own protection against writing by mistake taken off.
REFUSED_WRITES = [
    f"INSERT INTO {VIEW} (name) VALUES ('x')",
    f"UPDATE {VIEW} SET spec_owner = 'x'",
    f"DELETE FROM {VIEW}",
    f"DELETE FROM {VIEW}_raw",
    f"DROP VIEW {VIEW}",
    f"ALTER VIEW {VIEW} OWNER TO CURRENT_USER",
    f"CREATE OR REPLACE VIEW reports.{VIEW} AS SELECT 1",
    "CREATE TABLE public.x (a int)",
    "CREATE TABLE reports.x (a int)",
    "CREATE SCHEMA x",
    "CREATE TEMP TABLE x (a int)",
    "CREATE FUNCTION pg_temp.leak(text) RETURNS bool LANGUAGE plpgsql COST 0.0000001 AS "
    "'BEGIN RAISE NOTICE ''%'', $1; RETURN true; END'",
    "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE EXTENSION dblink",
    "CREATE EXTENSION file_fdw",
    "ALTER ROLE CURRENT_USER SUPERUSER",
    "ALTER ROLE CURRENT_USER CONNECTION LIMIT -1",
    "CREATE ROLE x",
    "GRANT {database}_reports TO CURRENT_USER",
    "ALTER TABLE public.objects DISABLE ROW LEVEL SECURITY",
    "DROP POLICY report_own ON public.objects",
    "SELECT lo_create(4711)",
    "SELECT lo_from_bytea(0, 'x')",
    "UPDATE public.report_logins SET across = true",
    "DO $$ BEGIN PERFORM 1 FROM public.objects; END $$",
    "DO $$ BEGIN LOCK TABLE public.objects; END $$",
    "TRUNCATE public.objects",
    "CREATE PUBLICATION p FOR ALL TABLES",
    "SELECT pg_create_logical_replication_slot('s', 'pgoutput')",
    "ALTER SYSTEM SET log_statement = 'all'",
    "SELECT pg_reload_conf()",
    "SELECT pg_switch_wal()",
]


@pytest.mark.slow
@leaves_the_logins
async def test_statements_that_logins_may_not_run(shared_outsiders: Outsiders) -> None:
    outsiders = shared_outsiders
    with psycopg.connect(outsiders.reports.url) as one:
        row = one.execute("SELECT current_database()").fetchone()
        assert row is not None
    refused = (
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.UndefinedObject,
        psycopg.errors.UndefinedFile,
        psycopg.errors.FeatureNotSupported,
        psycopg.errors.ObjectNotInPrerequisiteState,
        psycopg.errors.UndefinedFunction,
        psycopg.errors.InvalidParameterValue,
        psycopg.errors.ReservedName,
        psycopg.errors.WrongObjectType,
    )
    with outsiders.connection("one") as connection:
        for text in REFUSED:
            with pytest.raises(refused):
                connection.execute(text.replace("{database}", row[0]).encode())
        connection.execute("SET default_transaction_read_only = off")
        for text in REFUSED_WRITES:
            with pytest.raises(refused):
                connection.execute(text.replace("{database}", row[0]).encode())
    assert len(outsiders.reports.ask("acme", f"SELECT * FROM {VIEW}")) == 1


@leaves_the_logins
async def test_settings_do_not_widen_the_view(shared_outsiders: Outsiders) -> None:
    outsiders = shared_outsiders
    beta = (await outsiders.reports.tenant("beta")).id
    with outsiders.connection("one") as connection:
        for text in ("SET registry.tenant = 'beta'", "SET row_security = off", "SET search_path = public, reports_all"):
            connection.execute(text.encode())
        try:
            rows = connection.execute(f"SELECT tenant FROM reports.{VIEW}".encode()).fetchall()
        except psycopg.errors.InsufficientPrivilege:
            rows = [("acme",)]  # row_security = off refuses to run at all
        assert rows == [("acme",)]
        connection.execute("SET row_security = on")
        reader = f"{outsiders.prefix.removeprefix('login_')[:-1]}_reader"
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(reader)))
        assert connection.execute(f"SELECT tenant FROM reports.{VIEW}".encode()).fetchall() == [("acme",)]
        assert connection.execute("SELECT report_tenant() = %s", (beta,)).fetchall() == [(False,)]


LEAKS = [
    "SELECT 1 FROM {view} WHERE 1 / (length(name) - {length}) = 0",
    "SELECT 1 FROM {view} WHERE CASE WHEN tenant = 'beta' THEN (name::int) ELSE 1 END = 1",
    "SELECT 1 FROM {view} WHERE spec_owner = 'beta' AND (spec_owner::int) = 1",
    "SELECT 1 FROM {view} WHERE (uid::int) = 1 AND tenant <> 'acme'",
]


@pytest.mark.parametrize("query", LEAKS, ids=["division", "case", "index", "cast"])
@leaves_the_logins
async def test_errors_reveal_nothing_about_other_rows(shared_outsiders: Outsiders, query: str) -> None:
    """A condition that fails on another tenant's row must never be tried on it."""
    outsiders = shared_outsiders
    text = query.format(view=VIEW, length=len("of-beta") + 100)
    with outsiders.connection("one") as connection:
        connection.execute("SET enable_seqscan = off")
        message = ""
        try:
            connection.execute(text.encode())
        except psycopg.Error as error:
            message = str(error)
    assert "beta" not in message
    assert "gamma" not in message


async def test_functions_created_by_a_login_see_no_other_rows(outsiders: Outsiders) -> None:
    """Even where the owner of the database lets logins make functions."""
    with psycopg.connect(outsiders.reports.url, autocommit=True) as one:
        one.execute("CREATE SCHEMA play; GRANT ALL ON SCHEMA play TO PUBLIC")
    with outsiders.connection("one") as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(
            "CREATE FUNCTION play.leak(text) RETURNS bool LANGUAGE plpgsql COST 0.0000001 AS "
            "'BEGIN RAISE NOTICE ''%'', $1; RETURN true; END'"
        )
        notices: list[str] = []
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        for column in ("name", "uid", "spec_owner", "tenant"):
            connection.execute(f"SELECT 1 FROM {VIEW} WHERE play.leak({column})".encode())
            connection.execute(f"SELECT 1 FROM {VIEW}_history WHERE play.leak({column})".encode())
    assert notices
    assert "beta" not in str(notices)
    assert "gamma" not in str(notices)


async def test_limits(outsiders: Outsiders) -> None:
    await outsiders.add("brief", ("acme",), across=False, connections=1, timeout_seconds=1)
    with outsiders.connection("brief") as connection:
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("SELECT pg_sleep(30)")
        assert connection.execute("SHOW default_transaction_read_only").fetchone() == ("on",)
        assert connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("1min",)
        with pytest.raises(psycopg.OperationalError):
            outsiders.connection("brief")


async def test_long_statements_are_cancelled_whatever_the_session_sets(outsiders: Outsiders) -> None:
    await outsiders.add("brief", ("acme",), across=False, timeout_seconds=1)
    enforce = outsiders.reports.reporting.enforce_limits
    sleeping, holding, good = (outsiders.connection(name) for name in ("brief", "brief", "one"))
    with sleeping, holding, good:
        for one in (sleeping, holding, good):
            one.execute("SET statement_timeout = 0")
            one.execute("SET idle_in_transaction_session_timeout = 0")
        for one in (holding, good):
            one.execute("BEGIN")
        asked = asyncio.create_task(asyncio.to_thread(sleeping.execute, "SELECT pg_sleep(600)"))
        while not asked.done():
            await asyncio.sleep(0.2)  # The limit is in whole seconds of PostgreSQL's clock.
            await enforce()
        assert isinstance(asked.exception(), psycopg.errors.QueryCanceled)
        assert sleeping.execute("SELECT 1").fetchone() == (1,)  # the session itself goes on

        async def ended() -> bool:
            with contextlib.suppress(psycopg.OperationalError):
                holding.execute("SELECT 1")  # however often it asks, the transaction is an old one
                await enforce(transaction_seconds=1)
                return False
            return True

        while not await ended():  # noqa: ASYNC110 - it is PostgreSQL that ends it
            await asyncio.sleep(0.2)
        assert good.execute("SELECT 1").fetchone() == (1,)  # it may go on for longer


async def test_a_login_creates_nothing_where_the_server_has_its_functions(outsiders: Outsiders) -> None:
    """In a database that was made by PostgreSQL 14, everybody may: also functions that the server would call."""
    create = "CREATE FUNCTION public.registry_commit(int) RETURNS int LANGUAGE sql AS 'SELECT 1'"
    with psycopg.connect(outsiders.reports.url, autocommit=True) as owner, outsiders.connection("one") as connection:
        owner.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(create.encode())
        own = await connect(outsiders.reports.url, "test")
        await close_side_doors(own, embedded=False)
        await own.close()
        connection.execute("DROP FUNCTION public.registry_commit(int)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(create.encode())


async def test_a_snapshot_that_holds_back_vacuum_ends_sooner(outsiders: Outsiders) -> None:
    """Each commit looks at all states of its tenant's counter that the snapshot may still see."""
    reports = outsiders.reports
    await outsiders.add("brief", ("acme",), across=False, timeout_seconds=1)
    enforce = reports.reporting.enforce_limits
    holding, reading = outsiders.connection("brief"), outsiders.connection("brief")
    with holding, reading:
        holding.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holding.execute("SELECT 1")
        reading.execute("BEGIN")  # READ COMMITTED: it has no snapshot between two statements
        for number in range(5):
            await reports.put("beta", CRD, f"other{number}", {"spec": {}})

        async def ended() -> bool:
            with contextlib.suppress(psycopg.OperationalError):
                holding.execute("SELECT 1")
                await enforce(held_back=3)
                return False
            return True

        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await ended():
                await enforce()  # by itself it is not an old one
                reading.execute("SELECT 1")
                await asyncio.sleep(0.2)
        assert reading.execute("SELECT 1").fetchone() == (1,)


async def test_reports_do_not_keep_the_log(outsiders: Outsiders) -> None:
    """Sessions that read the log, one after the other, could keep it for good."""
    store = outsiders.reports.store
    await age(store, outsiders.reports.url)
    store.retention = datetime.timedelta(hours=24) - compaction.PATIENCE / 2
    with outsiders.connection("one") as reading:
        reading.execute("BEGIN")
        reading.execute(f"SELECT count(*) FROM {VIEW}_history".encode())
        assert await store.compact() == []
        store.retention = datetime.timedelta(hours=24) - 2 * compaction.PATIENCE
        assert await store.compact() == ["changes_p_old"]
        with pytest.raises(psycopg.OperationalError):
            reading.execute("SELECT 1")
    assert "changes_p_old" not in await partitions_of(store)


async def test_a_view_in_use_keeps_other_changes_from_reports_only_briefly(outsiders: Outsiders) -> None:
    """All changes of reports wait for one another, of whichever tenant."""
    more = definition("crontabs", {"spec": {"type": "object", "properties": {"more": {"type": "integer"}}}})
    with outsiders.connection("one") as reading:
        reading.execute("BEGIN")
        reading.execute(f"SELECT * FROM {VIEW}".encode())
        async with asyncio.timeout(8):
            with pytest.raises(Unavailable):
                await outsiders.reports.define("acme", more)
    assert (await outsiders.reports.define("acme", more)).state == "ready"


@leaves_the_logins
async def test_a_session_may_not_fill_the_disk(shared_outsiders: Outsiders) -> None:
    outsiders = shared_outsiders
    with outsiders.connection("one") as connection:
        if connection.execute("SHOW temp_file_limit").fetchone() == ("-1",):
            pytest.skip("the role that granted the login is not allowed to set temp_file_limit")
        assert connection.execute("SHOW temp_file_limit").fetchone() == (TEMP_FILES,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SET temp_file_limit = -1")


async def test_processes_of_report_sessions_have_low_priority(outsiders: Outsiders) -> None:
    with outsiders.connection("one") as connection, psycopg.connect(outsiders.reports.url) as own:
        reading, writing = (session.info.backend_pid for session in (connection, own))
        try:
            usual = os.getpriority(os.PRIO_PROCESS, writing)
            os.setpriority(os.PRIO_PROCESS, writing, usual)
        except OSError:
            pytest.skip("PostgreSQL runs elsewhere, or as somebody else")
        assert os.getpriority(os.PRIO_PROCESS, reading) == usual
        with ReportPriorities(outsiders.reports.url, pause_seconds=0.05):
            wait_until(lambda: os.getpriority(os.PRIO_PROCESS, reading) == max(usual, NICE), "its priority is lower")
            with outsiders.connection("all") as later:
                wait_until(
                    lambda: os.getpriority(os.PRIO_PROCESS, later.info.backend_pid) == max(usual, NICE),
                    "the priority of a later one is lower",
                )
            connection.execute("SELECT 1")
        assert os.getpriority(os.PRIO_PROCESS, writing) == usual
        assert connection.execute("SHOW max_parallel_workers_per_gather").fetchone() == ("0",)


@leaves_the_logins
async def test_errors_of_a_login_are_not_logged(shared_outsiders: Outsiders) -> None:
    """A text of megabytes that is no number would be logged whole, with its statement."""
    outsiders = shared_outsiders
    with outsiders.connection("one") as connection:
        if connection.execute("SHOW temp_file_limit").fetchone() == ("-1",):
            pytest.skip("the role that granted the login is not allowed to set what logins may not")
        for name, value in (("log_min_messages", "fatal"), ("log_min_error_statement", "panic")):
            assert connection.execute(f"SHOW {name}".encode()).fetchone() == (value,)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"SET {name} = 'debug1'".encode())


async def test_revoking_drops_the_login(outsiders: Outsiders) -> None:
    kept = outsiders.connection("one")
    connection = await connect(outsiders.reports.url, "test")
    try:
        assert {login.name.removeprefix(outsiders.prefix) for login in await logins(connection)} == {
            "one",
            "some",
            "all",
        }
        await revoke(connection, f"{outsiders.prefix}one")
        with pytest.raises(psycopg.OperationalError):
            kept.execute("SELECT pg_sleep(60)")  # it is terminated, and ends
        with pytest.raises(psycopg.OperationalError):
            outsiders.connection("one")
        with pytest.raises(LoginError, match="no login"):
            await revoke(connection, f"{outsiders.prefix}one")
    finally:
        kept.close()
        await connection.close()


BAD: list[tuple[str, LoginSpec, str]] = [
    ("name", LoginSpec("x; DROP", ("acme",), False), "not a name"),
    ("postgres' own", LoginSpec("pg_x", ("acme",), False), "not a name"),
    ("unknown tenant", LoginSpec("login_x", ("nobody",), False), "no tenant nobody"),
]


@pytest.mark.parametrize("spec, why", [case[1:] for case in BAD], ids=[case[0] for case in BAD])
async def test_invalid_grants_are_refused(reports: Reports, spec: LoginSpec, why: str) -> None:
    await reports.tenant("acme")
    connection = await connect(reports.url, "test")
    try:
        with pytest.raises(LoginError, match=why):
            await grant(connection, spec)
    finally:
        await connection.close()


async def test_roles_not_created_by_the_server_are_left_alone(reports: Reports) -> None:
    await reports.tenant("acme")
    with psycopg.connect(reports.url) as one:
        row = one.execute("SELECT current_database() || '_reader'").fetchone()
        assert row is not None
    connection = await connect(reports.url, "test")
    try:
        with pytest.raises(LoginError, match="did not create"):
            await grant(connection, LoginSpec(row[0], ("acme",), False))
    finally:
        await connection.close()


async def test_deleted_tenants_are_not_visible(outsiders: Outsiders) -> None:
    with psycopg.connect(outsiders.reports.url, autocommit=True) as one:
        one.execute("UPDATE tenants SET deleted_at = now() WHERE name = 'acme'")
    assert outsiders.ask("one", f"SELECT * FROM {VIEW}") == []
