"""Migrates a database up or down to a revision, while servers use it.

One process at a time (a session-level advisory lock), each migration in its own transaction, with timeouts: a migration
that cannot get its lock rolls back and retries instead of blocking all queries. Synchronous: it runs before there is a
server. Accepts any URL or DSN that libpq knows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import sleep
from typing import Any, Final

import psycopg
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg import sql
from sqlalchemy import Connection, create_engine, pool
from sqlalchemy.exc import DBAPIError

from registry.store.migration_plan import Incompatible, MigrationPlan, note_servers, plan, require_usable, running

logger = logging.getLogger(__name__)

# Any number that nothing else in the database uses as an advisory lock.
ADVISORY_LOCK: Final = 0x7265_6769_7374_7279

# While a migration waits for a table lock, later queries queue behind it: so it waits briefly, and often.
LOCK_TIMEOUT: Final = "2s"
LOCK_ATTEMPTS: Final = 10
LOCK_PAUSE_SECONDS: Final = 1.0
# A migration that rewrites a large table must set its own timeout.
STATEMENT_TIMEOUT: Final = "10min"

# Revisions that are gone, with the one that has the same tables: they were never released and changed functions only.
FOLDED: Final = dict.fromkeys(("0022", "0023", "0024", "0025"), "0021")

# The location of the revisions, in Alembic's notation: a package beside `registry`, above the store.
SCRIPTS: Final = "migrations:"


def upgrade(
    url: str, revision: str = "head", *, scripts: str = SCRIPTS, observer: Callable[..., None] | None = None
) -> None:
    """Upgrades the database. Raises Incompatible, without changes, where running servers cannot work with the new
    revision.

    A database migrated by a newer release is left as it is, if this code can use it. `observer` is Alembic's
    `on_version_apply`.
    """

    def apply(connection: Connection, config: Config) -> None:
        directory = ScriptDirectory.from_config(config)
        current = _revision(connection)
        if current is not None and current not in _known(directory):
            require_usable(connection, current)
            logger.info("the database is at migration %s of a newer release, which this one can use", current)
            return
        if refusal := _plan(connection, directory, revision).refusal():
            raise Incompatible(refusal)
        connection.rollback()
        command.upgrade(config, revision)
        if _revision(connection) == directory.get_current_head():
            note_servers(connection, [one.module for one in directory.walk_revisions()])
            connection.commit()

    _run(url, scripts, apply, observer)


def downgrade(url: str, revision: str, *, scripts: str = SCRIPTS) -> None:
    """Downgrades; "base" drops everything, including all data. Raises Incompatible while servers run."""

    def apply(connection: Connection, config: Config) -> None:
        if servers := running(connection):
            names = ", ".join(name for _, name in servers[:3])
            raise Incompatible(f"{len(servers)} servers run ({names}): stop them first")
        connection.rollback()
        command.downgrade(config, revision)
        if _revision(connection) is not None:
            connection.exec_driver_sql("COMMENT ON TABLE alembic_version IS NULL")
            connection.commit()

    _run(url, scripts, apply)


def plan_upgrade(url: str, revision: str = "head", *, scripts: str = SCRIPTS) -> MigrationPlan:
    with _connect(url) as connection:
        return _plan(connection, ScriptDirectory.from_config(_config(scripts)), revision)


def current(url: str) -> str | None:
    """Returns the database's current revision, or None when it is empty."""
    with _connect(url) as connection:
        return _revision(connection)


def _plan(connection: Connection, directory: ScriptDirectory, revision: str) -> MigrationPlan:
    current = _revision(connection)
    if current is not None and current not in _known(directory):
        return MigrationPlan(current, [], running(connection))
    return plan(connection, directory, current, revision)


def _revision(connection: Connection) -> str | None:
    revision = MigrationContext.configure(connection).get_current_revision()
    return FOLDED.get(revision, revision) if revision is not None else None


def _unfold(connection: Connection) -> None:
    """Records the revision that stands for the current one, since Alembic reads the table itself."""
    if MigrationContext.configure(connection).get_current_revision() in FOLDED:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = %s", (_revision(connection),))
    connection.commit()


def _known(directory: ScriptDirectory) -> set[str]:
    return {one.revision for one in directory.walk_revisions()}


def _config(scripts: str) -> Config:
    config = Config()
    config.set_main_option("script_location", scripts)
    return config


def _run(
    url: str, scripts: str, action: Callable[[Connection, Config], None], observer: Callable[..., None] | None = None
) -> None:
    with _connect(url) as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_lock({ADVISORY_LOCK})")
        try:
            # Set only now: waiting for another process's migrations is right, waiting for a table is not.
            connection.exec_driver_sql(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
            connection.commit()
            prefer_fast_compression(connection)
            # Alembic commits only transactions that it began itself.
            connection.commit()
            _unfold(connection)
            config = _config(scripts)
            config.attributes.update(connection=connection, on_version_apply=observer)
            _patiently(connection, lambda: action(connection, config))
        finally:
            connection.rollback()
            connection.exec_driver_sql(f"SELECT pg_advisory_unlock({ADVISORY_LOCK})")
            connection.commit()


def _patiently(connection: Connection, action: Callable[[], Any]) -> None:
    """Retries `action` when a lock timed out: migrations that were already committed are not repeated."""
    for attempt in range(1, LOCK_ATTEMPTS + 1):
        try:
            action()
            return
        except DBAPIError as error:
            if not isinstance(error.orig, psycopg.errors.LockNotAvailable) or attempt == LOCK_ATTEMPTS:
                raise
            logger.warning("a migration did not get its lock within %s, and tries again", LOCK_TIMEOUT)
            connection.rollback()
            sleep(LOCK_PAUSE_SECONDS)


def prefer_fast_compression(connection: Connection) -> None:
    """Makes lz4 the database's default TOAST compression, if this PostgreSQL supports it and the role has the
    privilege.

    Not a migration: those must produce the same tables on every PostgreSQL. The store's sessions also set it for
    themselves (session.py), for databases that belong to another role.
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
