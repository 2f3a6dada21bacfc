"""Whatever a definition can do it does for those who have bound it, in a process that the provider never asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api.client import JSON_PATCH, TABLE, Client, eventually
from tests.api.errors import failure
from tests.api.widgets import ALL_WIDGETS, DEFINITIONS, GROUP, WIDGETS, define, names_of, widget
from tests.application import serving
from tests.tenancy.sharing import EXPORTS, bind, export
from tests.tenancy.tenants import make

DEFINITION = f"{DEFINITIONS}/widgets.{GROUP}"
BETA = f"/apis/{GROUP}/v1beta1/namespaces/default/widgets"
VERSIONS = yaml.safe_load("""
- name: v1
  served: true
  storage: true
  subresources:
    status: {}
    scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
  selectableFields: [{jsonPath: .spec.color}]
  additionalPrinterColumns: [{name: Color, type: string, jsonPath: .spec.color}]
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          x-kubernetes-validations:
          - {rule: "!has(self.replicas) || self.replicas <= self.size", message: more replicas than size}
          - {rule: "self.color == oldSelf.color", message: the color stays}
          properties:
            size: {type: integer, maximum: 10, default: 4}
            color: {type: string, default: grey}
            replicas: {type: integer}
        status: &status
          type: object
          properties: {phase: {type: string}, replicas: {type: integer}, selector: {type: string}}
- name: v1beta1
  served: true
  storage: false
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties: {width: {type: integer}, color: {type: string}, replicas: {type: integer}}
        status: *status
