"""How much SQL reports slow down the API: `python -m benchmarks.analysts`.

API clients get and create objects of a definition with many objects: first alone, then while analysts, each in a
process of its own, run typical reports (benchmarks/reporting.py) in a loop. The two cases alternate, so other work on
the machine affects both. Compare the ratios.

With --writes: the cost of a create with reports, compared with a definition that has `views: "off"`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from benchmarks import server
from benchmarks.client import JSON, Connection, Target, served, spread
from benchmarks.report import keep, machine
from benchmarks.reporting import CRD, QUERIES, VIEW, fill
from registry.postgres.folder import running_url
from registry.reporting.report import documents_of
from registry.store.connection import connect
from registry.store.reporting.logins import LoginSpec, grant

CLIENTS = 4
SECONDS = 3.0
ROUNDS = 3
WRITES = 3000
# A report that is run once a minute rather than all the time, since it reads every object.
SELDOM = "group by a field without index"
APPS = "/apis/bench.example.com/v1/namespaces/default/apps"
_numbers = itertools.count()


@dataclass
class Figures:
    """Requests of one kind per second, and their latencies in milliseconds."""

    rate: float
    p50: float
    p99: float


async def _measure(target: Target, request: Callable[[Connection], Awaitable[int]]) -> Figures:
    times: list[float] = []
    connections = [await Connection.open(target) for _ in range(CLIENTS)]
    until = time.perf_counter() + SECONDS

    async def client(connection: Connection) -> None:
        while (began := time.perf_counter()) < until:
            status = await request(connection)
            assert status < 300, status
            times.append((time.perf_counter() - began) * 1000)
        await connection.close()

    async with asyncio.TaskGroup() as group:
        for connection in connections:
            group.create_task(client(connection))
    return Figures(len(times) / SECONDS, statistics.median(times), statistics.quantiles(times, n=100)[98])


async def _get(connection: Connection) -> int:
    return (await connection.request("GET", f"{APPS}/a{next(_numbers) % 100}"))[0]


async def _create(connection: Connection) -> int:
    body = json.dumps(app(f"n{time.time_ns():x}-{next(_numbers)}")).encode()
    return (await connection.request("POST", APPS, body))[0]


KINDS = {"get": _get, "create": _create}


def app(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "bench.example.com/v1",
        "kind": "App",
        "metadata": {"name": name},
        "spec": {
            "phase": "Running",
            "team": "team-1",
            "image": "registry.example/app:1",
            "replicas": 3,
            "containers": [{"name": "main", "image": "a:1", "cpu": 2}],
        },
    }


async def _prepare(running: server.Server, url: str, objects: int, settings: list[str]) -> str:
    """Creates a definition, objects and a login. Returns the URL of the login."""
    target = running.target
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **CRD}
    crd.pop("status")
    await spread(
        target, [("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json.dumps(crd).encode(), JSON)]
    )
    await served(target, APPS)
    await spread(target, [("POST", APPS, json.dumps(app(f"a{i}")).encode(), JSON) for i in range(100)])
    connection = await connect(url, "bench")
    try:
        row = await (await connection.execute("SELECT id FROM tenants WHERE name = 'default'")).fetchone()
        assert row is not None
        await fill(url, row[0], documents_of(CRD).layout, objects)
        for _ in range(600):
            made = await connection.execute("SELECT 1 FROM report_definitions WHERE state = 'ready' AND facets <> '{}'")
            if await made.fetchone() is not None:
                break
            await asyncio.sleep(0.1)
        password = await grant(connection, LoginSpec("analyst", ("default",), False, connections=100))
        for setting in settings:
            name, _, value = setting.partition("=")
            await connection.execute(f"ALTER ROLE analyst IN DATABASE registry SET {name} = {value}".encode())
    finally:
        await connection.close()
    return url.replace("//registry@", f"//analyst:{password}@")


def _analyst(url: str, number: int) -> None:
    """Runs reports until the process is terminated."""
    queries = [text.format(view=VIEW).encode() for name, text in QUERIES.items() if name != SELDOM]
    with psycopg.connect(url, autocommit=True) as connection:
        print("begun", flush=True)
        for query in itertools.islice(itertools.cycle(queries), number, None):
            connection.execute(query).fetchall()


def _crowded(target: Target, kind: str, analysts: int, login: str) -> Figures:
    command = [sys.executable, "-m", "benchmarks.analysts", "--analyst", login, "--number"]
    crowd = [subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE) for number in range(analysts)]
    try:
        for analyst in crowd:
            assert analyst.stdout is not None
            assert analyst.stdout.readline().strip() == b"begun", "an analyst did not begin"
        return asyncio.run(_measure(target, KINDS[kind]))
    finally:
        for analyst in crowd:
            analyst.kill()
            analyst.wait()


def measure(objects: int, crowds: list[int], settings: list[str]) -> dict[str, dict[str, float]]:
    """Returns, by kind of request and number of analysts, the medians of the rounds and their ratios to those without
    analysts."""
    found = {}
    with server.folder() as folder, server.running(folder, 1, None) as running:
        known = running_url(folder / "postgres")
        assert known is not None
        login = asyncio.run(_prepare(running, known[0], objects, settings))
        for kind in KINDS:
            alone: list[Figures] = []
            crowded: dict[int, list[Figures]] = {crowd: [] for crowd in crowds}
            for _ in range(ROUNDS):
                alone.append(asyncio.run(_measure(running.target, KINDS[kind])))
                for crowd in crowds:
                    crowded[crowd].append(_crowded(running.target, kind, crowd, login))
            quiet = _medians(alone)
            found[f"{kind}, alone"] = {**quiet, "rate_ratio": 1.0, "p50_ratio": 1.0, "p99_ratio": 1.0}
            for crowd in crowds:
                figures = _medians(crowded[crowd])
                found[f"{kind}, {crowd} analysts"] = {
                    **figures,
                    **{f"{name}_ratio": round(figures[name] / quiet[name], 2) for name in quiet},
                }
    return found


def measure_writes() -> dict[str, dict[str, float]]:
    """Returns the CPU time of a create in microseconds, with many concurrent clients, with reports and without."""
    found: dict[str, list[list[float]]] = {"off": [], "on": []}
    with server.folder() as folder, server.running(folder, 1, None) as running:
        asyncio.run(_define_both(running.target))
        for round_ in range(2 * ROUNDS + 1):
            for kind, several in found.items():
                requests = [
                    ("POST", path_of(kind), json.dumps(large(kind, f"n{round_}-{i}")).encode(), JSON)
                    for i in range(WRITES)
                ]
                before, began = running.usage(), time.perf_counter()
                asyncio.run(spread(running.target, requests, connections=32))
                used = running.usage().since(before)
                if round_:  # the first one warms up
                    several.append(
                        [
                            WRITES / (time.perf_counter() - began),
                            used.server / WRITES * 1e6,
                            used.postgres / WRITES * 1e6,
                        ]
                    )
    return {
        kind: dict(
            zip(("rate", "server_us", "postgres_us"), map(statistics.median, zip(*several, strict=True)), strict=True)
        )
        for kind, several in found.items()
    }


async def _define_both(target: Target) -> None:
    for kind in ("off", "on"):
        crd: dict[str, Any] = json.loads(json.dumps(CRD))
        group = f"{kind}.example.com"
        crd["metadata"] = {"name": f"apps.{group}", "annotations": {"reporting.registry/views": kind}}
        crd["spec"]["group"] = group
        crd |= {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        del crd["status"]
        await spread(
            target,
            [("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json.dumps(crd).encode(), JSON)],
        )
        await served(target, path_of(kind))


def path_of(kind: str) -> str:
    return f"/apis/{kind}.example.com/v1/namespaces/default/apps"


def large(kind: str, name: str) -> dict[str, Any]:
    """Returns an object of 2 kB."""
    made = app(name)
    made["apiVersion"] = f"{kind}.example.com/v1"
    made["spec"]["containers"] = [
        {"name": f"c{i}", "image": "registry.example/some/image:1.2.3", "cpu": i} for i in range(30)
    ]
    return made


def _medians(rounds: list[Figures]) -> dict[str, float]:
    return {name: round(statistics.median(getattr(one, name) for one in rounds), 2) for name in ("rate", "p50", "p99")}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.analysts", description=__doc__.partition("\n")[0])
    parser.add_argument("--objects", type=int, default=300_000)
    parser.add_argument("--analysts", default="1,4", help="how many there are at once, such as 1,4")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of their login")
    parser.add_argument("--writes", action="store_true", help="measure what reports cost a write")
    parser.add_argument("--keep", action="store_true", help="write the figures into benchmarks/results")
    parser.add_argument("--analyst", help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.analyst:
        _analyst(given.analyst, given.number)
        return
    if given.writes:
        costs = measure_writes()
        for name in ("rate", "server_us", "postgres_us"):
            off, on = costs["off"][name], costs["on"][name]
            print(f"{name:12} without {off:8.1f}   with {on:8.1f}   {on / off:.2f} times")
        if given.keep:
            print(f"kept in {keep('reported-writes', {'machine': machine(), **costs})}")
        return
    found = measure(given.objects, [int(part) for part in given.analysts.split(",")], given.set)
    print(f"{'':24} {'a second':>10} {'p50 ms':>8} {'p99 ms':>8}   ratios of these")
    for name, row in found.items():
        print(
            f"{name:24} {row['rate']:10.0f} {row['p50']:8.2f} {row['p99']:8.2f}   {row['rate_ratio']:.2f}  "
            f"{row['p50_ratio']:.2f}  {row['p99_ratio']:.2f}"
        )
    if given.keep:
        print(f"kept in {keep('analysts', {'machine': machine(), 'set': given.set, **found})}")


if __name__ == "__main__":
    main()
