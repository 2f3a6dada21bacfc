"""Load with as many requests as the server can answer: from wrk, or, with a warning, from a Python client that is
itself the bottleneck."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.client import JSON, Connection, Target

SCRIPT = Path(__file__).with_name("requests.lua")
UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


@dataclass(frozen=True)
class Request:
    """A request to each of `paths` in turn. NUMBER in `body` is replaced by the number of the request."""

    method: str
    paths: list[str]
    body: str = ""
    content_type: str = JSON


@dataclass(frozen=True)
class Load:
    requests: int
    rate: float
    p50_ms: float
    p99_ms: float
    failed: int


def load(target: Target, request: Request, seconds: float, connections: int = 32) -> Load:
    if shutil.which("wrk"):
        return _wrk(target, request, seconds, connections)
    print("wrk is not installed: the load comes from Python, rates are lower than the server's", file=sys.stderr)
    return asyncio.run(_python(target, request, seconds, connections))


def _wrk(target: Target, request: Request, seconds: float, connections: int) -> Load:
    with tempfile.TemporaryDirectory(prefix="registry-bench-") as folder:
        paths, body = Path(folder, "paths"), Path(folder, "body")
        paths.write_text("\n".join(request.paths))
        body.write_text(request.body)
        command = [
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{max(1, round(seconds))}",
            "--timeout",
            "30",
            "--latency",
            "-H",
            f"Authorization: Bearer {target.token}",
            "-s",
            str(SCRIPT),
            target.url,
            "--",
            request.method,
            request.content_type,
            str(paths),
            *([str(body)] if request.body else []),
        ]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return _read(output)


def _read(output: str) -> Load:
    """Parses the output of wrk."""

    def number(pattern: str) -> float:
        found = re.search(pattern, output)
        return float(found.group(1)) if found else 0.0

    def milliseconds(percent: int) -> float:
        found = re.search(rf"\b{percent}%\s+([\d.]+)(us|ms|s|m)\b", output)
        return float(found.group(1)) * UNITS[found.group(2)] if found else 0.0

    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
    failed = int(number(r"Non-2xx or 3xx responses: (\d+)")) + (sum(map(int, errors.groups())) if errors else 0)
    return Load(
        int(number(r"(\d+) requests in")),
        number(r"Requests/sec:\s*([\d.]+)"),
        milliseconds(50),
        milliseconds(99),
        failed,
    )


async def _python(target: Target, request: Request, seconds: float, connections: int) -> Load:
    until = time.monotonic() + seconds
    took: list[float] = []
    failed = count = 0

    async def work() -> None:
        nonlocal failed, count
        connection = await Connection.open(target)
        while (began := time.monotonic()) < until or not count:  # one at least, however long connecting has taken
            count += 1
            path = request.paths[count * 7919 % len(request.paths)]
            body = request.body.replace("NUMBER", str(count)).encode()
            status, _ = await connection.request(request.method, path, body, request.content_type)
            failed += status >= 300
            took.append(time.monotonic() - began)
        await connection.close()

    began = time.monotonic()
    await asyncio.gather(*[work() for _ in range(connections)])
    took.sort()
    return Load(
        len(took),
        len(took) / (time.monotonic() - began),
        1000 * took[len(took) // 2],
        1000 * took[len(took) * 99 // 100],
        failed,
    )
