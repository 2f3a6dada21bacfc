"""One server for all clients in a test process; each test has its own namespace, and its own kind and group."""

from __future__ import annotations

import gc
import secrets
from collections.abc import Iterator

import pytest

from tests.clients.kinds import Kind, defined
from tests.folders import data_folder
from tests.running import RunningServer, running_server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Clients take their time, and their libraries have deprecations of their own."""
    for item in items:
        if item.path.is_relative_to(__file__.rpartition("/")[0]):
            item.add_marker(pytest.mark.slow)
            item.add_marker(
                pytest.mark.filterwarnings(
                    "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"
                )
            )


@pytest.fixture(scope="package")
def server() -> Iterator[RunningServer]:
    with data_folder() as folder, running_server(folder / "data") as running:
        yield running


@pytest.fixture(autouse=True)
def _no_connections_left() -> Iterator[None]:
    """Some clients close connections only when they are collected: here, where no later test is warned of it."""
    yield
    gc.collect()


@pytest.fixture
def kind(server: RunningServer) -> Iterator[Kind]:
    """A namespaced kind with status and scale, established, and an empty namespace for its objects."""
    with defined(server, f"g{secrets.token_hex(4)}.example.com", f"ns-{secrets.token_hex(4)}") as kind:
        yield kind
