"""Context managers for PostgreSQL: a server, a database cloned from a template, a store on a database."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from registry.postgres.server import EmbeddedPostgres
from registry.store.store import Store

_numbers = itertools.count()
# The idle connections to servers, by URL: a process creates and drops hundreds of databases one after the other.
_idle: dict[str, psycopg.Connection] = {}


def with_database(url: str, name: str) -> str:
    """Returns the URL of another database on the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@contextlib.contextmanager
def embedded_postgres(folder: Path, **settings: str) -> Iterator[EmbeddedPostgres]:
    """A running PostgreSQL without fsync: tests kill the server, never the machine, so its page cache survives.

    Its shared memory is in its folder, so that nothing is left of a server that was killed.
    """
    settings = {"fsync": "off", "dynamic_shared_memory_type": "mmap", **settings}
    with EmbeddedPostgres(folder, settings=settings) as server:
        yield server


@contextlib.asynccontextmanager
async def open_store(url: str) -> AsyncIterator[Store]:
    """A store without housekeeping. Several stores on one database behave like several server processes."""
    store = await Store.open(url, housekeeping=False)
    try:
        yield store
    finally:
        await store.close()


@contextlib.contextmanager
def _administrator(server: str) -> Iterator[psycopg.Connection]:
    """A connection for statements on databases, which is kept unless something fails."""
    connection = _idle.pop(server, None)
    if connection is None or not _is_open(connection):
        connection = psycopg.connect(server, autocommit=True)
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    _idle[server] = connection


def _is_open(connection: psycopg.Connection) -> bool:
    """Whether it can still be used: some tests end the sessions of a server, or the server."""
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        connection.close()
        return False
    return True


@atexit.register
def _close() -> None:
    for connection in _idle.values():
        connection.close()


@contextlib.contextmanager
def temporary_database(server: str, template: str, *, name: str = "") -> Iterator[str]:
    """The URL of a copy of the database `template`, which must have no connections. It is dropped at the end."""
    name = name or f"registry_test_{os.getpid()}_{next(_numbers)}"
    try:
        yield create_database(server, template, name)
    finally:
        drop_database(server, name)


def create_database(server: str, template: str, name: str) -> str:
    """Creates a copy of the database `template`, and returns its URL."""
    with _administrator(server) as connection:
        # Copying files takes half of the processor time of writing each page to the log, the default since 15.
        copy = "STRATEGY file_copy" if connection.info.server_version >= 150_000 else ""
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} {}").format(
                sql.Identifier(name), sql.Identifier(template), sql.SQL(copy)
            )
        )
    return with_database(server, name)


@contextlib.contextmanager
def temporary_roles(server: str) -> Iterator[Callable[[str], None]]:
    """Takes prefixes of role names, whose roles are dropped at the end: after the database in which they have rights."""
    prefixes: list[str] = []
    yield prefixes.append
    with psycopg.connect(server, autocommit=True) as connection:
        for prefix in prefixes:
            found = connection.execute(
                "SELECT rolname FROM pg_roles WHERE rolname LIKE %s", (prefix.replace("_", r"\_") + "%",)
            ).fetchall()
            for row in found:
                connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(row[0])))


def drop_database(server: str, name: str) -> None:
    with _administrator(server) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
