"""A tenant's APIServices with a service, as a part of its catalog.

They are read together with the catalog: each write that changes routing moves the guard of the tenant's
definitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from registry.aggregation.backends import FindService
from registry.aggregation.model import (
    GROUP,
    NOTHING_AGGREGATED,
    PLURAL,
    SERVERS_LIMIT,
    Aggregated,
    ServiceReference,
    api_server,
)
from registry.api.strategies.apiservice import REMOTE
from registry.api.strategies.base import Object
from registry.codec.stored import decode_stored
from registry.flowcontrol.evaluation import LARGE_BYTES, shared_aside
from registry.store.store import Store
from registry.store.types import Match, ObjectKey, Requirement, ResourceName, Tenant

API_SERVICES: Final = ResourceName(f"{PLURAL}.{GROUP}")
_SERVICES: Final = ResourceName("services")
_ARE_REMOTE: Final = (Requirement(f"f:{REMOTE}", Match.IN, ("true",)),)


def service_finder(store: Store) -> FindService:
    """Returns a function that loads the Service of an APIService."""

    async def find(tenant: Tenant, reference: ServiceReference) -> Object | None:
        row, _ = await store.load(tenant, _SERVICES, ObjectKey(f"{reference.namespace}/{reference.name}"))
        return None if row is None else decode_stored('{"metadata":{' + row.body)

    return find


async def load_aggregated(store: Store, tenant: Tenant) -> Aggregated:
    """Loads the first SERVERS_LIMIT of them, by name."""
    page = await store.page(tenant, API_SERVICES, limit=SERVERS_LIMIT, requirements=_ARE_REMOTE)
    if not page.rows:
        return NOTHING_AGGREGATED
    work = partial(_aggregated, [row.body for row in page.rows])
    # The rows of a page have up to 4 MiB, and each change of a definition loads them.
    large = sum(len(row.body) for row in page.rows) > LARGE_BYTES
    return await shared_aside(work) if large else work()


def _aggregated(bodies: Sequence[str]) -> Aggregated:
    servers = (api_server(decode_stored('{"metadata":{' + body)) for body in bodies)
    return Aggregated(server for server in servers if server is not None)
