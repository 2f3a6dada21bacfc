"""`registry deleted KIND`: lists deleted objects that can be restored."""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import quote

from registry.cli.kubeconfig_client import add_client_flags, open_session
from registry.cli.resource_names import find_resource
from registry.cli.table import add_output_flag, print_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Lists deleted objects of a kind, with who deleted them and when (docs/history.md)."
    parser.add_argument("kind", metavar="KIND")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    parser.add_argument("-l", "--selector", metavar="LABELS", help="only those whose labels match")
    add_output_flag(parser)
    add_client_flags(parser)


def run(typed: dict[str, Any]) -> int:
    session = open_session(typed)
    resource = find_resource(session.client, typed["kind"])
    path = resource.path("" if typed["all_namespaces"] else session.namespace)
    selector = f"labelSelector={quote(typed['selector'], safe='')}&" if typed["selector"] else ""
    entries = list(session.client.items(path, f"deleted=true&{selector}"))
    rows = []
    for entry in entries:
        metadata = (entry.get("object") or {}).get("metadata") or entry
        rows.append(
            (
                metadata.get("namespace") or "-",
                metadata.get("name") or "-",
                entry["time"][:19] + "Z",
                entry["user"],
                entry["resourceVersion"],
                entry["uid"],
            )
        )
    print_output(typed, entries, ("NAMESPACE", "NAME", "DELETED", "BY", "REVISION", "UID"), rows)
    return 0
