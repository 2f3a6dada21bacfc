"""Cleans up after a crash in a PostgreSQL data folder: an orphaned server, or the pid file of a dead one.

Call only while holding the folder's lock: then whatever still serves the folder is an orphan.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

# Fast shutdown writes a checkpoint, immediate shutdown does not (the next start replays the log instead); a server
# that responds to neither is killed. Each with its timeout in seconds.
STEPS = ((signal.SIGINT, 10.0), (signal.SIGQUIT, 6.0), (signal.SIGKILL, 2.0))
POLL_SECONDS = 0.02


def clear(data: Path) -> None:
    """Ends an orphaned server of `data`, which takes up to the timeouts of STEPS, and removes a broken pid file."""
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
