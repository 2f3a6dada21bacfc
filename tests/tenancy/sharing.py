"""A definition of widgets that a tenant exports and others bind."""

from __future__ import annotations

from typing import Any

from tests.api.client import Client, eventually
from tests.api.widgets import GROUP, definition
from tests.tenancy.tenants import make

EXPORTS = "/apis/apis.registry/v1/apiexports"


BINDINGS = "/apis/apis.registry/v1/apibindings"


NAME = f"widgets.{GROUP}"


def shared_definition(maximum: int = 10, **spec: Any) -> dict[str, Any]:
    made = definition()
    made["spec"]["versions"] = [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {
                                "size": {"type": "integer", "maximum": maximum},
                                "color": {"type": "string"},
                            },
                        }
                    },
                }
            },
        }
    ]
    made["spec"].update(spec)
    return made


def export(**tenants: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apis.registry/v1",
        "kind": "APIExport",
        "metadata": {"name": "shop"},
        "spec": {"definitions": [NAME], "tenants": tenants},
    }


def binding(tenant: str = "provider", name: str = "b") -> dict[str, Any]:
    return {
        "apiVersion": "apis.registry/v1",
        "kind": "APIBinding",
        "metadata": {"name": name},
        "spec": {"reference": {"tenant": tenant, "export": "shop"}},
    }


async def bind(client: Client, name: str = "b") -> None:
    (await client.post(BINDINGS, binding(name=name))).ok(201)
    await reason(client, "Bound", name)


async def reason(client: Client, wanted: str, name: str = "b") -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get(f"{BINDINGS}/{name}")).ok()
        conditions = found["status"].get("conditions") or [{}]
        return found if conditions[0].get("reason") == wanted else None

    found: dict[str, Any] = await eventually(look)
    return found


async def consumer(api: Client, name: str, **spec: Any) -> Client:
    client = await make(api.of_tenant("system"), name, **spec)
    await bind(client)
    return client
