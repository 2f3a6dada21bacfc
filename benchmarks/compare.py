"""Compares two commits: `make bench-compare BASE=main~10`, or `python -m benchmarks.compare main~10`.

A server of the commit BASE, from a temporary working tree, and a server of this tree run at the same time, each with
its own PostgreSQL. Both receive the same requests, interleaved in rounds. The CPU time of a request is compared, of
server and PostgreSQL together: other work on the machine affects both. For each row the median and the range of the
ratios of all rounds are printed. A row is reported as slower if its median is above the limit and every round is above
1. Without BASE, the commit in benchmarks/baseline is compared with: CI does that, with `--strict`.

Each kind of request is sent one at a time over one connection, and under load, where concurrent requests share queries
and commits.

Both use the packages of this environment. The exit code does not depend on the figures, except with `--strict`: then
rows of GUARDED that are reported as slower are measured again, in as many rounds, and the code is 1 if one still is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import server
from benchmarks.client import JSON, MERGE_PATCH, spread
from benchmarks.data import thing
from benchmarks.report import keep, machine
from benchmarks.scale import BODY_SIZE, GROUP, OBJECTS, prepare, request_costs

ROOT: Final = Path(__file__).resolve().parent.parent
# The median ratio from which a row is reported as slower.
LIMIT: Final = 1.15
ROUNDS: Final = 5
# Under load.
CONNECTIONS: Final = 16
REQUESTS: Final = 400
# A commit, and why it is compared with.
BASELINE: Final = Path(__file__).with_name("baseline")
# What must not become slower.
GUARDED: Final = (
    "get",
    "create",
    "patch",
    "page of 50",
    "page of 500",
    "a later page of 500",
    "start of a watch",
    "get under load",
    "create under load",
    "patch under load",
    "page of 500 under load",
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The ratios of a row's CPU time to the base's, one for each round."""

    name: str
    ratios: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.ratios)

    def is_slower(self, limit: float = LIMIT) -> bool:
        """Whether the row is slower beyond noise; a single round cannot show that."""
        return len(self.ratios) >= 3 and self.median > limit and min(self.ratios) > 1

    def __str__(self) -> str:
        verdict = "  slower" if self.is_slower() else ""
        return f"{self.name:24} {self.median:6.2f}   {min(self.ratios):.2f} to {max(self.ratios):.2f}{verdict}"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    base = options.base or baseline()
    if not is_here(base):
        print(f"the history of this checkout does not have {base}: make a full clone")
        return 0 if options.base is None else 2
    with contextlib.ExitStack() as stack:
        tree = stack.enter_context(working_tree(base))
        servers = [
            stack.enter_context(server.running(stack.enter_context(server.folder()), 1, None, source=source))
            for source in (tree, ROOT)
        ]
        for one in servers:
            asyncio.run(prepare(one))
        found = compare(servers, range(options.rounds), options.requests)
        _print(base, found)
        slower = slower_rows(found)
        if options.strict and slower:
            print(f"\nagain, because of {', '.join(sorted(slower))}")
            again = compare(servers, range(options.rounds, 2 * options.rounds), options.requests)
            _print(base, again)
            slower &= slower_rows(again)
    kept = {"machine": machine(), "base": base, "ratios": {row.name: row.ratios for row in found}}
    print(f"\nkept in {keep('compare', kept)}")
    if options.strict and slower:
        print(f"slower than {base}: {', '.join(sorted(slower))}")
        return 1
    return 0


def baseline() -> str:
    return BASELINE.read_text("utf-8").split()[0]


def is_here(commit: str) -> bool:
    """Whether this checkout has the commit; one without history has not."""
    found = subprocess.run(["git", "-C", str(ROOT), "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True)
    return found.returncode == 0


def slower_rows(found: Sequence[Comparison]) -> set[str]:
    return {row.name for row in found if row.name in GUARDED and row.is_slower()}


def _print(base: str, found: Sequence[Comparison]) -> None:
    print(f"{'CPU time by that of ' + base:24} median   range of {len(found[0].ratios)} rounds")
    for row in found:
        print(row, flush=True)


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__.partition("\n")[0])
    made.add_argument("base", nargs="?", help="the commit to compare with; that of benchmarks/baseline by default")
    made.add_argument("--rounds", type=int, default=ROUNDS, help="how often each is measured")
    made.add_argument("--requests", type=int, default=REQUESTS, help="requests of each kind in a round")
    made.add_argument("--strict", action="store_true", help="exit code 1 where a row is slower, twice")
    return made


def compare(servers: Sequence[server.Server], rounds: range, requests: int) -> list[Comparison]:
    """Returns the rows of two prepared servers, the base first. No round has the number of an earlier one."""
    ratios: dict[str, list[float]] = {}
    for number in rounds:
        # The servers take turns in going first, so that neither always has the colder caches.
        order = servers if number % 2 == 0 else servers[::-1]
        costs = {id(one): _costs(one, requests, f"round{number}") for one in order}
        base, this = (costs[id(one)] for one in servers)
        for name, cost in base.items():
            if cost:
                ratios.setdefault(name, []).append(this[name] / cost)
    return [Comparison(name, tuple(found)) for name, found in ratios.items()]


def _costs(running: server.Server, requests: int, prefix: str) -> dict[str, float]:
    """Returns the CPU time of each kind of request in µs, of server and PostgreSQL together."""
    alone = asyncio.run(request_costs(running, requests, prefix))
    return {name: cost.cpu for name, cost in alone.items()} | _costs_under_load(running, requests, prefix)


def _costs_under_load(running: server.Server, requests: int, prefix: str) -> dict[str, float]:
    body = json.dumps(thing(GROUP, "NAME", BODY_SIZE))
    names = [f"{prefix}-loaded-{number}" for number in range(requests)]
    kinds = {
        "create": [("POST", OBJECTS, body.replace("NAME", name).encode(), JSON) for name in names],
        "get": [("GET", f"{OBJECTS}/{name}", b"", JSON) for name in names],
        "patch": [("PATCH", f"{OBJECTS}/{name}", b'{"spec":{"minReadySeconds":7}}', MERGE_PATCH) for name in names],
        "page of 500": [("GET", f"{OBJECTS}?limit=500", b"", JSON)] * max(1, requests // 20),
    }
    found = {}
    for kind, sent in kinds.items():
        before = running.usage()
        asyncio.run(spread(running.target, sent, CONNECTIONS))
        used = running.usage().since(before)
        found[f"{kind} under load"] = 1e6 * (used.server + used.postgres) / len(sent)
    return found


@contextlib.contextmanager
def working_tree(commit: str) -> Iterator[Path]:
    """Creates a temporary working tree of a commit."""
    with tempfile.TemporaryDirectory(prefix="registry-base-") as folder:
        tree = Path(folder, "tree")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


if __name__ == "__main__":
    sys.exit(main())
