"""PostgreSQL for tests: a server, databases cloned from a template, and stores on them, each until a block ends."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from registry.postgres.server import EmbeddedPostgres
from registry.store.store import Store

_numbers = itertools.count()


def with_database(url: str, name: str) -> str:
    """The URL of another database of the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@contextlib.contextmanager
def embedded_postgres(folder: Path) -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL that runs until the block ends. Tests kill it, never the machine: what is in its cache counts as
    written."""
    with EmbeddedPostgres(folder, settings={"fsync": "off"}) as server:
        yield server


@contextlib.asynccontextmanager
async def open_store(url: str) -> AsyncIterator[Store]:
    """A store without background work: another process, as far as other stores on its database can tell."""
    store = await Store.open(url, housekeeping=False)
    try:
        yield store
    finally:
        await store.close()


@contextlib.contextmanager
def temporary_database(server: str, template: str) -> Iterator[str]:
    """The URL of a copy of the database `template`, which nobody may be connected to."""
    name = f"registry_test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        )
    try:
        yield with_database(server, name)
    finally:
        drop_database(server, name)


def drop_database(server: str, name: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
