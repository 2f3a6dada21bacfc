"""The latency of one tenant's gets while another tenant attacks the server: `python -m benchmarks.hostile`.

For each attack (benchmarks/attacks), and for all at once, separate processes attack a server as tenant `attacker`,
while tenant `neighbour` gets an object every few milliseconds, uploads larger ones, and watches. A row shows the
latency of these gets, the CPU time of the server and of PostgreSQL per second, the server's peak resident memory in MB,
how many seconds the set-up of the attack took, and the attacker's answers by status. Quiet rows before and after show
what the machine allows at that moment: on a busy machine compare with them, not with the limits. All at once attack a
new server, since what single attacks leave behind in the tenant would make most of them wait. An attack that could not
be prepared, or failed before the end, is named below its row: what it measures is less than it says.

The limits: a p99 of 50 ms, a maximum of 500 ms, 600 MB under all attacks at once, and none of the neighbour's gets,
uploads and watches fails.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import psutil

from benchmarks import server
from benchmarks.attacks import ATTACKS
from benchmarks.client import JSON, Connection, Target, served, spread
from benchmarks.report import keep, machine

SECONDS = 10.0
# The pause between two gets: the neighbour sends many, but does not saturate the processor.
PAUSE_SECONDS = 0.005
# A get that takes longer is cancelled, and counts as this long.
PATIENCE_SECONDS = 30.0
# The neighbour's uploads: so long that TLS records arrive in pieces, and so rare that they hardly delay its gets.
UPLOAD_SECONDS = 0.2
UPLOAD = json.dumps({"metadata": {"generateName": "u"}, "data": {"text": "x" * 100_000}}).encode()
P99_MS, MAX_MS, PEAK_MB = 50.0, 500.0, 600
TENANTS = "/clusters/system/apis/tenancy.registry/v1/tenants"
MAP = "/clusters/neighbour/api/v1/namespaces/default/configmaps"


async def _prepare(target: Target) -> None:
    for tenant in ("attacker", "neighbour"):
        body = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": tenant}, "spec": {}}
        await spread(target, [("POST", TENANTS, json.dumps(body).encode(), JSON)])
        await served(target, f"/clusters/{tenant}/api/v1/namespaces/default")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"text": "x" * 800}}
    await spread(target, [("POST", MAP, json.dumps(body).encode(), JSON)])


async def _neighbour(target: Target, seconds: float, pause: float) -> tuple[list[float], int]:
    """Returns the latencies of the neighbour's gets in milliseconds, sorted, and how many gets, uploads and watches
    failed."""
    (times, failed_gets), *failed = await asyncio.gather(
        _times(target, seconds, pause), _failed_uploads(target, seconds), _ended_watches(target, seconds)
    )
    return times, failed_gets + sum(failed)


async def _failed_uploads(target: Target, seconds: float) -> int:
    failed, connection, until = 0, None, time.perf_counter() + seconds
    while time.perf_counter() < until:
        try:
            connection = connection or await Connection.open(target)
            async with asyncio.timeout(PATIENCE_SECONDS):
                failed += (await connection.request("POST", f"{MAP}?dryRun=All", UPLOAD))[0] != 201
        except (OSError, ssl.SSLError, asyncio.IncompleteReadError):
            failed, connection = failed + 1, None
        await asyncio.sleep(UPLOAD_SECONDS)
    if connection is not None:
        await connection.close()
    return failed


async def _ended_watches(target: Target, seconds: float) -> int:
    ended, until = 0, asyncio.get_running_loop().time() + seconds
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            while True:
                with contextlib.suppress(OSError, ssl.SSLError, asyncio.IncompleteReadError):
                    connection = await Connection.open(target)
                    try:
                        connection.send("GET", f"{MAP}?watch=true")
                        if (await connection.head())[0] == 200:
                            async for _ in connection.chunks():
                                pass
                    finally:
                        connection.drop()
                ended += 1
                await asyncio.sleep(UPLOAD_SECONDS)
    return ended


async def _times(target: Target, seconds: float, pause: float) -> tuple[list[float], int]:
    """Returns the latencies of the neighbour's gets in milliseconds, sorted, and how many failed."""
    times, failed, connection, until = [], 0, None, time.perf_counter() + seconds
    while time.perf_counter() < until:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                connection = connection or await Connection.open(target)
                began = time.perf_counter()
                status, answer = await connection.request("GET", f"{MAP}/a")
                assert status == 200, answer
        except TimeoutError:
            times.append(PATIENCE_SECONDS * 1000)
            break
        except (OSError, ssl.SSLError, asyncio.IncompleteReadError):
            failed, connection = failed + 1, None
        else:
            times.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(pause)
    if connection is not None:
        connection.drop()
    return sorted(times) or [PATIENCE_SECONDS * 1000], failed


