"""A real PostgreSQL for every test that asks: an embedded one, or REGISTRY_TEST_DATABASE_URL's.

Each test has a database of its own, cloned from a migrated template: commits and notifications are real there, and no
test sees another's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import hypothesis
import psycopg
import pytest
from psycopg import sql

from registry.store import migrate
from tests.databases import embedded_postgres, temporary_database
from tests.replication import Node, running_node
from tests.running import data_folder

pytest_plugins = ["tests.application", "tests.scheduling"]

# The same examples in every run, so that one which fails says something of the change at hand. New ones are looked for
# with HYPOTHESIS_PROFILE=explore.
# How long an example takes is the machine's affair.
hypothesis.settings.register_profile(
    "same", derandomize=True, database=None, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("explore", print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

_SERVER_VERSION = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database of a running server, whose role may create databases."""
    given = os.environ.get("REGISTRY_TEST_DATABASE_URL")
    if given:
        _note_version(request.config, given)
        yield given
        return
    with data_folder() as folder, embedded_postgres(folder / "postgres") as server:
        _note_version(request.config, server.url)
        yield server.url


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of one test run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def template_database(postgres_server: str) -> Iterator[str]:
    """The name of a migrated database that nobody is connected to."""
    with temporary_database(postgres_server, "template0") as url:
        migrate.upgrade(url)
        yield urlsplit(url).path.removeprefix("/")


@pytest.fixture(scope="session")
def migrated_node() -> Iterator[Node]:
    """A stopped PostgreSQL with our tables, for tests of several servers to copy."""
    with running_node() as node:
        migrate.upgrade(node.url)
        node.stop()
        yield node


@pytest.fixture
def empty_database_url(postgres_server: str) -> Iterator[str]:
    """A database without any table."""
    with temporary_database(postgres_server, "template0") as url:
        yield url


@pytest.fixture
def database_url(postgres_server: str, template_database: str) -> Iterator[str]:
    """A migrated, empty database."""
    with temporary_database(postgres_server, template_database) as url:
        yield url


@pytest.fixture
def roles(postgres_server: str) -> Iterator[Callable[[str], None]]:
    """Names of roles to be dropped when their database is gone: roles belong to the whole server."""
    names: list[str] = []
    yield names.append
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        for prefix in names:
            found = connection.execute(
                "SELECT rolname FROM pg_roles WHERE rolname LIKE %s", (prefix.replace("_", r"\_") + "%",)
            ).fetchall()
            for row in found:
                connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(row[0])))


def _note_version(config: pytest.Config, url: str) -> None:
    with psycopg.connect(url) as connection:
        row = connection.execute("SHOW server_version").fetchone()
        assert row is not None
        config.stash[_SERVER_VERSION] = str(row[0])


def pytest_make_parametrize_id(val: object) -> str | None:
    """The text of a dict or list as a row's id, where the table gives none: `spec0` would not say which row it is."""
    if isinstance(val, (dict, list, tuple)) and " at 0x" not in (text := repr(val)):
        return text if len(text) <= 60 else f"{text[:57]}..."
    return None


def pytest_report_header() -> str:
    given = os.environ.get("REGISTRY_TEST_DATABASE_URL")
    return "database: " + ("that of REGISTRY_TEST_DATABASE_URL" if given else "an embedded PostgreSQL")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    version = config.stash.get(_SERVER_VERSION, None)
    if version is not None:
        terminalreporter.write_line(f"PostgreSQL {version}")
