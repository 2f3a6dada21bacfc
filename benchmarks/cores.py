"""How requests scale with worker processes, without that many cores: `python -m benchmarks.cores` (root, cgroup v1).

Each worker is limited to a small share of a core (`--share`); PostgreSQL and the load are not limited. So eight workers
with 3 % each behave like eight workers on eight cores, 33 times slower. A rate that does not grow with their number
shows something that they share.

Prints requests per second, their ratio to one worker's, and the CPU time of a request in all processes. The kernel
enforces a share per period of 100 ms, so a worker is suspended most of the time: latencies mean nothing, and more
requests wait together.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import server
from benchmarks.client import JSON, spread
from benchmarks.data import thing
from benchmarks.report import keep, machine
from benchmarks.scale import BODY_SIZE, GROUP, OBJECTS, prepare

CONTROLLER: Final = Path("/sys/fs/cgroup/cpu")
PERIOD_MICROSECONDS: Final = 100_000
# More than a worker answers at once, so that all are busy however the kernel distributes connections.
CONNECTIONS_A_WORKER: Final = 12


class Rate(NamedTuple):
    """Requests per second, and the CPU time of a request in µs."""

    requests: float
    server: float
    postgres: float


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if not (CONTROLLER / "cpu.cfs_quota_us").parent.is_dir():
        raise SystemExit(f"{CONTROLLER} is not there: this needs cgroup v1 with the controller cpu, and root")
    found = {workers: measure(workers, options.share, options.requests) for workers in options.workers}
    first = found[options.workers[0]]
    for workers, rates in found.items():
        for kind, rate in rates.items():
            ratio = rate.requests / first[kind].requests
            print(f"{workers:3} workers  {kind:8} {rate.requests:8.0f}/s {ratio:6.2f} times", end="")
            print(f"   {rate.server:6.0f} + {rate.postgres:.0f} µs")
    print(f"\nkept in {keep('cores', {'machine': machine(), 'share': options.share, 'rates': found})}")
    return 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.cores", description=__doc__.partition("\n")[0])
    made.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4, 8], help="how many processes")
    made.add_argument("--share", type=float, default=0.03, help="of a core, for each worker")
    made.add_argument("--requests", type=int, default=600, help="creates for each worker; gets are four times as many")
    return made


def measure(workers: int, share: float, requests: int) -> dict[str, Rate]:
    with server.folder() as data, server.running(data, workers, None) as running:
        asyncio.run(prepare(running))
        body = json.dumps(thing(GROUP, "NAME", BODY_SIZE))
        names = [f"made-{number}" for number in range(requests * workers)]
        kinds = {
            "create": [("POST", OBJECTS, body.replace("NAME", name).encode(), JSON) for name in names],
            "get": [("GET", f"{OBJECTS}/{name}", b"", JSON) for name in names] * 4,
        }
        with limited(_workers(running, workers), share):
            return {kind: _rate(running, sent, CONNECTIONS_A_WORKER * workers) for kind, sent in kinds.items()}


def _rate(running: server.Server, sent: list[tuple[str, str, bytes, str]], connections: int) -> Rate:
    before, began = running.usage(), time.monotonic()
    asyncio.run(spread(running.target, sent, connections))
    used, seconds = running.usage().since(before), time.monotonic() - began
    return Rate(len(sent) / seconds, 1e6 * used.server / len(sent), 1e6 * used.postgres / len(sent))


def _workers(running: server.Server, count: int) -> list[int]:
    """Returns the processes that serve: all have started alike, so those are the ones with the most CPU time."""
    ours = [running.process, *running.process.children(recursive=True)]
    ours = [one for one in ours if one.is_running() and not one.name().startswith("postgres")]
    return [one.pid for one in sorted(ours, key=server.cpu_seconds, reverse=True)[:count]]


@contextlib.contextmanager
def limited(processes: Sequence[int], share: float) -> Iterator[None]:
    """Limits each process to a share of a core within the block."""
    groups = [CONTROLLER / f"registry-bench-{pid}" for pid in processes]
    try:
        for group, pid in zip(groups, processes, strict=True):
            group.mkdir()
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (group / "cpu.cfs_quota_us").write_text(str(round(share * PERIOD_MICROSECONDS)))
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for group, pid in zip(groups, processes, strict=True):
            if group.is_dir():
                with contextlib.suppress(OSError):  # it may have ended
                    (CONTROLLER / "cgroup.procs").write_text(str(pid))
                group.rmdir()


if __name__ == "__main__":
    sys.exit(main())
