"""`registry history KIND NAME`: shows what happened to an object, newest first."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from registry.cli.api_client import Object
from registry.cli.kubeconfig_client import Session, add_client_flags, open_session
from registry.cli.resource_names import NamedResource, add_target, find_target
from registry.cli.table import add_output_flag, print_output

_PAGE: Final = 50
# Fields that are listed in a row; the rest is counted.
_MAX_FIELDS: Final = 4
# Fields that every update changes are uninteresting, and so is kubectl's own copy of the object.
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_SILENT: Final = frozenset({"metadata.generation", f"metadata.annotations.{LAST_APPLIED}"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Prints when an object changed, who changed it, by what, and which fields. Newest first."
    add_target(parser)
    parser.add_argument("--limit", type=int, default=_PAGE, help="changes to show (default: %(default)s)")
    add_output_flag(parser)
    add_client_flags(parser)


def run(typed: dict[str, Any]) -> int:
    session = open_session(typed)
    resource, name = find_target(session, typed["target"])
    entries = list(changes(session, resource, name, max(1, typed["limit"])))
    rows = [
        (
            entry["time"][:19] + "Z",
            entry["resourceVersion"],
            entry["operation"],
            entry["user"],
            f"{entry['fieldManager']} ({entry['verb']})",
            changed_fields(entry),
        )
        for entry in entries
    ]
    print_output(typed, entries, ("WHEN", "REVISION", "OPERATION", "USER", "BY", "FIELDS"), rows)
    return 0


def changes(session: Session, resource: NamedResource, name: str, limit: int) -> Iterator[Object]:
    """Yields the newest `limit` entries of the history."""
    path, following = resource.path(session.namespace, name, "history"), ""
    while limit > 0:
        page = session.client.request("GET", f"{path}?limit={min(limit, _PAGE)}{following}")
        yield from page["items"]
        limit -= len(page["items"])
        if not page["metadata"].get("continue"):
            return
        following = f"&continue={page['metadata']['continue']}"


def changed_fields(entry: Object) -> str:
    """Summarizes an update's merge patch as 'spec.image, -spec.suspend, +2 more'; a minus marks removed fields."""
    if entry["operation"] != "Update":
        return str(entry.get("message") or "-")
    fields = [field for field in _fields(entry.get("diff") or {}, "") if field.lstrip("-") not in _SILENT]
    fields.sort(key=lambda field: field.lstrip("-"))
    more = len(fields) - _MAX_FIELDS
    return ", ".join(fields[:_MAX_FIELDS]) + (f", +{more} more" if more > 0 else "") or "-"


def _fields(patch: Any, path: str) -> Iterator[str]:
    for name, value in patch.items():
        inner = f"{path}.{name}" if path else name
        if isinstance(value, dict) and value:
            yield from _fields(value, inner)
        else:
            yield f"-{inner}" if value is None else inner
