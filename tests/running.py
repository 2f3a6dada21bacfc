"""A registry server as a child process, started as users start it: `registry serve` with a data directory and a port.

Most are forked from a process that has imported the server already (forked.py).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from registry.authorization.tenants import INITIAL_NAMESPACES
from registry.postgres.folder import running_url
from registry.postgres.server import EmbeddedPostgres
from registry.store import migrate
from tests.folders import prepared
from tests.forked import ForkedProcess

# As users start it, with all its imports, and with the database that a first start makes.
REGISTRY = (sys.executable, "-m", "registry")

# What a first start with these makes is not what one without them leaves.
_FIRST_START = frozenset({"--plain-http", "--tls-cert-file", "--encryption-key-file"})

# Far longer than a start takes, even on a busy CI machine: it only detects a server that hangs.
START_SECONDS = 180.0


@dataclass(frozen=True)
class RunningServer:
    """`process` is the parent of the server's other processes: workers and PostgreSQL."""

    url: str
    data_dir: Path
    process: subprocess.Popen[bytes] | ForkedProcess

    @property
    def token(self) -> str:
        return (self.data_dir / "admin-token").read_text().strip()

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "kubeconfig"

    @property
    def authority(self) -> Path:
        return self.data_dir / "ca.crt"

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    @property
    def log(self) -> str:
        return (self.data_dir / "server.log").read_text(errors="replace")

    def stop(self, *, timeout_seconds: float = 120) -> int:
        """Sends SIGTERM, waits, and returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_seconds)


def copy_migrated(folder: Path) -> None:
    """Makes a new folder of an embedded PostgreSQL with the tables of this release."""
    copy_postgres(prepared("migrated", _migrate), folder)


def _migrate(folder: Path) -> None:
    with EmbeddedPostgres(folder, settings={"fsync": "off"}) as server:
        migrate.upgrade(server.url)


def prepare_postgres(data_dir: Path) -> None:
    """Gives a new data directory a database with tables and nothing in them. Tests of a first start call it before."""
    if not (data_dir / "postgres").exists():
        copy_migrated(data_dir / "postgres")


def copy_postgres(source: Path, folder: Path) -> None:
    """Makes a new folder of an embedded PostgreSQL, as a copy of that of a stopped one.

    It runs without fsync: tests kill the server, never the machine, so its page cache survives.
    """
    folder.mkdir(mode=0o711)
    subprocess.run(["cp", "-a", *(str(source / name) for name in ("data", "password")), str(folder)], check=True)
    (folder / "local.conf").write_text("fsync = off\n")


# What a first start puts into the database, complete: the tenants `default` and `system`, and the views of reports.
_COMPLETE = """
    SELECT to_regclass('reports.namespaces') IS NOT NULL AND (
        SELECT count(*) FILTER (WHERE resource = 'namespaces') = %(namespaces)s
            AND count(*) FILTER (WHERE resource = 'serviceaccounts') = %(namespaces)s
            AND count(*) FILTER (WHERE resource = 'configmaps' AND key LIKE '%%/kube-root-ca.crt') = %(namespaces)s
        FROM objects
    )
"""


def _serve_first(data_dir: Path) -> None:
    """Has a server serve a new data directory for the first time, and leave it."""
    prepare_postgres(data_dir)
    server = start_server(data_dir)
    url = running_url(data_dir / "postgres")
    assert url is not None
    deadline = time.monotonic() + START_SECONDS
    with psycopg.connect(url[0], autocommit=True) as connection:
        while connection.execute(_COMPLETE, {"namespaces": 2 * len(INITIAL_NAMESPACES)}).fetchone() != (True,):
            assert time.monotonic() < deadline, f"the first start is not complete: {server.log[-4000:]}"
            time.sleep(0.05)
    server.stop()


def _prepare(data_dir: Path) -> None:
    """Gives a new data directory what a server has at its second start, in half of the processor time of the first: its
    database, keys and certificates. The token and the kubeconfig are its own."""
    if (data_dir / "postgres").exists():
        return
    served = prepared("served", _serve_first)
    copy_postgres(served / "postgres", data_dir / "postgres")
    names = [name for name in ("encryption-keys", "ca.crt", "tls") if not (data_dir / name).exists()]
    subprocess.run(["cp", "-a", *(str(served / name) for name in names), str(data_dir)], check=True)


@contextlib.contextmanager
def running_server(
    data_dir: Path, *arguments: str, command: Sequence[str] = (), module: Sequence[str] = ("registry",)
) -> Iterator[RunningServer]:
    """Runs `registry serve` on a free port until the block ends; see `start_server`."""
    server = start_server(data_dir, *arguments, command=command, module=module)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.terminate()
            try:
                server.process.wait(60)
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()


def start_server(
    data_dir: Path,
    *arguments: str,
    command: Sequence[str] = (),
    module: Sequence[str] = ("registry",),
    detached: bool = False,
) -> RunningServer:
    """Starts `registry serve` and waits until it serves. A `detached` server survives Ctrl-C in the terminal.

    It is forked, unless there is a `command`; its workers, if it has any, are started as users' are. `module` are a module
    of the tests and its arguments before `serve`, in place of `registry`.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    # Another command is perhaps another release, and another PostgreSQL perhaps cannot open the data of ours.
    if not command and not {"--database-url", "--pg-bin"}.intersection(arguments):
        prepare = prepare_postgres if _FIRST_START.intersection(arguments) else _prepare
        prepare(data_dir)
    output, log = data_dir / "server.out", data_dir / "server.log"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REGISTRY_")}
    words = ("serve", "--data-dir", str(data_dir), "--port", "0", *arguments)
    process: subprocess.Popen[bytes] | ForkedProcess
    if command:
        with open(output, "wb") as out, open(log, "ab") as errors:
            process = subprocess.Popen(
                [*command, *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                env=environment,
                start_new_session=detached,
            )
    else:
        output.write_bytes(b"")
        log.touch()
        name, *before = module
        process = ForkedProcess(
            name, [*before, *words], environment=environment, out=output, log=log, detached=detached
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        first = output.read_text().split("\n", 1)[0]
        if first.startswith("registry serves "):
            return RunningServer(first.removeprefix("registry serves ").strip(), data_dir, process)
        time.sleep(0.02)
    if process.poll() is None:
        process.kill()
        process.wait()
    raise RuntimeError(f"the server did not start:\n{log.read_text()[-4000:]}")
