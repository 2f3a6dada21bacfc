"""Servers forked from a process that has imported them: a start without the imports, three fifths of its processor time.

multiprocessing's forkserver does it, one for each test process. It only imports, so a fork has no thread, connection or
random number of another. A server has its own process number, environment, output and exit code, as one of
`python -m registry` has.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__, "registry.cli.serve", "registry.cli.server_process", "registry.http.app"])


class ForkedProcess:
    """`registry <arguments>` with what of subprocess.Popen tests of servers use."""

    def __init__(
        self, arguments: Sequence[str], *, environment: Mapping[str, str], out: Path, log: Path, detached: bool
    ) -> None:
        """`out` is replaced by what it prints; what it logs is appended to `log`."""
        self._process = _CONTEXT.Process(
            target=_run, args=(list(arguments), dict(environment), out, log), kwargs={"detached": detached}, daemon=True
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Returns the exit code, or minus the number of the signal that ended it. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("registry", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(arguments: list[str], environment: dict[str, str], out: Path, log: Path, *, detached: bool) -> None:
    if detached:
        os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    for file, flags, number in ((out, os.O_TRUNC, 1), (log, os.O_APPEND, 2)):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | flags, 0o644)
        os.dup2(descriptor, number)
        os.close(descriptor)
    from registry.cli.root import main

    sys.argv = ["registry", *arguments]
    sys.exit(main(arguments))
