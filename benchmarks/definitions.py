"""The time until new definitions are served: `python -m benchmarks.definitions [--count 300] [--existing 0]`.

Definitions of 100 fields are posted over 8 connections to a tenant that may already have some. Prints the time until
the last is posted and until the last is served, and the CPU time of a definition in the server and in PostgreSQL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence

from benchmarks import server
from benchmarks.client import JSON, served, spread
from benchmarks.data import definition
from benchmarks.measures import Row
from benchmarks.report import keep, machine, table

GROUP = "many.example.com"
PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    rows = []
    with server.folder() as data, server.running(data, options.workers, None) as started:
        if options.existing:
            asyncio.run(_define(started, "old", options.existing, options.fields))
        for number in range(options.rounds):
            rows.extend(asyncio.run(_define(started, f"round{number}", options.count, options.fields)))
    print(table(rows))
    print(f"\nkept in {keep('definitions', {'machine': machine(), 'rows': [row.asdict() for row in rows]})}")
    return 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.definitions", description="Measures new definitions.")
    made.add_argument("--count", type=int, default=300, help="definitions that are created and waited for")
    made.add_argument("--fields", type=int, default=100, help="fields of each")
    made.add_argument("--existing", type=int, default=0, help="definitions that the tenant has before")
    made.add_argument("--rounds", type=int, default=1, help="how often so many are created")
    made.add_argument("--workers", type=int, default=1, help="processes of the server")
    return made


async def _define(started: server.Server, name: str, count: int, fields: int) -> list[Row]:
    """Creates `count` definitions, ten in each group, and waits until all are served."""
    groups = [f"{name}-{n // 10}.{GROUP}" for n in range(count)]
    made = [definition(group, f"{name}kind{n}s", fields=fields) for n, group in enumerate(groups)]
    before, began = started.usage(), time.monotonic()
    await spread(started.target, [("POST", PATH, json.dumps(one).encode(), JSON) for one in made])
    posted = time.monotonic() - began
    paths = (f"/apis/{one['spec']['group']}/v1/{one['spec']['names']['plural']}?limit=1" for one in made)
    await served(started.target, *paths, patience_seconds=600.0)
    took = time.monotonic() - began
    used = started.usage().since(before)
    return [
        Row(f"{name}: {count} definitions of {fields} fields posted", posted, "s"),
        Row(
            f"{name}: {count} definitions of {fields} fields served",
            took,
            "s",
            server_cpu=1e6 * used.server / count,
            postgres_cpu=1e6 * used.postgres / count,
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
