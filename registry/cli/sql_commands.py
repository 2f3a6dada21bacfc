"""What `registry sql` does: logins that read reports, in the database that the settings name."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import psycopg

from registry.settings import Settings, SettingsError, load
from registry.store.reporting.logins import LoginError, Wish
from registry.store.reporting.setup import OWN_SCHEMA


def run(typed: dict[str, Any]) -> int:
    action = typed.pop("action")
    own = {
        name: typed.pop(name, None)
        for name in (
            "name",
            "tenant",
            "tenants",
            "all_tenants",
            "provider",
            "connections",
            "timeout",
            "password_file",
            "move",
        )
    }
    settings = load(typed, os.environ)
    with _database(settings) as url:
        try:
            if action == "grant":
                asyncio.run(_grant(url, settings, own))
            elif action == "revoke":
                asyncio.run(_revoke(url, own["name"]))
            else:
                asyncio.run(_list(url))
        except (LoginError, psycopg.Error) as problem:
            raise SettingsError(str(problem).strip().splitlines()[0]) from problem
    return 0


@contextmanager
def _database(settings: Settings) -> Iterator[str]:
    from registry.cli.server_process import MigrationError, database
    from registry.postgres.server import EmbeddedPostgresError, running_url

    running = None if settings.database_url else running_url(settings.data_dir / "postgres")
    if running is not None:
        yield running[0]
        return
    try:
        with database(settings) as url:
            yield url
    except (MigrationError, EmbeddedPostgresError, OSError) as problem:
        raise SettingsError(str(problem)) from problem


async def _grant(url: str, settings: Settings, typed: dict[str, Any]) -> None:
    from registry.controllers.reporting import reporting_of
    from registry.store.connection import Pool, connect
    from registry.store.reporting import logins as reporting_logins
    from registry.store.reporting.views import ReportingUnavailable

    wish = _wish(typed)
    pool = Pool(url, "sql", 1)
    try:
        reporting = reporting_of(pool)
        await reporting.prepare()
        if wish.across:
            await reporting.make_across()
    except ReportingUnavailable as problem:
        raise LoginError(str(problem)) from problem
    finally:
        await pool.close()
    connection = await connect(url, "sql")
    try:
        await reporting_logins.close_side_doors(connection, embedded=settings.database_url is None)
        password = await reporting_logins.grant(connection, wish)
    finally:
        await connection.close()
    # A password that was brought along is known to those who need it, and this may end in a log.
    print(login_url(url, settings, wish.name, None if wish.password else password))
    if settings.database_url is None and "port" not in parse_qs(urlsplit(url).query):
        print(
            "This URL works on this machine only, for root and the account that runs PostgreSQL: it leads to a socket. "
            "For other accounts start `registry serve --postgres-port 5432`; for other machines use a PostgreSQL of "
            "your own (--database-url).",
            file=sys.stderr,
        )


def _wish(typed: dict[str, Any]) -> Wish:
    password = None
    if typed["password_file"]:
        try:
            password = Path(typed["password_file"]).read_text().strip()
        except OSError as problem:
            raise SettingsError(str(problem)) from problem
        if not password:
            raise SettingsError(f"{typed['password_file']} is empty")
    tenants: tuple[str, ...] | None = None
    if typed["tenant"]:
        tenants = (typed["tenant"],)
    elif typed["tenants"]:
        tenants = tuple(name.strip() for name in typed["tenants"].split(",") if name.strip())
    elif typed["provider"]:
        tenants = ()
    return Wish(
        typed["name"],
        tenants,
        not typed["tenant"],
        typed["connections"],
        typed["timeout"],
        password,
        typed["provider"],
        typed["move"],
    )


def login_url(url: str, settings: Settings, name: str, password: str | None) -> str:
    """The database's URL for a login: by TCP where an embedded server listens there, else by its socket."""
    parts = urlsplit(url)
    credentials = quote(name) if password is None else f"{quote(name)}:{quote(password)}"
    query = parse_qs(parts.query)
    if settings.database_url is None and "port" in query:  # That the running one was given (postgres/server.py).
        return f"postgresql://{credentials}@127.0.0.1:{query['port'][0]}{parts.path}"
    address = parts.netloc.rpartition("@")[2]
    host = f"?host={quote(query['host'][0], safe='')}" if "host" in query else ""
    return f"postgresql://{credentials}@{address}{parts.path}{host}"


def options_for(url: str, tenant: str) -> str:
    """libpq's options for a session that reads the reports of one tenant. Raises SettingsError.

    It is the administrator's session all the same: who has typed this could have typed anything.
    """
    try:
        with psycopg.connect(url) as connection:
            row = connection.execute(
                "SELECT s.name, current_database() FROM tenants t LEFT JOIN report_schemas s ON s.tenant_id = t.id"
                " WHERE t.name = %s AND t.deleted_at IS NULL",
                (tenant,),
            ).fetchone()
    except psycopg.Error as problem:
        raise SettingsError(str(problem).strip().splitlines()[0]) from problem
    if row is None:
        raise SettingsError(f"there is no tenant {tenant}")
    path = ",".join(filter(None, (row[0], OWN_SCHEMA)))
    return f"-c registry.tenant={tenant} -c search_path={path} -c default_transaction_read_only=on"


async def _revoke(url: str, name: str) -> None:
    from registry.store.connection import connect
    from registry.store.reporting import logins as reporting_logins

    connection = await connect(url, "sql")
    try:
        await reporting_logins.revoke(connection, name)
    finally:
        await connection.close()
    print(f"{name} is withdrawn")


async def _list(url: str) -> None:
    from registry.store.connection import connect
    from registry.store.reporting import logins as reporting_logins

    connection = await connect(url, "sql")
    try:
        found = await reporting_logins.logins(connection)
    finally:
        await connection.close()
    print(f"{'NAME':<32} {'TENANTS':<32} {'CONNECTIONS':<12} {'TIMEOUT':<8} SINCE")
    for login in found:
        tenants = "all" if login.tenants is None else ",".join(login.tenants) or "(gone)"
        if login.provider:
            tenants = f"bound of {login.provider}"
        print(
            f"{login.name:<32} {tenants:<32} {f'{login.sessions}/{login.connections}':<12} "
            f"{f'{login.timeout_seconds}s':<8} {login.created_at:%Y-%m-%d}"
        )
