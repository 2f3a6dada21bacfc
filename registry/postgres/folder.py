"""The folder of an embedded PostgreSQL: its lock, its data, its socket, and what is recorded beside them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import IO

from registry.postgres import config as embedded_config
from registry.postgres.account import AccountError, SystemAccount
from registry.postgres.binaries import Binaries

ROLE = "registry"
# sun_path holds 104 bytes on macOS and 108 on Linux; '/.s.PGSQL.5432' takes 15 and lock files some more.
LONGEST_SOCKET_FOLDER_BYTES = 85


class EmbeddedPostgresError(Exception):
    """PostgreSQL could not be started or served; the text is for the user."""


class DataFolder:
    """The folder of one server, whose files the account may read. `lock` and `unlock` say which process serves it."""

    def __init__(self, path: Path, account: SystemAccount) -> None:
        self.path = path
        self.account = account
        self.data = path / "data"
        self._lock: IO[str] | None = None

    def prepare(self) -> None:
        """Creates the folder and, as usual, its parents; never changes existing ones."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.account.make_outer_folder(self.path)
        if not self.account.reaches(self.path):
            raise AccountError(
                f"the account {self.account.name!r}, which runs PostgreSQL, cannot reach {self.path}: choose "
                "another --data-dir, or another account with --postgres-user"
            )

    def lock(self) -> None:
        """Raises EmbeddedPostgresError if another process serves the folder."""
        lock = open(self.path / "lock", "a+")  # noqa: SIM115 - kept open as long as the server runs
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            lock.seek(0)
            holder = lock.read().strip()
            lock.close()
            raise EmbeddedPostgresError(
                f"another process{f' (pid {holder})' if holder else ''} already serves {self.path}: stop it first, "
                "or choose another --data-dir"
            ) from problem
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def major(self) -> int | None:
        """Returns the major version of PostgreSQL that the data are of; None without data."""
        try:
            return int((self.data / "PG_VERSION").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def make_data(self, binaries: Binaries) -> None:
        """Runs initdb beside the final location, syncs to disk, then renames: a crash leaves nothing half done."""
        if self.major() is not None:
            return
        if self.data.exists():
            raise EmbeddedPostgresError(f"{self.data} exists but holds no PostgreSQL data: move it away")
        password = self.path / "password"
        password.unlink(missing_ok=True)  # an older one may belong to another account
        with open(password, "w", opener=private) as file:
            file.write(secrets.token_urlsafe(24) + "\n")
        self.account.let_read(password)
        unfinished = self.path / "data.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        self.account.make_folder(unfinished)
        initdb = binaries.program("initdb")
        self._run_or_fail(
            [initdb, "-D", str(unfinished), "-U", ROLE, "--pwfile", str(password), "--auth-local=peer",
             "--auth-host=scram-sha-256", "--locale=C", "--encoding=UTF8", "--no-sync", "--no-instructions"]
        )  # fmt: skip
        self._run_or_fail([initdb, "--sync-only", "-D", str(unfinished)])
        unfinished.rename(self.data)

    def choose_socket_folder(self) -> Path:
        """Returns `run` in our folder, or a private folder in /tmp if that path is too long for a socket."""
        wanted = self.path / "run"
        if len(os.fsencode(wanted)) <= LONGEST_SOCKET_FOLDER_BYTES:
            self.account.make_folder(wanted)
            return wanted
        pointer = self.path / "run-elsewhere"
        with contextlib.suppress(FileNotFoundError):
            known = Path(pointer.read_text().strip())
            if known.is_dir() and not known.is_symlink() and known.stat().st_uid == self.account.uid:
                return known
        folder = Path(tempfile.mkdtemp(prefix="registry-pg-", dir="/tmp"))
        if self.account.changes:
            os.chown(folder, self.account.uid, self.account.gid)
        pointer.write_text(f"{folder}\n")
        return folder

    def require_compression(self, compression: str, binaries: Binaries) -> None:
        """Records lz4. Raises an error for a build without it (the wheels), which cannot read such rows."""
        used = self.path / "compression"
        if compression == "lz4":
            used.write_text("lz4\n")
        elif used.exists():
            raise EmbeddedPostgresError(
                f"the data in {self.path} are compressed with lz4, which the PostgreSQL in {binaries.folder} "
                f"cannot read: install a PostgreSQL {binaries.major} that can (packagers' can), or name it with "
                "REGISTRY_PG_BIN"
            )

    def write(self, name: str, text: str) -> None:
        """Writes a file that PostgreSQL reads."""
        path = self.path / name
        path.write_text(text)
        self.account.let_read(path)

    def _run_or_fail(self, command: list[str]) -> None:
        try:
            done = self.account.run(command, environment=embedded_config.environment())
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise EmbeddedPostgresError(f"{Path(command[0]).name}: {problem}") from problem
        if done.returncode != 0:
            raise EmbeddedPostgresError(f"{Path(command[0]).name} failed:\n{(done.stdout + done.stderr)[-2000:]}")


def private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def running_url(folder: Path) -> tuple[str, Path] | None:
    """Returns the URL (by socket) and the programs' folder of the server running in `folder`; None if there is none."""
    try:
        with open(folder / "lock") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                url, programs = (folder / "url").read_text().splitlines()
                return url, Path(programs)
    except (OSError, ValueError):
        pass
    return None
