"""Brings a database to a revision of the migrations, up or down.

One process at a time (an advisory lock of the session), each migration in a transaction of its own, with timeouts: a
migration that cannot get its lock gives up instead of making everybody wait. Synchronous: it runs before there is a
server. Any URL or DSN that libpq knows will do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from psycopg import sql
from sqlalchemy import Connection, create_engine, pool

# Any number that nothing else in the database uses as an advisory lock.
ADVISORY_LOCK: Final = 0x7265_6769_7374_7279

# A busy table is retried by running again; a migration that rewrites a large one must set its own.
LOCK_TIMEOUT: Final = "5s"
STATEMENT_TIMEOUT: Final = "10min"

# Where the revisions are: Alembic's name of a Python package, which lies beside `registry` and above the store.
SCRIPTS: Final = "migrations:"


def upgrade(url: str, revision: str = "head", *, scripts: str = SCRIPTS) -> None:
    _run(url, scripts, lambda config: command.upgrade(config, revision))


def downgrade(url: str, revision: str, *, scripts: str = SCRIPTS) -> None:
    """`revision` may be "base": nothing is left then, and all data is gone."""
    _run(url, scripts, lambda config: command.downgrade(config, revision))


def current(url: str) -> str | None:
    """The revision that the database is at, or None when it is empty."""
    with _connect(url) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def _run(url: str, scripts: str, action: Callable[[Config], None]) -> None:
    with _connect(url) as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_lock({ADVISORY_LOCK})")
        try:
            # Only now: to wait for another process's migrations is right, to wait for a table is not.
            connection.exec_driver_sql(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
            connection.commit()
            prefer_fast_compression(connection)
            # Alembic commits only the transactions that it has begun itself.
            connection.commit()
            config = Config()
            config.set_main_option("script_location", scripts)
            config.attributes["connection"] = connection
            action(config)
        finally:
            connection.rollback()
            connection.exec_driver_sql(f"SELECT pg_advisory_unlock({ADVISORY_LOCK})")
            connection.commit()


def prefer_fast_compression(connection: Connection) -> None:
    """Makes lz4 the database's TOAST compression where this PostgreSQL was built with it and we may.

    Not a part of the migrations: those must give the same tables on every PostgreSQL. Sessions of the store set it for
    themselves too (`connection.py`), for databases that belong to somebody else.
    """
    known = connection.exec_driver_sql(
        "SELECT enumvals FROM pg_settings WHERE name = 'default_toast_compression'"
    ).scalar()
    if not known or "lz4" not in known:
        return
    raw = connection.connection.driver_connection
    assert isinstance(raw, psycopg.Connection)
    try:
        name = raw.execute("SELECT current_database()").fetchone()
        assert name is not None
        raw.execute(sql.SQL("ALTER DATABASE {} SET default_toast_compression = lz4").format(sql.Identifier(name[0])))
    except psycopg.errors.InsufficientPrivilege:
        connection.rollback()
    else:
        connection.commit()


@contextmanager
def _connect(url: str) -> Iterator[Connection]:
    def connect() -> psycopg.Connection[tuple[object, ...]]:
        connection = psycopg.connect(url, application_name="registry migrate", connect_timeout=10)
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            connection.close()
            raise psycopg.NotSupportedError(
                f"its encoding is {encoding}; make it with: createdb --template template0 --encoding UTF8"
            )
        connection.execute(sql.SQL("SET statement_timeout = {}").format(STATEMENT_TIMEOUT))
        connection.commit()
        return connection

    engine = create_engine("postgresql+psycopg://", creator=connect, poolclass=pool.NullPool)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()
