"""The steps of `registry serve`, in order: database, tables, certificates, token, port, processes."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import logging
import os
import shlex
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from registry import logs, tracing
from registry.audit import policy
from registry.cli import kubeconfig
from registry.cli.errors import CommandError, describe
from registry.cli.servers import DATA_DIR_VARIABLE, announce
from registry.http.encryption import encryption_of, prepare
from registry.http.serving import server
from registry.http.serving.server import APPLICATION, ServeError
from registry.http.serving.stopping import end_by
from registry.http.serving.supervisor import Supervisor
from registry.http.serving.tls import TlsError, ensure_certificates
from registry.postgres.config import DEFAULT_PORT, LOOPBACK
from registry.postgres.folder import EmbeddedPostgresError, running_url
from registry.postgres.priority import ReportPriorities
from registry.postgres.server import EmbeddedPostgres
from registry.settings.declarations import WILDCARD_HOSTS, Settings, SettingsError
from registry.settings.loading import default_data_dir

logger = logging.getLogger(__name__)


def serve(settings: Settings, *, application: str = APPLICATION) -> int:
    """Serves until a signal ends it; returns the exit code."""
    logs.configure(settings.log_level, settings.log_format)
    try:
        verify(settings)
        # The port first: detecting that it is taken should not take as long as starting a database.
        listeners = server.bind(settings.host, settings.port, settings.workers)
        with contextlib.ExitStack() as stack:
            for listener in listeners:
                stack.callback(listener.close)
            if settings.workers == 1:
                _import_early(application, settings)
            settings.data_dir.mkdir(parents=True, exist_ok=True)
            token = kubeconfig.ensure_admin_token(settings)
            authority = None if settings.plain_http else server.certificates(settings).authority
            url = stack.enter_context(database(settings))
            migrate(url)
            key_file = prepare(settings, url, os.environ)
            port = listeners[0].getsockname()[1]
            kubeconfig.write_kubeconfig(settings, token, authority, port)
            ready = dataclasses.replace(
                settings, database_url=url, admin_token_file=settings.admin_token_path, encryption_key_file=key_file
            )
            stack.enter_context(announce(kubeconfig.server_url(settings, port), settings.data_dir))
            _run(ready, listeners, application, lambda: _welcome(settings, port, authority))
    except KeyboardInterrupt:  # before it was up
        print("registry: stopped", file=sys.stderr)
        return 130
    except (ServeError, SettingsError, TlsError, EmbeddedPostgresError, MigrationError, OSError) as problem:
        print(f"registry: {describe(problem)}", file=sys.stderr)
        return 1
    print("registry: stopped", file=sys.stderr)
    return 0


def _import_early(application: str, settings: Settings) -> None:
    """Imports the application's modules, half of the startup time, while PostgreSQL starts; for a new database, which
    takes longer to create, also what creates its tables."""
    modules = [application.partition(":")[0]]
    if settings.database_url is None and not (settings.data_dir / "postgres").exists():
        modules.append("registry.store.migrate")

    def imports() -> None:
        # Failures are raised again where the modules are used.
        with contextlib.suppress(Exception):
            for module in modules:
                importlib.import_module(module)

    # No daemon: a thread that the end of the process stops while it loads a library in C++ aborts the process.
    threading.Thread(target=imports, name="imports").start()


def verify(settings: Settings) -> None:
    """Raises SettingsError for files named in the settings that cannot be used."""
    if settings.authentication_config is not None:
        from registry.authentication.oidc.configuration import BadConfiguration, load_configuration

        try:
            load_configuration(settings.authentication_config, settings.service_account_issuer)
        except BadConfiguration as error:
            raise SettingsError(f"--authentication-config: {error}") from error
    encryption_of(settings, os.environ)
    try:
        tracing.check(os.environ)
    except tracing.TracingError as problem:
        raise SettingsError(str(problem)) from problem
    if settings.audit_policy_file is not None:
        try:
            policy.load(settings.audit_policy_file)
        except policy.PolicyError as problem:
            raise SettingsError(f"--audit-policy-file: {problem}") from problem


def work(settings: Settings, *, listener: int, link: int, number: int, application: str) -> int:
    """Runs a worker process of `serve --workers`: serves an inherited socket, and reports to the parent by `link`."""
    logs.configure(settings.log_level, settings.log_format, worker=number)
    parent = socket.socket(fileno=link)
    parent.setblocking(False)
    try:
        server.run(
            settings,
            socket.socket(fileno=listener),
            application=application,
            when_ready=lambda: _notify_ready(parent),
            when_stopping=lambda: end_by(settings.shutdown_delay_seconds + max(1, settings.shutdown_seconds)),
            parent=parent,
        )
    except (ServeError, TlsError) as problem:
        logger.error("%s", problem)
        return 1
    return 0


@contextlib.contextmanager
def database(settings: Settings) -> Iterator[str]:
    """Yields the URL of the database in the settings, or of the embedded one, which runs for the duration of the
    block."""
    if settings.database_url is not None:
        yield settings.database_url
        return
    embedded = EmbeddedPostgres(
        settings.data_dir / "postgres",
        binaries=settings.pg_bin,
        user=settings.postgres_user,
        port=settings.postgres_port or (DEFAULT_PORT if settings.postgres_host else None),
        host=settings.postgres_host or LOOPBACK,
        certificate=lambda: _certificate_of_postgres(settings),
    )
    with embedded, ReportPriorities(embedded.url):
        logger.info("PostgreSQL %s runs in %s", embedded.binaries.version, embedded.folder)
        yield embedded.url


@contextlib.contextmanager
def database_of_command(settings: Settings) -> Iterator[str]:
    """Yields the URL of the database for a command beside `serve`: the embedded server of a running one, if any, as its
    folder does not allow a second one. Raises CommandError, also for a MigrationError of the block."""
    running = None if settings.database_url else running_url(settings.data_dir / "postgres")
    try:
        with contextlib.nullcontext(running[0]) if running else database(settings) as url:
            yield url
    except BrokenPipeError:  # of the output, as root.py knows
        raise
    except (MigrationError, EmbeddedPostgresError, OSError) as problem:
        raise CommandError(describe(problem)) from problem


def _certificate_of_postgres(settings: Settings) -> tuple[Path, Path]:
    """Returns the certificate of the API's port; our own one also covers the name by which PostgreSQL is reached."""
    if settings.tls_cert_file is not None and settings.tls_private_key_file is not None:
        return settings.tls_cert_file, settings.tls_private_key_file
    names = settings.tls_names
    if settings.postgres_host not in WILDCARD_HOSTS:
        names = (*names, settings.postgres_host)
    elif settings.postgres_host:
        names = (*names, socket.gethostname())
    try:
        files = ensure_certificates(settings.data_dir, settings.host, names)
    except TlsError as problem:
        raise EmbeddedPostgresError(str(problem)) from problem
    return files.certificate, files.key


