"""Starts and ends the server of a benchmark, and measures its processes."""

from __future__ import annotations

import asyncio
import compileall
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from benchmarks.client import Connection, Target

START_SECONDS = 60.0
_SOURCE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Usage:
    """CPU seconds since the start, by owner."""

    server: float
    postgres: float

    def since(self, before: Usage) -> Usage:
        return Usage(self.server - before.server, self.postgres - before.postgres)


class MeasuredServer(Protocol):
    """What a benchmark has to know about a server, ours or another one of the same API."""

    @property
    def target(self) -> Target: ...

    @property
    def started_seconds(self) -> float:
        """The time from its start until it was ready."""
        ...

    def usage(self) -> Usage: ...

    def memory(self) -> dict[str, list[int]]:
        """Megabytes of each process, by `server` and `postgres`."""
        ...


@dataclass
class Server:
    process: psutil.Popen
    target: Target
    started_seconds: float

    def _processes(self) -> tuple[list[psutil.Process], list[psutil.Process]]:
        """Returns our processes and PostgreSQL's; an external database has none here."""
        ours: list[psutil.Process] = [self.process]
        postgres: list[psutil.Process] = []
        for child in self.process.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                (postgres if child.name().startswith("postgres") else ours).append(child)
        return ours, postgres

    def usage(self) -> Usage:
        ours, postgres = self._processes()
        return Usage(sum(map(cpu_seconds, ours)), sum(map(cpu_seconds, postgres)))

    def memory(self) -> dict[str, list[int]]:
        """Returns the MB of each process: its proportional set size where available, which counts shared memory
        once."""
        ours, postgres = self._processes()
        # Zero: the process is ending, or only waits for another.
        sizes = [size for p in ours if (size := megabytes(p))]
        return {"server": sizes, "postgres": [sum(megabytes(p) for p in postgres)]}


def cpu_seconds(process: psutil.Process) -> float:
    """Returns the time of a process and of its children that have ended, such as PostgreSQL's sessions."""
    with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def megabytes(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        used = process.memory_full_info()
        return int(getattr(used, "pss", used.rss)) >> 20
    return 0


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Creates a temporary data folder that PostgreSQL's account can traverse."""
    with tempfile.TemporaryDirectory(prefix="registry-bench-") as made:
        Path(made).chmod(0o711)
        yield Path(made)


@contextlib.contextmanager
def ends_on_sigterm() -> Iterator[None]:
    """Within the block SIGTERM is a SystemExit, so that what the benchmark has started ends as at Ctrl-C."""

    def leave(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # what ends processes is not interrupted
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def running(
    data: Path, workers: int, database_url: str | None, arguments: Sequence[str] = (), *, source: Path | None = None
) -> Iterator[Server]:
    """Runs a server within the block, and waits until it is ready. `arguments` are added to the command; `source` is a
    working tree of another commit to run instead of this one."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "registry",
        "serve",
        "--data-dir",
        str(data),
        "--port",
        str(port),
        "--workers",
        str(workers),
        "--log-level",
        "warning",
        *arguments,
    ]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("REGISTRY_")}
    # An installed server has its modules compiled: otherwise that is half of its start.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    compileall.compile_dir((source or _SOURCE) / "registry", quiet=2)
    if source is not None:
        environment["PYTHONPATH"] = str(source)
    if database_url:
        environment["REGISTRY_DATABASE_URL"] = database_url
    began = time.monotonic()
    with ends_on_sigterm():
        with (data / "server.log").open("ab") as log:
            process = psutil.Popen(command, stdout=log, stderr=log, env=environment, cwd=source, start_new_session=True)
        try:
            asyncio.run(wait_until_ready(process, port))
            took = time.monotonic() - began
            token = (data / "admin-token").read_text().strip()
            yield Server(process, Target(f"https://127.0.0.1:{port}", token), took)
        finally:
            end(process)


def end(process: psutil.Popen) -> None:
    """Ends a process: by SIGTERM, and after a minute by SIGKILL."""
    with contextlib.suppress(psutil.NoSuchProcess):  # it may have been killed meanwhile
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
    except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
        process.kill()


async def wait_until_ready(process: psutil.Popen, port: int) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"the server ended with {process.returncode}; its log is in its data folder")
        try:
            connection = await Connection.open(Target(f"https://127.0.0.1:{port}", ""))
            status, _ = await connection.request("GET", "/readyz")
            await connection.close()
            if status == 200:
                return
        except (OSError, asyncio.IncompleteReadError):
            pass  # not yet
        await asyncio.sleep(0.02)
    raise SystemExit(f"the server was not ready after {START_SECONDS:.0f} s")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
