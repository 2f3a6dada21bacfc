"""The leader's sweep: what other processes have left, but not what this one does when a burst is over."""

from __future__ import annotations

import asyncio
import functools
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from registry.api.bound_definitions import DEFINITIONS as RESOURCE
from registry.controllers import reporting
from registry.controllers.reporting import ReportingController
from registry.store.connection import connect
from registry.store.reporting.logins import LoginSpec, grant, revoke
from registry.store.reporting.views import Reporting
from registry.store.types import ObjectKey, ResourceName, Tenant
from tests.api.client import eventually
from tests.api.widgets import DEFINITIONS, define, definition
from tests.application import serving


async def test_a_sweep_leaves_definitions_of_a_burst_alone(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps: list[list[ObjectKey]] = []
    reconciled: list[str] = []
    due_definitions, reconcile, enqueue = Reporting.due_definitions, reporting.reconcile, ReportingController.enqueue

    async def note_due(of: Reporting, tenant: Tenant, definitions: ResourceName) -> list[ObjectKey]:
        keys = await due_definitions(of, tenant, definitions)
        sweeps.append(keys)
        return keys

    async def note_reconcile(client: Any, of: Reporting, key: ObjectKey) -> None:
        reconciled.append(key)
        await reconcile(client, of, key)

    def enqueue_ours(of: ReportingController, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        """As if `theirs` had been written by a process that has crashed."""
        if resource == RESOURCE and key == "ours.sweep.example.com":
            enqueue(of, tenant, resource, key)

    async def is_caught_up() -> bool:
        return len([keys for keys in sweeps if "ours.sweep.example.com" in keys]) > 2

    monkeypatch.setattr(Reporting, "due_definitions", note_due)
    monkeypatch.setattr(reporting, "reconcile", note_reconcile)
    monkeypatch.setattr(ReportingController, "enqueue", enqueue_ours)
    monkeypatch.setattr(reporting, "_QUIET_SECONDS", 3600)
    monkeypatch.setattr(reporting, "_MAX_DEBOUNCE_SECONDS", 3600)
    often = functools.partial(ReportingController, sweep_seconds=0.05)
    monkeypatch.setattr("tests.application.ReportingController", often)
    async with serving(database_url, tmp_path, with_views=True) as api:
        await define(api, definition("ours", "Our", group="sweep.example.com"))
        await define(api, definition("theirs", "Their", group="sweep.example.com"))
        await eventually(is_caught_up)
        await eventually(lambda: _is_in("theirs.sweep.example.com", reconciled))
        assert "ours.sweep.example.com" not in reconciled


async def test_another_process_leads_at_once_when_one_ends(database_url: str, tmp_path: Path) -> None:
    """Otherwise what is due for views would wait for half a minute after each restart."""

    async def leases() -> list[str]:
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            rows = await connection.execute("SELECT name FROM leaders ORDER BY name")
            return [row[0] async for row in rows]

    async def has_led() -> bool:
        return "reporting" in await leases()

    async with serving(database_url, tmp_path, with_views=True):
        await eventually(has_led)
    assert await leases() == []


async def test_a_view_in_use_does_not_end_the_sweep(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the views of all tenants, and the limits of logins, would wait for the session that uses it."""
    crashed: list[bool] = []
    enqueue = ReportingController.enqueue

    def enqueue_unless_crashed(of: ReportingController, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        if not crashed:
            enqueue(of, tenant, resource, key)

    monkeypatch.setattr(ReportingController, "enqueue", enqueue_unless_crashed)
    often = functools.partial(ReportingController, sweep_seconds=0.05)
    monkeypatch.setattr("tests.application.ReportingController", often)
    async with serving(database_url, tmp_path, with_views=True) as api:
        await define(api, definition("helds", "Held", group="sweep.example.com"))
        await eventually(lambda: _has_view(database_url, "helds"))
        with psycopg.connect(database_url) as session:
            session.execute("SELECT * FROM reports.helds_sweep_example_com")
            crashed.append(True)
            more = {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}},
            }
            versions = definition("helds", "Held", group="sweep.example.com", schema=more)["spec"]["versions"]
            await api.patch(f"{DEFINITIONS}/helds.sweep.example.com", {"spec": {"versions": versions}})
            await define(api, definition("others", "Other", group="sweep.example.com"))
            await eventually(lambda: _has_view(database_url, "others"))


async def test_sessions_that_overlap_do_not_keep_a_view_from_being_changed(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is short, but there is always one: of a login of any tenant that has a definition of this name."""
    monkeypatch.setattr(reporting, "_PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(reporting, "_MAX_RETRY_SECONDS", 0.5)
    done = threading.Event()
    ended: list[psycopg.Error] = []

    def read() -> None:
        """As a dashboard does: transactions of three seconds, each of which begins before the last one ends."""
        while not done.is_set():
            try:
                with psycopg.connect(database_url, user=spec.name, password=spec.name) as session:
                    session.execute("SELECT * FROM reports.helds_sweep_example_com")
                    done.wait(3)
            except psycopg.Error as error:
                ended.append(error)

    async def has_column() -> bool:
        with psycopg.connect(database_url) as connection:
            found = connection.execute(
                "SELECT FROM pg_attribute WHERE attrelid = 'reports.helds_sweep_example_com'::regclass"
                " AND attname = 'spec_added'"
            )
            return found.fetchone() is not None

    with psycopg.connect(database_url) as own:
        login = f"login_{own.info.dbname}_overlaps"
    spec = LoginSpec(login, ("default",), across=False, password=login)
    async with serving(database_url, tmp_path, with_views=True) as api:
        await define(api, definition("helds", "Held", group="sweep.example.com"))
        await eventually(lambda: _has_view(database_url, "helds"))
        connection = await connect(database_url, "test")
        await grant(connection, spec)
        threads = [threading.Thread(target=read) for _ in range(3)]
        try:
            for thread in threads:
                thread.start()
                await asyncio.sleep(1)
            more = {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"added": {"type": "integer"}}}},
            }
            versions = definition("helds", "Held", group="sweep.example.com", schema=more)["spec"]["versions"]
            await api.patch(f"{DEFINITIONS}/helds.sweep.example.com", {"spec": {"versions": versions}})
            await eventually(has_column)
        finally:
            done.set()
            for thread in threads:
                await asyncio.to_thread(thread.join)
            await revoke(connection, login)
            await connection.close()
        assert ended


async def _has_view(database_url: str, plural: str) -> bool:
    with psycopg.connect(database_url) as connection:
        found = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [f"reports.{plural}_sweep_example_com"])
        return found.fetchone() == (True,)


async def _is_in(name: str, names: list[str]) -> bool:
    return name in names