class MigrationError(Exception):
    """The database cannot be reached, or its tables cannot be brought up to date."""


def migrate(url: str) -> None:
    from registry.store.revision import is_newest

    # The migration reports why the database cannot be queried.
    with contextlib.suppress(psycopg.Error):
        if is_newest(url):
            return
    from registry.store import migrate as migrations

    with migration_errors():
        migrations.upgrade(url)


@contextlib.contextmanager
def migration_errors() -> Iterator[None]:
    """Converts any database error to a MigrationError with a one-line text."""
    import alembic.util
    import sqlalchemy.exc

    from registry.store.migration_plan import Incompatible

    try:
        yield
    except Incompatible as problem:
        raise MigrationError(f"the database: {problem}") from problem
    except (psycopg.Error, sqlalchemy.exc.SQLAlchemyError, alembic.util.CommandError) as problem:
        cause = getattr(problem, "orig", None) or problem
        raise MigrationError(f"the database: {str(cause).strip().splitlines()[0]}") from problem


def _run(settings: Settings, listeners: list[socket.socket], application: str, welcome: Callable[[], None]) -> None:
    def stopping() -> None:
        seconds = settings.shutdown_seconds
        print(f"registry: stopping; requests in flight have {seconds} s, unless Ctrl-C comes again", file=sys.stderr)
        # The embedded PostgreSQL and the wait for the last requests end concurrently.
        end_by(settings.shutdown_delay_seconds + max(1, seconds))

    if len(listeners) == 1:
        server.run(settings, listeners[0], application=application, when_ready=welcome, when_stopping=stopping)
    else:
        gc.enable()
        gc.collect()
        Supervisor(settings, listeners, application=application, when_ready=welcome, when_stopping=stopping).run()


def _notify_ready(parent: socket.socket) -> None:
    with contextlib.suppress(OSError):
        parent.send(b"r")


def _welcome(settings: Settings, port: int, authority: Path | None) -> None:
    """Prints the address and what to type next."""
    url = kubeconfig.server_url(settings, port)
    folder = settings.data_dir
    trust = f"--cacert {authority} " if authority else ""
    elsewhere = folder != default_data_dir(os.environ)
    lines = [
        f"registry serves {url}",
        "",
        # Without it, commands in another terminal would look for a server in the default folder.
        *([f"  first     export {DATA_DIR_VARIABLE}={shlex.quote(str(folder))}"] if elsewhere else []),
        f"  kubectl   export KUBECONFIG={shlex.quote(str(folder / 'kubeconfig'))}; kubectl api-resources",
        f'  curl      curl {trust}-H "Authorization: Bearer $(cat {settings.admin_token_path})" {url}/apis',
        f"  psql      {_psql(settings)}",
    ]
    print("\n".join(lines), flush=True)


def _psql(settings: Settings) -> str:
    if settings.database_url is not None:
        return "psql on the database that you named"
    # As it was called: with `make serve` the command is not on the PATH.
    called = sys.argv[0] if Path(sys.argv[0]).name == "registry" else "python -m registry"
    return f"{called} psql --data-dir {shlex.quote(str(settings.data_dir))}"
