"""Side channels of logins: errors, plans, estimates, signals and locks."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from registry.store.feed.signals import channel_of, decode
from tests.databases import temporary_database, temporary_roles
from tests.reporting.outsiders import CRD, VIEW, Outsiders, logged_in
from tests.reporting.reports import Reports, open_reports, register_roles

# Tests that use `shared` run on the event loop of its store.
reads_only = pytest.mark.asyncio(loop_scope="module")
VIEWS = [VIEW, f"{VIEW}_raw", f"{VIEW}_history", "usage", "definitions", "revision", "namespaces"]


@pytest.fixture
async def outsiders(reports: Reports) -> Outsiders:
    return await logged_in(reports)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(postgres_server: str, template_database: str) -> AsyncIterator[Outsiders]:
    """For the tests that only read."""
    with temporary_roles(postgres_server) as roles, temporary_database(postgres_server, template_database) as url:
        register_roles(roles, url)
        async with open_reports(url) as reports:
            made = await logged_in(reports)
            # A provider, of whose tenants `some` sees none.
            await reports.tenant("zeta")
            yield made


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("login", ["one", "some"])
@reads_only
async def test_names_of_other_tenants_cannot_be_read(shared: Outsiders, login: str, view: str) -> None:
    """A condition is tried on no name that is not seen, and a plan tells of none."""
    with shared.connection(login) as connection:
        for condition in ("tenant::int = 1", "tenant <> 'acme' AND tenant::int = 1", "1 / (length(tenant) - 5) = 1"):
            text = ""
            try:
                connection.execute(f"SELECT * FROM {view} WHERE {condition}".encode())
            except psycopg.Error as error:
                text = str(error)
            assert not re.search("gamma|zeta|division", text), condition
        for condition in ("tenant = '{}'", "tenant >= '{}'", "tenant LIKE '{}%'", "tenant IN ('{}', 'acme')"):
            plans = [
                _plan(connection, f"SELECT * FROM {view} WHERE {condition.format(name)}", name)
                for name in ("gamma", "gamme")
            ]
            assert plans[0] == plans[1], condition


async def test_planner_estimates_reveal_nothing_about_other_tenants(outsiders: Outsiders) -> None:
    """Statistics are of the rows of all tenants: what is in them must not be in a plan."""
    reports = outsiders.reports
    for number in range(40):
        await reports.put("gamma", CRD, f"g{number}", {"spec": {"owner": "geheim", "size": 77}}, user="mata")
        await reports.put("acme", CRD, f"a{number}", {"spec": {"owner": f"o{number}", "size": number}})
    with psycopg.connect(reports.url, autocommit=True) as one:
        one.execute("ANALYZE")
    with outsiders.connection("one") as connection:
        for view, column, there, not_there in (
            (VIEW, "spec_owner", "geheim", "nobody"),
            (VIEW, "spec_size", "77", "1077"),
            (f"{VIEW}_history", "user_name", "mata", "hari"),
            (f"{VIEW}_history", "spec_owner", "geheim", "nobody"),
            (VIEW, "tenant", "gamma", "gamme"),
        ):
            for operator in ("=", "<", ">="):
                plans = [
                    _plan(
                        connection, f"SELECT name FROM {view} WHERE {column} {operator} '{value}'", value, analyze=False
                    )
                    for value in (there, not_there)
                ]
                assert plans[0] == plans[1], (view, column, operator)


def _plan(connection: psycopg.Connection[Any], query: str, value: str, *, analyze: bool = True) -> str:
    """Without times, and without the value that was asked for."""
    options = "ANALYZE, TIMING OFF, SUMMARY OFF, BUFFERS OFF" if analyze else "ANALYZE OFF"
    rows = connection.execute(f"EXPLAIN ({options}) {query}".encode()).fetchall()
    return "\n".join(row[0] for row in rows).replace(value, "?")


async def test_notifications_between_processes_cannot_be_received(outsiders: Outsiders) -> None:
    """Nobody else knows the channel; what comes on it is read with care anyway."""
    reports = outsiders.reports
    assert decode("x 1:" + "9" * 5_000) == ("x", {})
    subscription = await reports.store.subscribe(await reports.tenant("acme"), None)
    with psycopg.connect(reports.url) as one:
        row = one.execute("SELECT value FROM settings WHERE name = 'notify-channel'").fetchone()
        assert row is not None
        channel = row[0]
    assert re.fullmatch("registry_[0-9a-f]{32}", channel)
    with outsiders.connection("one") as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT * FROM public.settings")
        rows = connection.execute("SELECT query FROM pg_stat_activity WHERE usename <> current_user").fetchall()
        assert channel not in json.dumps(rows)
    subscription.close()


async def test_the_channel_name_is_created_once(reports: Reports) -> None:
    async with reports.store.reporting_pool.connection() as connection:
        first = await channel_of(connection)
        assert await channel_of(connection) == first


LOCKS = [
    "pg_advisory_lock(1)",
    "pg_try_advisory_lock(1, 2)",
    "pg_advisory_xact_lock_shared(1)",
    "pg_try_advisory_xact_lock(1)",
    "pg_export_snapshot()",
    "pg_logical_emit_message(false, 'x', 'y')",
    "pg_logical_emit_message(true, 'x', 'y'::bytea)",
    "lo_truncate(1, 2)",
    "lo_creat(1)",
]


@pytest.mark.parametrize("call", LOCKS)
@reads_only
async def test_logins_cannot_call_functions_of_the_server(shared: Outsiders, call: str) -> None:
    """What would make the server wait, or fill its disk."""
    with shared.connection("one") as connection:
        connection.execute("SET default_transaction_read_only = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT {call}".encode())


@reads_only
async def test_the_owner_of_the_tables_keeps_its_locks(shared: Outsiders) -> None:
    """The server waits for such locks, whichever process grants logins."""
    with psycopg.connect(shared.reports.url) as one:
        row = one.execute(
            "SELECT has_function_privilege(relowner, 'pg_advisory_xact_lock(bigint)', 'EXECUTE')"
            " FROM pg_class WHERE oid = 'objects'::regclass"
        ).fetchone()
        assert row == (True,)
