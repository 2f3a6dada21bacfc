"""Folders for databases and servers: one for each, and those that all processes of a test run copy from."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import psutil

# A file system in memory, on Linux. A database is copied there in half of the processor time that a disk takes, and tests
# that copy one each keep no disk busy.
MEMORY = Path("/dev/shm")
# What must be free, of it and of the machine's memory: twenty times what a run of four processes fills.
MEMORY_BYTES = 8 << 30
_PREFIX = "registry-test-"
_LOCK = "lock"
_NEW_SECONDS = 60.0


@contextlib.contextmanager
def data_folder() -> Iterator[Path]:
    """A temporary folder that the account running PostgreSQL can traverse; pytest's own are private to the current user.

    It is in memory where there is room; those of earlier runs that were killed are removed from there. TMPDIR names
    another place.
    """
    memory = _memory()
    if memory is not None:
        _remove_abandoned(memory)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=memory))
    folder.chmod(0o711)
    with open(folder / _LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _remove_abandoned(memory: Path) -> None:
    """Removes the data folders of processes that have ended: nobody holds their locks. New ones may not be locked yet."""
    for path in memory.glob(f"{_PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError), open(path) as lock:
            if time.time() - path.stat().st_mtime > _NEW_SECONDS:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path.parent, ignore_errors=True)


def _memory() -> Path | None:
    """Returns a folder in memory, or None if there is none with enough room from which programs may be run."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return None
    found = os.statvfs(MEMORY)
    if found.f_flag & os.ST_NOEXEC:
        return None
    free = min(found.f_bavail * found.f_frsize, psutil.virtual_memory().available)
    return MEMORY if free >= MEMORY_BYTES else None


@functools.cache
def prepared(name: str, prepare: Callable[[Path], None]) -> Path:
    """Returns a folder for all processes of the test run, which must leave it as it is: `prepare` fills it, once.

    While one process prepares it, the others wait.
    """
    folder = _folder_of_run() / name
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = folder.with_suffix(".unfinished")  # of a process that failed or was killed
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(mode=0o711)
            prepare(unfinished)
            unfinished.rename(folder)
    return folder


@functools.cache
def _folder_of_run() -> Path:
    """The folder that the processes of this test run share. The last of them removes it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")[:12] or str(os.getpid())  # short: sockets are in it
    folder = (_memory() or Path(tempfile.gettempdir())) / f"{_PREFIX}run-{run}"
    lock = _share(folder)

    def leave() -> None:
        with lock, contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(leave)
    return folder


def _share(folder: Path) -> TextIO:
    """Returns the lock of the folder, shared with other processes, after making the folder if it is not there."""
    while True:
        folder.mkdir(mode=0o711, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            lock = open(folder / _LOCK, "w")  # noqa: SIM115 (held until the process ends)
            fcntl.flock(lock, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(lock.fileno()), os.stat(folder / _LOCK)):
                return lock  # otherwise another process has removed the folder meanwhile
