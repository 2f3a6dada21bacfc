"""How soon many watchers of many tenants receive events, and what they cost: `python -m benchmarks.deliveries`.

Each tenant has some watches of its ConfigMaps. After a time in which nothing happens, one ConfigMap after the other is
patched at a fixed rate, each in another tenant. An event carries the time at which its patch was due, so the delays
include what the writes themselves waited for. The watches are read by processes of their own, on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import selectors
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg

from benchmarks import server
from benchmarks.client import JSON, MERGE_PATCH, Connection, Target, spread, tls
from benchmarks.report import keep, machine
from benchmarks.tenants import fill_tenants, tenant_request
from benchmarks.watchers import LAST_CHUNK, Watch
from registry.postgres.folder import running_url

T = TypeVar("T")

PROCESSES: Final = 2
CONNECTIONS: Final = 16
# After the last write, for what is still on its way.
PATIENCE_SECONDS: Final = 30.0
_SENT: Final = re.compile(rb'"sent":"(\d+)"')


def maps(tenant: int) -> str:
    return f"/clusters/bench-{tenant}/api/v1/namespaces/default/configmaps"


class TimedWatch(Watch):
    """A watch that notes how many microseconds ago the writes of its events were due."""

    def read_delays(self, buffer: bytearray) -> list[int]:
        """Reads what has been received."""
        data = self.tail
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            while size := self.connection.recv_into(buffer):
                data += buffer[:size]
                if data.endswith(LAST_CHUNK):
                    break
            raise SystemExit("a watch was ended by the server")
        now, whole = time.monotonic_ns(), data.rfind(b"\n") + 1
        self.tail = data[whole:]
        return [(now - int(sent)) // 1000 for sent in _SENT.findall(data, 0, whole)]


def watch(url: str, token: str, first: str, end: str, each: str) -> None:
    """Holds `each` watches of each of the tenants before `end`, and prints `ready`. For a line `N` it reads N events of
    changes, or as many as come, and prints a list of their delays."""
    target, context = Target(url, token), tls()
    watches = [
        TimedWatch(target, f"{maps(tenant)}?watch=1", context)
        for tenant in range(int(first), int(end))
        for _ in range(int(each))
    ]
    selector = selectors.DefaultSelector()
    for one in watches:
        selector.register(one.connection, selectors.EVENT_READ, one)
    print("ready", flush=True)
    buffer = bytearray(1 << 16)
    for line in sys.stdin:
        delays: list[int] = []
        received = time.monotonic()
        while len(delays) < int(line) and time.monotonic() < received + PATIENCE_SECONDS:
            for key, _ in selector.select(1.0):
                if found := key.data.read_delays(buffer):
                    delays += found
                    received = time.monotonic()
        print(json.dumps(delays), flush=True)


@contextlib.contextmanager
def watching(target: Target, tenants: int, each: int) -> Iterator[list[tuple[subprocess.Popen[str], range]]]:
    """Opens the watches of all tenants in several processes, and yields these with their tenants."""
    ends = [tenants * n // PROCESSES for n in range(PROCESSES + 1)]
    command = [sys.executable, "-m", "benchmarks.deliveries", "--watch", target.url, target.token]
    processes = []
    try:
        for first, end in pairwise(ends):
            arguments = [*command, str(first), str(end), str(each)]
            process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            processes.append((process, range(first, end)))
        for process, _ in processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise SystemExit("the watches could not be opened")
        yield processes
    finally:
        for process, _ in processes:
            process.kill()
            process.communicate()


async def write(target: Target, tenants: int, rate: int, seconds: float) -> list[float]:
    """Patches at this rate; returns the milliseconds from when each patch was due until its answer."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await Connection.open(target))
    answered: list[float] = []

    async def patch(connection: Connection, tenant: int, due: int) -> None:
        body = {"data": {"sent": str(due)}}
        await connection.json("PATCH", f"{maps(tenant)}/clock", body, MERGE_PATCH)
        answered.append((time.monotonic_ns() - due) / 1e6)
        free.put_nowait(connection)

    began = time.monotonic_ns()
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            due = began + number * 1_000_000_000 // rate
            await asyncio.sleep((due - time.monotonic_ns()) / 1e9)
            group.create_task(patch(await free.get(), number % tenants, due))
    while not free.empty():
        await free.get_nowait().close()
    return answered


async def _prepare(target: Target, tenants: int) -> None:
    clock = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "clock"}}).encode()
    await spread(target, [("POST", maps(tenant), clock, JSON) for tenant in range(tenants)])


def measure(tenants: int, each: int, rate: int, seconds: float) -> dict[str, Any]:
    """Returns the figures of one run."""
    count, writes = tenants * each, int(rate * seconds)
    with (
        server.folder() as data,
        server.running(data, 1, None, ["--max-connections", str(2 * count + 1000)]) as running,
    ):
        asyncio.run(spread(running.target, [tenant_request("bench-0")]))
        if tenants > 1:
            _fill(data, tenants)
        asyncio.run(_prepare(running.target, tenants))
        before, began = running.memory(), time.perf_counter()
        with watching(running.target, tenants, each) as processes:
            opened, after = time.perf_counter() - began, running.memory()
            idle, _ = _cpu_while(running, lambda: time.sleep(seconds))
            for process, owned in processes:
                wanted = each * sum(number % tenants in owned for number in range(writes))
                print(wanted, file=process.stdin, flush=True)
            busy, answered = _cpu_while(running, lambda: asyncio.run(write(running.target, tenants, rate, seconds)))
            delays = [delay / 1000 for process, _ in processes for delay in _answer(process)]
    return {
        "watches": count,
        "opened_per_second": round(count / opened),
        "kilobytes_each": round(1024 * (sum(after["server"]) - sum(before["server"])) / count, 1),
        "idle_cpu": idle,
        "busy_cpu": busy,
        "writes": writes,
        "missing_events": writes * each - len(delays),
        "answer_ms": _figures(answered),
        "delivery_ms": _figures(delays),
    }


def _fill(data: Path, tenants: int) -> None:
    found = running_url(data / "postgres")
    assert found is not None
    with psycopg.connect(found[0]) as connection:
        fill_tenants(connection, 1, tenants - 1)


def _answer(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    delays: list[int] = json.loads(process.stdout.readline())
    return delays


def _cpu_while(running: server.Server, work: Callable[[], T]) -> tuple[dict[str, float], T]:
    """Returns the part of a processor that the server and PostgreSQL take meanwhile, and the result."""
    before, began = running.usage(), time.perf_counter()
    result = work()
    used, took = running.usage().since(before), time.perf_counter() - began
    return {"server": round(used.server / took, 3), "postgres": round(used.postgres / took, 3)}, result


def _figures(milliseconds: list[float]) -> dict[str, float]:
    hundredths = statistics.quantiles(milliseconds, n=100)
    return {"p50": round(hundredths[49], 1), "p99": round(hundredths[98], 1), "max": round(max(milliseconds), 1)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deliveries", description=__doc__.partition("\n")[0])
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--each", type=int, default=10, help="watches of each tenant")
    parser.add_argument("--rate", type=int, default=500, help="writes per second")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="how long it writes, and how long it is idle before"
    )
    given = parser.parse_args(arguments)
    figures = measure(given.tenants, given.each, given.rate, given.seconds)
    for name, value in figures.items():
        print(f"{name:20} {value}")
    print(f"kept in {keep('deliveries', {'machine': machine(), **figures})}")
    return 1 if figures["missing_events"] else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--watch"]:
        watch(*sys.argv[2:])
    else:
        sys.exit(main())
