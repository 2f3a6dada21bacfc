"""The CPU time and memory of schemas and of many definitions.

    python -m benchmarks.schemas [--definitions 5000] [--tenants 1000]

Within the process: the CPU time to process and to apply an object of 3 kB, and the memory of equal schemas in many
tenants. Then, over HTTP, a server whose tenant has thousands of definitions of 20 kB with different schemas: its start,
the first request to the tenant, discovery, and memory. Aims: 60 µs to process an object and 250 µs to apply one; for
5,000 definitions less than 150 MB and 3 s, and nothing of it at the start.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import sys
import time
import timeit
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from benchmarks import server
from benchmarks.client import JSON, Connection, Failed, served
from benchmarks.data import definition, thing
from benchmarks.measures import Row
from benchmarks.report import keep, machine, table
from registry.apply.managed_fields import FieldManager
from registry.codec.yaml_decode import decode_yaml
from registry.definitions.compiled import compile_definition
from registry.definitions.decode import canonical, decode_definition
from registry.postgres.folder import running_url
from registry.schema.compiled import compile_schema
from registry.schema.model import from_json

GROUP = "schemas.example.com"
PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# That many fields with their descriptions make 20 kB.
FIELDS = 165
TEMPLATE = "kind0s"

# Clones of a definition, in its key and wherever it names itself; its first field is named so that no two schemas are
# equal.
_CLONE = """
    INSERT INTO objects (tenant_id, resource, key, uid, revision, version, schema_id, body, created_at, updated_at)
    SELECT tenant_id, resource, replace(key, 'kind0', 'kind' || n), uid || n, revision, version, schema_id,
        replace(replace(replace(body, 'kind0', 'kind' || n), 'Kind0', 'Kind' || n), 'field0', 'only' || n),
        created_at, updated_at
    FROM objects, generate_series(1, %(count)s) AS n
    WHERE resource = 'customresourcedefinitions.apiextensions.k8s.io' AND key = %(key)s
