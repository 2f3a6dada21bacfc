"""PostgreSQL primaries and streaming standbys, created with initdb and pg_basebackup."""

from __future__ import annotations

import atexit
import contextlib
import copy
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from registry.postgres.account import account_for
from registry.postgres.binaries import find_binaries
from registry.postgres.config import environment
from tests.folders import data_folder
from tests.processes import wait_until

ROLE = "registry"
# Reads until its pipe closes, which is when the tests end, then ends the server, which may be frozen.
_WATCHDOG = 'read -r _; kill -CONT "$1" && kill -QUIT "$1"'


class Node:
    """A server on loopback. `name` is its application_name, as used in synchronous_standby_names."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.folder = folder
        self.account = account_for(None)
        self.binaries = find_binaries(None, self.account, folder / "binaries")
        if not self.binaries.has("pg_basebackup"):
            pytest.skip(f"PostgreSQL in {self.binaries.folder} has no pg_basebackup")
        self.port = free_port()
        self._database = "postgres"
        self.process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self.account.make_outer_folder(folder)
        # Sockets and the log, and the data itself.
        self.account.make_folder(folder / "run")
        self.data = folder / "run" / "data"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"postgresql://{ROLE}@{self.host}/{self._database}"

    def make(self, **settings: str) -> None:
        """Creates an empty primary."""
        self._run("initdb", "-D", str(self.data), "-U", ROLE, "--auth=trust", "--locale=C", "-E", "UTF8", "--no-sync")
        self._append("pg_hba.conf", "host replication all 127.0.0.1/32 trust\n")
        # Tests kill the server, never the machine, so the page cache survives. A standby connects again after a second,
        # as docs/high-availability.md recommends.
        self.configure(
            fsync="off",
            # In its folder: nothing is left of a server that was killed.
            dynamic_shared_memory_type="mmap",
            max_connections="60",
            wal_level="replica",
            hot_standby="on",
            wal_retrieve_retry_interval="1s",
            **settings,
        )

    def make_as(self, other: Node) -> None:
        """Creates an independent primary as a copy of a stopped server."""
        done = self.account.run(["cp", "-a", str(other.data), str(self.data)])
        assert done.returncode == 0, done.stderr
        self.configure()

    def clone(self, primary: Node) -> None:
        """Creates a standby of a running primary."""
        self._run("pg_basebackup", "-D", str(self.data), "-d", self.source(primary), "-R", "-X", "stream", "-c", "fast")
        self.configure()

    def source(self, primary: Node) -> str:
        return f"host=127.0.0.1 port={primary.port} user={ROLE} application_name={self.name}"

    def configure(self, **settings: str) -> None:
        """Adds settings, which apply at the next start. `reload` applies those that need no restart at once."""
        fixed = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder / "run"),
        }
        for name, value in {**fixed, **settings}.items():
            self._append("postgresql.conf", f"{name} = '{value}'\n")

    def reload(self, **settings: str) -> None:
        self.configure(**settings)
        self.execute("SELECT pg_reload_conf()")

    def start(self) -> None:
        self._end_watchdog()
        log = open(self.folder / "log", "ab")  # noqa: SIM115 (the server writes it)
        with log:
            self.process = subprocess.Popen(
                [self.binaries.program("postgres"), "-D", str(self.data)],
                cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(), start_new_session=True,
                **self.account.spawn_arguments(),
            )  # fmt: skip
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "test-watchdog", str(self.process.pid)],
            cwd="/", stdin=subprocess.PIPE, start_new_session=True, **self.account.spawn_arguments(),
        )  # fmt: skip
        wait_until(self.answers, f"{self.name} answers: {self.log[-500:]}")

    def answers(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    @property
    def pids(self) -> list[int]:
        """The postmaster and all its processes."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]

    def _end_watchdog(self) -> None:
        """Before its pipe closes: by then the pid of a server that has ended may belong to another process."""
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None

    def stop(self, number: int = signal.SIGINT) -> None:
        self._end_watchdog()
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGCONT)
            self.process.send_signal(number)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGQUIT)
                self.process.wait(20)

    def kill(self) -> None:
        """Kills all its processes: to its clients this looks like a machine that lost power."""
        self._end_watchdog()
        assert self.process is not None
        # Stopped first: it would start a recovery of its own when the first of the others is gone.
        self.process.send_signal(signal.SIGSTOP)
        pids = self.pids
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(20)
        # What is still dying has the shared memory, and a server that starts refuses to.
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in pids), f"{self.name} has ended")

    def freeze(self, *, frozen: bool = True) -> None:
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if frozen else signal.SIGCONT)

    def leave(self, primary: Node) -> None:
        """Stops streaming: whatever the primary writes from now on is lost with the primary."""
        self.execute("ALTER SYSTEM SET primary_conninfo = ''")
        self.execute("SELECT pg_reload_conf()")
        wait_until(lambda: primary.execute("SELECT pid FROM pg_stat_replication") == [], f"{self.name} left")

    def promote(self) -> None:
        self.execute("SELECT CASE WHEN pg_is_in_recovery() THEN pg_promote(wait => true) END")

    def execute(self, statement: str) -> list[Any]:
        with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def reaches(self, primary: Node) -> None:
        """Waits until this standby has replayed everything that the primary has written."""
        [(position,)] = primary.execute("SELECT pg_current_wal_lsn()::text")
        wait_until(
            lambda: self.execute(f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn") == [(True,)],
            f"{self.name} is at {position}",
        )

    def database(self, name: str) -> Node:
        """Returns this server with another database selected for statements."""
        other = copy.copy(self)
        other._database = name
        return other

    def _append(self, name: str, text: str) -> None:
        with open(self.data / name, "a") as file:
            file.write(text)

    def _run(self, program: str, *arguments: str) -> None:
        done = self.account.run([self.binaries.program(program), *arguments], environment=environment())
        assert done.returncode == 0, done.stdout + done.stderr


def free_port() -> int:
    """Returns a port for a server that starts later, or again and again; it is kept until this process ends.

    A socket that is bound to it at all addresses and never listens keeps it: the system gives it to nobody else, and
    servers, which reuse addresses, may have it.
    """
    kept = socket.socket()
    atexit.register(kept.close)
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("", 0))
    port: int = kept.getsockname()[1]
    return port


