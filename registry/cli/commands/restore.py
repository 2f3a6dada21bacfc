"""`registry restore KIND NAME --to REVISION`: returns an object to an earlier state."""

from __future__ import annotations

import argparse
from typing import Any

from registry.cli.kubeconfig_client import add_client_flags, open_session
from registry.cli.resource_names import add_target, find_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Restores labels, annotations and everything outside metadata from an earlier state, as an update that is "
        "validated and admitted like any other (docs/history.md)."
    )
    add_target(parser)
    parser.add_argument("--to", metavar="REVISION", required=True, help="the state, as `registry history` lists them")
    parser.add_argument("--dry-run", action="store_true", help="change nothing; say whether it would work")
    add_client_flags(parser)


def run(typed: dict[str, Any]) -> int:
    session = open_session(typed)
    resource, name = find_target(session, typed["target"])
    path = resource.path(session.namespace, name, "restore") + ("?dryRun=All" if typed["dry_run"] else "")
    restored = session.client.request("POST", path, {"resourceVersion": typed["to"]})
    revision = "dry run" if typed["dry_run"] else f"now at {restored['metadata']['resourceVersion']}"
    print(f"{resource.plural} {name} restored from {typed['to']} ({revision})")
    return 0
