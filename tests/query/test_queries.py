"""Queries over HTTP: groups of objects with and without an index, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from registry.api.query import answering, listing, reading, records
from registry.query import aggregation
from registry.store.reads import grouped
from tests.api.client import TABLE, Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, NAMESPACES, WIDGETS, define, definition, make
from tests.application import shares_application
from tests.query.lists import INDEX, NAME, answers_by, declare, fill
from tests.query.questions import QUERIES, WIDGETS_OF, ask, counts, post, rows_of, widgets_in
from tests.tenancy.tenants import make as make_tenant

pytestmark = shares_application


COUNT = {"name": "n", "function": "Count"}
SIZE = {"field": "spec.size"}

# What is asked, the rows, and whether the indexes of INDEX, or the keys, answer alone.
CASES: dict[str, tuple[dict[str, Any], list[list[Any]], bool]] = {
    "count": ({"aggregates": [COUNT]}, [[6]], True),
    "count of a field": ({"aggregates": [{**COUNT, **SIZE}]}, [[5]], True),
    "by color": ({"groupBy": [{"field": "spec.color"}], "aggregates": [COUNT]},
                 [["blue", 2], ["grün", 1], ["red", 3]], True),
    "by namespace": ({"groupBy": [{"field": "metadata.namespace", "name": "ns"}], "aggregates": [COUNT]},
                     [["default", 6]], True),
    "distinct values": ({"groupBy": [SIZE]}, [[1], [2], [3], [10], [None]], True),
    "by two fields": (
        {"groupBy": [{"field": "spec.color"}, SIZE], "aggregates": [COUNT]},
        [["blue", 1, 1], ["blue", 10, 1], ["grün", 3, 1], ["red", 2, 1], ["red", 3, 1], ["red", None, 1]], True),
    "every function": (
        {"groupBy": [{"field": "spec.color", "name": "color"}],
         "aggregates": [{"name": f.lower(), "function": f, **SIZE, **({"percentile": 50} if f == "Percentile" else {})}
                        for f in ("Count", "CountDistinct", "Sum", "Avg", "Min", "Max", "Percentile")]},
        [["blue", 2, 2, 11, 5.5, 1, 10, 1], ["grün", 1, 1, 3, 3.0, 3, 3, 3], ["red", 2, 2, 5, 2.5, 2, 3, 2]], True),
    "of none": ({"filter": "object.spec.size > 100",
                 "aggregates": [COUNT, {"name": "s", "function": "Sum", **SIZE}, {"name": "m", "function": "Max", **SIZE}]},
                [[0, None, None]], True),
    "no groups of none": ({"filter": "object.spec.size > 100", "groupBy": [SIZE]}, [], True),
    "a filter by the index": ({"filter": 'object.spec.color == "red" && object.spec.size > 2', "aggregates": [COUNT]},
                              [[1]], True),
    "a filter by what the index does not begin with": (
        {"filter": "object.spec.size >= 3", "groupBy": [{"field": "spec.color"}], "aggregates": [COUNT]},
        [["blue", 1], ["grün", 1], ["red", 1]], True),
    "a filter that is evaluated": (
        {"filter": "object.spec.size + 1 > 3", "groupBy": [{"field": "spec.color"}], "aggregates": [COUNT]},
        [["blue", 1], ["grün", 1], ["red", 1]], False),
    "by a label": ({"groupBy": [{"field": "metadata.labels['team']"}], "aggregates": [COUNT]}, [["a", 3], ["b", 3]], False),
    "of a label": ({"labelSelector": "team=a", "groupBy": [{"field": "spec.color"}], "aggregates": [COUNT]},
                   [["grün", 1], ["red", 2]], False),
    "array elements select": ({"filter": '"x" in object.spec.parts', "aggregates": [COUNT]}, [[2]], False),
    "having": ({"groupBy": [{"field": "spec.color"}], "aggregates": [COUNT, {"name": "total", "function": "Sum", **SIZE}],
                "having": "row.n > 1 && row.total > 10"}, [["blue", 2, 11]], True),
    "having an absent value": ({"groupBy": [SIZE], "aggregates": [COUNT], "having": "!has(row.size)"}, [[None, 1]], True),
    "ordered": ({"groupBy": [{"field": "spec.color"}], "aggregates": [COUNT], "orderBy": "n desc"},
                [["red", 3], ["blue", 2], ["grün", 1]], True),
    "ordered, absent last": ({"groupBy": [SIZE], "orderBy": "size desc"}, [[10], [3], [2], [1], [None]], True),
    "a page": ({"groupBy": [SIZE], "orderBy": "size", "offset": 1, "limit": 2}, [[2], [3]], True),
    "numbers": ({"aggregates": [{"name": "s", "function": "Sum", **SIZE, "type": "Number"},
                                {"name": "q", "function": "Sum", **SIZE, "type": "Quantity"}]}, [[19.0, "19"]], True),
    "times": ({"aggregates": [{"name": "d", "function": "Count", "field": "metadata.creationTimestamp"}]}, [[6]], False),
}  # fmt: skip


@pytest.mark.parametrize("indexed", [False, True], ids=["objects", "entries"])
async def test_the_same_with_an_index_and_without(api: Client, indexed: bool) -> None:
    await fill(api)
    if indexed:
        await declare(api, INDEX)
    for case, (spec, expected, is_covered) in CASES.items():
        before = answers_by("entries")
        status = await ask(api, widgets_in("default", **spec))
        assert (rows_of(status), case) == (expected, case)
        if indexed:
            assert (answers_by("entries") > before, case) == (is_covered, case)
        if "limit" not in spec:
            assert status["totalRows"] == len(expected)


async def test_the_answer_names_its_revision_and_its_columns(api: Client) -> None:
    await fill(api)
    made = (await post(api, widgets_in(groupBy=[{"field": "spec.color"}], aggregates=[COUNT]))).ok(201)
    now = (await api.get(WIDGETS)).ok()["metadata"]["resourceVersion"]
    assert (made["apiVersion"], made["kind"]) == ("query.registry/v1", "Query")
    assert made["spec"]["groupBy"] == [{"field": "spec.color"}]
    assert made["status"]["resourceVersion"] == now
    assert made["status"]["columns"] == [{"name": "color", "type": "string"}, {"name": "n", "type": "integer"}]
    assert made["status"]["rows"][0] == {"color": "blue", "n": 2}
    yaml = await api.post(QUERIES, {"spec": widgets_in(aggregates=[COUNT])}, accept="application/yaml")
    assert "totalRows: 1" in yaml.text
    assert (await api.post(QUERIES, {"spec": widgets_in(aggregates=[COUNT])}, accept=TABLE)).ok(201)["kind"] == "Table"


async def test_a_query_is_in_discovery_and_openapi_and_can_only_be_created(api: Client) -> None:
    found = (await api.get("/apis/query.registry/v1")).ok()["resources"]
    assert [(one["name"], one["kind"], one["namespaced"], one["verbs"]) for one in found] == [
        ("queries", "Query", False, ["create"])
    ]
    document = (await api.get("/openapi/v3/apis/query.registry/v1")).ok()
    schema = next(one for name, one in document["components"]["schemas"].items() if name.endswith(".Query"))
    assert "status" in schema["properties"]
    assert "nothing is stored" in schema["description"]
    assert '"a reference that the definition declares' in str(document).replace("Reference: a", '"a')
    failure(await api.get(QUERIES), 405, "MethodNotAllowed")
    failure(await api.get(f"{QUERIES}/a"), 404, "NotFound")


async def test_namespaces_are_read_together_at_one_revision(api: Client) -> None:
    await fill(api)
    for name in ("one", "two"):
        (await api.post(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).ok(201)
        await make(api, f"of-{name}", path=WIDGETS.replace("default", name), size=7)
    by_namespace = {"groupBy": [{"field": "metadata.namespace", "name": "ns"}], "aggregates": [COUNT]}
    by_size = {"filter": "object.spec.size == 7", **by_namespace}
    for index in ("", INDEX):
        if index:
            await declare(api, index)
        for spec, default in ((by_namespace, [["default", 6]]), (by_size, [])):
            assert rows_of(await ask(api, widgets_in(**spec))) == [*default, ["one", 1], ["two", 1]]
            assert rows_of(await ask(api, widgets_in("one", "default", **spec))) == [*default, ["one", 1]]
            assert rows_of(await ask(api, widgets_in("two", "nowhere", **spec))) == [["two", 1]]
    narrowed = widgets_in("one", "two", filter='object.metadata.namespace in ["two", "default"]', aggregates=[COUNT])
    assert rows_of(await ask(api, narrowed)) == [[1]]


QUANTITIES = {
    "type": "object",
    "properties": {
        "memory": {"x-kubernetes-int-or-string": True},
        "cpu": {"type": "string"},
        "timeout": {"type": "string", "format": "duration"},
        "seen": {"type": "string", "format": "date-time"},
        "ratio": {"type": "number"},
        "big": {"type": "integer", "format": "int64"},
        "blob": {"type": "string", "format": "byte"},
    },
}


@pytest.mark.parametrize("indexed", [False, True], ids=["objects", "entries"])
async def test_quantities_durations_and_times_are_computed_as_such(api: Client, indexed: bool) -> None:
    made = definition("machines", "Machine", schema={"type": "object", "properties": {"spec": QUANTITIES}})
    if indexed:
        index = "; ".join(f"spec.{name}" for name in QUANTITIES["properties"])
        made["metadata"]["annotations"] = {"query.registry/index": index}
    await define(api, made)
    path = "/apis/test.example.com/v1/namespaces/default/machines"
    for number, spec in enumerate(
        (
            {
                "memory": "1Gi",
                "cpu": "500m",
                "timeout": "1h",
                "seen": "2026-11-22T12:00:00+01:00",
                "ratio": 0.1,
                "big": 1 << 62,
            },
            {
                "memory": "1024Mi",
                "cpu": "1.5",
                "timeout": "30m",
                "seen": "2026-11-22T10:30:00Z",
                "ratio": 0.2,
                "blob": "AA==",
            },
            {"memory": 1024, "cpu": "much", "timeout": "90s", "ratio": 0.3, "big": (1 << 63) - 1},
            {},
        )
    ):
        body = {
            "apiVersion": "test.example.com/v1",
            "kind": "Machine",
            "metadata": {"name": f"m{number}"},
            "spec": spec,
        }
        (await api.post(path, body)).ok(201)

    async def value(function: str, field: str, wanted: str = "") -> Any:
        one = {"name": "v", "function": function, "field": f"spec.{field}", **({"type": wanted} if wanted else {})}
        query = {"group": "test.example.com", "resource": "machines", "aggregates": [one]}
        return rows_of(await ask(api, query))[0][0]

    assert await value("Sum", "memory", "Quantity") == "2097153Ki"
    assert await value("CountDistinct", "memory", "Quantity") == 2
    assert await value("CountDistinct", "memory") == 3
    assert await value("Max", "memory", "Quantity") == "1Gi"
    assert await value("Avg", "cpu", "Quantity") == "1"
    assert await value("Count", "cpu", "Quantity") == 2
    assert await value("Sum", "timeout") == "1h31m30s"
    assert await value("Avg", "timeout") == "30m30s"
    assert await value("Max", "timeout") == "1h0m0s"
    assert await value("Max", "seen") == "2026-11-22T11:00:00Z"
    assert await value("Sum", "ratio") == 0.6
    assert await value("Min", "blob") == "AA=="
    assert float(await value("Sum", "big", "Number")) == float((1 << 62) + (1 << 63) - 1)
    query = {"group": "test.example.com", "resource": "machines",
             "aggregates": [{"name": "v", "function": "Sum", "field": "spec.big"}]}  # fmt: skip
    status = failure(await post(api, query), 400, "BadRequest")
    assert status["message"] == '"v" does not fit into 64 bits: read the field as a Number'


# What is asked, the field that is named, and the text.
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "nothing": ({}, "spec", "at least one of groupBy and aggregates must be given"),
    "no resource": ({"resource": "nosuch", "aggregates": [COUNT]}, "spec.resource", 'no resource "nosuch.test.example.com"'),
    "no version": ({"version": "v9", "aggregates": [COUNT]}, "spec.resource", 'at version "v9"'),
    "no field": ({"groupBy": [{"field": "spec.sise"}]}, "spec.groupBy[0].field", "the schema has no such field"),
    "no scalar": ({"groupBy": [{"field": "spec.free"}]}, "spec.groupBy[0].field", "is not a scalar field"),
    "an array": ({"groupBy": [{"field": "spec.parts[*]"}]}, "spec.groupBy[0].field", "has many values"),
    "no path": ({"groupBy": [{"field": "spec.size; DROP TABLE objects"}]}, "spec.groupBy[0].field", "is not a path"),
    "no function": ({"aggregates": [{"name": "n", "function": "Mode"}]}, "spec.aggregates[0].function", "Unsupported value"),
    "no sum": ({"aggregates": [{"name": "n", "function": "Sum", "field": "spec.color"}]}, "spec.aggregates[0].function",
               "is of type string, of which there is no Sum"),
    "no field of a sum": ({"aggregates": [{"name": "n", "function": "Sum"}]}, "spec.aggregates[0]", "needs a field"),
    "no percentile": ({"aggregates": [{"name": "n", "function": "Percentile", **SIZE}]}, "spec.aggregates[0]", "percentile"),
    "too high a percentile": ({"aggregates": [{"name": "n", "function": "Percentile", **SIZE, "percentile": 101}]},
                              "spec.aggregates[0].percentile", "less than or equal to 100"),
    "a name": ({"aggregates": [{"name": "n'; --", "function": "Count"}]}, "spec.aggregates[0].name", "should match"),
    "a name twice": ({"groupBy": [{**SIZE, "name": "n"}], "aggregates": [COUNT]}, "spec.aggregates[0].name", "Duplicate value"),
    "no name": ({"groupBy": [{"field": "metadata.labels['a/b']"}]}, "spec.groupBy[0].name", "cannot be the name of a column"),
    "a type": ({"groupBy": [{"field": "spec.size", "type": "Duration"}]}, "spec.groupBy[0].field", "cannot be read as Duration"),
    "a filter": ({"filter": "object.spec.sise > 1", "aggregates": [COUNT]}, "spec.filter", "undefined field 'sise'"),
    "a filter's type": ({"filter": "object.spec.size", "aggregates": [COUNT]}, "spec.filter", "must evaluate to bool"),
    "labels": ({"labelSelector": "a in", "aggregates": [COUNT]}, "spec.labelSelector", ""),
    "having": ({"having": "row.m > 1", "aggregates": [COUNT]}, "spec.having", "undefined field 'm'"),
    "having of objects": ({"having": "object.spec.size > 1", "aggregates": [COUNT]}, "spec.having", "undeclared reference"),
    "an order": ({"orderBy": "m desc", "aggregates": [COUNT]}, "spec.orderBy", '"m" is not a column; these are n'),
    "an order's text": ({"orderBy": "n; SELECT 1", "aggregates": [COUNT]}, "spec.orderBy", "is not a column"),
    "an order twice": ({"orderBy": "n,n desc", "aggregates": [COUNT]}, "spec.orderBy", "named twice"),
    "a limit": ({"limit": 100_000, "aggregates": [COUNT]}, "spec.limit", "less than or equal to 5000"),
    "joined without a join": ({"groupBy": [{**SIZE, "from": "Joined"}]}, "spec.groupBy[0].from", "no join"),
    "no reference": ({"aggregates": [COUNT], "join": {"resource": "configmaps", "by": "Reference"}}, "spec.join.reference",
                     "must declare one such reference to configmaps"),
    "a review": ({"group": "authorization.k8s.io", "resource": "subjectaccessreviews", "aggregates": [COUNT]},
                 "spec.resource", "it cannot be listed"),
    "namespaces of what has none": ({"group": "", "resource": "namespaces", "namespaces": ["default"], "aggregates": [COUNT]},
                                    "spec.namespaces", "has no namespaces"),
}  # fmt: skip


async def test_invalid_queries(api: Client) -> None:
    await fill(api)
    for case, (spec, field, text) in WRONG.items():
        status = failure(await post(api, {**WIDGETS_OF, **spec}), 422, "Invalid")
        causes = status["details"]["causes"]
        assert any(one["field"] == field and text in one["message"] for one in causes), (case, causes)
        assert (status["details"]["kind"], case) == ("Query", case)


async def test_unknown_fields_are_refused_with_strict_validation(api: Client) -> None:
    spec = widgets_in(aggregates=[COUNT], groupby=[SIZE])
    status = failure(await api.post(f"{QUERIES}?fieldValidation=Strict", {"spec": spec}), 400, "BadRequest")
    assert 'unknown field "spec.groupby"' in status["message"]
    assert (await api.post(QUERIES, {"spec": spec})).warnings == ['unknown field "spec.groupby"']


INJECTIONS = [
    "'; DROP TABLE objects; --",
    "a' OR '1'='1",
    "%s %(tenant)s",
    "\u0000",
    "\U0001f600",
    "a/b",
    "\\",
    '"',
    "0",
]


async def test_values_of_clients_are_never_part_of_sql(api: Client) -> None:
    await fill(api)
    for index in ("", INDEX):
        if index:
            await declare(api, index)
        for text in INJECTIONS:
            assert rows_of(await ask(api, widgets_in(text, aggregates=[COUNT]))) == [[0]]
            by_size = widgets_in(text, groupBy=[SIZE], aggregates=[COUNT], filter="object.spec.size >= 0")
            assert rows_of(await ask(api, by_size)) == []
            quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\u0000", "\\u0000")
            of_color = widgets_in(filter=f'object.spec.color == "{quoted}"', aggregates=[COUNT])
            assert rows_of(await ask(api, of_color)) == [[0]]
            (await post(api, {"resource": text, "aggregates": [COUNT]})).text.encode()
            failure(await post(api, {"resource": text, "aggregates": [COUNT]}), 422, "Invalid")
    assert len((await api.get(WIDGETS)).ok()["items"]) == 6


async def test_an_expensive_query_is_refused_with_the_index_to_declare(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(api)
    for module in (reading, records, listing):
        monkeypatch.setattr(module, "MAX_EXAMINED", 4)
    spec = widgets_in(
        filter="object.spec.size > 0",
        groupBy=[{"field": "spec.color"}],
        aggregates=[{**COUNT, "field": "spec.replicas"}],
    )
    before = answers_by("none")
    status = failure(await post(api, spec), 400, "BadRequest")
    assert status["message"] == (
        "the query would look into more than 4 objects: declare an index in the definition, with the annotation"
        ' query.registry/index: "spec.size,spec.color,spec.replicas"'
    )
    assert answers_by("none") == before + 1
    for other in ({"labelSelector": "!x"}, {"filter": "object.spec.size + 1 > 0"}):
        status = failure(await post(api, widgets_in(**other, aggregates=[{**COUNT, **SIZE}])), 400, "BadRequest")
        assert "the query would look into more than 4 objects" in status["message"]
    await declare(api, "spec.size,spec.color,spec.replicas")
    assert rows_of(await ask(api, spec)) == [["blue", 0], ["grün", 0], ["red", 0]]
    assert counts(await ask(api, widgets_in("default", aggregates=[COUNT]))) == 6, "the keys are counted"


async def test_objects_of_several_namespaces_count_together(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{number}" for number in range(4)]
    for name in names:
        (await api.post(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).ok(201)
        await make(api, "a", "b", path=WIDGETS.replace("default", name))
    for module in (reading, records, listing):
        monkeypatch.setattr(module, "MAX_EXAMINED", 4)
    spec = {"groupBy": [{"field": "spec.size"}], "filter": "object.spec.size != 3"}
    assert (await post(api, widgets_in(*names[:2], **spec))).code == 201
    failure(await post(api, widgets_in(*names[:3], **spec)), 400, "BadRequest")


LIMITS: dict[str, tuple[Any, str, float, str]] = {
    "groups": (aggregation, "MAX_GROUPS", 2, "the answer would have more than 2 groups"),
    "held values": (aggregation, "MAX_HELD", 2, "would hold more than 2 values"),
    "answer": (answering, "MAX_ANSWER", 30, "more than 30 characters"),
    "time": (answering, "MAX_SECONDS", -1.0, "costs more than it may"),
}


@pytest.mark.parametrize("case", LIMITS)
async def test_answers_are_bounded(api: Client, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    await fill(api)
    await declare(api, INDEX)
    module, name, limit, text = LIMITS[case]
    spec = widgets_in(
        groupBy=[{"field": "spec.color"}],
        aggregates=[{"name": "d", "function": "CountDistinct", **SIZE}],
        having="row.d > 0",
    )
    assert len(rows_of(await ask(api, spec))) == 3
    monkeypatch.setattr(module, name, limit)
    assert text in failure(await post(api, spec), 400, "BadRequest")["message"]


@pytest.mark.parametrize("name", ["MAX_OBJECTS", "MAX_ENTRIES", "READ_BYTES"])
async def test_entries_are_bounded(api: Client, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    await fill(api)
    await declare(api, INDEX)
    monkeypatch.setattr(grouped, name, 2)
    status = failure(await post(api, widgets_in(groupBy=[{"field": "spec.size"}])), 400, "BadRequest")
    assert "select less" in status["message"]


async def test_a_filter_that_costs_too_much_is_refused(api: Client) -> None:
    await fill(api)
    long = "a" * 50
    nested = " && ".join(["object.spec.parts.all(p, object.spec.parts.all(q, (p + q).matches('(x|y|xy)*')))"] * 3)
    assert (await post(api, widgets_in(filter=nested, aggregates=[COUNT]))).code in (201, 400)
    failure(await post(api, widgets_in(filter=f'"{long * 300}" == ""', aggregates=[COUNT])), 422, "Invalid")


async def test_objects_with_values_too_long_for_the_index_are_counted(api: Client) -> None:
    await fill(api)
    await declare(api, INDEX)
    await make(api, "long", color="c" * 3000, size=1)
    rows = rows_of(await ask(api, widgets_in(groupBy=[{"field": "spec.color"}], aggregates=[COUNT])))
    assert rows == [["blue", 2], ["c" * 3000, 1], ["grün", 1], ["red", 3]]


SECRETS = {
    "type": "object",
    "properties": {
        "user": {"type": "string"},
        "password": {"type": "string", "format": "password"},
        "pin": {"type": "integer"},
    },
}
PASSWORD = {"field": "spec.password"}
ORACLES: dict[str, dict[str, Any]] = {
    "grouped": {"groupBy": [PASSWORD]},
    "counted": {"aggregates": [{**COUNT, **PASSWORD}]},
    "distinct": {"aggregates": [{"name": "n", "function": "CountDistinct", **PASSWORD}]},
    "least": {"aggregates": [{"name": "n", "function": "Min", "field": "spec.pin"}]},
    "filtered": {"aggregates": [COUNT], "filter": 'object.spec.password.startsWith("a")'},
    "has": {"aggregates": [COUNT], "filter": "has(object.spec.password)"},
    "joined, filtered": {"aggregates": [COUNT], "join": {"group": "test.example.com", "resource": "accounts", "by": "Owner",
                                                         "filter": 'joined.spec.password == object.spec.user'}},
    "joined, grouped": {"groupBy": [{**PASSWORD, "from": "Joined"}],
                        "join": {"group": "test.example.com", "resource": "accounts", "by": "Owner"}},
    "referred to": {"aggregates": [COUNT], "join": {"group": "test.example.com", "resource": "accounts", "by": "Reference"}},
}  # fmt: skip


@pytest.mark.parametrize("case", ORACLES)
async def test_queries_cannot_reveal_sensitive_fields(api: Client, case: str) -> None:
    made = definition("accounts", "Account", schema={"type": "object", "properties": {"spec": SECRETS}})
    made["metadata"]["annotations"] = {
        "reporting.registry/sensitive": "spec.pin",
        "query.registry/references": "spec.password -> accounts.test.example.com",
        "query.registry/index": "spec.password; spec.pin",
    }
    await define(api, made)
    body = {"apiVersion": "test.example.com/v1", "kind": "Account", "metadata": {"name": "a"},
            "spec": {"user": "u", "password": "abc", "pin": 7}}  # fmt: skip
    (await api.post("/apis/test.example.com/v1/namespaces/default/accounts", body)).ok(201)
    answer = await post(api, {"group": "test.example.com", "resource": "accounts", **ORACLES[case]})
    assert "is sensitive and cannot be queried" in failure(answer, 422, "Invalid")["message"]
    hidden = {"aggregates": [COUNT], "filter": "[object].exists(o, has(o.spec.password))"}
    assert counts(await ask(api, {"group": "test.example.com", "resource": "accounts", **hidden})) == 0


async def test_data_of_secrets_are_sensitive(api: Client) -> None:
    for field in ("data['a']", "stringData['a']"):
        failure(await post(api, {"resource": "secrets", "groupBy": [{"field": field, "name": "a"}]}), 422, "Invalid")
    assert counts(await ask(api, {"resource": "secrets", "aggregates": [COUNT]})) == 0
    assert rows_of(await ask(api, {"resource": "namespaces", "groupBy": [{"field": "metadata.name"}]}))[0] == [
        "default"
    ]


async def test_tenants_do_not_see_each_other(api: Client) -> None:
    await fill(api)
    acme = await make_tenant(api.of_tenant("system"), "acme")
    failure(await post(acme, widgets_in(aggregates=[COUNT])), 422, "Invalid")
    made = (await api.get(f"{DEFINITIONS}/{NAME}")).ok()
    await define(acme, {**made, "metadata": {"name": NAME}, "status": None})
    await make(acme, "only", size=3, color="red")
    for index in ("", INDEX):
        if index:
            await declare(api, index)
            await declare(acme, index)
        by_color = widgets_in(groupBy=[{"field": "spec.color"}], aggregates=[COUNT])
        assert rows_of(await ask(acme, by_color)) == [["red", 1]]
        assert counts(await ask(acme, widgets_in(aggregates=[COUNT]))) == 1
        assert counts(await ask(api, widgets_in(aggregates=[COUNT]))) == 6
