"""A PostgreSQL for fault injection, and two server processes on it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from registry.postgres.server import EmbeddedPostgres
from tests.databases import embedded_postgres
from tests.faults.clients import ServerClient
from tests.folders import data_folder
from tests.running import RunningServer, prepare_postgres, running_server


@pytest.fixture
def folder() -> Iterator[Path]:
    with data_folder() as folder:
        yield folder


@pytest.fixture
def postgres(folder: Path) -> Iterator[EmbeddedPostgres]:
    prepare_postgres(folder)
    with embedded_postgres(folder / "postgres") as server:
        yield server


@pytest.fixture
def url(postgres: EmbeddedPostgres) -> str:
    """The database of `servers`. Tests that do not hurt PostgreSQL take one of the common server."""
    return postgres.url


@pytest.fixture
def servers(url: str, folder: Path) -> Iterator[Sequence[RunningServer]]:
    """Two API processes, which know of each other only through the database."""
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(running_server(folder / name, "--database-url", url, "--plain-http"))
            for name in ("one", "two")
        ]
        yield started


@pytest.fixture
async def clients(servers: Sequence[RunningServer]) -> AsyncIterator[Sequence[ServerClient]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(ServerClient(server.url, server.token)) for server in servers]
