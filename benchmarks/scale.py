"""Shows whether the cost of a request depends on how much is stored: `python -m benchmarks.scale`.

For each axis (objects of one kind, definitions of one tenant, rows of the change log, tenants) the server is measured
at a small and at larger sizes. PostgreSQL generates the rows as commits would have left them. Prints the median latency
of single requests over one connection and their CPU time in the server and in PostgreSQL, with the ratio to the
smallest size. At the last size of objects, gets and creates continue while PostgreSQL vacuums and analyzes, at that of
the log while its oldest partition is dropped; their 99th percentile is compared with the one before.

    python -m benchmarks.scale --objects 1000 1000000 --definitions --log --tenants
    python -m benchmarks.scale --objects --definitions --log 0 60000000 --tenants

A million objects of 1.5 kB take some minutes and 4 GB, a week of 100 writes a second, the second line, 30 GB.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

from benchmarks import log, server
from benchmarks.client import JSON, MERGE_PATCH, Connection, Failed, served, spread
from benchmarks.data import PLURAL, definition, thing
from benchmarks.report import keep, machine
from benchmarks.schemas import clone_definitions
from benchmarks.tenants import fill_tenants, tenant_request
from registry.postgres.folder import running_url
from registry.store.compaction import DEFAULT_RETENTION, compact
from registry.store.connection import Pool

GROUP: Final = "scale.example.com"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECTS: Final = f"/apis/{GROUP}/v1/namespaces/default/{PLURAL}"
TEMPLATE: Final = "kind0s"
BODY_SIZE: Final = 1_500
WARM_UP: Final = 20
# Of the times in the log.
RESOLUTION: Final = datetime.timedelta(microseconds=1)
# Idle is what takes less of a processor in each of so many seconds; what works for longer is measured nevertheless.
IDLE_PART: Final = 0.06
IDLE_READINGS: Final = 3
MOST_SECONDS: Final = 600.0
# A ratio of more than this to the smallest size is marked.
FLAT: Final = 1.2

# Copies of one object. Triggers count them; the tenant's own counters follow below.
_OBJECTS: Final = """
    INSERT INTO objects (tenant_id, resource, key, uid, revision, version, schema_id, body, labels, doc,
        created_at, updated_at)
    SELECT o.tenant_id, o.resource, replace(o.key, 'template', 'object-' || lpad(n::text, 9, '0')),
        gen_random_uuid()::text, o.revision, o.version, o.schema_id,
        replace(o.body, '"template"', '"object-' || lpad(n::text, 9, '0') || '"'), o.labels, o.doc,
        o.created_at, o.updated_at
    FROM objects o, generate_series(1, %(count)s::bigint) n
    WHERE o.resource = %(resource)s AND o.key = 'default/template'
"""
_COUNT: Final = """
    UPDATE tenants SET objects = objects + %(count)s::bigint, bytes = bytes + %(count)s::bigint * %(size)s::bigint
    WHERE name = 'default'
"""
# Changes of one object, after the newest revision of its domain: those of one partition. They are small: nothing that
# is measured here reads their bodies.
_LOG: Final = """
    INSERT INTO {partition} (domain_id, revision, batch, tenant_id, resource, key, uid, type, version, schema_id, body,
        previous_revision, previous_version, previous_schema_id, previous_body,
        actor_user, actor_manager, actor_verb, at)
    SELECT t.domain_id, d.revision + n, n, o.tenant_id, o.resource, o.key, o.uid, 'MODIFIED', o.version, o.schema_id,
        left(o.body, 100), d.revision + n - 1, o.version, o.schema_id, left(o.body, 100),
        'bench', 'bench', 'update', %(since)s::timestamptz + n * %(step)s::interval
    FROM objects o JOIN tenants t ON t.id = o.tenant_id JOIN domains d ON d.id = t.domain_id,
        generate_series(%(first)s::bigint, %(last)s::bigint) n
    WHERE o.resource = %(resource)s AND o.key = 'default/template'
