"""A provider's login sees the objects of its definitions in tenants that bind them now, and nothing else."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from registry.store.connection import connect
from registry.store.reporting.logins import LoginError, LoginSpec, grant, logins
from registry.store.types import WriteOperation
from tests.reporting.bindings import bind, unbind
from tests.reporting.outsiders import VIEW, Outsiders, logged_in
from tests.reporting.reports import Reports, definition

NAMES = f"SELECT tenant, name FROM {VIEW} ORDER BY 1, 2"
HISTORY = f"SELECT DISTINCT tenant, name FROM {VIEW}_history ORDER BY 1, 2"
OTHER = definition("others", {"spec": {"type": "object", "properties": {"x": {"type": "string"}}}})
WIDGETS = definition("widgets", {"spec": {"type": "object", "properties": {"owner": {"type": "string"}}}})


@pytest.fixture
async def outsiders(reports: Reports) -> Outsiders:
    """`acme` provides widgets; `one` has bound them. `acme`, `beta` and `gamma` have crontabs of their own."""
    made = await logged_in(reports)
    await reports.define("acme", WIDGETS)
    await reports.put("acme", WIDGETS, "own", {"spec": {"owner": "geheim"}})
    await reports.define("one", OTHER)
    await reports.put("one", OTHER, "private", {"spec": {"x": "geheim"}})
    bind(reports, "one", "widgets.example.com", "acme")
    await reports.reporting.follow_bindings()
    await reports.put("one", WIDGETS, "a", {"spec": {"owner": "one"}})
    await made.add("provider", (), across=True, provider="acme")
    return made


def names_in(outsiders: Outsiders, query: str) -> list[tuple[Any, ...]]:
    return outsiders.ask("provider", query.replace(VIEW, "widgets_example_com"))


async def test_a_provider_sees_objects_of_bound_definitions(outsiders: Outsiders) -> None:
    """Not its own objects, nor those of other definitions, neither its own nor those of who has bound one."""
    assert names_in(outsiders, NAMES) == names_in(outsiders, HISTORY) == [("one", "a")]
    assert outsiders.ask("provider", NAMES) == outsiders.ask("provider", HISTORY) == []
    assert outsiders.ask("provider", "SELECT name FROM others_example_com") == []
    assert outsiders.ask("provider", "SELECT name FROM others_example_com_history") == []
    for view in ("definitions", "usage"):
        assert outsiders.ask("provider", f"SELECT tenant, definition FROM {view}") == [("one", "widgets.example.com")]
    assert outsiders.ask("provider", "SELECT tenant FROM revision") == [("one",)]
    assert outsiders.ask("provider", "SELECT DISTINCT definition FROM catalogue") == [("widgets.example.com",)]
    with outsiders.connection("provider") as connection:
        for text in (
            "SELECT * FROM public.api_bindings",
            "SELECT * FROM public.objects",
            "SELECT * FROM reports.widgets_example_com",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(text.encode())
    # A role that may call the functions behind it learns nothing of others.
    for who in ("one", "some", "all"):
        assert outsiders.ask(who, "SELECT * FROM public.report_bound()") == []
        assert (
            outsiders.ask(
                who,
                "SELECT public.report_bound_since(t, 'widgets.example.com') FROM"
                " generate_series(1, 5) t WHERE t < 0 OR public.report_bound_since(t,"
                " 'widgets.example.com') IS NOT NULL",
            )
            == []
        )


async def test_access_follows_bindings(outsiders: Outsiders) -> None:
    reports = outsiders.reports
    # `two` had a definition of its own of this name, deleted it, and binds.
    await reports.define("two", WIDGETS)
    await reports.put("two", WIDGETS, "of-its-own", {"spec": {"owner": "geheim"}})
    await reports.remove("two", WIDGETS, "of-its-own")
    await reports.reporting.forget(await reports.tenant("two"), "widgets.example.com")
    bind(reports, "two", "widgets.example.com", "acme")
    await reports.reporting.follow_bindings()
    await reports.put("two", WIDGETS, "b", {"spec": {"owner": "two"}})
    assert names_in(outsiders, NAMES) == names_in(outsiders, HISTORY) == [("one", "a"), ("two", "b")]
    # What has been bound of somebody else is not the provider's.
    bind(reports, "one", "others.example.com", "beta")
    await reports.reporting.follow_bindings()
    assert outsiders.ask("provider", "SELECT name FROM others_example_com") == []
    # With the end of a binding everything goes at once, its history too; the consumer sees it as before.
    unbind(reports, "one")
    assert names_in(outsiders, NAMES) == names_in(outsiders, HISTORY) == [("two", "b")]
    await reports.put("one", WIDGETS, "a", {"spec": {"owner": "changed"}}, operation=WriteOperation.UPDATE)
    await reports.reporting.follow_bindings()
    assert names_in(outsiders, NAMES) == names_in(outsiders, HISTORY) == [("two", "b")]
    with psycopg.connect(reports.url) as connection:
        connection.execute("UPDATE tenants SET deleted_at = now() WHERE name = 'two'")
    assert names_in(outsiders, NAMES) == names_in(outsiders, HISTORY) == []


async def test_a_provider_login_is_granted_listed_and_changed(outsiders: Outsiders) -> None:
    connection = await connect(outsiders.reports.url, "test")
    try:
        found = {login.name.removeprefix(outsiders.prefix): login.provider for login in await logins(connection)}
        assert found == {"one": None, "some": None, "all": None, "provider": "acme"}
        with pytest.raises(LoginError, match="no tenant nobody"):
            await grant(connection, LoginSpec("login_x", (), True, provider="nobody"))
    finally:
        await connection.close()
    await outsiders.add("provider", ("beta",), across=True)
    assert outsiders.ask("provider", NAMES) == [("beta", "of-beta")]
    assert names_in(outsiders, NAMES) == []
