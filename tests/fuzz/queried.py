"""Plans of what stands beside lists: filters, orders, counts, full text, Queries, statistics, dependents, aggregation.

Filters and objects are those of the property tests of queries; indexes, references and searched fields are declared, so
that each way of the planner is taken: by an index, by a scan within its budget, refused.
"""

from __future__ import annotations

import random
from typing import Any, Final
from urllib.parse import quote

from tests.fuzz.calls import PREFIX
from tests.fuzz.sources import CRDS, Plan, step_of
from tests.query.generated import DECLARED, SCHEMA, objects, term

Json = Any
_CRDS: Final = CRDS.removeprefix(PREFIX)
_QUERIES: Final = "/apis/query.registry/v1/queries"
_SERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
_FIELDS: Final = (
    "spec.size", "spec.ratio", "spec.name", "spec.flag", "spec.seen", "spec.age", "spec.port", "spec.tags",
    "spec.tags[*]", "spec.owner", "spec.owner.name", "metadata.name", "metadata.namespace", "metadata.uid",
    "metadata.labels['a']", "metadata.creationTimestamp", "metadata.annotations", "status", "spec", "a", "",
    "spec.name desc, spec.size", "spec..name", "spec.name asc desc", ",",
)  # fmt: skip
_ODD_FILTERS: Final = (
    "object.search('a b* -c')", "object.search('\"a b\" or c')", "object.search('')", "object.search(object.spec.name)",
    "object", "object.spec", "object.metadata.labels['a'] == 'b'", "object.metadata.managedFields.size() > 0",
    "object.spec.name.matches('(a*)*$')", "object.spec.tags.map(t, t + t).exists(t, t == 'aa')", "now", "object.spec.nope",
    "object.spec.size / 0 == 1", "[object].all(o, o.spec.size > 0)", "row.n > 1", "joined.spec.name == 'a'",
    "object.spec.name == 'a' ? object.spec.flag : object.spec.size > 1", "(" * 60 + "true" + ")" * 60,
    " || ".join(f"object.spec.size == {n}" for n in range(150)), "true", "false", "dyn(object).spec.size > 'a'",
    "object.metadata.ownerReferences.exists(o, o.uid == object.metadata.uid)", "object.spec.size in [" + "1," * 300 + "1]",
)  # fmt: skip
_LABELS: Final = (
    "query.registry/order-by=spec.size_desc", "query.registry/order-by in (spec.size, metadata.name)",
    "query.registry/offset=1,query.registry/count=exact", "query.registry/name-contains=w,a=b",
    "query.registry/since=2026-01-01,query.registry/before=2026-11-22T10:00:00Z", "query.registry/since=x",
    "!query.registry/count", "query.registry/nope=1", "query.registry/limit=1", "query.registry/offset in (1,2)",
)  # fmt: skip
_ROWS: Final = (
    "row.n > 1",
    "has(row.name) && row.n < 3",
    "row.s > 0.5",
    "row",
    "row.nope == 1",
    "object.spec.size > 1",
)
_FUNCTIONS: Final = ("Count", "CountDistinct", "Sum", "Avg", "Min", "Max", "Percentile", "Median")


def queried(rng: random.Random, number: int) -> Plan:
    group = "${group}"
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"widgets.{group}",
            "annotations": {
                "query.registry/index": DECLARED,
                "query.registry/search": "spec.name; spec.tags[*]",
                "query.registry/references": f"spec.owner.name -> widgets.{group}; spec.tags[*] -> configmaps",
                "query.registry/fields": "*",
            },
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
        },
    }
    base = f"/apis/{group}/v1/namespaces/default/widgets"
    steps = [
        step_of("POST", base, {**one, "apiVersion": f"{group}/v1", "metadata": {"name": one["metadata"]["name"]}})
        for one in objects(rng)[:8]
    ]
    for _ in range(6):
        steps += [_listing(rng, base), _listing(rng, base), _query(rng, group)]
    steps += [
        _aggregated(),
        step_of("GET", "/apis/nope.example.com/v1/things"),
        step_of("GET", f"{_SERVICES}/v1.nope.example.com"),
        step_of("GET", f"{base}?statistics=true&conditions=true&sinceSeconds=60&buckets=3"),
        step_of("GET", f"{base}/w00?dependents=true"),
        step_of("DELETE", f"{base}?filter=object.spec.flag"),
        step_of("GET", f"{base}?deleted=true&orderBy=spec.size&count=exact"),
        step_of("PUT", f"{_CRDS}/widgets.{group}", definition),
    ]
    setup, others = [step_of("POST", _CRDS, definition), *steps[:3]], steps[3:]
    return Plan(f"queried {number}", setup, others)


