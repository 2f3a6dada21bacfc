"""Fixtures for every folder: a real PostgreSQL, embedded or the one that REGISTRY_TEST_DATABASE_URL names.

Each test gets its own database, cloned from a migrated template, so commits and notifications are real and tests are
isolated from each other.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
import uvloop

from registry.flowcontrol import allocator
from tests.databases import temporary_database, temporary_roles

# httpcore tries to import it for every lock and event of a request, and Python looks for what is missing in all of sys.path
# each time: a fifth of the processor time of an asynchronous client.
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]

# Of the programs in Go that tests run: kubectl takes a fifth less if it collects garbage later.
os.environ.setdefault("GOGC", "400")

pytest_plugins = ["tests.application", "tests.emulating", "tests.handshakes", "tests.scheduling", "tests.templates"]

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


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Coroutines run on the event loop that serves, some of whose handles and transports are not of asyncio's classes."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder shared by all processes of one test run."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


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
