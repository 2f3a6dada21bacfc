"""A tenant's APIServices with a service, as a part of its catalog.

They are read together with the catalog: each write that changes routing moves the guard of the tenant's
definitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from itertools import accumulate
from typing import Final

from registry.aggregation.backends import FindService
from registry.aggregation.model import (
    GROUP,
    NOTHING_AGGREGATED,
    PLURAL,
    SERVERS_LIMIT,
    Aggregated,
    APIServer,
    ServiceReference,
    api_server,
)
from registry.api.decoding import object_of
from registry.api.strategies.apiservice import REMOTE
from registry.api.strategies.base import Object
from registry.codec.stored import decode_stored
from registry.flowcontrol.evaluation import LARGE_BYTES, shared_aside
from registry.store.reads.pages import MAX_PAGE_BYTES, Place
from registry.store.store import Store
from registry.store.types import ObjectKey, Requirement, ResourceName, Row, SelectorOperator, Tenant

API_SERVICES: Final = ResourceName(f"{PLURAL}.{GROUP}")
_SERVICES: Final = ResourceName("services")
# As many are read one by one, in one query; more of them as a page.
_FEW: Final = 8
_ARE_REMOTE: Final = (Requirement(f"f:{REMOTE}", SelectorOperator.IN, ("true",)),)


def service_finder(store: Store) -> FindService:
    """Returns a function that loads the Service of an APIService."""

    async def find(tenant: Tenant, reference: ServiceReference) -> Object | None:
        row, _ = await store.load(tenant, _SERVICES, ObjectKey(f"{reference.namespace}/{reference.name}"))
        return None if row is None else await object_of(row.body)

    return find


async def load_aggregated(store: Store, tenant: Tenant, known: Aggregated) -> Aggregated:
    """Loads the first SERVERS_LIMIT of them, by name, as many as fit in a page. `known` is what was loaded before:
    unchanged ones are not read again."""
    places = await _first_places(store, tenant)
    if not places:
        return NOTHING_AGGREGATED
    before = {(server.name, server.revision): server for server in known.servers.values()}
    unchanged = {place.key: before.get((place.key, place.revision)) for place in places}
    changed = [key for key, server in unchanged.items() if server is None]
    if len(changed) > _FEW:
        unchanged = {}
        rows = (await store.page(tenant, API_SERVICES, limit=SERVERS_LIMIT, requirements=_ARE_REMOTE)).rows
    else:
        loaded = await asyncio.gather(*(store.load(tenant, API_SERVICES, key) for key in changed))
        rows = [row for row, _ in loaded if row is not None]
    work = partial(_api_servers, rows)
    large = sum(len(row.body) for row in rows) > LARGE_BYTES
    servers = await shared_aside(work) if large else work()
    servers += [server for server in unchanged.values() if server is not None]
    return Aggregated(sorted(servers, key=lambda server: server.name))


async def _first_places(store: Store, tenant: Tenant) -> list[Place]:
    all_parts = store.places(tenant, API_SERVICES, limit=SERVERS_LIMIT, requirements=_ARE_REMOTE)
    async with aclosing(all_parts) as parts:
        places = [place async for part in parts for place in part.places]
    sizes = accumulate(place.size for place in places)
    return [place for place, upto in zip(places, sizes, strict=True) if upto <= MAX_PAGE_BYTES]


def _api_servers(rows: Sequence[Row]) -> list[APIServer]:
    servers = (api_server(decode_stored('{"metadata":{' + row.body), row.revision) for row in rows)
    return [server for server in servers if server is not None]
