"""Builds declared indexes in the background: after a definition's write, and when a query finds one incomplete.

Objects get entries as they are written; older ones, or those with entries of other indexes, get them here, a page at a
time, under the same lock as their writes. A crash leaves nothing to clean up: the next query that needs an incomplete
index triggers it again.

A definition with the annotation `query.registry/condition: "true"` has a condition `Indexed` that shows the progress.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, Self

from registry.api.bound_definitions import DEFINITIONS
from registry.api.catalog import TenantCatalog
from registry.api.clock import timestamp
from registry.api.request import INDEXES, Backend
from registry.api.served import Object, Served, labels_of
from registry.budget import BudgetExceeded
from registry.codec.stored import decode_stored
from registry.controllers.controller_client import ControllerClient
from registry.controllers.definitions import DueDefinitions
from registry.controllers.queue import Requeue
from registry.controllers.work import ALL, Work, work_queue
from registry.definitions.conditions import find, with_condition
from registry.definitions.model import Definition
from registry.flowcontrol.evaluation import evaluate
from registry.store.errors import QuotaExceeded
from registry.store.types import ObjectKey, ResourceName, Row, Tenant

CONDITION: Final = "query.registry/condition"
_BUILDING: Final = "Building"
_QUOTA_EXCEEDED: Final = "QuotaExceeded"
_WORKERS: Final = 4
_MAX_RETRY_SECONDS: Final = 30.0
_ROWS: Final = 200
# A new definition is written three times in a row, and others with it: they are handled after this long without a write
# of a definition of the tenant, or so long after the first of a burst.
_QUIET_SECONDS: Final = 0.1
_MAX_DEBOUNCE_SECONDS: Final = 10.0
# After each page, which locks the domain for some milliseconds: writes go first.
_PAUSE_SECONDS: Final = 0.02


class IndexingController:
    """Builds indexes between entering and leaving."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._due = DueDefinitions()
        self._queue = work_queue(
            "indexing", self._reconcile, backend, workers=_WORKERS, max_retry_seconds=_MAX_RETRY_SECONDS
        )
        self._entered = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._entered.enter_async_context(self._queue)
        self._entered.enter_context(self._backend.events.subscription(self.enqueue))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._entered.aclose()

    def enqueue(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        if resource == DEFINITIONS:
            self._due.add(tenant, [key])
            self._queue.debounce_flow(Work(tenant, INDEXES, ALL), _QUIET_SECONDS, _MAX_DEBOUNCE_SECONDS)
        elif resource == INDEXES:
            self._queue.enqueue(Work(tenant, INDEXES, key))

    async def _reconcile(self, work: Work) -> None:
        client = ControllerClient(self._backend, work.tenant)
        if work.key != ALL:
            await reconcile(client, work.key)
            return
        # The catalog is read once, however many definitions are due: most declare no index.
        with self._due.take(work.tenant) as keys:
            catalog = await client.catalog()
            for key in keys:
                definition = _definition(catalog, key)
                if definition is not None and (definition.queries or definition.selectable_fields):
                    self._queue.enqueue(work._replace(key=key))


async def reconcile(client: ControllerClient, key: ObjectKey) -> None:
    """Completes the indexes of a resource. Raises Requeue if a write has invalidated the build."""
    served = await _served(client, key)
    if served is None:
        return
    # A bound definition belongs to its provider: its status is not this tenant's to write.
    is_own = key in (await client.cached_catalog()).entries
    if is_own:
        # Each write of the condition is a write of the definition, which enqueues it again: a refusal stands until
        # there is progress.
        await _update_condition(client, served, key, keeps_refusal=True)
    indexing = client.backend.store.indexing
    indexes = served.extraction.indexes
    sealed = indexing.seals(served.resource_name)
    numbers = [indexes.fields] * bool(indexes.fields) if sealed else indexes.numbers
    if not numbers:
        return
    build = await indexing.begin(client.tenant, served.resource_name, numbers)
    if build is None:
        return
    after = ObjectKey("")
    while rows := await indexing.stale(client.tenant, served.resource_name, indexes.layout, after, _ROWS):
        entries = [
            () if sealed else await evaluate(partial(_entries, served, row), len(row.body), repeatable=True)
            for row in rows
        ]
        labels = None
        if indexes.fields:
            labels = [await evaluate(partial(_labels, served, row), len(row.body), repeatable=True) for row in rows]
        try:
            if not await indexing.put(client.tenant, build, indexes.layout, rows, entries, labels):
                raise Requeue
            if is_own and not after:
                await _update_condition(client, served, key)
        except QuotaExceeded as error:
            # It continues with the next query that needs the index, or the next write of the definition.
            if is_own:
                await _update_condition(client, served, key, error)
            return
        after = rows[-1].key
        await asyncio.sleep(_PAUSE_SECONDS)
    if not await indexing.finish(client.tenant, served.resource_name, numbers, build):
        raise Requeue
    if is_own:
        await _update_condition(client, served, key)


def _entries(served: Served, row: Row) -> list[bytes]:
    """Returns the index entries of a stored object, at its storage version."""
    indexes = served.extraction.indexes
    if served.converts_contents and row.version != served.version.name:
        return indexes.overflow
    try:
        return indexes.entries(served.object(row))
    except BudgetExceeded:
        return indexes.overflow


def _labels(served: Served, row: Row) -> list[str]:
    """Returns what selectors match of a stored object, as it is read at the version that it is stored in."""
    try:
        obj = served.at_storage_version(row.revision, row.version, row.schema, row.body)
    except BudgetExceeded:
        # It cannot be read either.
        obj = decode_stored('{"metadata":{' + row.body)
    return labels_of(obj, served.strategy)


async def _served(client: ControllerClient, key: ObjectKey) -> Served | None:
    """Returns the resource at its storage version, by the current definition."""
    catalog = await client.catalog()
    definition = _definition(catalog, key)
    if definition is None or not (definition.revision or definition.queries):
        return None
    return catalog.at_storage_version(definition).leniently()


def _definition(catalog: TenantCatalog, key: ObjectKey) -> Definition | None:
    plural, _, group = key.partition(".")
    return catalog.definition(group, plural)


async def _update_condition(
    client: ControllerClient,
    served: Served,
    key: ObjectKey,
    refused: QuotaExceeded | None = None,
    *,
    keeps_refusal: bool = False,
) -> None:
    """Writes the condition, if requested. `keeps_refusal`: does not overwrite QuotaExceeded with Building."""
    if served.definition.queries.get(CONDITION, "").strip().lower() not in ("true", "on", "yes"):
        return
    indexes = served.extraction.indexes
    ready = await client.backend.store.indexing.ready(client.tenant, served.resource_name)
    done, count = sum(index.number in ready for index in indexes.all), len(indexes.all)
    sealed = client.backend.store.indexing.seals(served.resource_name)
    if indexes.errors or sealed:
        reason = "Refused"
        message = "; ".join(indexes.errors) or "objects that are encrypted at rest have no indexes"
    elif refused is not None:
        reason = _QUOTA_EXCEEDED
        message = (
            f"{done} of {count} indexes are complete; more would exceed the tenant's limit of bytes: "
            f"limited {refused.limit}"
        )
    else:
        reason = "Complete" if done == count else _BUILDING
        message = f"{done} of {count} indexes are complete"
    make = partial(_with_condition, reason=reason, message=message, keeps_refusal=keeps_refusal)
    await client.change_definition_status(key, make)


def _with_condition(old: Object, reason: str, message: str, *, keeps_refusal: bool) -> Object:
    """Returns the status of a definition with the condition."""
    before = find(old, "Indexed")
    if keeps_refusal and reason == _BUILDING and before is not None and before["reason"] == _QUOTA_EXCEEDED:
        reason, message = before["reason"], before["message"]
    value = "True" if reason == "Complete" else "False"
    return with_condition(old.get("status") or {}, "Indexed", value, reason, message, timestamp())
