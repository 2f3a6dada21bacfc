"""Liveness depends on the process alone, readiness on its database too."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from starlette.applications import Starlette

from registry.store.errors import Unavailable
from tests.api.client import Client, eventually
from tests.application import serving, shares_application, shares_tenant

# What the server looks at in addition.
OTHERS = "".join(f"[+]{name} ok\n" for name in ("migrations", "feed", "disk", "writes", "clock", "definitions"))


@pytest.mark.parametrize(
    "path", ["/healthz", "/livez", "/readyz", "/livez/ping", "/readyz/shutdown", "/readyz/database"]
)
@shares_tenant
@shares_application
async def test_a_healthy_server(api: Client, path: str) -> None:
    answer = await api.get(path)
    assert (answer.code, answer.body) == (200, b"ok")
    assert answer.header("content-type") == "text/plain; charset=utf-8"


async def test_without_its_database_a_server_is_live_but_not_ready(
    api: Client, app: Starlette, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise Unavailable("away")

    store = app.state.backend.store
    for name in ("ping", "tenant", "state", "load"):
        monkeypatch.setattr(store, name, away)
    assert (await api.get("/livez")).code == 200
    for path in ("/readyz", "/healthz"):
        answer = await api.get(path)
        assert answer.code == 500
        assert b"[-]database failed" in answer.body
    assert (await api.get("/metrics")).code == 200


async def test_an_application_serves_between_startup_and_shutdown(api_database: str, tmp_path: Path) -> None:
    async with serving(api_database, tmp_path) as client:
        (await client.get("/api/v1/namespaces")).ok(200)
    with pytest.raises(RuntimeError, match="not been started"):
        await client.get("/api/v1/namespaces")


@pytest.mark.parametrize(
    "query, text",
    [
        (
            "verbose",
            "[+]ping ok\n[+]database ok\n[+]new-session ok\n" + OTHERS + "[+]shutdown ok\nreadyz check passed\n",
        ),
        (
            "verbose=false",
            "[+]ping ok\n[+]database ok\n[+]new-session ok\n" + OTHERS + "[+]shutdown ok\nreadyz check passed\n",
        ),
        (
            "verbose&exclude=database&exclude=etcd",
            "[+]ping ok\n[+]database excluded: ok\n[+]new-session ok\n" + OTHERS + "[+]shutdown ok\n"
            'warn: some health checks cannot be excluded: no matches for "etcd"\nreadyz check passed\n',
        ),
        ("exclude=database", "ok"),
    ],
)
@shares_tenant
@shares_application
async def test_the_checks_are_listed_as_kube_apiserver_lists_them(api: Client, query: str, text: str) -> None:
    answer = await api.get(f"/readyz?{query}")
    assert (answer.code, answer.text) == (200, text)


async def test_a_failed_check_is_reported_without_its_reason(
    api: Client, app: Starlette, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise Unavailable("geheim")

    monkeypatch.setattr(app.state.backend.store, "ping", away)
    answer = await api.get("/healthz")
    assert (answer.code, answer.text) == (
        500,
        "[+]ping ok\n[-]database failed: reason withheld\n[+]new-session ok\nhealthz check failed\n",
    )
    assert (await api.get("/healthz?exclude=database")).code == 200
    assert (await api.get("/healthz/database")).text == "internal server error: reason withheld\n"
    assert (await api.get("/healthz/ping")).code == 200


async def test_a_server_whose_new_sessions_cannot_call_its_functions_is_not_ready(
    api: Client, api_database: str
) -> None:
    """As after an upgrade of PostgreSQL's package under a running server: those that are open go on."""
    assert (await api.get("/readyz")).code == 200
    with psycopg.connect(api_database, autocommit=True) as connection:
        connection.execute("UPDATE pg_language SET lanplcallfoid = 0, laninline = 0 WHERE lanname = 'plpgsql'")
        try:

            async def fails() -> bool:
                return "[-]new-session failed" in (await api.get("/readyz?verbose")).text

            await eventually(fails)
            assert (await api.get("/livez")).code == 200
            assert (await api.get("/readyz/new-session")).code == 500
        finally:
            connection.execute(
                "UPDATE pg_language SET lanplcallfoid = 'plpgsql_call_handler'::regproc,"
                " laninline = 'plpgsql_inline_handler'::regproc WHERE lanname = 'plpgsql'"
            )


async def test_a_server_that_stops_is_not_ready(api: Client, app: Starlette) -> None:
    app.state.stopping.set()
    assert "[-]shutdown failed" in (await api.get("/readyz")).text
    assert (await api.get("/livez")).code == 200


@shares_tenant
@shares_application
async def test_the_path_of_an_unknown_check_is_not_found(api: Client) -> None:
    assert (await api.get("/readyz/absent")).code == 404


@shares_tenant
@shares_application
async def test_the_version_is_that_of_the_api(api: Client) -> None:
    version = (await api.get("/version")).ok()
    assert (version["major"], version["minor"], version["gitVersion"]) == ("1", "37", "v1.37.0")
