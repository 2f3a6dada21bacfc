"""`registry export KIND...`: writes manifests that `kubectl apply` can create elsewhere, and shows the progress."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TextIO
from urllib.parse import quote

from registry.cli.api_client import Object
from registry.cli.commands.history import LAST_APPLIED
from registry.cli.errors import CommandError, describe
from registry.cli.kubeconfig_client import Session, add_client_flags, open_session
from registry.cli.resource_names import NamedResource, find_resource

# Fields that a server assigns. Owner references contain uids, which differ elsewhere: the garbage collector would
# delete objects that still have them.
_ASSIGNED: Final = frozenset(
    {"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
     "managedFields", "ownerReferences", "selfLink"}
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Writes objects as YAML that `kubectl apply -f` creates elsewhere: without status, owners, and what a server "
        "assigns. Definitions come before their objects if they are named first."
    )
    parser.add_argument("kind", nargs="+", metavar="KIND")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    parser.add_argument("-l", "--selector", metavar="LABELS", help="only those whose labels match")
    parser.add_argument("--to", type=Path, metavar="FILE", help="a file for you alone (default: standard output)")
    add_client_flags(parser)


def run(typed: dict[str, Any]) -> int:
    session = open_session(typed)
    resources = [find_resource(session.client, kind) for kind in typed["kind"]]
    namespace = "" if typed["all_namespaces"] else session.namespace
    selector = f"labelSelector={quote(typed['selector'], safe='')}&" if typed["selector"] else ""
    try:
        with _opened(typed["to"]) as out:
            for resource in resources:
                _export(session, resource, namespace, selector, out)
    except OSError as problem:
        if isinstance(problem, BrokenPipeError):
            raise
        raise CommandError(describe(problem, of=typed["to"] or "standard output")) from problem
    return 0


@contextlib.contextmanager
def _opened(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    # The objects may include Secrets.
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        yield file


def _export(session: Session, resource: NamedResource, namespace: str, selector: str, out: TextIO) -> None:
    from registry.cli.progress import ProgressBar
    from registry.codec.yaml_encode import encode_yaml

    done = 0
    with ProgressBar(f"{resource.plural} exported") as progress:
        for page in session.client.pages(resource.path(namespace), selector):
            for item in page["items"]:
                out.write("---\n" + encode_yaml(_manifest(item, page)).decode())
            done += len(page["items"])
            # Without a count, as with selectors, the last page is the one without a next page.
            left = page["metadata"].get("remainingItemCount")
            is_last = not page["metadata"].get("continue")
            progress.show(done, done + (left or 0) if left is not None or is_last else None)


def _manifest(item: Object, page: Object) -> Object:
    metadata = {key: value for key, value in item["metadata"].items() if key not in _ASSIGNED}
    annotations = {
        key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != LAST_APPLIED
    }
    if annotations:
        metadata["annotations"] = annotations
    head = {
        "apiVersion": item.get("apiVersion") or page["apiVersion"],
        "kind": item.get("kind") or page["kind"].removesuffix("List"),
        "metadata": metadata,
    }
    return head | {key: value for key, value in item.items() if key not in (*head, "status")}
