"""Declared indexes: when they are used, when they must not be, and which queries are refused."""

from __future__ import annotations

import copy
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from registry.api.query import listing, reading
from registry.controllers import indexing
from registry.controllers.controller_client import ControllerClient
from registry.store.types import ObjectKey
from tests.api.client import Client, eventually
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, SCHEMA, WIDGETS, define, definition, established, names_of, widget
from tests.application import shares_application
from tests.query.lists import INDEX, NAME, answers_by, declare, fill, query

pytestmark = shares_application

LARGE = "object.spec.size >= 3"


async def by_index(api: Client, **parameters: Any) -> bool:
    before = answers_by("index")
    await query(api, **parameters)
    return answers_by("index") > before


async def test_an_index_is_used_once_it_is_complete(api: Client) -> None:
    await fill(api)
    assert not await by_index(api, filter=LARGE)
    await declare(api, INDEX)
    for parameters in (
        {"filter": LARGE},
        {"orderBy": "spec.size desc", "limit": 2},
        {"filter": '"x" in object.spec.parts'},
        {"filter": 'object.spec.color == "red"', "orderBy": "spec.size", "count": "exact", "limit": 1},
    ):
        assert await by_index(api, **parameters), parameters
    assert not await by_index(api, filter="has(object.spec.size)")


