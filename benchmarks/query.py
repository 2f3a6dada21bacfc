"""The latency of queries over declared indexes: `python -m benchmarks.query`.

One of many tenants has many objects of a kind, inserted into the database as the server would have written them. One
client sends each shape of query over HTTP, one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

import psycopg

from benchmarks import server
from benchmarks.client import JSON, Connection, Target, served, spread
from benchmarks.report import keep, machine
from registry.api.served import body_of
from registry.definitions.compiled import compile_definition
from registry.postgres.folder import running_url
from registry.query.indexes import Indexes, indexes_of

GROUP: Final = "bench.example.com"
ITEMS: Final = f"/apis/{GROUP}/v1/namespaces/default/items"
ALL_ITEMS: Final = f"/apis/{GROUP}/v1/items"
INDEX: Final = "spec.size; spec.owner; spec.owner,spec.size; spec.tags[*]; spec.name; metadata.creationTimestamp"
LIMIT: Final = 50
DEFINITION: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"items.{GROUP}",
        "annotations": {"query.registry/index": INDEX, "reporting.registry/views": "off"},
    },
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "items", "singular": "item", "kind": "Item", "listKind": "ItemList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer"},
                                    "owner": {"type": "string"},
                                    "name": {"type": "string"},
                                    "tags": {"type": "array", "items": {"type": "string"}},
                                    "note": {"type": "string"},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
SHAPES: Final[dict[str, dict[str, str]]] = {
    "equality": {"filter": 'object.spec.name == "name-4711"'},
    "range": {"filter": "object.spec.size > 400000 && object.spec.size < 400100"},
    "a wide range": {"filter": "object.spec.size > 1000"},
    "in": {"filter": 'object.spec.name in ["name-1", "name-22", "name-333", "name-4444"]'},
    "prefix": {"filter": 'object.spec.name.startsWith("name-123")'},
    "array element": {"filter": '"tag-7" in object.spec.tags'},
    "array element, evaluated, sorted": {
        "filter": '"tag-7" in object.spec.tags && object.spec.size > 10',
        "orderBy": "metadata.name",
    },
    "two fields": {"filter": 'object.spec.owner == "owner-5" && object.spec.size >= 500000'},
    "sorted page": {"orderBy": "spec.size"},
    "sorted page, descending": {"orderBy": "spec.size desc"},
    "sorted within an owner": {"filter": 'object.spec.owner == "owner-5"', "orderBy": "spec.size desc"},
    "count": {"filter": 'object.spec.owner == "owner-5"', "count": "exact"},
}
COUNT: Final = {"name": "n", "function": "Count"}
GROUPS: Final[dict[str, dict[str, Any]]] = {
    "grouped counts of one value": {
        "filter": 'object.spec.owner == "owner-5"', "groupBy": [{"field": "spec.owner"}], "aggregates": [COUNT],
    },
    "grouped counts of 50 values": {
        "filter": f"object.spec.owner in {[f'owner-{n}' for n in range(50)]}",
        "groupBy": [{"field": "spec.owner"}],
        "aggregates": [COUNT],
    },
    "grouped counts of all, 1,000 groups": {"groupBy": [{"field": "spec.owner"}], "aggregates": [COUNT]},
    "counts by namespace, of all": {"groupBy": [{"field": "metadata.namespace"}], "aggregates": [COUNT]},
    "sums within an owner": {
        "filter": 'object.spec.owner == "owner-5"',
        "aggregates": [COUNT, {"name": "size", "function": "Sum", "field": "spec.size"}],
    },
}  # fmt: skip
QUERIES: Final = "/apis/query.registry/v1/queries"
COLUMNS: Final = (
    "tenant_id, resource, key, uid, revision, version, schema_id, body, created_at, updated_at, index_layout,"
    " index_entries"
)
REFUSED: Final = {"filter": 'object.spec.note == "x"'}


def item(number: int, chance: random.Random) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Item",
        "metadata": {
            "name": f"i{number:08}",
            "namespace": "default",
            "uid": f"00000000-0000-4000-8000-{number:012}",
            "generation": 1,
            "creationTimestamp": f"2026-{1 + number % 12:02}-{1 + number % 28:02}T{number % 24:02}:00:00Z",
        },
        "spec": {
            "size": chance.randrange(1_000_000),
            "owner": f"owner-{chance.randrange(1000)}",
            "name": f"name-{number}",
            "tags": [f"tag-{chance.randrange(5000)}" for _ in range(3)],
            "note": "n" * 300,
        },
    }


def fill(url: str, indexes: Indexes, schema: int, objects: int, tenants: int) -> None:
    """Inserts objects as the server would have written them, at the tenant's current revision."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT t.id, t.domain_id, d.revision FROM tenants t JOIN domains d ON d.id = t.domain_id"
            " WHERE t.name = 'default'"
        ).fetchone()
        assert row is not None
        tenant, _, revision = row
        # A B-tree that is built at once takes a tenth of the time.
        connection.execute("ALTER TABLE index_entries DROP CONSTRAINT index_entries_pkey")
        _fill_tenants(connection, [(tenant, objects)], indexes, schema, revision)
        _fill_tenants(connection, [(10_000_000 + n, 20) for n in range(tenants)], indexes, schema, revision)
        connection.execute(
            "ALTER TABLE index_entries ADD CONSTRAINT index_entries_pkey PRIMARY KEY (tenant_id, entry, key)"
        )
        for number in indexes.numbers:
            connection.execute(
                "INSERT INTO ready_indexes VALUES (%s, %s, %s, 1, %s) ON CONFLICT DO NOTHING",
                (tenant, f"items.{GROUP}", number, revision),
            )
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE objects")
        connection.execute("VACUUM ANALYZE index_entries")


