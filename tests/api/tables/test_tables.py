"""Tables: what kubectl shows."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.api.client import TABLE, Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, NAMESPACES, WIDGETS, define, definition, make
from tests.application import shares_application

pytestmark = shares_application


async def test_columns_of_the_definition(api: Client) -> None:
    await make(api, "a", color="red", size=3)
    table = (await api.get(WIDGETS, accept=TABLE)).ok(200)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]]
    assert columns == [("Name", "string", 0), ("Color", "string", 0), ("Size", "integer", 1)]
    [row] = table["rows"]
    assert row["cells"] == ["a", "red", 3]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "a"


async def test_one_object_is_a_table_of_one_row(api: Client) -> None:
    [made] = await make(api, "a")
    table = (await api.get(f"{WIDGETS}/a", accept=TABLE)).ok()
    assert len(table["rows"]) == 1
    assert table["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@pytest.mark.parametrize("include, kind", [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Widget")])
async def test_include_object(api: Client, include: str, kind: str | None) -> None:
    await make(api, "a")
    [row] = (await api.get(f"{WIDGETS}?includeObject={include}", accept=TABLE)).ok()["rows"]
    assert (row.get("object") or {}).get("kind") == kind


async def test_an_unknown_include_is_refused(api: Client) -> None:
    failure(await api.get(f"{WIDGETS}?includeObject=Some", accept=TABLE), 400, "BadRequest")


async def test_pages_of_tables(api: Client) -> None:
    await make(api, *"abc")
    first = (await api.get(f"{WIDGETS}?limit=2", accept=TABLE)).ok()
    rest = (await api.get(f"{WIDGETS}?limit=2&continue={first['metadata']['continue']}", accept=TABLE)).ok()
    assert [r["cells"][0] for r in first["rows"] + rest["rows"]] == ["a", "b", "c"]


async def test_columns_that_visit_too_much_are_empty(api: Client) -> None:
    columns = [{"name": f"c{n}", "type": "string", "jsonPath": ".spec" + "..a" * 3 + ".zz"} for n in range(10)]
    plain = {"name": "plain", "type": "string", "jsonPath": ".spec.plain"}
    await define(
        api,
        definition(
            "deeps",
            "Deep",
            additionalPrinterColumns=[*columns, plain],
            schema={
                "type": "object",
                "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            },
        ),
    )
    deep: Any = {}
    for _ in range(60):
        deep = {"a": deep, "b": [0] * 500}
    path = WIDGETS.replace("widgets", "deeps")
    obj = {
        "apiVersion": "test.example.com/v1",
        "kind": "Deep",
        "metadata": {"name": "a"},
        "spec": {"plain": "p", **deep},
    }
    (await api.post(path, obj)).ok(201)
    began = time.process_time()
    [row] = (await api.get(path, accept=TABLE)).ok()["rows"]
    assert row["cells"] == ["a", *[None] * 10, "p"]
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "path, columns",
    [
        (NAMESPACES, ["Name", "Status", "Age"]),
        (DEFINITIONS, ["Name", "Scope", "Versions", "Created At", "Group", "Kind", "ShortNames", "Established"]),
    ],
)
async def test_tables_of_built_in_kinds(api: Client, path: str, columns: list[str]) -> None:
    table = (await api.get(path, accept=TABLE)).ok()
    assert [c["name"] for c in table["columnDefinitions"]] == columns
    assert table["rows"]


async def test_errors_are_not_tables(api: Client) -> None:
    failure(await api.get(f"{WIDGETS}/none", accept=TABLE), 404, "NotFound")


async def test_writes_return_tables(api: Client) -> None:
    body: Any = {"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    assert (await api.post(WIDGETS, body, accept=TABLE)).ok(201)["kind"] == "Table"


async def test_the_table_of_a_dry_run_has_no_resource_version(api: Client) -> None:
    body = {"metadata": {"name": "dry"}}
    answer = await api.post("/api/v1/namespaces/default/configmaps?dryRun=All", body, accept=TABLE)
    assert answer.ok(201)["metadata"] == {}
