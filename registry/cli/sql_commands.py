"""The `registry sql` commands: logins that read reports, in the database of the settings."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

import psycopg

from registry.cli.errors import describe
from registry.postgres.config import LOOPBACK
from registry.settings.declarations import WILDCARD_HOSTS, Settings, SettingsError
from registry.settings.loading import load
from registry.store.connection import Connection, Pool, connect
from registry.store.reporting import logins as reporting_logins
from registry.store.reporting.logins import LoginError, LoginSpec
from registry.store.reporting.setup import OWN_SCHEMA

_OWN = "name tenant tenants all_tenants provider connections timeout password_file move".split()


def run(typed: dict[str, Any]) -> int:
    from registry.cli.server_process import database_of_command

    action = typed.pop("action")
    own = {name: typed.pop(name, None) for name in _OWN}
    settings = load(typed, os.environ)
    with database_of_command(settings) as url:
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


async def _grant(url: str, settings: Settings, typed: dict[str, Any]) -> None:
    from registry.controllers.reporting import reporting_of
    from registry.store.reporting.views import ReportingUnavailable

    spec = _login_spec(typed)
    pool = Pool(url, "sql", 1)
    try:
        reporting = reporting_of(pool)
        await reporting.prepare()
        if spec.across:
            await reporting.make_wildcard_views()
    except ReportingUnavailable as problem:
        raise LoginError(str(problem)) from problem
    finally:
        await pool.close()
    async with await connect(url, "sql") as connection:
        await reporting_logins.close_side_doors(connection, embedded=settings.database_url is None)
        password = await reporting_logins.grant(connection, spec)
        listening = await _listening(connection) if settings.database_url is None else None
    # A password given by the user is not printed: they know it, and the output may end up in a log.
    print(login_url(url, listening, spec.name, None if spec.password else password))
    if settings.database_url is None:
        print(_reach(listening, settings), file=sys.stderr)


class Listening(NamedTuple):
    """Where the embedded PostgreSQL accepts TCP connections: a host for a URL, and the port."""

    host: str
    port: int

    @property
    def is_local(self) -> bool:
        return self.host == LOOPBACK


async def _listening(connection: Connection) -> Listening | None:
    """Asks PostgreSQL itself, since its owner may have settings in local.conf. None: only by socket."""
    row = await (
        await connection.execute("SELECT current_setting('listen_addresses'), current_setting('port')::int")
    ).fetchone()
    assert row is not None
    hosts = [host for part in row[0].split(",") if (host := part.strip())]
    if not hosts:
        return None
    further = [host for host in hosts if host not in (LOOPBACK, "localhost", "::1")]
    if not further:
        return Listening(LOOPBACK, row[1])
    return Listening(socket.gethostname() if further[0] in ("*", *WILDCARD_HOSTS) else further[0], row[1])


def _reach(listening: Listening | None, settings: Settings) -> str:
    """Returns who can use the URL, and what to do for others."""
    if listening is None:
        return (
            "This URL works on this machine only, for root and the account that runs PostgreSQL: it leads to a socket. "
            "For other accounts start `registry serve --postgres-port 5432`, for other machines "
            "`registry serve --postgres-host 0.0.0.0`."
        )
    if listening.is_local:
        return (
            "This URL works for every account of this machine. For other machines start "
            "`registry serve --postgres-host 0.0.0.0`."
        )
    return (
        f"This URL works wherever {listening.host} leads to this machine. A client without channel binding verifies "
        f"the server by its CA instead: sslmode=verify-full&sslrootcert=<a copy of {settings.data_dir / 'ca.crt'}>"
    )


def _login_spec(typed: dict[str, Any]) -> LoginSpec:
    password = None
    if typed["password_file"]:
        try:
            password = Path(typed["password_file"]).read_text().strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise SettingsError(describe(problem)) from problem
        if not password:
            raise SettingsError(f"{typed['password_file']} is empty")
    tenants: tuple[str, ...] | None = None
    if typed["tenant"]:
        tenants = (typed["tenant"],)
    elif typed["tenants"]:
        tenants = tuple(name.strip() for name in typed["tenants"].split(",") if name.strip())
    elif typed["provider"]:
        tenants = ()
    return LoginSpec(
        typed["name"],
        tenants,
        not typed["tenant"],
        typed["connections"],
        typed["timeout"],
        password,
        typed["provider"],
        typed["move"],
    )


def login_url(url: str, listening: Listening | None, name: str, password: str | None) -> str:
    """Returns the database's URL for a login: by TCP if an embedded server listens there, else by its socket.

    From another machine the connection is encrypted, and bound to the server that knows the password: it cannot be
    intercepted, and no CA file is needed (PostgreSQL's manual, "SCRAM-SHA-256-PLUS").
    """
    parts = urlsplit(url)
    credentials = quote(name) if password is None else f"{quote(name)}:{quote(password, safe='')}"
    if listening is not None:
        host = f"[{listening.host}]" if ":" in listening.host else listening.host
        query = "" if listening.is_local else "?sslmode=require&channel_binding=require"
        return f"postgresql://{credentials}@{host}:{listening.port}{parts.path}{query}"
    address = parts.netloc.rpartition("@")[2]
    named = parse_qs(parts.query)
    socket_folder = f"?host={quote(named['host'][0], safe='')}" if "host" in named else ""
    return f"postgresql://{credentials}@{address}{parts.path}{socket_folder}"


def options_for(url: str, tenant: str) -> str:
    """Returns libpq's options for a session that reads the reports of one tenant. Raises SettingsError.

    It is still the administrator's session: the user could have typed anything.
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
    async with await connect(url, "sql") as connection:
        await reporting_logins.revoke(connection, name)
    print(f"{name} is withdrawn")


async def _list(url: str) -> None:
    async with await connect(url, "sql") as connection:
        logins = await reporting_logins.logins(connection)
    print(f"{'NAME':<32} {'TENANTS':<32} {'CONNECTIONS':<12} {'TIMEOUT':<8} SINCE")
    for login in logins:
        tenants = "all" if login.tenants is None else ",".join(login.tenants) or "(gone)"
        if login.provider:
            tenants = f"bound of {login.provider}"
        print(
            f"{login.name:<32} {tenants:<32} {f'{login.sessions}/{login.connections}':<12} "
            f"{f'{login.timeout_seconds}s':<8} {login.created_at:%Y-%m-%d}"
        )
