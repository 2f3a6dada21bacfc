"""Tenants as objects, made and changed over HTTP; tokens of their users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.authentication.tokens.bearer import BearerTokens
from registry.store.store import Store
from registry.store.types import TenantName
from tests.api.client import Answer, Client

TENANTS = "/apis/tenancy.registry/v1/tenants"


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def tenant(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": name}, "spec": spec}


def config_map(name: str, size: int = 0) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "y" * size}}


async def make(system: Client, name: str, **spec: Any) -> Client:
    (await system.post(TENANTS, tenant(name, **spec))).ok(201)
    return system.of_tenant(name)


async def change(system: Client, name: str, spec: Mapping[str, Any]) -> Answer:
    return await system.patch(f"{TENANTS}/{name}", {"spec": dict(spec)})


async def token_of(client: Client, tenant: str, *groups: str, user: str = "alice") -> str:
    store: Store = client._app.state.backend.store  # type: ignore[attr-defined]
    token, _ = await BearerTokens(store).create(await store.tenant(TenantName(tenant)), user, list(groups), "", None)
    return str(token)