async def test_of_many_definitions_those_that_declare_indexes_are_looked_at(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: set[str] = set()
    reconcile = indexing.reconcile

    async def note(client: ControllerClient, key: ObjectKey) -> None:
        looked_at.update({key} if "plain" in key else ())
        await reconcile(client, key)

    monkeypatch.setattr(indexing, "reconcile", note)
    made = [definition(f"plain{n}s", f"Plain{n}", group="plain.example.com") for n in range(3)]
    made[1]["metadata"]["annotations"] = {"query.registry/index": "spec.size"}
    for one in made:
        await define(api, one)

    async def is_found() -> bool:
        return bool(looked_at)

    await eventually(is_found)
    assert looked_at == {"plain1s.plain.example.com"}


async def test_selectable_fields_are_indexed(api: Client) -> None:
    await fill(api)

    async def is_used() -> bool:
        return await by_index(api, filter='object.spec.color == "red"')

    await eventually(is_used)


async def test_a_query_that_would_read_too_much_is_refused(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(api)
    monkeypatch.setattr(reading, "MAX_EXAMINED", 3)
    monkeypatch.setattr(listing, "MAX_EXAMINED", 3)
    status = failure(await api.get(f"{WIDGETS}?filter={quote(LARGE)}"), 400, "BadRequest")
    assert 'query.registry/index: "metadata.namespace,spec.size"' in status["message"]
    failure(await api.get(f"{WIDGETS}?watch=1&filter={quote(LARGE)}"), 400, "BadRequest")
    assert names_of(await query(api, filter='object.metadata.name == "a"')) == ["a"]
    await declare(api, INDEX)
    assert names_of(await query(api, filter=LARGE, orderBy="spec.size")) == ["a", "e", "f"]
    # All of these are read by their size, and only the color is looked into.
    failure(
        await api.get(f"{WIDGETS}?filter={quote('size(object.spec.color) > 90')}&orderBy=spec.size"), 400, "BadRequest"
    )


async def test_an_index_that_a_write_did_not_maintain_is_not_used(api: Client, api_database: str) -> None:
    """As by a server of an earlier version, or under a definition that has changed and changed back."""
    await fill(api)
    await declare(api, INDEX)
    other = "spec.replicas"
    (await api.patch(f"{DEFINITIONS}/{NAME}", {"metadata": {"annotations": {"query.registry/index": other}}})).ok()
    (await api.patch(f"{WIDGETS}/b", {"spec": {"size": 9}})).ok()
    (await api.post(WIDGETS, widget("g", size=8))).ok(201)
    (await api.delete(f"{WIDGETS}/a")).ok()
    (await api.patch(f"{DEFINITIONS}/{NAME}", {"metadata": {"annotations": {"query.registry/index": INDEX}}})).ok()
    assert names_of(await query(api, filter=LARGE, orderBy="spec.size,metadata.name")) == ["e", "g", "b", "f"]
    # The condition may still be that of the former indexes.
    await eventually(lambda: by_index(api, filter=LARGE))
    assert names_of(await query(api, filter=LARGE, orderBy="spec.size,metadata.name")) == ["e", "g", "b", "f"]
    with psycopg.connect(api_database) as connection:
        lost = "SELECT count(*) FROM index_entries e WHERE NOT EXISTS (SELECT 1 FROM objects o WHERE o.tenant_id = e.tenant_id AND o.key = e.key AND e.entry = ANY (o.index_entries))"
        assert connection.execute(lost).fetchone() == (0,)
        missing = "SELECT count(*) FROM objects o CROSS JOIN unnest(o.index_entries) AS v (entry) WHERE NOT EXISTS (SELECT 1 FROM index_entries e WHERE e.tenant_id = o.tenant_id AND e.key = o.key AND e.entry = v.entry)"
        assert connection.execute(missing).fetchone() == (0,)


async def test_a_default_that_changes_changes_the_index(api: Client) -> None:
    await fill(api)
    await declare(api, "spec.replicas")
    crd = (await api.get(f"{DEFINITIONS}/{NAME}")).ok()
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["replicas"]["default"] = 5
    (await api.put(f"{DEFINITIONS}/{NAME}", crd)).ok()
    assert len((await query(api, filter="object.spec.replicas == 5"))["items"]) == 6
    # The condition is still that of the former index for a while.
    await eventually(lambda: by_index(api, filter="object.spec.replicas == 5"))
    assert len((await query(api, filter="object.spec.replicas == 5"))["items"]) == 6


async def test_values_that_the_index_cannot_hold(api: Client) -> None:
    schema: dict[str, Any] = copy.deepcopy(SCHEMA)
    schema["properties"]["spec"]["properties"]["parts"].pop("maxItems")
    made = definition("gears", "Gear", schema=schema)
    made["metadata"]["annotations"] = {
        "query.registry/index": "spec.color; spec.parts[*]",
        "query.registry/condition": "on",
    }
    await define(api, made)
    path = f"/apis/{GROUP}/v1/namespaces/default/gears"
    long = "m" * 3000
    for name, spec in {
        "a": {"color": "b"},
        "long": {"color": long},
        "longer": {"color": long + "z", "parts": [f"p{n}" for n in range(100)]},
        "z": {"color": "z", "parts": ["p7"]},
        "none": {"color": ""},
    }.items():
        gear = {"apiVersion": f"{GROUP}/v1", "kind": "Gear", "metadata": {"name": name}, "spec": spec}
        (await api.post(path, gear)).ok(201)

    async def complete() -> bool:
        before = answers_by("index")
        await query(api, path, orderBy="spec.color")
        return answers_by("index") > before

    await eventually(complete)
    for order, names in (("spec.color", "none a long longer z"), ("spec.color desc", "z longer long a none")):
        assert names_of(await query(api, path, orderBy=order)) == names.split()
        found: list[str] = []
        token = ""
        while True:
            page = await query(api, path, orderBy=order, limit=1, **{"continue": token})
            found += names_of(page)
            token = page["metadata"]["continue"]
            if not token:
                break
        assert found == names.split()
    assert names_of(await query(api, path, filter=f'object.spec.color == "{long}"')) == ["long"]
    assert sorted(names_of(await query(api, path, filter='"p7" in object.spec.parts'))) == ["longer", "z"]
    assert names_of(await query(api, path, filter='object.spec.color > "c"', orderBy="spec.color", limit=2)) == [
        "long",
        "longer",
    ]


async def test_sensitive_fields_cannot_be_filtered_by(api: Client) -> None:
    schema: dict[str, Any] = copy.deepcopy(SCHEMA)
    schema["properties"]["spec"]["properties"]["token"] = {"type": "string", "format": "password"}
    made = definition("gears", "Gear", schema=schema)
    made["metadata"]["annotations"] = {
        "reporting.registry/sensitive": ".spec.color",
        "query.registry/index": "spec.token; spec.color; spec.size",
        "query.registry/condition": "true",
    }
    await define(api, made)
    path = f"/apis/{GROUP}/v1/namespaces/default/gears"
    spec = {"token": "hunter2", "color": "red", "size": 1}
    metadata = {
        "name": "a",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"spec":{"token":"hunter2"}}', "x": "y"},
    }
    (await api.post(path, {"apiVersion": f"{GROUP}/v1", "kind": "Gear", "metadata": metadata, "spec": spec})).ok(201)
    for refused in (
        'object.spec.token == "hunter2"',
        "has(object.spec.token)",
        'object.spec.color.startsWith("r")',
        "[object].exists(o, o.spec.size == 1) && object.spec.token > 'a'",
    ):
        status = failure(await api.get(f"{path}?filter={quote(refused)}"), 400, "BadRequest")
        assert "sensitive" in status["message"], refused
    for order in ("spec.token", "spec.color desc"):
        assert "sensitive" in failure(await api.get(f"{path}?orderBy={quote(order)}"), 400, "BadRequest")["message"]
    for blind in (
        '[object].exists(o, o.spec.token == "hunter2")',
        "[object.spec].exists(s, has(s.token))",
        '[object.spec].exists(s, s.color == "red")',
        'object.metadata.annotations.exists(k, object.metadata.annotations[k].contains("hunter2"))',
    ):
        assert names_of(await query(api, path, filter=blind)) == [], blind
    assert names_of(await query(api, path, filter='object.metadata.annotations.x == "y"')) == ["a"]

    async def refused_index() -> bool:
        found = await established(api, f"gears.{GROUP}")
        conditions = {c["type"]: c for c in found["status"]["conditions"]}
        return bool(conditions.get("Indexed", {}).get("reason") == "Refused")

    await eventually(refused_index)


async def test_a_filter_that_costs_too_much_is_refused(api: Client) -> None:
    await fill(api)
    numbers = "[" + ",".join("0123456789") + "]"
    nested = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, {numbers}.all(d, {numbers}.all(e, {numbers}.all(f, a + b + c + d + e + f >= 0))))))"
    status = failure(await api.get(f"{WIDGETS}?filter={quote(nested)}"), 400, "BadRequest")
    assert "costs more than a query may" in status["message"]
    failure(await api.get(f"{WIDGETS}?filter={quote('true || ' * 2000 + 'true')}"), 400, "BadRequest")


async def test_filters_cannot_inject_sql(api: Client) -> None:
    await fill(api)
    await declare(api, INDEX)
    for text in ("'; DROP TABLE objects; --", r"\\", "%(tenant)s", "\\u0000", "{}", "$1", "red' OR '1'='1"):
        for wanted in (f'object.spec.color == "{text}"', f'object.spec.color.startsWith("{text}")',
                       f'object.metadata.labels.team == "{text}"', f'object.metadata.name == "{text}"'):  # fmt: skip
            assert names_of(await query(api, filter=wanted)) == [], wanted
    assert len((await query(api, filter="true"))["items"]) == 6
