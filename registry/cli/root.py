"""The command line: serve, migrate, kubeconfig, psql, tenant, token, encryption, convert, version.

Errors that the user can mend are one line on stderr and exit code 1; a wrong command line is exit code 2.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Final

from registry import __version__
from registry.cli import convert as convert_cli
from registry.cli import encryption
from registry.cli import sql as sql_cli
from registry.cli import tenant as tenant_cli
from registry.cli import token as token_cli
from registry.settings import ADDRESS, CLIENT, DATABASE, OWN_DATABASE, SettingsError, add_flags, any_set, load


def main(arguments: Sequence[str] | None = None) -> int:
    typed = vars(parser().parse_args(arguments))
    command = typed.pop("command")
    # A SIGTERM before the server is up must still end what was started: unwinding does it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return int(COMMANDS[command](typed) or 0)
    except KeyboardInterrupt:
        return 130
    except SettingsError as problem:
        return _refuse(problem)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="registry",
        description="A multi-tenant resource registry: the Kubernetes REST API for custom resources, on PostgreSQL.",
        epilog="Every setting is also an environment variable; `registry serve --help` and docs/settings.md list them.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="run the server", description="Run the server.")
    add_flags(serve)

    migrate = commands.add_parser("migrate", help="bring the database's tables to a revision, or tell it")
    migrate.add_argument("direction", choices=["up", "down", "current"])
    migrate.add_argument("revision", nargs="?", help="up: newest by default; down: must be named, `base` for nothing")
    add_flags(migrate, OWN_DATABASE)

    kubeconfig = commands.add_parser("kubeconfig", help="print a kubeconfig of the administrator")
    kubeconfig.add_argument("--tenant", help="tenant to work in; the administrator's own by default")
    kubeconfig.add_argument(
        "--server",
        help="URL at which clients reach the server; by default that of its last start, or from --host and --port",
    )
    add_flags(kubeconfig, CLIENT)

    psql = commands.add_parser("psql", help="open psql on the database, or print its URL where there is no psql")
    psql.add_argument("--tenant", help="read this tenant's reporting views (docs/sql.md) instead of all tables")
    add_flags(psql, DATABASE)
    psql.add_argument("arguments", nargs="*", help="handed to psql, after --")

    token_cli.add_commands(commands)
    tenant_cli.add_commands(commands)
    encryption.add_commands(commands)

    sql_cli.add_parser(commands)

    convert_cli.add_commands(commands)

    commands.add_parser("version", help="print the version")

    worker = commands.add_parser("worker")  # Started by `serve --workers`, not by people.
    worker.add_argument("--listener", type=int, required=True)
    worker.add_argument("--link", type=int, required=True)
    worker.add_argument("--number", type=int, required=True)
    worker.add_argument("--application", required=True)
    return top


def serve(typed: dict[str, Any]) -> int:
    from registry.cli.serve import serve as run

    return run(load(typed, os.environ))


def worker(typed: dict[str, Any]) -> int:
    from registry.cli.serve import work

    return work(load({}, os.environ), **typed)


def migrate(typed: dict[str, Any]) -> int:
    from registry.cli.serve import MigrationError, database, migration_errors
    from registry.postgres.server import EmbeddedPostgresError, running_url
    from registry.store import migrate as migrations

    direction, revision = typed.pop("direction"), typed.pop("revision")
    settings = load(typed, os.environ)
    if direction == "down" and revision is None:
        raise SettingsError("migrate down: name the revision to go down to (`base` removes everything)")
    try:
        # The embedded server of a running `serve` is used where there is one: its folder admits no second.
        running = None if settings.database_url else running_url(settings.data_dir / "postgres")
        with nullcontext(running[0]) if running else database(settings) as url, migration_errors():
            if direction == "up":
                migrations.upgrade(url, revision or "head")
            elif direction == "down":
                migrations.downgrade(url, revision)
            print(migrations.current(url) or "empty")
    except (MigrationError, EmbeddedPostgresError, OSError) as problem:
        return _refuse(problem)
    return 0


def kubeconfig(typed: dict[str, Any]) -> int:
    from registry.cli import kubeconfig as made

    tenant, server = typed.pop("tenant"), typed.pop("server")
    settings = load(typed, os.environ)
    if not settings.admin_token_path.exists():
        raise SettingsError(f"{settings.admin_token_path} does not exist yet: `registry serve` makes it")
    found = made.resolve_server(settings, server, named=any_set(typed, os.environ, *ADDRESS))
    print(
        made.kubeconfig(
            made.with_tenant(found.server, tenant),
            made.ensure_admin_token(settings),
            found.authority,
            name=tenant or "registry",
        ),
        end="",
    )
    return 0


def psql(typed: dict[str, Any]) -> int:
    """The embedded server must be running; its socket is found in the data folder."""
    from registry.postgres.server import running_url

    arguments, tenant = typed.pop("arguments"), typed.pop("tenant")
    settings = load(typed, os.environ)
    url, programs = settings.database_url, None
    if url is None:
        found = running_url(settings.data_dir / "postgres")
        if found is None:
            raise SettingsError(
                f"no server runs on {settings.data_dir}: start `registry serve`, or name --database-url"
            )
        url, programs = found
    program = shutil.which("psql") or (str(programs / "psql") if programs and (programs / "psql").exists() else None)
    if program is None:
        print(url)
        return 0
    if tenant is not None:
        os.environ["PGOPTIONS"] = sql_cli.options_for(url, tenant)
    # With its path: a psql that is not on the PATH finds itself by it.
    os.execv(program, [program, url, *arguments])


def tenant(typed: dict[str, Any]) -> int:
    from registry.cli.tenant_commands import run

    return run(typed, dict(os.environ))


def token(typed: dict[str, Any]) -> int:
    from registry.cli.token_commands import run

    return run(typed, dict(os.environ))


def version(_typed: dict[str, Any]) -> int:
    print(f"registry {__version__}")
    return 0


COMMANDS: Final = {
    "serve": serve,
    "worker": worker,
    "migrate": migrate,
    "kubeconfig": kubeconfig,
    "psql": psql,
    "sql": sql_cli.run,
    "convert": convert_cli.run,
    "encryption": encryption.run,
    "tenant": tenant,
    "token": token,
    "version": version,
}


def _refuse(problem: Exception) -> int:
    print(f"registry: {problem}", file=sys.stderr)
    return 1
