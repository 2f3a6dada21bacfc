"""The processes of PostgreSQL: their limits of memory, how their end is waited for, and those that a crash has left.

A session can set work_mem, and make texts of a gigabyte, as often as it likes. PostgreSQL has no limit for that, the
system has: RLIMIT_DATA, for what a process allocates (shared memory is not counted). A query that needs more fails with
`out of memory`, and its session continues.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# Any process. Indexes and vacuum take 64 MB, pages of large objects some megabytes each.
PROCESS_BYTES: Final = 1 << 30
# A session of a report login. Its queries stream their rows; sorts and hashes beyond work_mem go to disk.
REPORT_BYTES: Final = 256 << 20

# In the shell, since root may lack the capability to limit processes of other accounts.
_LIMITED: Final = f'ulimit -d {PROCESS_BYTES >> 10} 2>/dev/null; exec "$@"'


def with_memory_limit(command: Sequence[str]) -> list[str]:
    """Returns the command that runs `command`, under the same process ID, with PROCESS_BYTES for each process."""
    return ["/bin/sh", "-c", _LIMITED, "sh", *command]


def limit_report(pid: int) -> None:
    """Limits a session of a report login, where the system lets us: on Linux, as the same account or with the
    capability to."""
    if hasattr(resource, "prlimit"):
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_DATA, (REPORT_BYTES, REPORT_BYTES))


def ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Returns whether the process has ended, which it may do within that time. It is reaped then.

    subprocess looks every 50 ms whether it has, also in a server that is idle.
    """
    with contextlib.suppress(AttributeError, OSError):  # another system than Linux; or another thread has reaped it
        ended = os.pidfd_open(process.pid)
        try:
            poll = select.poll()
            poll.register(ended, select.POLLIN)
            if not poll.poll(seconds * 1000):
                return False
        finally:
            os.close(ended)
        seconds = 1.0  # it is there to be reaped
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


# Fast shutdown writes a checkpoint, immediate shutdown does not (the next start replays the log instead); a server
# that responds to neither is killed. Each with its timeout in seconds.
STEPS = ((signal.SIGINT, 10.0), (signal.SIGQUIT, 6.0), (signal.SIGKILL, 2.0))
POLL_SECONDS = 0.02


def end_orphans(data: Path) -> None:
    """Cleans up after a crash: ends an orphaned server of `data`, which takes up to the timeouts of STEPS, and removes
    a broken pid file. Call only while holding the folder's lock: then whatever still serves the folder is an orphan."""
    status = data / "postmaster.pid"
    try:
        first = status.read_text(errors="replace").split("\n", 1)[0].strip()
    except FileNotFoundError:
        return
    if not first.isdigit() or int(first) == 0:
        status.unlink(missing_ok=True)  # PostgreSQL refuses to start over a broken one.
        return
    pid = int(first)
    if pid <= 1 or not _serves(pid, data):
        return  # stale: PostgreSQL detects this by itself and replaces the file
    for number, patience in STEPS:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + patience
        while _serves(pid, data):
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
        else:
            return


def _serves(pid: int, data: Path) -> bool:
    """Returns whether process `pid` is a PostgreSQL of this folder, which is always its working directory."""
    process = Path("/proc") / str(pid)
    if Path("/proc/self").exists():
        try:
            if process.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
            return Path(os.readlink(process / "cwd")) == data.resolve()
        except OSError:
            return False
    command = subprocess.run(
        ["ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False
    ).stdout
    return "postgres" in command and str(data) in command
