"""The latency of one tenant's gets while another tenant floods the process: `python -m benchmarks.fairness`.

Prints the median time of a get by a single client of one tenant: first alone, then while eight clients of another
tenant, in their own process, send gets, creates or lists of 500 objects in a loop. The two cases alternate, so other
work on the machine affects both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks import server
from benchmarks.client import JSON, Connection, Target, served, spread
from benchmarks.report import keep, machine

CLIENTS = 8
GETS = 400
ROUNDS = 3
KINDS = ("get", "create", "list")
TENANTS = "/clusters/system/apis/tenancy.registry/v1/tenants"


def maps(tenant: str) -> str:
    return f"/clusters/{tenant}/api/v1/namespaces/default/configmaps"


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x" * 800}}


async def _prepare(target: Target) -> None:
    for tenant in ("flood", "quiet"):
        body = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": tenant}, "spec": {}}
        await spread(target, [("POST", TENANTS, json.dumps(body).encode(), JSON)])
        await served(target, f"/clusters/{tenant}/api/v1/namespaces/default")
        await spread(
            target, [("POST", maps(tenant), json.dumps(config_map(f"a{i}")).encode(), JSON) for i in range(500)]
        )


async def _median(target: Target) -> float:
    """Returns the median time of a get, in microseconds."""
    connection = await Connection.open(target)
    times = []
    for _ in range(GETS):
        began = time.perf_counter()
        status, _ = await connection.request("GET", f"{maps('quiet')}/a1")
        times.append(time.perf_counter() - began)
        assert status == 200, status
    await connection.close()
    return statistics.median(times) * 1e6


async def _flood(target: Target, kind: str, prefix: str) -> None:
    """Sends requests until the process is terminated. Reports when it has begun."""

    async def client(number: int) -> None:
        connection = await Connection.open(target)
        count = 0
        while True:
            if kind == "create":
                body = json.dumps(config_map(f"{prefix}-{number}-{count}")).encode()
                status, _ = await connection.request("POST", maps("flood"), body)
            else:
                status, _ = await connection.request(
                    "GET", f"{maps('flood')}/a1" if kind == "get" else f"{maps('flood')}?limit=500"
                )
            assert status < 300, status
            count += 1
            if count == 1 and number == 0:
                print("begun", flush=True)

    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            group.create_task(client(number))


def _under_flood(target: Target, kind: str, round_: int) -> float:
    command = [
        sys.executable,
        "-m",
        "benchmarks.fairness",
        "--flood",
        kind,
        "--url",
        target.url,
        "--token",
        target.token,
        "--prefix",
        f"{kind}{round_}",
    ]
    flood = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert flood.stdout is not None
        assert flood.stdout.readline().strip() == b"begun", "the flood did not begin"
        return asyncio.run(_median(target))
    finally:
        flood.kill()
        flood.wait()


def measure() -> dict[str, dict[str, float]]:
    """Returns, by kind of flood, the medians in microseconds and their ratio."""
    found = {}
    with server.folder() as folder, server.running(folder, 1, None) as running:
        asyncio.run(_prepare(running.target))
        for kind in KINDS:
            quiet, flooded = [], []
            for round_ in range(ROUNDS):
                quiet.append(asyncio.run(_median(running.target)))
                flooded.append(_under_flood(running.target, kind, round_))
            alone, crowded = statistics.median(quiet), statistics.median(flooded)
            found[kind] = {"quiet_us": round(alone), "flooded_us": round(crowded), "times": round(crowded / alone, 2)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=__doc__.partition("\n")[0])
    parser.add_argument("--flood", choices=KINDS, help=argparse.SUPPRESS)
    for name in ("--url", "--token", "--prefix"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--keep", action="store_true", help="write the figures into benchmarks/results")
    given = parser.parse_args()
    if given.flood:
        asyncio.run(_flood(Target(given.url, given.token), given.flood, given.prefix))
        return
    found = measure()
    for kind, figures in found.items():
        print(
            f"flood of {kind:7} quiet {figures['quiet_us']:6.0f} us   under it {figures['flooded_us']:6.0f} us   "
            f"{figures['times']:.2f} times"
        )
    if given.keep:
        print(f"kept in {keep('fairness', {'machine': machine(), **found})}")


if __name__ == "__main__":
    main()
