"""How many requests a process answers for several tenants at once: `python -m benchmarks.together`.

32 connections send creates, merge patches and gets of ConfigMaps of 800 characters, each its next request as soon as
the last is answered: first those of one tenant, then those of several in equal parts. Each row shows the rate, the CPU
time of a request in the server and in PostgreSQL, and the longest 99th percentile of a tenant. Others have been present
before the rows of one tenant.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from benchmarks import server
from benchmarks.client import JSON, MERGE_PATCH, Target, served, spread
from benchmarks.load import Load, Request, load
from benchmarks.report import keep, machine
from benchmarks.tenants import tenant_request

CONNECTIONS: Final = 32
OBJECTS: Final = 200


def maps(tenant: int) -> str:
    return f"/clusters/bench-{tenant}/api/v1/namespaces/default/configmaps"


def config_map(name: str) -> str:
    return json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x" * 800}}
    )


async def _prepare(target: Target, tenants: int) -> None:
    for tenant in range(tenants):
        await spread(target, [tenant_request(f"bench-{tenant}")])
        await served(target, f"/clusters/bench-{tenant}/api/v1/namespaces/default")
        objects = [("POST", maps(tenant), config_map(f"a{n}").encode(), JSON) for n in range(OBJECTS)]
        await spread(target, objects)


def request_of(kind: str, prefix: str, tenant: int) -> Request:
    objects = [f"{maps(tenant)}/a{n}" for n in range(OBJECTS)]
    if kind == "create":
        return Request("POST", [maps(tenant)], config_map(f"{prefix}-NUMBER"))
    if kind == "patch":
        return Request("PATCH", objects, '{"data":{"n":"NUMBER"}}', MERGE_PATCH)
    return Request("GET", objects)


def measure(sizes: Sequence[int], seconds: float) -> list[dict[str, Any]]:
    """Returns a row for each kind of request and number of tenants."""
    rows = []
    with server.folder() as data, server.running(data, 1, None) as running:
        asyncio.run(_prepare(running.target, max(sizes)))
        for kind in ("create", "patch", "get"):
            for tenants in sizes:
                requests = [request_of(kind, f"of-{tenants}", tenant) for tenant in range(tenants)]
                rows.append({"request": kind, "tenants": tenants, **_row(running, requests, seconds)})
    return rows


def _row(running: server.Server, requests: Sequence[Request], seconds: float) -> dict[str, Any]:
    send = partial(load, running.target, seconds=seconds, connections=max(CONNECTIONS // len(requests), 1))
    before, began = running.usage(), time.perf_counter()
    with ThreadPoolExecutor(len(requests)) as threads:
        loads: list[Load] = list(threads.map(send, requests))
    used, took = running.usage().since(before), time.perf_counter() - began
    count = sum(one.requests for one in loads)
    return {
        "rate": round(count / took),
        "server_us": round(used.server / count * 1e6),
        "postgres_us": round(used.postgres / count * 1e6),
        "p99_ms": max(one.p99_ms for one in loads),
        "failed": sum(one.failed for one in loads),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.together", description=__doc__.partition("\n")[0])
    parser.add_argument("--tenants", type=int, nargs="+", default=[1, 2, 8], help="numbers of tenants")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each row is measured")
    given = parser.parse_args(arguments)
    rows = measure(given.tenants, given.seconds)
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    print(f"kept in {keep('together', {'machine': machine(), 'rows': rows})}")
    return 1 if any(row["failed"] for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