"""
_LOGGED: Final = """
    UPDATE domains d SET revision = d.revision + %(count)s::bigint FROM tenants t
    WHERE t.name = 'default' AND d.id = t.domain_id
"""
_LATEST: Final = """
    UPDATE objects o SET revision = d.revision FROM tenants t JOIN domains d ON d.id = t.domain_id
    WHERE t.name = 'default' AND o.tenant_id = t.id AND o.resource = %(resource)s AND o.key = 'default/template'
"""


Fill = Callable[[psycopg.Connection[Any], server.Server, int], None]
# One step of what goes on beside requests; False after the last.
Maintenance = Callable[[psycopg.Connection[Any]], bool]


@dataclass(frozen=True, slots=True)
class Cost:
    """The median latency of a request in ms, and its CPU time in µs in the server and in PostgreSQL."""

    median: float
    server: float
    postgres: float

    @property
    def cpu(self) -> float:
        return self.server + self.postgres


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    kept: dict[str, Any] = {"machine": machine(), "axes": {}}
    axes: list[tuple[str, Fill, list[int], Maintenance | None]] = [
        ("objects", fill_objects, options.objects, vacuum),
        ("definitions", fill_definitions, options.definitions, None),
        ("log rows", fill_log, options.log, drop_a_partition),
        ("tenants", fill_with_tenants, options.tenants, None),
    ]
    for axis, fill, sizes, beside in axes:
        if not sizes:
            continue
        print(f"\n{axis}: median ms, CPU µs of server and PostgreSQL, ratio of CPU to the first size", flush=True)
        first: dict[str, Cost] = {}
        for size in sizes:
            found, facts = measure(fill, size, options.requests, beside=beside if size == sizes[-1] else None)
            first = first or found
            _print(size, found, first, facts)
            costs = {name: [cost.median, cost.server, cost.postgres] for name, cost in found.items()}
            kept["axes"].setdefault(axis, {})[size] = costs | facts
    print(f"\nkept in {keep('scale', kept)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.partition("\n")[0])
    made.add_argument("--objects", type=int, nargs="*", default=[1_000, 100_000], help="objects of one kind")
    made.add_argument("--definitions", type=int, nargs="*", default=[1, 1_000], help="definitions of one tenant")
    made.add_argument("--log", type=int, nargs="*", default=[0, 200_000], help="rows of the change log")
    made.add_argument("--tenants", type=int, nargs="*", default=[1, 10_000], help="tenants")
    made.add_argument("--requests", type=int, default=300, help="requests of each kind")
    return made


def _print(size: int, found: dict[str, Cost], first: dict[str, Cost], facts: dict[str, Any]) -> None:
    print(f"  {size:,}  " + "  ".join(f"{name} {value}" for name, value in facts.items()))
    for name, cost in found.items():
        ratio = cost.cpu / first[name].cpu if first[name].cpu else 1.0
        mark = "  not flat" if ratio > FLAT else ""
        figures = f"{cost.median:8.2f} {cost.server:8.0f} {cost.postgres:8.0f} {ratio:6.2f}"
        print(f"    {name:24} {figures}{mark}", flush=True)


def measure(
    fill: Fill, size: int, requests: int, *, beside: Maintenance | None
) -> tuple[dict[str, Cost], dict[str, Any]]:
    """Returns the cost of each kind of request at a size, and further figures."""
    with server.folder() as data:
        with server.running(data, 1, None) as filling:
            asyncio.run(prepare(filling))
            began = time.monotonic()
            with _database(data) as connection:
                fill(connection, filling, size)
            with _database(data) as connection:
                connection.execute("VACUUM ANALYZE")
            filled = time.monotonic() - began
        with server.running(data, 1, None) as running:
            facts: dict[str, Any] = {"filled s": round(filled, 1), "start s": round(running.started_seconds, 2)}
            asyncio.run(first_get(running))
            facts["idle after s"] = round(wait_until_idle(running), 1)
            found = asyncio.run(request_costs(running, requests))
            facts["memory MB"] = sum(running.memory()["server"])
            if beside is not None:
                facts |= _tails(running, data, requests, beside)
            return found, facts


async def first_get(running: server.Server) -> None:
    """Has the process read the definitions of the tenant, and begin what follows from that."""
    connection = await Connection.open(running.target)
    await connection.request("GET", f"{OBJECTS}/template")
    await connection.close()


def wait_until_idle(running: server.Server) -> float:
    """Returns how long the server and PostgreSQL worked on after a start, such as on the views of new definitions: that
    is not the cost of a request."""
    began = time.monotonic()
    idle = 0
    while idle < IDLE_READINGS and time.monotonic() - began < MOST_SECONDS:
        before = running.usage()
        time.sleep(1)
        used = running.usage().since(before)
        idle = idle + 1 if used.server + used.postgres < IDLE_PART else 0
    return time.monotonic() - began - idle


def _database(data: Path) -> psycopg.Connection[Any]:
    found = running_url(data / "postgres")
    assert found is not None
    return psycopg.connect(found[0], autocommit=True)


async def prepare(started: server.Server) -> None:
    made = [definition(GROUP), definition(f"more.{GROUP}", TEMPLATE, fields=20)]
    await spread(started.target, [("POST", DEFINITIONS, json.dumps(one).encode(), JSON) for one in made])
    await served(started.target, f"{OBJECTS}?limit=1")
    await served(started.target, f"/apis/more.{GROUP}/v1/{TEMPLATE}?limit=1")
    await spread(started.target, [("POST", OBJECTS, json.dumps(thing(GROUP, "template", BODY_SIZE)).encode(), JSON)])


# Filling.


def fill_objects(connection: psycopg.Connection[Any], started: server.Server, count: int) -> None:
    with connection.transaction():
        connection.execute(_OBJECTS, {"count": count, "resource": f"{PLURAL}.{GROUP}"})
        connection.execute(_COUNT, {"count": count, "size": BODY_SIZE})


def fill_definitions(connection: psycopg.Connection[Any], started: server.Server, count: int) -> None:
    clone_definitions(connection, f"{TEMPLATE}.more.{GROUP}", count)


def fill_log(connection: psycopg.Connection[Any], started: server.Server, count: int) -> None:
    """Changes of one object, evenly spread over the time that a log is kept; the rows that are there become older."""
    resource = {"resource": f"{PLURAL}.{GROUP}"}
    if not count:
        return
    with log.replaced(connection) as partitions:
        end = partitions[-3].upper - log.WIDTH / 2
        since, step = end - DEFAULT_RETENTION, DEFAULT_RETENTION / count
        connection.execute("UPDATE logged SET at = %s", [since])
        last = 0
        for one in partitions:
            first, last = last + 1, min(count, max(0, (one.upper - since - RESOLUTION) // step))
            span = {"first": first, "last": last, "since": since, "step": step}
            connection.execute(_LOG.format(partition=one.name).encode(), span | resource)
        connection.execute(_LOGGED, {"count": count})
        connection.execute(_LATEST, resource)


def fill_with_tenants(connection: psycopg.Connection[Any], started: server.Server, count: int) -> None:
    asyncio.run(spread(started.target, [tenant_request("bench-0")]))
    if count > 1:
        fill_tenants(connection, 1, count - 1)


# Requests.


async def request_costs(running: server.Server, count: int, prefix: str = "new") -> dict[str, Cost]:
    """Returns the cost of each kind of request. Creates objects with the prefix, which differs between calls."""
    connection = await Connection.open(running.target)
    body = json.dumps(thing(GROUP, "NAME", BODY_SIZE))

    async def ask(method: str, path: str, data: bytes = b"", content_type: str = JSON) -> None:
        status, answer = await connection.request(method, path, data, content_type)
        if status >= 300:
            raise Failed(f"{method} {path}: {status} {answer[:300]!r}")

    async def create(number: int) -> None:
        await ask("POST", OBJECTS, body.replace("NAME", f"{prefix}-{number}").encode())

    async def watch(number: int) -> None:
        watcher = await Connection.open(running.target)
        watcher.send("GET", f"{OBJECTS}?watch=1&limit=1&timeoutSeconds=60&resourceVersion={revision}")
        await watcher.head()
        await watcher.close()

    found = {
        "get": await _cost(running, count, lambda n: ask("GET", f"{OBJECTS}/template")),
        "create": await _cost(running, count, create),
        "patch": await _cost(
            running,
            count,
            lambda n: ask("PATCH", f"{OBJECTS}/template", b'{"spec":{"minReadySeconds":%d}}' % n, MERGE_PATCH),
        ),
        "page of 50": await _cost(running, count, lambda n: ask("GET", f"{OBJECTS}?limit=50")),
        "page of 500": await _cost(running, count // 5, lambda n: ask("GET", f"{OBJECTS}?limit=500")),
    }
    first = (await connection.json("GET", f"{OBJECTS}?limit=1"))["metadata"]
    if later := first.get("continue"):
        path = f"{OBJECTS}?limit=500&continue={later}"
        found["a later page of 500"] = await _cost(running, count // 5, lambda n: ask("GET", path))
    revision = first["resourceVersion"]
    found["start of a watch"] = await _cost(running, count // 3, watch)
    await connection.close()
    return found


async def _cost(running: server.Server, count: int, request: Callable[[int], Awaitable[None]]) -> Cost:
    for number in range(WARM_UP):
        await request(1_000_000 + number)
    times = []
    before = running.usage()
    for number in range(count):
        began = time.perf_counter()
        await request(number)
        times.append(time.perf_counter() - began)
    used = running.usage().since(before)
    return Cost(1000 * statistics.median(times), 1e6 * used.server / count, 1e6 * used.postgres / count)


# Maintenance.


def vacuum(connection: psycopg.Connection[Any]) -> bool:
    connection.execute("VACUUM (ANALYZE, DISABLE_PAGE_SKIPPING) objects")
    connection.execute("VACUUM ANALYZE changes")
    return True


def drop_a_partition(connection: psycopg.Connection[Any]) -> bool:
    """Drops the oldest of the log, as the server does when it becomes too old."""

    async def drop() -> None:
        pool = Pool(connection.info.dsn, "benchmark", 2)
        await compact(pool, DEFAULT_RETENTION - log.WIDTH)
        await pool.close()

    asyncio.run(drop())
    return False


def _tails(running: server.Server, data: Path, count: int, beside: Maintenance) -> dict[str, Any]:
    """Returns the 99th percentile of gets and creates in ms: alone, and beside maintenance, of at least as many."""
    alone = asyncio.run(_tail(running, "alone", lambda number: number < count))
    ended = threading.Event()

    def maintain() -> None:
        with _database(data) as connection:
            while beside(connection) and not ended.is_set():
                pass

    thread = threading.Thread(target=maintain)

    def goes_on(number: int) -> bool:
        if number == count:
            ended.set()
        return number < count or thread.is_alive()

    thread.start()
    try:
        tail = asyncio.run(_tail(running, "beside", goes_on))
    finally:
        ended.set()
        thread.join()
    return {"p99 ms of gets and creates": round(alone, 1), f"beside {beside.__name__}": round(tail, 1)}


async def _tail(running: server.Server, prefix: str, goes_on: Callable[[int], bool]) -> float:
    connection = await Connection.open(running.target)
    body = json.dumps(thing(GROUP, "NAME", BODY_SIZE))
    times: list[float] = []
    while goes_on(len(times)):
        began = time.perf_counter()
        await connection.request("POST", OBJECTS, body.replace("NAME", f"{prefix}-{len(times)}").encode())
        await connection.request("GET", f"{OBJECTS}/template")
        times.append(time.perf_counter() - began)
    await connection.close()
    return 1000 * sorted(times)[len(times) * 99 // 100]


if __name__ == "__main__":
    sys.exit(main())
