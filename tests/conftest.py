"""Fixtures for every folder: a real PostgreSQL, embedded or the one that REGISTRY_TEST_DATABASE_URL names.

Each test gets its own database, cloned from a migrated template, so commits and notifications are real and tests are
isolated from each other.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import hypothesis
import psycopg
import pytest

from registry.flowcontrol import allocator
from registry.store import migrate
from tests.databases import embedded_postgres, temporary_database, temporary_roles
from tests.replication import Node, running_node
from tests.running import data_folder

# httpcore tries to import it for every lock and event of a request, and Python looks for what is missing in all of sys.path
# each time: a fifth of the processor time of an asynchronous client.
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]

pytest_plugins = ["tests.application", "tests.emulating", "tests.handshakes", "tests.scheduling"]

# Every run uses the same examples, so a failure is caused by the change at hand. HYPOTHESIS_PROFILE=explore searches for
# new ones. There is no deadline: how long an example takes depends on the machine.
# Failures are not explained: for that hypothesis traces each line, in which CPython 3.11.7 once ran for ever.
hypothesis.settings.register_profile(
    "same",
    derandomize=True,
    database=None,
    deadline=None,
    phases=[phase for phase in hypothesis.Phase if phase is not hypothesis.Phase.explain],
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("explore", print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

_SERVER_VERSION = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database on a running server; its role may create databases."""
    given = os.environ.get("REGISTRY_TEST_DATABASE_URL")
    if given:
        _note_version(request.config, given)
        yield given
        return
    # No test waits for autovacuum, which would visit each of their databases.
    with data_folder() as folder, embedded_postgres(folder / "postgres", autovacuum="off") as server:
        _note_version(request.config, server.url)
        yield server.url


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder shared by all processes of one test run."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def template_database(postgres_server: str) -> Iterator[str]:
    """The name of a migrated database without connections, as CREATE DATABASE ... TEMPLATE requires."""
    with temporary_database(postgres_server, "template0") as url:
        migrate.upgrade(url)
        yield urlsplit(url).path.removeprefix("/")


@pytest.fixture(scope="session")
def migrated_node() -> Iterator[Node]:
    """A stopped PostgreSQL server with a migrated database, which tests of replication copy."""
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
    """Registers prefixes of role names. The roles are dropped after the test's database, since they belong to the server."""
    with temporary_roles(postgres_server) as register:
        yield register


def _note_version(config: pytest.Config, url: str) -> None:
    with psycopg.connect(url) as connection:
        row = connection.execute("SHOW server_version").fetchone()
        assert row is not None
        config.stash[_SERVER_VERSION] = str(row[0])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects tests without the garbage collector, and then exempts them from it.

    All of these objects stay until the end of the run, and the collector would go through a million of them, again and
    again. So would an application in this process, which takes the growth of all tests for its own: for two seconds, in
    which it answers nobody.
    """
    gc.disable()
    allocator._COLLECT_BYTES = sys.maxsize  # type: ignore[misc]  # tests of it run in processes of their own
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(2_000, 2, 5_000)
        gc.enable()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Uses the text of a dict or list as the id of a table row that has none; pytest's default is `spec0`."""
    if isinstance(val, (dict, list, tuple)) and " at 0x" not in (text := repr(val)):
        return text if len(text) <= 60 else f"{text[:57]}..."
    return None


def pytest_report_header() -> str:
    given = os.environ.get("REGISTRY_TEST_DATABASE_URL")
    return "database: " + ("REGISTRY_TEST_DATABASE_URL" if given else "an embedded PostgreSQL")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    version = config.stash.get(_SERVER_VERSION, None)
    if version is not None:
        terminalreporter.write_line(f"PostgreSQL {version}")
