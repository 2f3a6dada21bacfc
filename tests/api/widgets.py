"""The custom resource that most tests of the API use: its definition and its objects."""

from __future__ import annotations

import copy
from typing import Any

from tests.api.client import Client, eventually

GROUP = "test.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
ALL_WIDGETS = f"/apis/{GROUP}/v1/widgets"
NAMESPACES = "/api/v1/namespaces"

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 0},
                "color": {"type": "string", "default": "grey"},
                "replicas": {"type": "integer"},
                "parts": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}},
    },
}


def definition(
    plural: str = "widgets",
    kind: str = "Widget",
    *,
    group: str = GROUP,
    scope: str = "Namespaced",
    schema: dict[str, Any] = SCHEMA,
    **version: Any,
) -> dict[str, Any]:
    """Returns a new definition with the version `v1`; keyword arguments are further fields of this version."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": copy.deepcopy(schema)},
                    **version,
                }
            ],
        },
    }


def widgets_definition() -> dict[str, Any]:
    """Returns the definition of widgets: status and scale, columns, a short name, a category and a selectable field."""
    made = definition(
        subresources={
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        additionalPrinterColumns=[
            {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
        ],
        selectableFields=[{"jsonPath": ".spec.color"}],
    )
    made["spec"]["names"] |= {"shortNames": ["wd"], "categories": ["all"]}
    return made


def widget(
    name: str = "", *, labels: dict[str, str] | None = None, metadata: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    meta: dict[str, Any] = {**({"name": name} if name else {}), **(metadata or {})}
    if labels is not None:
        meta["labels"] = labels
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": meta, **({"spec": spec} if spec else {})}


async def define(client: Client, definition: dict[str, Any]) -> dict[str, Any]:
    """Creates a definition and waits until it is established."""
    (await client.post(DEFINITIONS, definition)).ok(201)
    return await established(client, definition["metadata"]["name"])


async def established(client: Client, name: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get(f"{DEFINITIONS}/{name}")).ok()
        conditions = {c["type"]: c["status"] for c in found["status"].get("conditions") or []}
        return found if conditions.get("Established") == "True" else None

    result: dict[str, Any] = await eventually(look)
    return result


async def make(client: Client, *names: str, path: str = WIDGETS, **spec: Any) -> list[dict[str, Any]]:
    """Creates widgets with these names, in order."""
    return [(await client.post(path, widget(name, **spec))).ok(201) for name in names]


def names_of(answer: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]


def short(event: dict[str, Any]) -> tuple[str, str]:
    """Returns the type of a watch event, and the name of its object."""
    return event["type"], event["object"]["metadata"].get("name", "")


async def revision(client: Client) -> str:
    """Returns the newest revision."""
    found: str = (await client.get(WIDGETS)).ok()["metadata"]["resourceVersion"]
    return found