def url_of(*nodes: Node) -> str:
    """Returns one URL of several servers, which connects to the current primary."""
    return f"postgresql://{ROLE}@{','.join(node.host for node in nodes)}/postgres?target_session_attrs=read-write"


@contextlib.contextmanager
def running_node() -> Iterator[Node]:
    """A new primary that runs until the block ends, unless it is stopped earlier."""
    with data_folder() as folder:
        node = Node(folder / "node", "node")
        node.make()
        node.start()
        try:
            yield node
        finally:
            node.stop()


@contextlib.contextmanager
def cluster(template: Node, *, synchronous: bool = False) -> Iterator[tuple[Node, Node]]:
    """A primary copied from a stopped server, and a standby. If `synchronous`, a commit waits for the standby's disk."""
    with data_folder() as folder:
        primary, standby = Node(folder / "a", "a"), Node(folder / "b", "b")
        try:
            primary.make_as(template)
            primary.start()
            standby.clone(primary)
            standby.start()
            wait_until(
                lambda: primary.execute("SELECT state FROM pg_stat_replication") == [("streaming",)], "streaming"
            )
            if synchronous:
                primary.reload(synchronous_standby_names="b")
                wait_until(
                    lambda: primary.execute("SELECT sync_state FROM pg_stat_replication") == [("sync",)], "synchronous"
                )
            yield primary, standby
        finally:
            for node in (standby, primary):
                node.stop(signal.SIGQUIT)
