"""Queries of the command line that group and aggregate: from flags to the spec of a Query, from its status to a table.

--group-by metadata.labels['team'] --aggregate 'kept=sum(spec.keep)' --aggregate 'p95(spec.seconds)'
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from registry.cli.api_client import ApiClient, Object
from registry.cli.errors import CommandError
from registry.cli.resource_names import NamedResource, find_resource
from registry.cli.table import cell_text, print_table

QUERIES: Final = "/apis/query.registry/v1/queries"
JOINED: Final = "joined."
# The flags that make it a Query.
FLAGS: Final = ("group_by", "aggregate", "having", "join", "join_owner", "join_filter", "left")

_FUNCTIONS: Final = {
    "count": "Count",
    "count_distinct": "CountDistinct",
    "countdistinct": "CountDistinct",
    "distinct": "CountDistinct",
    "sum": "Sum",
    "avg": "Avg",
    "min": "Min",
    "max": "Max",
}
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_COMMA: Final = re.compile(r",(?![^\[]*\])")
_KEY: Final = re.compile(rf"(?:({_NAME})=)?(.+?)(?::([A-Z][A-Za-z]+))?")
_LAST: Final = re.compile(r"""\[['"]([^'"]*)['"]\]$""")
_AGGREGATE: Final = re.compile(rf"(?:({_NAME})=)?({_NAME}|p[0-9.]+)\((.*?)(?::([A-Z][A-Za-z]+))?\)")
_PERCENTILE: Final = re.compile(r"p([0-9]+(?:\.[0-9]+)?)")


def is_aggregate(typed: dict[str, Any]) -> bool:
    return any(typed[flag] for flag in FLAGS)


def spec_of(typed: dict[str, Any], resource: NamedResource, namespace: str, client: ApiClient) -> Object:
    """Returns the spec for the flags; `namespace` "" means all. Raises CommandError."""
    spec: Object = {
        "group": resource.group,
        "version": resource.version,
        "resource": resource.plural,
        "namespaces": [namespace] if namespace and resource.is_namespaced else None,
        "labelSelector": typed["selector"],
        "filter": typed["where"],
        "groupBy": [_key(part) for text in typed["group_by"] or () for part in _COMMA.split(text)],
        "aggregates": [_aggregate(text) for text in typed["aggregate"] or ()],
        "having": typed["having"],
        "orderBy": typed["order_by"],
        "limit": typed["limit"],
        "offset": typed["offset"],
        "join": _join(typed, client),
    }
    if not spec["groupBy"] and not spec["aggregates"]:
        spec["aggregates"] = [{"name": "count", "function": "Count"}]
    return {name: value for name, value in spec.items() if value not in (None, [], "")}


def run_aggregate(client: ApiClient, spec: Object, *, as_json: bool) -> None:
    answer = client.request("POST", QUERIES, {"apiVersion": "query.registry/v1", "kind": "Query", "spec": spec})
    status = answer["status"]
    if as_json:
        print(json.dumps(status, indent=2))
        return
    names = [column["name"] for column in status["columns"]]
    print_table([name.upper() for name in names], [[cell_text(row[name]) for name in names] for row in status["rows"]])
    left = status["totalRows"] - (spec.get("offset") or 0) - len(status["rows"])
    if left > 0:
        print(f"{left} more rows")


def _key(text: str) -> Object:
    match = _KEY.fullmatch(text.strip())
    if match is None:
        raise CommandError(f'--group-by: "{text}" is not a field, alone or as NAME=FIELD')
    name, field, of_type = match.groups()
    last = _LAST.search(field)
    if name is None and last is not None and last[1]:
        name = re.sub(r"\W", "_", last[1])  # a key of a map, which may have characters that a column may not
    return _without_none({"name": name, **_field(field, of_type)})


def _aggregate(text: str) -> Object:
    match = _AGGREGATE.fullmatch(text.strip())
    if match is None:
        raise CommandError(f'--aggregate: "{text}" is not as in count(), total=sum(spec.size) or p95(spec.seconds)')
    name, function, field, of_type = match.groups()
    percentile = _PERCENTILE.fullmatch(function)
    if percentile is None and function.lower() not in _FUNCTIONS:
        raise CommandError(f'--aggregate: "{function}" is none of {", ".join(_FUNCTIONS)}, p50, p95 ...')
    last = re.findall(_NAME, field)[-1:]
    return _without_none({
        "name": name or re.sub(r"\W", "_", "_".join([function.lower(), *last])),
        "function": "Percentile" if percentile else _FUNCTIONS[function.lower()],
        "percentile": float(percentile[1]) if percentile else None,
        **(_field(field, of_type) if field else {}),
    })  # fmt: skip


def _field(text: str, of_type: str | None) -> Object:
    text = text.strip()
    joined = text.startswith(JOINED)
    return {"field": text.removeprefix(JOINED), "from": "Joined" if joined else None, "type": of_type}


def _join(typed: dict[str, Any], client: ApiClient) -> Object | None:
    if typed["join"] and typed["join_owner"]:
        raise CommandError("--join and --join-owner: a query has one join")
    name = typed["join"] or typed["join_owner"]
    if not name:
        if typed["join_filter"] or typed["left"]:
            raise CommandError("--join-filter and --left belong to --join or --join-owner")
        return None
    other = find_resource(client, name)
    return _without_none({
        "group": other.group or None,
        "version": other.version,
        "resource": other.plural,
        "by": "Reference" if typed["join"] else "Owner",
        "type": "Left" if typed["left"] else None,
        "filter": typed["join_filter"],
    })  # fmt: skip


def _without_none(spec: Object) -> Object:
    return {name: value for name, value in spec.items() if value is not None}


def add_flags(parser: Any) -> None:
    group: Any = parser.add_argument_group("groups and aggregates (docs/aggregates.md)")
    flags: Sequence[tuple[str, str, str]] = (
        ("--group-by", "FIELDS", "fields that make the groups: spec.owner, team=metadata.labels['team']"),
        ("--aggregate", "FUNCTION", "such as count(), total=sum(spec.size), p95(spec.seconds), max(spec.mem:Quantity)"),
    )
    for flag, metavar, text in flags:
        group.add_argument(flag, action="append", metavar=metavar, help=f"{text}; may be repeated")
    group.add_argument("--having", metavar="CEL", help="of row, which has the columns: row.total > 3")
    group.add_argument("--join", metavar="KIND", help="with the objects that a declared reference names: joined.spec.a")
    group.add_argument("--join-owner", metavar="KIND", help="with the owners of that kind")
    group.add_argument("--join-filter", metavar="CEL", help="of object and joined: which belong together")
    group.add_argument("--left", action="store_true", help="objects without another one count, too")
