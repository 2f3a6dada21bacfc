"""The cost of many tenants: `python -m benchmarks.tenants`.

With 1, 1,000 and 100,000 tenants: the time of a server's start, its memory, the median time of a get in one tenant and
of creating a tenant and sending it a first request, and the memory after requests to 2,000 tenants. PostgreSQL
generates all tenants but the measured ones, as commits would have left them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import server
from benchmarks.client import JSON, Connection, Target, spread
from benchmarks.report import keep, machine
from registry.postgres.folder import running_url

SIZES = (1, 1_000, 100_000)
GETS = 1_000
MADE = 20
VISITED = 2_000
TENANTS = "/clusters/system/apis/tenancy.registry/v1/tenants"
MAP = "/api/v1/namespaces/default/configmaps"

_MAKE = """
WITH template AS (
    SELECT o.*, t.id AS system_id FROM tenants t JOIN objects o ON o.tenant_id = t.id
    WHERE t.name = 'system' AND o.resource = 'tenants.tenancy.registry' AND o.key = 'bench-0'
), numbers AS (
    SELECT n FROM generate_series(%(first)s::bigint, %(last)s::bigint) n
), made AS (
    INSERT INTO domains (revision) SELECT 0 FROM numbers RETURNING id
), rows AS (
    INSERT INTO tenants (name, domain_id)
    SELECT 'bench-' || n, id FROM (SELECT n, row_number() OVER () AS r FROM numbers) a
    JOIN (SELECT id, row_number() OVER () AS r FROM made) b USING (r)
), objects_made AS (
    INSERT INTO objects (tenant_id, resource, key, uid, revision, version, schema_id, body, created_at, updated_at)
    SELECT system_id, resource, 'bench-' || n, gen_random_uuid()::text, revision, version, schema_id,
        replace(body, '"bench-0"', '"bench-' || n || '"'), now(), now()
    FROM template, numbers
)
UPDATE tenants SET objects = objects + (SELECT count(*) FROM numbers) WHERE name = 'system'
"""


def tenant_request(name: str) -> tuple[str, str, bytes, str]:
    body = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": name}, "spec": {}}
    return "POST", TENANTS, json.dumps(body).encode(), JSON


def fill_tenants(connection: psycopg.Connection[Any], first: int, last: int) -> None:
    """Inserts copies of the tenant bench-0 with these numbers."""
    connection.execute(_MAKE, {"first": first, "last": last})


def _fill(data: Path, first: int, last: int) -> float:
    """Seconds."""
    found = running_url(data / "postgres")
    assert found is not None
    began = time.perf_counter()
    with psycopg.connect(found[0]) as connection:
        fill_tenants(connection, first, last)
    with psycopg.connect(found[0], autocommit=True) as connection:
        connection.execute("ANALYZE tenants, domains, objects")
    return time.perf_counter() - began


async def _gets(target: Target) -> float:
    connection = await Connection.open(target)
    times = []
    for _ in range(GETS):
        began = time.perf_counter()
        await connection.json("GET", f"{MAP}/kube-root-ca.crt")
        times.append(time.perf_counter() - began)
    await connection.close()
    return statistics.median(times) * 1e6


async def _births(target: Target, prefix: str) -> float:
    """Returns the median seconds to create a tenant and get an object that every new tenant has."""
    connection = await Connection.open(target)
    times = []
    for number in range(MADE):
        began = time.perf_counter()
        await connection.request(*tenant_request(f"{prefix}-{number}"))
        await connection.json("GET", f"/clusters/{prefix}-{number}/api/v1/namespaces/default")
        times.append(time.perf_counter() - began)
    await connection.close()
    return statistics.median(times)


async def _page(target: Target) -> float:
    connection = await Connection.open(target)
    began = time.perf_counter()
    await connection.json("GET", f"{TENANTS}?limit=500")
    await connection.close()
    return time.perf_counter() - began


def measure(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    found = []
    with server.folder() as data:
        with server.running(data, 1, None) as first:
            asyncio.run(spread(first.target, [tenant_request("bench-0")]))
        there = 0
        for size in sizes:
            with server.running(data, 1, None) as filling:
                made = _fill(data, there + 1, size - 1) if size - 1 > there else 0.0
                del filling
            there = max(there, size - 1)
            with server.running(data, 1, None) as running:
                asyncio.run(_gets(running.target))
                row: dict[str, Any] = {
                    "tenants": size,
                    "made_set_based_s": round(made, 2),
                    "start_s": round(running.started_seconds, 2),
                    "get_us": round(asyncio.run(_gets(running.target))),
                    "birth_ms": round(asyncio.run(_births(running.target, f"born-{size}")) * 1000, 1),
                    "page_of_500_ms": round(asyncio.run(_page(running.target)) * 1000, 1),
                    "memory_mb": running.memory()["server"],
                }
                visited = min(VISITED, size)
                asyncio.run(
                    spread(
                        running.target,
                        [("GET", f"/clusters/bench-{n}/api/v1/namespaces/default", b"", JSON) for n in range(visited)],
                    )
                )
                row["visited"] = visited
                row["memory_after_mb"] = running.memory()["server"]
            found.append(row)
            print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tenants", description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--keep", action="store_true", help="write the figures into benchmarks/results")
    given = parser.parse_args()
    found = measure(tuple(given.sizes))
    if given.keep:
        print(f"kept in {keep('tenants', {'machine': machine(), 'sizes': found})}")


if __name__ == "__main__":
    main()
