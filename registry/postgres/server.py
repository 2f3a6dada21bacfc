"""An embedded PostgreSQL: a real server in a folder of ours, started and stopped with this process.

Guarantees:
- one process at a time serves a folder; a second start reports which one does;
- never as root (see account.py); the socket is in a folder that only the account may enter, and connections are
  authenticated by operating system account (peer); TCP, with a password, only on request, on loopback unless an
  address is named, and from other machines only encrypted and only for report logins;
- it ends when this process ends, however that happens: a watchdog holds the other end of a pipe;
- what a crash leaves behind (an orphan, a stale or broken postmaster.pid) is cleaned up at the next start;
- if PostgreSQL itself crashes, it is restarted, and nothing that was acknowledged is lost;
- when its programs are replaced, by a package upgrade, it is restarted cleanly on the new ones.

The folder:   lock · postgresql.conf · pg_hba.conf · pg_ident.conf · local.conf (the owner's own settings, optional)
              data/ (PGDATA) · run/ (the socket) · password (for TCP) · postgres.log · url · compression
              server.crt · server.key (for TCP) · binaries/ (perhaps a copy)
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg

from registry.files import Stamp, stamp_of
from registry.postgres import config as embedded_config
from registry.postgres.account import AccountError, account_for
from registry.postgres.binaries import Binaries, BinariesError, find_binaries, version_of
from registry.postgres.certificate import CertificateCopy, Source
from registry.postgres.folder import ROLE, DataFolder, EmbeddedPostgresError, private
from registry.postgres.processes import end_orphans, ends_within, with_memory_limit

logger = logging.getLogger(__name__)

DATABASE = "registry"

# What held the folder (shared memory of dying backends) is released within that time, or waiting does not help.
START_RETRY_SECONDS = 5.0
# Crash recovery replays the write-ahead log before connections are accepted.
READY_SECONDS = 120.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.005
# How often the programs are checked for replacement. They must be unchanged for one interval before a restart, since
# an upgrade replaces many files.
PROGRAMS_SECONDS = 10.0
LOG_LIMIT_BYTES = 10_000_000

# Reads until its pipe closes, which is when we end, then stops the server. Runs under the server's account.
WATCHDOG = 'read -r _; kill -INT "$1" 2>/dev/null'


class EmbeddedPostgres:
    """The lifecycle of one server. Methods are called from one thread; a second thread restarts it after a crash."""

    def __init__(
        self,
        folder: Path,
        *,
        binaries: Path | None = None,
        user: str | None = None,
        port: int | None = None,
        host: str = embedded_config.LOOPBACK,
        certificate: Source | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`port` None means the socket only; `certificate` is for TCP connections. `settings` are PostgreSQL's own, and
        override ours."""
        self.folder = folder.absolute()
        self.port = port
        self._host = host
        self._certificate_source = certificate
        self._certificate: CertificateCopy | None = None
        self._wanted_binaries = binaries
        self._wanted_user = user
        self._settings = dict(settings or {})
        self._folder: DataFolder
        self._releases = contextlib.ExitStack()
        self._log = self.folder / "postgres.log"
        self._old_log = self.folder / "postgres.log.1"
        self._binaries: Binaries
        self._socket_folder: Path
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._keeper: threading.Thread | None = None
        # The stamp of the running program.
        self._program: Stamp
        self._stopping = threading.Event()
        # Held while a process is created and while `_stopping` is set: `stop` sees every process, or none is created.
        self._spawning = threading.Lock()

    @property
    def url(self) -> str:
        """The database's URL by socket: 'postgresql://registry@/registry?host=%2Fvar%2Flib%2Fregistry%2F...'."""
        port = f"&port={self.port}" if self.port is not None else ""  # also part of the socket's name
        return f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(self._socket_folder), safe='')}{port}"

    @property
    def binaries(self) -> Binaries:
        return self._binaries

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> str:
        """Starts the server, after creating the folder's content if missing; returns `url`."""
        try:
            self._folder = DataFolder(self.folder, account_for(self._wanted_user))
            self._folder.prepare()
            self._folder.lock()
            self._releases.callback(self._folder.unlock)
        except (AccountError, OSError) as problem:
            raise EmbeddedPostgresError(f"embedded PostgreSQL: {problem}") from problem
        try:
            self._binaries = find_binaries(
                self._wanted_binaries, self._folder.account, self.folder / "binaries", major=self._folder.major()
            )
            self._folder.make_data(self._binaries)
            self._socket_folder = self._folder.choose_socket_folder()
            self._write_configuration()
            self._launch()
            self._ensure_database()
        except BinariesError as problem:
            self.stop()
            raise EmbeddedPostgresError(str(problem)) from problem
        except BaseException:
            self.stop()
            raise
        # `running_url` reads it, for `registry psql` from another process.
        (self.folder / "url").write_text(f"{self.url}\n{self._binaries.folder}\n")
        self._keeper = threading.Thread(target=self._keep_running, name="postgres-keeper", daemon=True)
        self._keeper.start()
        return self.url

    def stop(self) -> None:
        """Stops the server cleanly and releases the folder. Idempotent."""
        with self._spawning:
            self._stopping.set()
        if self._process is not None:
            self._end_process(self._process)
        if self._keeper is not None and self._keeper is not threading.current_thread():
            self._keeper.join()
        self._end_watchdog()
        self._releases.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ---- the configuration

    def _write_configuration(self) -> None:
        account = self._folder.account
        compression = embedded_config.best_compression(self._binaries, account, self._folder.data)
        self._folder.require_compression(compression, self._binaries)
        self._prepare_certificate()
        files = embedded_config.files(
            self.folder,
            embedded_config.Addresses(
                self._socket_folder, self.port, self._host, self._certificate.files if self._certificate else None
            ),
            major=self._binaries.major,
            compression=compression,
            role=ROLE,
            account_names={account.name, "root" if account.changes else account.name},
            overrides=self._settings,
        )
        for name, text in files.items():
            self._folder.write(name, text)

    def _prepare_certificate(self) -> None:
        """Raises EmbeddedPostgresError if other machines would have to connect without encryption."""
        self._certificate = None
        if self.port is None:
            return
        if self._certificate_source is not None:
            if embedded_config.has_tls(self._binaries, self._folder.account, self._folder.data):
                self._certificate = CertificateCopy(self._certificate_source, self.folder, self._folder.account)
                self._certificate.update()
                return
            logger.warning("PostgreSQL in %s has no TLS: connections on its port are not encrypted",
                           self._binaries.folder)  # fmt: skip
        if embedded_config.listen_addresses(self._host) != [embedded_config.LOOPBACK]:
            raise EmbeddedPostgresError(
                f"the PostgreSQL in {self._binaries.folder} has no TLS, so it listens on {embedded_config.LOOPBACK} "
                "only: leave out --postgres-host, or name another PostgreSQL with --pg-bin"
            )

    # ---- the process

    def _launch(self) -> None:
        """Starts `postgres` and waits until it accepts connections; retries while an orphan of a crash is still
        ending."""
        deadline: float | None = None
        while True:
            end_orphans(self._folder.data)
            with self._spawning:
                if self._stopping.is_set():
                    raise EmbeddedPostgresError("PostgreSQL does not start: it was stopped")
                self._spawn()
            deadline = deadline or time.monotonic() + START_RETRY_SECONDS
            if self._wait_until_ready():
                return
            if time.monotonic() > deadline or self._stopping.is_set():
                raise EmbeddedPostgresError(f"PostgreSQL does not start:\n{self._log_tail()}")
            time.sleep(0.2)  # what held the folder (shared memory of dying backends) will be released

    def _spawn(self) -> None:
        log = self._log
        if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
            log.replace(self._old_log)
        self._program = self._program_stamp()
        # Messages may contain user data: only we can read the log.
        with open(log, "ab", opener=private) as output:
            self._process = subprocess.Popen(
                with_memory_limit([self._binaries.program("postgres"), "-D", str(self._folder.data),
                         "-c", f"config_file={self.folder / 'postgresql.conf'}"]),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=embedded_config.environment(),
                # A Ctrl+C in the terminal must reach only us: PostgreSQL must outlive the last accepted write.
                start_new_session=True,
                **self._folder.account.spawn_arguments(),
            )  # fmt: skip
        self._start_watchdog()

    def _shorten_log(self) -> None:
        """Moves the end of a long log into the older one. PostgreSQL appends to the same file, which is emptied: what
        it writes in between is lost."""
        with contextlib.suppress(FileNotFoundError):
            size = self._log.stat().st_size
            if size <= LOG_LIMIT_BYTES:
                return
            with open(self._log, "r+b") as log, open(self._old_log, "wb", opener=private) as old:
                log.seek(size - LOG_LIMIT_BYTES)
                shutil.copyfileobj(log, old)
                log.truncate(0)

    def _wait_until_ready(self) -> bool:
        """Returns whether it accepts connections; False once it has exited. The last line of postmaster.pid says so."""
        assert self._process is not None
        deadline = time.monotonic() + READY_SECONDS
        status = self._folder.data / "postmaster.pid"
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                return False
            with contextlib.suppress(OSError):
                lines = status.read_text(errors="replace").splitlines()
                if len(lines) >= 8 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready":
                    return True
            time.sleep(POLL_SECONDS)
        raise EmbeddedPostgresError(f"PostgreSQL was not ready within {READY_SECONDS:.0f} s:\n{self._log_tail()}")

    def _start_watchdog(self) -> None:
        assert self._process is not None
        self._end_watchdog()
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, "registry-watchdog", str(self._process.pid)],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **self._folder.account.spawn_arguments(),
        )

    def _end_watchdog(self) -> None:
        """Kills it before its pipe closes: by then the pid of the dead server may belong to another process."""
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.wait()
            if self._watchdog.stdin is not None:
                self._watchdog.stdin.close()
            self._watchdog = None

    def _keep_running(self) -> None:
        """Restarts the server when it dies unexpectedly, and when its programs have been replaced. Runs in its own
        thread."""
        while True:
            restarts = self._wait_for_end()
            if self._stopping.is_set():
                return
            if not restarts:
                assert self._process is not None
                logger.error("PostgreSQL ended unexpectedly (%s): restarting it", self._process.returncode)
            try:
                self._launch()
            except (EmbeddedPostgresError, OSError) as problem:
                if self._stopping.is_set():
                    return
                logger.critical("%s", problem)
                # The reason may be a full disk, and temporary; requests get 503 until then.
                if self._stopping.wait(5):
                    return

    def _wait_for_end(self) -> bool:
        """Waits until the server has ended. Returns whether we ended it, to restart it on replaced programs."""
        assert self._process is not None
        stamp = self._program
        while True:
            if ends_within(self._process, PROGRAMS_SECONDS):
                return False
            self._renew_certificate(self._process)
            try:
                self._shorten_log()
            except OSError as problem:
                logger.error("the log of PostgreSQL cannot be shortened: %s", problem)
            before, stamp = stamp, self._program_stamp()
            if stamp != self._program and stamp == before and (version := self._usable_version()) is not None:
                logger.warning("PostgreSQL's programs have been replaced (%s): restarting it on %s",
                               self._binaries.version, version)  # fmt: skip
                self._binaries = Binaries(self._binaries.folder, version)
                self._end_process(self._process)
                return True

    def _renew_certificate(self, process: subprocess.Popen[bytes]) -> None:
        """Makes PostgreSQL reload a changed certificate for new connections, by SIGHUP; a bad one leaves the old in
        use."""
        if self._certificate is None:
            return
        try:
            if self._certificate.update():
                process.send_signal(signal.SIGHUP)
        except Exception as problem:  # from the source, which may raise anything
            logger.error("the certificate of PostgreSQL's port is not renewed: %s", problem)

    def _usable_version(self) -> str | None:
        """Returns the version of the installed programs; None if they cannot open our data."""
        with contextlib.suppress(OSError):
            version = version_of(self._binaries.folder, self._folder.account)
            if version is not None and Binaries(self._binaries.folder, version).major == self._folder.major():
                return version
        return None

    def _program_stamp(self) -> Stamp:
        return stamp_of(Path(self._binaries.program("postgres")))

    def _end_process(self, process: subprocess.Popen[bytes]) -> None:
        """Stops the server, first by SIGINT, a fast shutdown: rolls back open transactions, keeps committed ones."""
        for number, patience in ((signal.SIGINT, STOP_SECONDS), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)):
            if process.poll() is not None:
                return
            process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)

    # ---- helpers

    def _ensure_database(self) -> None:
        try:
            with psycopg.connect(self.url):
                return
        except psycopg.OperationalError as problem:
            if f'database "{DATABASE}" does not exist' not in str(problem):
                raise EmbeddedPostgresError(f"embedded PostgreSQL: {problem}") from problem
        maintenance = self.url.replace(f"/{DATABASE}?", "/postgres?", 1)
        with psycopg.connect(maintenance, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return self._log.read_text(errors="replace")[-2000:]
        return "(no log)"
