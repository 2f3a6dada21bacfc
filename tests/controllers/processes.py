"""Simulated server processes that can die: a backend on a database, with or without running controllers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from registry import builtin
from registry.api.catalogs import Catalogs
from registry.api.conversions import SharedConversions
from registry.api.dependents import WriteEvents
from registry.api.options import WriteOptions
from registry.api.request import Backend, ResourceRequest
from registry.api.served import Object, Served
from registry.api.strategies import strategy_for
from registry.api.strategies.base import Context
from registry.api.verbs.create import create_object
from registry.authentication.authenticator import Authentication
from registry.authentication.tokens.keys import SigningKeys
from registry.authentication.tokens.service_accounts import AccountTokens
from registry.authentication.user import SERVER
from registry.authorization.authorizer import Authorizer
from registry.authorization.tenants import DEFAULT
from registry.controllers.controller_client import ControllerClient
from registry.controllers.garbage.references import served_by_name
from registry.controllers.manager import ControllerManager
from registry.conversion.converter import Converter
from registry.store.store import Store
from registry.store.types import ObjectKey, ResourceName
from registry.webhooks.client import WebhookClient
from registry.webhooks.egress import EgressPolicy
from registry.webhooks.services import Services
from tests.api.widgets import GROUP, widget

WIDGETS = ResourceName(f"widgets.{GROUP}")


@contextlib.asynccontextmanager
async def process(database_url: str) -> AsyncIterator[ControllerClient]:
    """A process without controllers, as one that dies right after its commits; seen as by a controller."""
    store = await Store.open(database_url, housekeeping=False)
    converter = Converter(WebhookClient(EgressPolicy(), Services()))
    try:
        backend = Backend(
            store,
            Catalogs(store, builtin.definitions(), strategy_for),
            Authorizer(store),
            Authentication([]),
            AccountTokens(store, SigningKeys(store), "https://registry.example"),
            WriteEvents(),
            SharedConversions(converter),
            converter.client,
        )
        yield ControllerClient(backend, await store.tenant(DEFAULT))
    finally:
        await converter.aclose()
        await store.close()


async def widgets(client: ControllerClient) -> Served:
    served = served_by_name(await client.catalog(), WIDGETS)
    assert served is not None
    return served


async def born(
    client: ControllerClient,
    name: str,
    *owners: Object,
    finalizers: list[str] | None = None,
    namespace: str = "default",
) -> Object:
    served = await widgets(client)
    references = [
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Widget",
            "name": o["metadata"]["name"],
            "uid": o["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for o in owners
    ]
    metadata = {"ownerReferences": references} if references else {}
    obj = widget(name, metadata={**metadata, **({"finalizers": finalizers} if finalizers else {})})
    context, catalog = Context(client.tenant, SERVER), await client.catalog()
    request = ResourceRequest(client.backend, context, catalog, served, namespace, "", "", {})
    answer = await create_object(request, obj, WriteOptions(), "tests", "create")
    made: Object = answer.object
    return made


async def names(client: ControllerClient) -> set[str]:
    """Of the widgets that there are."""
    return {row.key.partition("/")[2] async for row in client.rows(await widgets(client))}


def key(name: str) -> ObjectKey:
    return ObjectKey(f"default/{name}")


def manager_of(client: ControllerClient) -> ControllerManager:
    """With controllers that do not make tests wait."""
    return ControllerManager(client.backend, sweep_seconds=0.05, renew_seconds=0.05, recount_seconds=0.05)
