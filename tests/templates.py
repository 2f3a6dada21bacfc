"""The PostgreSQL server of a test process, embedded or the one that REGISTRY_TEST_DATABASE_URL names, with the databases that
tests get copies of.

A pytest plugin that tests/conftest.py loads, so every folder can use its fixtures.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from registry.store import migrate
from tests.api.widgets import define, widgets_definition
from tests.application import serving, wait_for_defaults
from tests.databases import create_database, embedded_postgres, temporary_database
from tests.folders import data_folder, prepared
from tests.replication import Node
from tests.running import copy_migrated, copy_postgres

_SERVER_VERSION = pytest.StashKey[str]()
# In the embedded server, which has them from the start.
_MIGRATED = "template_migrated"
_WITH_WIDGETS = "template_widgets"


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database on a running server; its role may create databases."""
    given = _external_url()
    if given:
        _note_version(request.config, given)
        yield given
        return
    # No test waits for autovacuum, which would visit each of their databases.
    with data_folder() as folder:
        copy_postgres(prepared("templates", _make_templates), folder / "postgres")
        with embedded_postgres(folder / "postgres", autovacuum="off") as server:
            _note_version(request.config, server.url)
            yield server.url


@pytest.fixture(scope="session")
def template_database(postgres_server: str) -> Iterator[str]:
    """The name of a migrated database without connections, as CREATE DATABASE ... TEMPLATE requires."""
    if not _external_url():
        yield _MIGRATED
        return
    with temporary_database(postgres_server, "template0") as url:
        migrate.upgrade(url)
        yield urlsplit(url).path.removeprefix("/")


@pytest.fixture(scope="session")
def api_template(
    postgres_server: str, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The name of a template database in which the tenant `default` has the definition of widgets."""
    if not _external_url():
        yield _WITH_WIDGETS
        return
    with temporary_database(postgres_server, template_database) as url:
        _define_widgets(url, tmp_path_factory.mktemp("template"))
        yield urlsplit(url).path.removeprefix("/")


@pytest.fixture(scope="session")
def migrated_node() -> Node:
    """A stopped PostgreSQL server with a migrated database, which tests of replication copy."""
    return Node(prepared("node", _migrate_node), "node")


def _external_url() -> str | None:
    return os.environ.get("REGISTRY_TEST_DATABASE_URL")


def _make_templates(folder: Path) -> None:
    """Makes the folder of an embedded PostgreSQL with both templates."""
    folder.rmdir()
    copy_migrated(folder)
    with embedded_postgres(folder, autovacuum="off") as server, tempfile.TemporaryDirectory() as data_dir:
        create_database(server.url, urlsplit(server.url).path.removeprefix("/"), _MIGRATED)
        _define_widgets(create_database(server.url, _MIGRATED, _WITH_WIDGETS), Path(data_dir))


def _define_widgets(url: str, data_dir: Path) -> None:
    async def fill() -> None:
        async with serving(url, data_dir) as client:
            await define(client, widgets_definition())
            # Otherwise controllers would finish this work in each copy, and change revisions that tests expect.
            for tenant in ("default", "system"):
                await wait_for_defaults(client.of_tenant(tenant))

    with asyncio.Runner() as runner:
        runner.run(fill())


def _migrate_node(folder: Path) -> None:
    node = Node(folder, "node")
    node.make()
    node.start()
    try:
        migrate.upgrade(node.url)
    finally:
        node.stop()


def _note_version(config: pytest.Config, url: str) -> None:
    with psycopg.connect(url) as connection:
        row = connection.execute("SHOW server_version").fetchone()
        assert row is not None
        config.stash[_SERVER_VERSION] = str(row[0])


def pytest_report_header() -> str:
    return "database: " + ("REGISTRY_TEST_DATABASE_URL" if _external_url() else "an embedded PostgreSQL")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    version = config.stash.get(_SERVER_VERSION, None)
    if version is not None:
        terminalreporter.write_line(f"PostgreSQL {version}")
