"""Compares the cost of a state in a history view with a row of the current view: `python -m benchmarks.history`.

Objects of 2 kB are created and patched over the API, so they have managed fields. Then their changes are spread over
eleven partitions of the log, as after a week. Each query runs on both views. Prints
PostgreSQL's CPU time for a row in µs, and the ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import psutil
import psycopg

from benchmarks import log, server
from benchmarks.client import JSON, MERGE_PATCH, spread
from benchmarks.data import PLURAL, thing
from benchmarks.report import keep, machine
from benchmarks.scale import GROUP, OBJECTS, prepare
from registry.postgres.folder import running_url

BODY_SIZE: Final = 2_000
VIEW: Final = f"{PLURAL}_{GROUP.replace('.', '_')}"
WAIT_SECONDS: Final = 60.0

QUESTIONS: Final = {
    "count": "count(*)",
    "one column": "count(spec_replicas)",
    "five columns": "count(spec_replicas), count(spec_description), count(spec_owner_team), count(spec_note),"
    " count(status_phase)",
    "all columns": "count(t)",
}
QUESTIONS_OF_STATES: Final = {"who and when": "count(user_name), max(valid_from)", "until when": "max(valid_to)"}


def main(arguments: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(prog="python -m benchmarks.history", description=__doc__.partition("\n")[0])
    made.add_argument("--objects", type=int, default=1_000)
    made.add_argument("--states", type=int, nargs="+", default=[1, 4], help="states of each object")
    made.add_argument("--seconds", type=float, default=0.5, help="CPU time of PostgreSQL for each figure")
    made.add_argument("--plans", action="store_true")
    options = made.parse_args(arguments)
    kept: dict[str, Any] = {"machine": machine(), "states": {}}
    with server.folder() as data, server.running(data, 1, None) as running:
        asyncio.run(prepare(running))
        asyncio.run(_send(running, [_create(number) for number in range(options.objects)]))
        found = running_url(data / "postgres")
        assert found is not None
        at = 1
        for states in options.states:
            for state in range(at, states):
                asyncio.run(_send(running, [_patch(number, state) for number in range(options.objects)]))
            at = states
            with psycopg.connect(found[0], autocommit=True) as owner:
                _spread_over_partitions(owner)
            kept["states"][states] = _measure(found[0], options.seconds, options.plans)
    print(f"\nkept in {keep('history', kept)}")
    return 0


def _create(number: int) -> tuple[str, str, bytes, str]:
    return "POST", OBJECTS, json.dumps(thing(GROUP, f"object-{number}", BODY_SIZE)).encode(), JSON


def _patch(number: int, state: int) -> tuple[str, str, bytes, str]:
    return "PATCH", f"{OBJECTS}/object-{number}", b'{"spec":{"minReadySeconds":%d}}' % state, MERGE_PATCH


async def _send(running: server.Server, requests: list[tuple[str, str, bytes, str]]) -> None:
    await spread(running.target, requests)


def _spread_over_partitions(owner: psycopg.Connection[Any]) -> None:
    """Moves the changes into the past, the oldest first."""
    with log.replaced(owner):
        owner.execute(
            "UPDATE logged l SET at = now() - 7.5 * %s * (1 - r.rank) FROM"
            " (SELECT revision, percent_rank() OVER (ORDER BY revision) AS rank FROM logged) r"
            " WHERE r.revision = l.revision",
            [log.WIDTH],
        )
    owner.execute("VACUUM ANALYZE changes, objects")


def _measure(url: str, seconds: float, plans: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with psycopg.connect(
        url, autocommit=True, options="-c registry.tenant=default -c search_path=reports"
    ) as connection:
        until = time.monotonic() + WAIT_SECONDS
        while not connection.execute("SELECT to_regclass(%s)", [f"{VIEW}_history"]).fetchall()[0][0]:
            if time.monotonic() > until:
                raise SystemExit("the views were not made")
            time.sleep(0.1)
        rows, states = (
            connection.execute(f"SELECT count(*) FROM {view}".encode()).fetchall()[0][0]
            for view in (VIEW, f"{VIEW}_history")
        )
        print(f"\n{rows:,} objects, {states:,} states: µs of CPU for a row, for a state, ratio", flush=True)
        for name, columns in (QUESTIONS | QUESTIONS_OF_STATES).items():
            row = 0.0
            if name in QUESTIONS:
                row = _cpu(connection, f"SELECT {columns} FROM {VIEW} t", seconds) / rows
            state = _cpu(connection, f"SELECT {columns} FROM {VIEW}_history t", seconds) / states
            found[name] = [row, state]
            ratio = f"{row:8.1f} {state:8.1f} {state / row:6.1f}" if row else f"{'':8} {state:8.1f}"
            print(f"  {name:14} {ratio}", flush=True)
            if plans:
                explained = f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT {columns} FROM {VIEW}_history t"
                for (line,) in connection.execute(explained.encode()):
                    print("      ", line)
    return found


def _cpu(connection: psycopg.Connection[Any], query: str, seconds: float) -> float:
    """Returns the CPU time of the connection's backend for a query in µs; its clock ticks every 10 ms."""
    process = psutil.Process(connection.info.backend_pid)

    def used() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    connection.execute(query.encode())
    began, rounds = used(), 0
    while used() - began < seconds:
        connection.execute(query.encode())
        rounds += 1
    return 1e6 * (used() - began) / rounds


if __name__ == "__main__":
    sys.exit(main())
