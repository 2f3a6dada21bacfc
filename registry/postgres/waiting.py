"""Waits for a process to end. subprocess looks every 50 ms whether it has, also in a server that is idle."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess


def ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Returns whether the process has ended, which it may do within that time. It is reaped then."""
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
