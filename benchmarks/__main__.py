"""Measures a server over HTTP. Prints a table, and writes JSON into benchmarks/results/."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks import server
from benchmarks.measures import QUICK, Bench, Row, Scale
from benchmarks.report import keep, machine, table


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures a server that it starts itself.")
    made.add_argument("--database-url", help="PostgreSQL to use; an embedded one of its own by default")
    made.add_argument("--workers", type=_counts, default=[1, 2], metavar="1,2", help="processes to measure with")
    made.add_argument("--quick", action="store_true", help="little of everything: whether it works, not how fast")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    scale = QUICK if options.quick else Scale()
    kept: dict[str, Any] = {"machine": machine(), "scale": asdict(scale), "workers": {}}
    print(" ".join(f"{name}={value}" for name, value in kept["machine"].items()))
    for workers in options.workers:
        print(f"\n{workers} worker{'s' if workers > 1 else ''}", flush=True)
        rows, memory = _measure(workers, options.database_url, scale)
        print(table(rows))
        for when, megabytes in memory.items():
            print(f"memory {when}: server {megabytes['server']} MB, PostgreSQL {megabytes['postgres']} MB")
        kept["workers"][workers] = {"rows": [row.asdict() for row in rows], "memory_mb": memory}
    kept["machine"]["load_after"] = machine()["load"]
    print(f"\nkept in {keep('quick' if options.quick else 'server', kept)}")
    return 1 if any(row["failed"] for one in kept["workers"].values() for row in one["rows"]) else 0


def _measure(workers: int, database_url: str | None, scale: Scale) -> tuple[list[Row], dict[str, Any]]:
    group = f"b{time.time_ns():x}.example.com"
    rows, memory = [], {}
    with server.folder() as data:
        with server.running(data, workers, database_url) as started:
            rows.append(Row("start on a new data folder", started.started_seconds, "s"))
            memory["before"] = started.memory()
            bench = Bench(started, group, scale)
            for row in bench.run():
                print(f"  {row.name}: {row.value:,.1f} {row.unit}", file=sys.stderr, flush=True)
                rows.append(row)
            memory["after"] = started.memory()
        with server.running(data, workers, database_url) as again:
            rows.insert(1, Row("start on an existing one", again.started_seconds, "s"))
            with contextlib.ExitStack() as stack:
                if database_url:
                    stack.callback(Bench(again, group, scale).clean)
    return rows, memory


def _counts(text: str) -> list[int]:
    counts = [int(part) for part in text.split(",")]
    if not all(0 < count <= 64 for count in counts):
        raise argparse.ArgumentTypeError("numbers of processes, such as 1,2")
    return counts


if __name__ == "__main__":
    sys.exit(main())
