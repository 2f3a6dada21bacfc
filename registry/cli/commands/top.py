"""`registry top`: shows which tenants are busy, across all processes of the server."""

from __future__ import annotations

import argparse
from typing import Any, Final

from registry.cli.api_client import Object
from registry.cli.commands.usage import TENANTS, explaining_rights
from registry.cli.kubeconfig_client import add_client_flags, open_session
from registry.cli.table import add_output_flag, print_output

_FIGURES: Final = ("requestsPerMinute", "writesPerMinute", "watches")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Lists the busiest tenants: requests and writes of the last minute, and open watches, in all processes of all "
        "servers of the database. It needs rights in `system`."
    )
    parser.add_argument("--limit", type=int, default=20, help="tenants to show (default: %(default)s)")
    add_output_flag(parser)
    add_client_flags(parser)


def run(typed: dict[str, Any]) -> int:
    session = open_session(typed)
    with explaining_rights():
        tenants = list(session.platform.items(TENANTS, "usage=true&"))
    busiest = sorted(tenants, key=_busyness, reverse=True)[: max(0, typed["limit"])]
    figures = [{"name": one["name"], **one["activity"]} for one in busiest]
    rows = [(one["name"], *(str(one[figure]) for figure in _FIGURES)) for one in figures]
    print_output(typed, figures, ("NAME", "REQUESTS/MIN", "WRITES/MIN", "WATCHES"), rows)
    return 0


def _busyness(one: Object) -> tuple[int, ...]:
    return tuple(one["activity"][figure] for figure in _FIGURES)