def _listing(rng: random.Random, base: str) -> dict[str, Json]:
    pairs = []
    if rng.random() < 0.8:
        pairs.append(("filter", term(rng) if rng.random() < 0.7 else rng.choice(_ODD_FILTERS)))
    if rng.random() < 0.5:
        pairs.append(("orderBy", rng.choice(_FIELDS) + rng.choice(("", " desc"))))
    if rng.random() < 0.3:
        pairs.append(("labelSelector", rng.choice(_LABELS)))
    if rng.random() < 0.3:
        pairs.append(("fieldSelector", f"{rng.choice(_FIELDS)}={rng.choice(('1', 'a', '', 'true'))}"))
    for name, values in (("limit", ("1", "2")), ("offset", ("1", "99999")), ("count", ("exact", "estimated", "x")),
                         ("watch", ("true",)), ("deleted", ("true",))):  # fmt: skip
        if rng.random() < 0.25:
            pairs.append((name, rng.choice(values)))
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs)
    made = step_of("GET", f"{base}?{query}")
    if rng.random() < 0.3:
        kept = rng.choice(
            ("keep=spec.size+metadata.labels", "keep=" + "+".join(_FIELDS[:12]), "drop=metadata", "keep=", "drop=spec")
        )
        made["request"]["headers"] = {"Accept": f"application/json;{kept}"}
    return made


def _query(rng: random.Random, group: str) -> dict[str, Json]:
    spec: dict[str, Json] = {
        "group": rng.choice((group, group, group, "")),
        "resource": rng.choice(("widgets", "widgets", "widgets", "configmaps", "secrets")),
        "groupBy": [_read(rng) for _ in range(rng.randrange(3))],
        "aggregates": [{"name": "n", "function": "Count"}]
        + [
            {
                "name": name,
                "function": rng.choice(_FUNCTIONS),
                "percentile": rng.choice((50, 0, 100, 101)),
                **_read(rng),
            }
            for name in ("s", "t")[: rng.randrange(3)]
        ],
    }
    if rng.random() < 0.5:
        spec["filter"] = term(rng)
    if rng.random() < 0.4:
        spec["having"] = rng.choice(_ROWS)
    if rng.random() < 0.4:
        spec["orderBy"] = rng.choice(("n", "n desc,s", "nope", "name"))
    if rng.random() < 0.4:
        spec["join"] = {
            "group": rng.choice((group, "")),
            "resource": rng.choice(("widgets", "configmaps")),
            "by": rng.choice(("Reference", "Owner", "Nope")),
            "type": rng.choice(("Inner", "Left")),
            "filter": rng.choice(("joined.spec.size > 0", "joined.metadata.name != ''", "object.spec.size > 0")),
        }
    if rng.random() < 0.3:
        spec["namespaces"] = rng.choice((["default"], ["default", "nope"], [""], ["*"]))
    return step_of("POST", _QUERIES, {"apiVersion": "query.registry/v1", "kind": "Query", "spec": spec})


def _read(rng: random.Random) -> dict[str, Json]:
    read = {"field": rng.choice(_FIELDS)}
    if rng.random() < 0.2:
        read["type"] = rng.choice(("Quantity", "Duration", "Timestamp", "Number", "x"))
    if rng.random() < 0.2:
        read |= {"from": "Joined", "name": "j"}
    return read


def _aggregated() -> dict[str, Json]:
    """A backend that nobody is: requests of its group are answered without it."""
    service = {"name": "nope", "namespace": "default", "port": 443}
    spec = {
        "group": "nope.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
        "insecureSkipTLSVerify": True, "service": service,
    }  # fmt: skip
    body = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.nope.example.com"},
        "spec": spec,
    }
    return step_of("POST", _SERVICES, body)
