"""The servers running on this machine, and the database that a command should use.

`serve` announces itself by a file that it keeps locked while it runs, in a folder of the account:
{"url": "https://127.0.0.1:6443", "dataDir": "/srv/registry"}
A command that finds nothing in its data folder lists the others.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from registry.cli.errors import CommandError
from registry.settings.declarations import Settings
from registry.settings.loading import default_data_dir

DATA_DIR_VARIABLE: Final = "REGISTRY_DATA_DIR"


class RunningServer(NamedTuple):
    url: str
    data_dir: Path


@contextlib.contextmanager
def announce(url: str, data_dir: Path) -> Iterator[None]:
    """Announces a server for the duration of the block. A failure to do so is not a reason not to serve."""
    try:
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(folder):
            raise PermissionError(f"{folder} belongs to another account")
        name = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
        file = os.fdopen(os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "w")
    except OSError:
        yield
        return
    with file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.truncate()
            file.write(json.dumps({"url": url, "dataDir": str(data_dir)}))
            file.flush()
        try:
            yield
        finally:
            (folder / name).unlink(missing_ok=True)


def running_servers() -> list[RunningServer]:
    """Returns the servers that this account has started, ordered by folder."""
    folder = _folder()
    servers = []
    for path in folder.iterdir() if _is_ours(folder) else ():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError), open(path) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                record = json.load(file)
                servers.append(RunningServer(str(record["url"]), Path(record["dataDir"])))
    return sorted(servers, key=lambda server: server.data_dir)


def database_url(settings: Settings) -> tuple[str, Path | None]:
    """Returns the URL of the configured database, or of the embedded one of a running server with the folder of its
    programs. Raises CommandError."""
    from registry.postgres.folder import running_url

    if settings.database_url is not None:
        return settings.database_url, None
    url = running_url(settings.data_dir / "postgres")
    if url is None:
        raise CommandError(
            f"no server runs on {settings.data_dir}: start `registry serve`, or name --database-url"
            + other_servers(settings)
        )
    return url


def other_servers(settings: Settings) -> str:
    """Returns the end of a message that nothing is in the data folder: the servers that run on other folders."""
    known = [server for server in running_servers() if server.data_dir != settings.data_dir]
    if not known:
        return ""
    listed = ", ".join(f"{server.url} (--data-dir {server.data_dir})" for server in known[:5])
    return f"; running: {listed}{' ...' if len(known) > 5 else ''}"


def print_data_dir(settings: Settings) -> None:
    """Prints the data folder to stderr if it is the default one."""
    if settings.data_dir == default_data_dir(os.environ) and not os.environ.get(DATA_DIR_VARIABLE):
        print(f"data folder: {settings.data_dir}", file=sys.stderr)


def _folder() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "registry" if runtime else Path(tempfile.gettempdir()) / f"registry-{os.geteuid()}"


def _is_ours(folder: Path) -> bool:
    """Returns whether only this account can have put files there."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return folder.is_dir() and not folder.is_symlink() and status.st_uid == os.geteuid() and not status.st_mode & 0o022
