"""Databases of a PostgreSQL server, made for tests: cloned from a template, dropped at the end of a block."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

_numbers = itertools.count()


def with_database(url: str, name: str) -> str:
    """The URL of another database of the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


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