def measure(
    running: server.Server, names: Sequence[str], seconds: float, pause: float = PAUSE_SECONDS
) -> dict[str, Any]:
    """Returns the figures of a run under these attacks, perhaps none, with `pause` seconds between two gets."""
    processes = _serving(running)
    for process in processes:
        _reset_peak(process)
    asked = time.perf_counter()
    with _attacking(running.target, names) as (answers, ended):
        before, began = running.usage(), time.perf_counter()
        times, failed = asyncio.run(_neighbour(running.target, seconds, pause))
        used, took = running.usage().since(before), time.perf_counter() - began
    return {
        "p50_ms": round(times[len(times) // 2], 1),
        "p99_ms": round(times[int(len(times) * 0.99)], 1),
        "max_ms": round(times[-1], 1),
        "gets": len(times),
        "failed": failed,
        "server_cpu": round(used.server / took, 2),
        "postgres_cpu": round(used.postgres / took, 2),
        "peak_mb": max(map(_peak_mb, processes)),
        "set_up_s": round(began - asked, 1),
        "answers": answers,
        "ended": ended,
    }


def _serving(running: server.Server) -> list[psutil.Process]:
    """Returns the processes that are not PostgreSQL's."""
    processes = []
    for process in (running.process, *running.process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # PostgreSQL's come and go
            if not process.name().startswith("postgres"):
                processes.append(process)
    return processes


def _reset_peak(process: psutil.Process) -> None:
    with contextlib.suppress(OSError):  # only Linux knows it
        (Path("/proc") / str(process.pid) / "clear_refs").write_text("5")


def _peak_mb(process: psutil.Process) -> int:
    """Returns 0 of a process that has ended."""
    try:
        lines = (Path("/proc") / str(process.pid) / "status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) >> 10
    except OSError:
        with contextlib.suppress(psutil.NoSuchProcess):
            return int(process.memory_info().rss) >> 20
        return 0


@contextlib.contextmanager
def _attacking(target: Target, names: Sequence[str]) -> Iterator[tuple[Counter[str], dict[str, str]]]:
    """Runs a process for each attack within the block; they are prepared one after the other. Yields a counter of their
    answers, and why some of them ended, by name; both are filled at the end."""
    answers: Counter[str] = Counter()
    ended: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        attackers = {name: stack.enter_context(_attacker(target, name)) for name in names}
        for attacker in attackers.values():
            attacker.tell("")
        yield answers, ended
        for attacker in attackers.values():
            attacker.end()
        for name, attacker in attackers.items():
            if (line := attacker.read()).startswith("{"):
                answers.update(json.loads(line))
            else:
                ended[name] = attacker.failure()


class _Attacker:
    """The process of an attack, perhaps one that has ended."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[str]) -> None:
        self._process = process
        self._errors = errors

    def tell(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            print(text, file=self._process.stdin, flush=True)

    def end(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def read(self) -> str:
        """Returns its next line, empty if it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def failure(self) -> str:
        """Returns how it ended, with the last line of its errors that says something."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = [line.strip(" |+-\n") for line in self._errors]
        return f"exit {code}: {next((line for line in reversed(lines) if line), 'no error')}"


@contextlib.contextmanager
def _attacker(target: Target, name: str) -> Iterator[_Attacker]:
    """Returns once it is prepared, or has ended."""
    command = [sys.executable, "-m", "benchmarks.attacks", target.url, target.token, name]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            attacker = _Attacker(process, errors)
            attacker.read()
            yield attacker
        finally:
            process.kill()
            process.wait()


def _line(name: str, row: dict[str, Any]) -> str:
    answers = " ".join(f"{code}:{count}" for code, count in sorted(row["answers"].items()))
    missed = [
        text
        for text, is_missed in (
            ("p99", row["p99_ms"] > P99_MS),
            ("max", row["max_ms"] > MAX_MS),
            ("memory", row["peak_mb"] > PEAK_MB),
            (f"failed {row['failed']}", row["failed"] > 0),
        )
        if is_missed
    ]
    return (
        f"{name:22} {row['p50_ms']:8.1f} {row['p99_ms']:8.1f} {row['max_ms']:9.1f} {row['gets']:6} "
        f"{row['server_cpu']:6.2f} {row['postgres_cpu']:6.2f} {row['peak_mb']:6} {row['set_up_s']:6.0f}  {answers}"
        f"{'  over: ' + ' '.join(missed) if missed else ''}"
    )


def _print_log(text: str) -> int:
    """Prints the watchdog's warnings and unexpected errors from the server's log. Returns the length of the text."""
    in_traceback = False
    for line in text.splitlines():
        in_traceback = line.lstrip().startswith("Traceback") or (in_traceback and not line[:4].isdigit())
        if in_traceback or "registry.watchdog" in line or "request failed" in line:
            print(f"    {line[:240]}")
    return len(text)


def _run(
    runs: Sequence[tuple[str, Sequence[str]]], seconds: float, pause: float, workers: int
) -> dict[str, dict[str, Any]]:
    """Measures each set of attacks in turn on one server, and prints its row and what the server reported."""
    rows: dict[str, dict[str, Any]] = {}
    printed = 0
    arguments = ["--allow-egress-to", "127.0.0.1/32", "--cbor"]
    with server.folder() as folder, server.running(folder, workers, None, arguments) as running:
        asyncio.run(_prepare(running.target))
        for name, names in runs:
            rows[name] = measure(running, names, seconds, pause)
            print(_line(name, rows[name]), flush=True)
            for attack, failure in rows[name]["ended"].items():
                print(f"    {attack} ended before the others: {failure[:200]}")
            log = (folder / "server.log").read_text(errors="replace")
            printed += _print_log(log[printed:])
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile", description=__doc__.partition("\n")[0])
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"some of {', '.join(ATTACKS)}; all by default")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long each runs")
    parser.add_argument(
        "--pause", type=float, default=PAUSE_SECONDS, help="seconds between two gets; a tenant that comes seldom: 0.3"
    )
    parser.add_argument("--workers", type=int, default=1, help="serving processes; MB are those of the largest")
    parser.add_argument("--together", action="store_true", help="only all at once, not one after the other")
    parser.add_argument("--keep", action="store_true", help="write the figures into benchmarks/results")
    given = parser.parse_args(arguments)
    chosen = given.attacks or [*ATTACKS]
    if unknown := [name for name in chosen if name not in ATTACKS]:
        parser.error(f"no such attack: {', '.join(unknown)}")
    singly = [] if given.together else [(name, [name]) for name in chosen]
    together = [("all at once", chosen), ("quiet again", [])] if len(chosen) > 1 else []
    rows: dict[str, dict[str, Any]] = {}
    print(
        f"{'':22} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>9} {'gets':>6} "
        f"{'CPU':>6} {'SQL':>6} {'MB':>6} {'set-up':>6}  answers",
        flush=True,
    )
    # What single attacks have left behind would make most of the others wait before they begin: a new server.
    for runs in filter(None, ([("quiet", []), *singly], together)):
        rows |= _run(runs, given.seconds, given.pause, given.workers)
    if given.keep:
        print(f"kept in {keep('hostile', {'machine': machine(), 'rows': rows})}")
    return 1 if any(row["ended"] for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
