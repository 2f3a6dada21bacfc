"""`registry migrate-storage KIND`: rewrites the objects of a kind at its storage version, and shows the progress."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Final

from registry.cli.api_client import ApiClient, Object
from registry.cli.errors import CommandError
from registry.cli.kubeconfig_client import add_client_flags, open_session
from registry.cli.resource_names import find_resource

_MIGRATIONS: Final = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
# The annotation with done and total objects, written by the storage migration controller.
_PROGRESS: Final = "storagemigration.registry/progress"
_POLL_SECONDS: Final = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Creates a StorageVersionMigration, waits until it has ended, and shows its progress. The server continues "
        "when this command is interrupted (docs/versions.md)."
    )
    parser.add_argument("kind", metavar="KIND")
    parser.add_argument("--no-wait", dest="wait", action="store_false", help="start it, and return")
    add_client_flags(parser)


def run(typed: dict[str, Any]) -> int:
    session = open_session(typed)
    resource = find_resource(session.client, typed["kind"])
    wanted = {
        "apiVersion": "storagemigration.k8s.io/v1beta1",
        "kind": "StorageVersionMigration",
        "metadata": {"generateName": f"{resource.plural}-"},
        "spec": {"resource": {"group": resource.group, "resource": resource.plural}},
    }
    name = session.client.request("POST", _MIGRATIONS, wanted)["metadata"]["name"]
    if not typed["wait"]:
        print(f"storageversionmigration {name} created")
        return 0
    try:
        _wait(session.client, name)
    except KeyboardInterrupt:
        print(f"It continues on the server: kubectl get storageversionmigration {name} -o yaml", file=sys.stderr)
        raise
    print(f"{resource.plural}: all objects are stored at the storage version")
    return 0


def _wait(client: ApiClient, name: str) -> None:
    """Waits until the migration has succeeded. Raises CommandError."""
    from registry.cli.progress import ProgressBar

    with ProgressBar("objects rewritten") as progress:
        while True:
            migration = client.request("GET", f"{_MIGRATIONS}/{name}")
            done, total = _counts(migration)
            conditions = {one["type"]: one for one in (migration.get("status") or {}).get("conditions") or ()}
            if _is_true(conditions, "Failed"):
                raise CommandError(conditions["Failed"]["message"])
            has_ended = _is_true(conditions, "Succeeded")
            if total:
                progress.show(total if has_ended else done, total)
            if has_ended:
                return
            time.sleep(_POLL_SECONDS)


def _counts(migration: Object) -> tuple[int, int]:
    """Returns done and total objects, (1200, 40000); (0, 0) before the first report."""
    text = (migration["metadata"].get("annotations") or {}).get(_PROGRESS) or "0/0"
    done, _, total = str(text).partition("/")
    return (int(done), int(total)) if done.isdecimal() and total.isdecimal() else (0, 0)


def _is_true(conditions: dict[str, Object], kind: str) -> bool:
    return bool(conditions.get(kind, {}).get("status") == "True")
