"""A tenant that shares a definition with others."""

from __future__ import annotations

from tests.api.client import Client
from tests.api.widgets import define
from tests.tenancy.sharing import EXPORTS, export, shared_definition
from tests.tenancy.tenants import make


async def make_provider(api: Client) -> Client:
    """A tenant that exports widgets to everybody, in the domain `shop`."""
    client = await make(api.of_tenant("system"), "provider", domain="shop")
    await define(client, shared_definition())
    (await client.post(EXPORTS, export(all=True))).ok(201)
    return client
