"""`python -m <module> <arguments>`, forked from a process that has imported the server: a start without the imports.

They take three fifths of the processor time of a start of a server, and nearly all that most commands take.

multiprocessing's forkserver does it, one for each test process. It only imports and parses (preloaded.py), so a fork has no
thread, connection or random number of another. The process has its own process number, environment, output and exit code.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        __name__,
        "registry.cli.commands.serve",
        "registry.cli.server_process",
        "registry.http.app",
        "registry.store.migrate",
        # These are imported only when a server runs.
        "cryptography.hazmat.backends.openssl.backend",
        "encodings.idna",
        "registry.cli.root",
        "uvicorn.lifespan.on",
        "uvloop",
        "tests.preloaded",
    ]
)


class ForkedProcess:
    """`python -m <module> <arguments>` with what of subprocess.Popen tests use."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        out: Path,
        log: Path,
        detached: bool = False,
        folder: Path | None = None,
    ) -> None:
        """`out` is replaced by what it prints; what it logs is appended to `log`. It runs in `folder`."""
        self._process = _CONTEXT.Process(
            target=_run,
            args=(module, list(arguments), dict(environment), out, log, folder or Path.cwd()),
            kwargs={"detached": detached},
            daemon=True,
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


def _run(
    module: str,
    arguments: list[str],
    environment: dict[str, str],
    out: Path,
    log: Path,
    folder: Path,
    *,
    detached: bool,
) -> None:
    if detached:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    for file, flags, number in ((out, os.O_TRUNC, 1), (log, os.O_APPEND, 2)):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | flags, 0o644)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