""")
RULES = """
conversions:
- {from: v1beta1, to: v1, loss: Keep, rules: [{rename: {path: spec.width, to: size}}]}
"""


def shared() -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}", "annotations": {"conversion.registry/rules": RULES}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": VERSIONS,
        },
    }


@pytest.fixture
async def provider(api: Client) -> Client:
    client = await make(api.of_tenant("system"), "provider", domain="shop")
    await define(client, shared())
    (await client.post(EXPORTS, export(all=True))).ok(201)
    return client


@pytest.fixture
async def far(api: Client, api_database: str, tmp_path: Path) -> AsyncIterator[Client]:
    """Another server on the same database: what it knows of the first is what the database says."""
    async with serving(api_database, tmp_path / "far") as client:
        yield client


@pytest.fixture
async def bound(api: Client, provider: Client, far: Client) -> Client:
    """A tenant that has bound the definition, as the other server serves it."""
    await bind(await make(api.of_tenant("system"), "consumer", domain="shop"))
    client = far.of_tenant("consumer")
    assert names_of((await client.get(ALL_WIDGETS)).ok()) == []
    return client


async def test_versions_are_converted_by_the_rules(bound: Client) -> None:
    beta = {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "spec": {"width": 5, "color": "red"},
    }
    made = (await bound.post(BETA, beta)).ok(201)
    assert made["spec"] == beta["spec"]
    assert (await bound.get(f"{WIDGETS}/a")).ok()["spec"] == {"size": 5, "color": "red"}
    (await bound.patch(f"{WIDGETS}/a", {"spec": {"size": 6}})).ok()
    assert (await bound.get(BETA)).ok()["items"][0]["spec"] == {"width": 6, "color": "red"}
    async with bound.watch(f"{BETA}?watch=1&resourceVersion={made['metadata']['resourceVersion']}") as watch:
        assert (await watch.event())["object"]["spec"] == {"width": 6, "color": "red"}
    failure(await bound.patch(f"{BETA}/a", {"spec": {"width": "wide"}}), 422, "Invalid")


async def test_defaults_rules_and_subresources(bound: Client) -> None:
    made = (await bound.post(WIDGETS, widget("a", replicas=2))).ok(201)
    assert made["spec"] == {"size": 4, "color": "grey", "replicas": 2}
    assert (
        "more replicas"
        in failure(await bound.patch(f"{WIDGETS}/a", {"spec": {"replicas": 5}}), 422, "Invalid")["message"]
    )
    assert (
        "color stays"
        in failure(await bound.patch(f"{WIDGETS}/a", {"spec": {"color": "red"}}), 422, "Invalid")["message"]
    )
    stated = (
        await bound.patch(
            f"{WIDGETS}/a/status",
            {"spec": {"size": 9}, "status": {"phase": "Done", "replicas": 1, "selector": "app=a"}},
        )
    ).ok()
    assert (stated["spec"]["size"], stated["status"]["phase"]) == (4, "Done")
    scale = (await bound.get(f"{WIDGETS}/a/scale")).ok()
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "app=a"})
    scale["spec"]["replicas"] = 3
    (await bound.put(f"{WIDGETS}/a/scale", scale)).ok()
    assert (await bound.get(f"{WIDGETS}/a")).ok()["spec"]["replicas"] == 3
    failure(await bound.patch(f"{WIDGETS}/a/scale", {"spec": {"replicas": 5}}), 422, "Invalid")


async def test_columns_and_selectable_fields(bound: Client) -> None:
    for name, color in (("a", "red"), ("b", "blue")):
        (await bound.post(WIDGETS, widget(name, color=color))).ok(201)
    table = (await bound.get(f"{WIDGETS}?fieldSelector=spec.color%3Dred", accept=TABLE)).ok()
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Color"]
    assert [row["cells"] for row in table["rows"]] == [["a", "red"]]
    failure(await bound.get(f"{WIDGETS}?fieldSelector=spec.size%3D4"), 400, "BadRequest")
    async with bound.watch(f"{WIDGETS}?watch=1&fieldSelector=spec.color%3Dblue") as watch:
        assert (await watch.event())["object"]["metadata"]["name"] == "b"
    (await bound.delete(f"{WIDGETS}?fieldSelector=spec.color%3Dred")).ok()
    assert names_of((await bound.get(WIDGETS)).ok()) == ["b"]


async def test_an_upgrade_is_visible_once_it_is_answered(provider: Client, bound: Client) -> None:
    """In a process that has the old one in use: schema, default, rule, column, subresource and versions."""
    (await bound.post(WIDGETS, widget("old", size=9))).ok(201)
    spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec"
    (
        await provider.patch(
            DEFINITION,
            [
                {"op": "replace", "path": f"{spec}/properties/size/maximum", "value": 5},
                {"op": "add", "path": f"{spec}/properties/shape", "value": {"type": "string", "default": "round"}},
                {"op": "add", "path": f"{spec}/x-kubernetes-validations/-", "value": {"rule": "self.shape != 'flat'"}},
                {
                    "op": "add",
                    "path": "/spec/versions/0/additionalPrinterColumns/-",
                    "value": {"name": "Shape", "type": "string", "jsonPath": ".spec.shape"},
                },
                {"op": "add", "path": "/spec/versions/0/selectableFields/-", "value": {"jsonPath": ".spec.shape"}},
                {"op": "remove", "path": "/spec/versions/0/subresources/scale"},
                {"op": "replace", "path": "/spec/versions/1/served", "value": False},
            ],
            JSON_PATCH,
        )
    ).ok()
    failure(await bound.post(WIDGETS, widget("new", size=6)), 422, "Invalid")
    failure(await bound.post(WIDGETS, widget("new", shape="flat")), 422, "Invalid")
    (await bound.post(WIDGETS, widget("new", shape="oval"))).ok(201)
    assert (await bound.get(f"{WIDGETS}/old")).ok()["spec"]["shape"] == "round"
    assert names_of((await bound.get(f"{WIDGETS}?fieldSelector=spec.shape%3Doval")).ok()) == ["new"]
    table = (await bound.get(WIDGETS, accept=TABLE)).ok()
    assert [row["cells"] for row in table["rows"]] == [["new", "grey", "oval"], ["old", "grey", "round"]]
    assert (await bound.get(f"{WIDGETS}/old/scale")).code == 404
    assert (await bound.get(BETA)).code == 404
    assert [v["version"] for v in (await bound.get(f"/apis/{GROUP}")).ok()["versions"]] == ["v1"]
    assert '"shape"' in (await bound.get(f"/openapi/v3/apis/{GROUP}/v1")).text


async def test_another_version_is_stored(provider: Client, bound: Client) -> None:
    (await bound.post(WIDGETS, widget("old", size=9))).ok(201)
    (
        await provider.patch(
            DEFINITION,
            [
                {"op": "replace", "path": "/spec/versions/0/storage", "value": False},
                {"op": "replace", "path": "/spec/versions/1/storage", "value": True},
            ],
            JSON_PATCH,
        )
    ).ok()
    (await bound.post(WIDGETS, widget("new", size=8))).ok(201)
    assert [i["spec"]["size"] for i in (await bound.get(WIDGETS)).ok()["items"]] == [8, 9]
    assert [i["spec"]["width"] for i in (await bound.get(BETA)).ok()["items"]] == [8, 9]
    (await bound.patch(f"{WIDGETS}/old", {"spec": {"size": 7}})).ok()
    assert (await bound.get(f"{BETA}/old")).ok()["spec"]["width"] == 7


async def test_no_write_is_accepted_under_a_definition_that_was_replaced(
    api: Client, provider: Client, bound: Client
) -> None:
    """By revisions, as provider and consumer are of one domain: what is written later satisfies the later schema."""
    near, accepted, stop = api.of_tenant("consumer"), list[tuple[int, int]](), asyncio.Event()

    async def write(client: Client, label: str) -> None:
        for number in range(1_000_000):
            if stop.is_set():
                return
            size = number % 12
            answer = await client.post(WIDGETS, widget(f"{label}-{number}", size=size))
            if answer.code == 201:
                accepted.append((int(answer.json["metadata"]["resourceVersion"]), size))
            else:
                failure(answer, 422, "Invalid")

    async def replaced(bound_now: int) -> None:
        before = len(accepted)
        answer = await provider.patch(
            DEFINITION,
            [
                {
                    "op": "replace",
                    "value": bound_now,
                    "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum",
                }
            ],
            JSON_PATCH,
        )
        bounds.append((int(answer.ok()["metadata"]["resourceVersion"]), bound_now))
        failure(await bound.post(WIDGETS, widget(f"over-{bound_now}", size=bound_now + 1)), 422, "Invalid")

        async def enough() -> bool:
            return len(accepted) >= before + 20

        await eventually(enough)

    bounds = [(0, 10)]
    async with asyncio.TaskGroup() as writers:
        for number, client in enumerate((near, bound, bound)):
            writers.create_task(write(client, f"w{number}"))
        try:
            for bound_now in (8, 5, 7, 4, 9):
                await replaced(bound_now)
        finally:
            stop.set()
    for revision, size in accepted:
        assert size <= [most for since, most in bounds if since < revision][-1], f"{size} at {revision}: {bounds}"
