"""`python -m tests.faults --rounds 1000 --seed 1`: a campaign of faults, and what it found. Exit code 1 for a violation,
a request without an answer or a watch that stands still.

SIGINT or SIGTERM ends it after the fault under way; what was done until then is checked.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from pathlib import Path

from tests.faults import campaign
from tests.faults.defects import DEFECTS, NONE, module_of
from tests.faults.disturbances import COMPACTING, DISTURBANCES, OF_WORKERS, REPLICATED


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, help="number of faults")
    parser.add_argument("--seconds", type=float, help="time for faults, in place of their number")
    parser.add_argument("--seed", type=int, default=1, help="of all that is at random (default: 1)")
    parser.add_argument("--servers", type=int, default=2, help="number of servers (default: 2)")
    parser.add_argument("--workers", type=int, default=1, help="of each server (default: 1)")
    parser.add_argument(
        "--replication", choices=["asynchronous", "synchronous"], default="", help="with a standby, and failovers to it"
    )
    parser.add_argument("--defect", choices=sorted(DEFECTS), help="serve with this defect, which must be found")
    named = {one.__name__: one for one in (*DISTURBANCES, *COMPACTING, *OF_WORKERS, *REPLICATED)}
    parser.add_argument("--only", choices=sorted(named), nargs="+", help="these faults and no others")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep the servers' logs there")
    options = parser.parse_args()
    if options.rounds is None and options.seconds is None:
        options.seconds = 60.0
    plan = campaign.Plan(
        options.seed,
        options.rounds,
        options.seconds,
        options.servers,
        options.workers,
        0,
        module_of(options.defect or NONE),
        options.replication,
        [named[name] for name in options.only or ()],
        logs=options.logs,
    )
    begun = time.monotonic()
    report = asyncio.run(_run(plan))
    print("\n".join(report.lines()))
    print(f"seed {options.seed}, {time.monotonic() - begun:.0f} s")
    return 1 if report.violations or report.hung or report.late else 0


async def _run(plan: campaign.Plan) -> campaign.Report:
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, plan.ended.set)
    return await campaign.run(plan)


if __name__ == "__main__":
    sys.exit(main())
