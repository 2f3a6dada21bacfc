"""`registry undelete KIND NAME`: recreates a deleted object as it was."""

from __future__ import annotations

import argparse
from typing import Any

from registry.cli.kubeconfig_client import add_client_flags, open_session
from registry.cli.resource_names import add_target, find_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Creates a deleted object again from its last state, with a new uid. `registry deleted KIND` lists those that "
        "can be brought back (docs/history.md)."
    )
    add_target(parser)
    parser.add_argument("--at", metavar="REVISION", help="an earlier state instead of the last one")
    parser.add_argument("--dry-run", action="store_true", help="change nothing; say whether it would work")
    add_client_flags(parser)


def run(typed: dict[str, Any]) -> int:
    session = open_session(typed)
    resource, name = find_target(session, typed["target"])
    path = resource.path(session.namespace, name, "undelete") + ("?dryRun=All" if typed["dry_run"] else "")
    session.client.request("POST", path, {"resourceVersion": typed["at"]} if typed["at"] else {})
    print(f"{resource.plural} {name} undeleted" + (" (dry run)" if typed["dry_run"] else ""))
    return 0
