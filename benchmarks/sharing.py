"""The cost of a definition that many tenants have bound: `python -m benchmarks.sharing`.

Prints the memory before and after a request to each tenant, the time of an upgrade of the definition, the first request
of a tenant after it compared with later ones, and a list over all tenants.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from typing import Any

from benchmarks import server
from benchmarks.client import JSON, Connection, Target, served, spread
from benchmarks.report import keep, machine

TENANTS = 1_000
SAMPLES = 100
GROUP = "bench.example.com"
NAME = f"widgets.{GROUP}"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
SYSTEM = "/clusters/system/apis/tenancy.registry/v1/tenants"
PROVIDER = "/clusters/provider"
DEFINITIONS = f"{PROVIDER}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

_Request = tuple[str, str, bytes, str]


def _definition(maximum: int) -> dict[str, Any]:
    fields = {f"field{n}": {"type": "string", "maxLength": 100} for n in range(100)}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": maximum}, **fields}}
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _post(path: str, kind: str, name: str, spec: dict[str, Any], api: str) -> _Request:
    body = {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}
    return "POST", path, json.dumps(body).encode(), JSON


def _tenant(name: str) -> _Request:
    return _post(SYSTEM, "Tenant", name, {"domain": "bench"}, "tenancy.registry/v1")


def _binding(number: int) -> _Request:
    return _post(
        f"/clusters/t{number}/apis/apis.registry/v1/apibindings",
        "APIBinding",
        "b",
        {"reference": {"tenant": "provider", "export": "e"}},
        "apis.registry/v1",
    )


def _widget(number: int) -> _Request:
    return _post(f"/clusters/t{number}{WIDGETS}", "Widget", "w", {"size": 1}, f"{GROUP}/v1")


async def _prepare(target: Target, tenants: int) -> None:
    await spread(target, [_tenant("provider"), *(_tenant(f"t{n}") for n in range(tenants))])
    connection = await Connection.open(target)
    await connection.json("POST", DEFINITIONS, _definition(10))
    await asyncio.sleep(1)
    await connection.request(
        *_post(
            f"{PROVIDER}/apis/apis.registry/v1/apiexports",
            "APIExport",
            "e",
            {"definitions": [NAME], "tenants": {"all": True}},
            "apis.registry/v1",
        )
    )
    await connection.close()


async def _bind(target: Target, tenants: int) -> float:
    """Returns the seconds until all tenants have bound the definition."""
    began = time.perf_counter()
    await spread(target, [_binding(n) for n in range(tenants)])
    for number in range(tenants):
        await served(target, f"/clusters/t{number}{WIDGETS}")
    return time.perf_counter() - began


async def _timed(connection: Connection, method: str, path: str, body: Any = None) -> float:
    began = time.perf_counter()
    await connection.json(method, path, body)
    return (time.perf_counter() - began) * 1000


async def _upgrade(target: Target, samples: int) -> dict[str, float]:
    connection = await Connection.open(target)
    stored = await connection.json("GET", f"{DEFINITIONS}/{NAME}")
    stored["spec"] = _definition(20)["spec"]
    upgrade = await _timed(connection, "PUT", f"{DEFINITIONS}/{NAME}", stored)
    first = [await _timed(connection, "GET", f"/clusters/t{n}{WIDGETS}/w") for n in range(samples)]
    usual = [await _timed(connection, "GET", f"/clusters/t{n}{WIDGETS}/w") for n in range(samples)]
    across = [await _timed(connection, "GET", f"/clusters/*.bench/apis/{GROUP}/v1/widgets") for _ in range(2)]
    await connection.close()
    return {
        "upgrade_ms": upgrade,
        "first_of_all_ms": first[0],
        "first_ms": statistics.median(first),
        "usual_ms": statistics.median(usual),
        "first_list_across_ms": across[0],
        "list_across_ms": across[1],
    }


def measure(tenants: int) -> dict[str, Any]:
    with server.folder() as data:
        with server.running(data, 1, None) as running:
            asyncio.run(_prepare(running.target, tenants))
            asyncio.run(
                spread(
                    running.target,
                    [("GET", f"/clusters/t{n}/api/v1/namespaces/default", b"", JSON) for n in range(tenants)],
                )
            )
            bound = asyncio.run(_bind(running.target, tenants))
            asyncio.run(spread(running.target, [_widget(n) for n in range(tenants)]))
        # In a new process: the memory of what it has read, not of what it has done.
        with server.running(data, 1, None) as running:
            asyncio.run(spread(running.target, [("GET", f"/clusters/t0{WIDGETS}/w", b"", JSON)]))
            before = running.memory()["server"]
            asyncio.run(
                spread(running.target, [("GET", f"/clusters/t{n}{WIDGETS}/w", b"", JSON) for n in range(tenants)])
            )
            after = running.memory()["server"]
            figures = asyncio.run(_upgrade(running.target, min(SAMPLES, tenants)))
    return {
        "tenants": tenants,
        "bind_all_s": round(bound, 1),
        "memory_one_mb": before,
        "memory_all_mb": after,
        **{name: round(value, 2) for name, value in figures.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sharing", description=__doc__.partition("\n")[0])
    parser.add_argument("--tenants", type=int, default=TENANTS)
    parser.add_argument("--keep", action="store_true", help="write the figures into benchmarks/results")
    given = parser.parse_args()
    found = measure(given.tenants)
    print("\n".join(f"{name:20} {value}" for name, value in found.items()))
    if given.keep:
        print(f"kept in {keep('sharing', {'machine': machine(), **found})}")


if __name__ == "__main__":
    main()