def _fill_tenants(
    connection: psycopg.Connection[Any],
    tenants: Sequence[tuple[int, int]],
    indexes: Indexes,
    schema: int,
    revision: int,
) -> None:
    """`tenants` are ids, each with its number of objects."""
    entries: list[tuple[int, bytes, str]] = []
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY objects ({COLUMNS}) FROM STDIN".encode()) as copy:
            for tenant, count in tenants:
                chance = random.Random(tenant)
                for number in range(count):
                    made = item(number, chance)
                    key, of = f"default/{made['metadata']['name']}", indexes.entries(made)
                    entries += [(tenant, entry, key) for entry in of]
                    copy.write_row(
                        (tenant, f"items.{GROUP}", key, made["metadata"]["uid"], revision, "v1", schema, body_of(made),
                         "2026-11-22", "2026-11-22", indexes.layout, of)
                    )  # fmt: skip
        with cursor.copy("COPY index_entries (tenant_id, entry, key) FROM STDIN") as copy:
            for row in entries:
                copy.write_row(row)


def path_of(parameters: dict[str, str], path: str = ALL_ITEMS) -> str:
    return f"{path}?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())


async def measure(running: server.Server, rounds: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Returns latencies, and the CPU time of a request in the server and in PostgreSQL, which is less sensitive to
    other work."""
    connection = await Connection.open(running.target)
    found = {}
    for name, shape in SHAPES.items():
        path = path_of({**shape, "limit": str(LIMIT)})
        await _times(connection, path, 5)
        before = running.usage()
        found[name] = await _times(connection, path, rounds)
        found[name] |= _used(running, before, rounds)
    token = ""
    times: list[float] = []
    before = running.usage()
    for _ in range(1000):
        began = time.perf_counter()
        page = await connection.json("GET", path_of({"orderBy": "spec.size", "limit": "10", "continue": token}))
        times.append(time.perf_counter() - began)
        token = page["metadata"]["continue"]
    found["page 1,000 of a sorted list"] = _figures(times[-100:]) | _used(running, before, 1000)
    refused: list[float] = []
    before = running.usage()
    for _ in range(rounds):
        began = time.perf_counter()
        status, _ = await connection.request("GET", path_of(REFUSED))
        refused.append(time.perf_counter() - began)
        assert status == 400
    found["without an index: refused"] = _figures(refused) | _used(running, before, rounds)
    for name, asked in GROUPS.items():
        # Queries that read everything are sent less often.
        some = rounds if "filter" in asked else max(rounds // 10, 3)
        spec = {"spec": {"group": GROUP, "resource": "items", **asked}}
        await _times(connection, QUERIES, 2, spec)
        before = running.usage()
        found[name] = await _times(connection, QUERIES, some, spec)
        found[name] |= _used(running, before, some)
    await connection.close()
    return iter(found.items())


async def _times(
    connection: Connection, path: str, rounds: int, body: dict[str, Any] | None = None
) -> dict[str, float]:
    """Returns the latencies of lists, or of queries if there is a body."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        found = await (connection.json("GET", path) if body is None else connection.json("POST", path, body))
        times.append(time.perf_counter() - began)
        assert found["items"] if body is None else found["status"]["rows"], path
    return _figures(times)


def _used(running: server.Server, before: server.Usage, requests: int) -> dict[str, float]:
    used = running.usage().since(before)
    return {
        "server_ms": round(used.server / requests * 1000, 2),
        "postgres_ms": round(used.postgres / requests * 1000, 2),
    }


def _figures(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "p50_ms": round(statistics.median(ordered) * 1000, 2),
        "p99_ms": round(ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)] * 1000, 2),
    }


