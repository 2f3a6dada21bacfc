"""`registry query KIND`: lists objects by any field, sorted and counted (docs/query.md), or groups (aggregates.py)."""

from __future__ import annotations

import argparse
import json
from typing import Any, Final
from urllib.parse import urlencode

from registry.cli.aggregates import add_flags, is_aggregate, run_aggregate, spec_of
from registry.cli.api_client import Object
from registry.cli.errors import CommandError
from registry.cli.kubeconfig_client import add_client_flags, open_session
from registry.cli.resource_names import find_resource
from registry.cli.table import cell_text, print_table

_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_PAGE: Final = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Lists objects of a kind by a CEL expression over `object`, in any order (docs/query.md)."
    parser.add_argument("kind", metavar="KIND")
    parser.add_argument("filter", metavar="CEL", nargs="?", help="such as: object.spec.keep > 3 && object.spec.paused")
    parser.add_argument("-w", "--where", metavar="CEL", help="the same as a flag")
    parser.add_argument("--order-by", metavar="FIELDS", help="such as: spec.keep desc,metadata.name; columns of groups")
    parser.add_argument("-l", "--selector", metavar="LABELS", help="label selector")
    parser.add_argument("--limit", type=int, default=_PAGE, help="objects to show (default: %(default)s)")
    parser.add_argument("--offset", type=int, help="skip so many objects first")
    parser.add_argument("--count", action="store_true", help="also say how many objects match")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="of all namespaces")
    parser.add_argument(
        "-o", "--output", choices=["table", "json", "name"], default="table", help="default: %(default)s"
    )
    add_flags(parser)
    add_client_flags(parser)


def run(typed: dict[str, Any]) -> int:
    session = open_session(typed)
    resource = find_resource(session.client, typed["kind"])
    if typed["filter"] and typed["where"]:
        raise CommandError("the filter is given twice")
    typed["where"] = typed["filter"] or typed["where"]
    namespace = "" if typed["all_namespaces"] else session.namespace
    if is_aggregate(typed):
        if typed["output"] == "name" or typed["count"]:
            raise CommandError("groups have neither names nor --count: use --aggregate 'count()'")
        spec = spec_of(typed, resource, namespace, session.client)
        run_aggregate(session.client, spec, as_json=typed["output"] == "json")
        return 0
    path = resource.path(namespace)
    wanted = {
        "filter": typed["where"],
        "orderBy": typed["order_by"],
        "labelSelector": typed["selector"],
        "offset": typed["offset"],
        "count": "exact" if typed["count"] else None,
        "limit": typed["limit"],
    }
    query = urlencode({name: value for name, value in wanted.items() if value is not None})
    as_table = typed["output"] == "table"
    answer = session.client.request("GET", f"{path}?{query}", accept=_TABLE if as_table else "")
    if as_table:
        _print_table(answer, with_namespaces=typed["all_namespaces"] and resource.is_namespaced)
    elif typed["output"] == "json":
        print(json.dumps(answer, indent=2))
    else:
        for item in answer["items"]:
            print(f"{resource.plural}/{item['metadata']['name']}")
    if typed["count"] and typed["output"] != "json":
        count = len(answer["rows" if as_table else "items"])
        print(f"{count + (answer['metadata'].get('remainingItemCount') or 0) + (typed['offset'] or 0)} match")
    return 0


def _print_table(table: Object, *, with_namespaces: bool) -> None:
    """Prints the columns that kubectl shows without -o wide."""
    columns = [i for i, column in enumerate(table["columnDefinitions"]) if not column.get("priority")]
    header = [table["columnDefinitions"][i]["name"].upper() for i in columns]
    rows = [[cell_text(row["cells"][i]) for i in columns] for row in table.get("rows") or ()]
    if with_namespaces:
        header.insert(0, "NAMESPACE")
        for row, cells in zip(table.get("rows") or (), rows, strict=True):
            cells.insert(0, row["object"]["metadata"].get("namespace") or "")
    print_table(header, rows)
