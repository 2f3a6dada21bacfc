"""`registry diff KIND NAME`: what changed between two revisions of an object."""

from __future__ import annotations

import argparse
import difflib
from typing import Any
from urllib.parse import quote

import yaml

from registry.cli.api_client import Object
from registry.cli.commands.history import LAST_APPLIED, changes
from registry.cli.errors import CommandError
from registry.cli.kubeconfig_client import Session, add_client_flags, open_session
from registry.cli.resource_names import NamedResource, add_target, find_target
from registry.cli.table import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Prints the difference between two states of an object, as `diff -u` does. The exit code is 1 if they differ."
    )
    add_target(parser)
    parser.add_argument(
        "--from", dest="old", metavar="REVISION", help="the older state (default: that before the last change)"
    )
    parser.add_argument("--to", dest="new", metavar="REVISION", help="the newer state (default: the present one)")
    parser.add_argument(
        "--show-managed-fields", action="store_true", help="with metadata.managedFields and kubectl's last-applied copy"
    )
    add_client_flags(parser)


def run(typed: dict[str, Any]) -> int:
    session = open_session(typed)
    resource, name = find_target(session, typed["target"])
    old, new = typed["old"] or _previous(session, resource, name), typed["new"]
    with_owners = typed["show_managed_fields"]
    before = state(session, resource, name, old)
    after = state(session, resource, name, new)
    lines = list(
        difflib.unified_diff(
            _lines(before, with_owners=with_owners),
            _lines(after, with_owners=with_owners),
            f"{resource.plural}/{name} at {old}",
            f"{resource.plural}/{name} at {new or 'present'}",
            lineterm="",
        )
    )
    for line in lines:
        print(printable(line))
    return 1 if lines else 0


def state(session: Session, resource: NamedResource, name: str, revision: str | None) -> Object:
    """Returns the object at a revision of the tenant; None means the current one."""
    query = f"?atResourceVersion={quote(revision, safe='')}" if revision else ""
    return session.client.request("GET", resource.path(session.namespace, name) + query)


def _previous(session: Session, resource: NamedResource, name: str) -> str:
    newest = list(changes(session, resource, name, 1))
    if not newest or "previousResourceVersion" not in newest[0]:
        raise CommandError(f"{resource.plural} {name} has not changed within what is kept: name --from")
    return str(newest[0]["previousResourceVersion"])


def _lines(obj: Object, *, with_owners: bool) -> list[str]:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    if not with_owners:
        metadata.pop("managedFields", None)
        annotations = metadata.pop("annotations", None) or {}
        others = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
        metadata |= {"annotations": others} if others else {}
    text: str = yaml.safe_dump({**obj, "metadata": metadata}, sort_keys=False, allow_unicode=True, width=1 << 20)
    return text.splitlines()