INDEXES: Final = {"none": "", "one": "spec.size", "three": "spec.size; spec.owner,spec.size; spec.name"}


def measure_writes(rounds: int, writes: int) -> dict[str, dict[str, float]]:
    """Returns the CPU time of a create in microseconds, alternately for kinds with and without indexes."""
    found: dict[str, list[list[float]]] = {name: [] for name in INDEXES}
    with server.folder() as folder, server.running(folder, 1, None) as running:
        for name, index in INDEXES.items():
            asyncio.run(_define(running.target, f"{name}.{GROUP}", index))
        for round_ in range(rounds + 1):
            for name, several in found.items():
                path = ITEMS.replace(GROUP, f"{name}.{GROUP}")
                requests = [
                    ("POST", path, json.dumps(_new(name, round_ * writes + i)).encode(), JSON) for i in range(writes)
                ]
                before = running.usage()
                asyncio.run(spread(running.target, requests, connections=16))
                used = running.usage().since(before)
                if round_:  # the first one warms up
                    several.append([used.server / writes * 1e6, used.postgres / writes * 1e6])
    return {
        name: dict(zip(("server_us", "postgres_us"), map(statistics.median, zip(*several, strict=True)), strict=True))
        for name, several in found.items()
    }


def _new(name: str, number: int) -> dict[str, Any]:
    made = item(number, random.Random(number))
    metadata = {"name": made["metadata"]["name"]}
    return {**made, "apiVersion": f"{name}.{GROUP}/v1", "metadata": metadata}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.query", description=__doc__.partition("\n")[0])
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--tenants", type=int, default=10_000, help="other tenants, with 20 objects each")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--keep", action="store_true", help="write the figures into benchmarks/results")
    parser.add_argument("--writes", action="store_true", help="measure what indexes cost a create")
    given = parser.parse_args()
    if given.writes:
        for name, costs in measure_writes(3, 1000).items():
            print(f"{name:8} server {costs['server_us']:7.0f} us   PostgreSQL {costs['postgres_us']:7.0f} us")
        return
    with server.folder() as folder, server.running(folder, 1, None) as running:
        known = running_url(folder / "postgres")
        assert known is not None
        asyncio.run(_define(running.target))
        definition = compile_definition({**DEFINITION, "metadata": {**DEFINITION["metadata"], "resourceVersion": "1"}})
        indexes = indexes_of(definition)
        assert not indexes.errors, indexes.errors
        began = time.perf_counter()
        fill(known[0], indexes, definition.versions["v1"].schema().identity, given.objects, given.tenants)
        print(f"{given.objects} objects in {time.perf_counter() - began:.0f} s")
        found = dict(asyncio.run(measure(running, given.rounds)))
    for name, row in found.items():
        print(
            f"{name:36} p50 {row['p50_ms']:8.2f} ms   p99 {row['p99_ms']:8.2f} ms"
            f"   CPU: server {row['server_ms']:6.2f} ms, PostgreSQL {row['postgres_ms']:6.2f} ms"
        )
    if given.keep:
        print(f"kept in {keep('query', {'machine': machine(), 'objects': given.objects, **found})}")


async def _define(target: Target, group: str = GROUP, index: str = INDEX) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = json.loads(json.dumps(DEFINITION))
    made["metadata"]["name"] = f"items.{group}"
    made["metadata"]["annotations"]["query.registry/index"] = index
    made["spec"]["group"] = group
    await spread(target, [("POST", path, json.dumps(made).encode(), JSON)])
    await served(target, ITEMS.replace(GROUP, group))


if __name__ == "__main__":
    main()