"""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    rows = [_object(), *_applied(), *_shared(options.tenants), *_many(options.definitions)]
    print(table(rows))
    print(f"\nkept in {keep('schemas', {'machine': machine(), 'rows': [row.asdict() for row in rows]})}")
    return 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.schemas", description="Measures schemas and definitions.")
    made.add_argument("--definitions", type=int, default=5_000, help="definitions of one tenant")
    made.add_argument("--tenants", type=int, default=1_000, help="tenants with equal definitions")
    return made


# From inside.


def _object() -> Row:
    """Measures pruning, defaulting and validation of a valid object, without copying it."""
    schema = compile_schema(definition(GROUP)["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    given = thing(GROUP, "one", 3_000)
    schema.prepare()

    count = 2_000
    seconds = []
    for _ in range(5):
        copies = [copy.deepcopy(given) for _ in range(count)]
        began = time.process_time()
        for obj in copies:
            schema.process(obj, [])
            errors = schema.validate(obj)
        seconds.append(time.process_time() - began)
        assert not errors
    return Row("object of 3 kB: pruned, defaulted, validated", 1e6 * min(seconds) / count, "µs")


def _applied() -> list[Row]:
    """Measures server-side apply of the object with one changed field: decoding the configuration, and merging it."""
    api_version = f"{GROUP}/v1"
    raw = definition(GROUP)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    structural = from_json(raw)
    manager = FieldManager("Thing", {api_version: lambda: structural}, status_versions=[api_version])
    given = thing(GROUP, "one", 3_000)
    live = manager.apply(None, given, "bench", api_version, "2026-01-01T00:00:00Z")
    compile_schema(raw).process(live, [])
    sent = json.dumps({**given, "spec": {**given["spec"], "replicas": 7}}).encode()
    applied = decode_yaml(sent).value
    return [
        Row("apply of 3 kB: read", _microseconds(lambda: decode_yaml(sent)), "µs"),
        Row(
            "apply of 3 kB: merged", _microseconds(lambda: manager.apply(live, applied, "bench", api_version, "")), "µs"
        ),
    ]


def _microseconds(action: Callable[[], object]) -> float:
    return 1000 * min(timeit.repeat(action, timer=time.process_time, number=1000, repeat=5))


def _shared(tenants: int) -> list[Row]:
    """Measures the kB of a definition if all tenants have an equal one, and if each has a different one."""
    return [
        Row("definition of 20 kB, of each of many tenants, all equal", _kilobytes(tenants, equal=True), "kB"),
        Row("the same, no two schemas equal", _kilobytes(tenants, equal=False), "kB"),
    ]


def _kilobytes(count: int, *, equal: bool) -> float:
    stored = json.dumps(canonical(decode_definition(definition(GROUP, TEMPLATE, fields=FIELDS)).value))
    texts = [stored if equal else stored.replace("field0", f"only{n}") for n in range(count)]
    tracemalloc.start()
    kept = [compile_definition(json.loads(text)) for text in texts]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / len(kept) / 1000


# A server with many definitions.


def clone_definitions(connection: psycopg.Connection[Any], key: str, count: int) -> None:
    """Copies a definition until there are `count`; a running server does not notice."""
    connection.execute(_CLONE, {"count": count - 1, "key": key})


def _many(count: int) -> list[Row]:
    with server.folder() as data:
        with server.running(data, 1, None) as started:
            asyncio.run(_define(started))
            found = running_url(data / "postgres")
            assert found is not None
            with psycopg.connect(found[0]) as connection:
                clone_definitions(connection, f"{TEMPLATE}.{GROUP}", count)
        with server.running(data, 1, None) as started:
            return [
                Row(f"start with {count:,} definitions stored", started.started_seconds, "s"),
                *asyncio.run(_touch(started, count)),
            ]


async def _define(started: server.Server) -> None:
    """Creates the definition that is copied, and waits until it is established."""
    connection = await Connection.open(started.target)
    made = definition(GROUP, TEMPLATE, fields=FIELDS)
    status, answer = await connection.request("POST", PATH, json.dumps(made).encode(), JSON)
    if status != 201:
        raise Failed(f"{status} {answer[:300]!r}")
    await connection.close()
    await served(started.target, f"/apis/{GROUP}/v1/{TEMPLATE}")


async def _touch(started: server.Server, count: int) -> list[Row]:
    connection = await Connection.open(started.target)
    before = sum(started.memory()["server"])
    last = f"/apis/{GROUP}/v1/namespaces/default/kind{count - 1}s"

    async def time_request(name: str, path: str, unit: str = "ms") -> Row:
        used, began = started.usage(), time.monotonic()
        status, answer = await connection.request("GET", path)
        took = time.monotonic() - began
        if status != 200:
            raise Failed(f"{path}: {status} {answer[:300]!r}")
        cpu = started.usage().since(used)
        return Row(
            name,
            took * (1 if unit == "s" else 1000),
            unit,
            server_cpu=1e6 * cpu.server,
            postgres_cpu=1e6 * cpu.postgres,
        )

    rows = [
        await time_request("first request of the tenant", last, "s"),
        Row("memory that the definitions take", sum(started.memory()["server"]) - before, "MB"),
        await time_request("list of one resource", last),
        await time_request(
            "list of another resource, its first", f"/apis/{GROUP}/v1/namespaces/default/kind{count // 2}s"
        ),
        await time_request("discovery of all groups", "/apis"),
        await time_request("discovery of the group", f"/apis/{GROUP}/v1"),
        await time_request("the same again", f"/apis/{GROUP}/v1"),
        await time_request("index of OpenAPI", "/openapi/v3"),
        Row("memory of the server in the end", sum(started.memory()["server"]), "MB"),
    ]
    await connection.close()
    return rows


if __name__ == "__main__":
    sys.exit(main())
