"""Rewrites the rows of a resource at its storage version, without changing their content.

The rows themselves are the cursor: a rewritten one is at the storage version and is not found any more. So a process
that resumes after a crash, or runs concurrently by mistake, does only what is left.

No write is lost: each is made at the revision that was read, and a faster concurrent write has put the object at the
storage version itself, since every commit is made under the tenant's current definitions (catalog.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from registry.api.catalog import TenantCatalog
from registry.api.converted_texts import convert_texts
from registry.api.errors import StatusError, service_unavailable, too_large
from registry.api.request import CatalogStale
from registry.api.served import Object, Served
from registry.api.verbs.pipeline import Start
from registry.api.verbs.readable import image_of
from registry.api.verbs.rows import replace
from registry.budget import Budget, BudgetExceeded
from registry.codec.stored import decode_stored
from registry.controllers.controller_client import ControllerClient
from registry.definitions.model import Definition
from registry.flowcontrol.evaluation import evaluate
from registry.flowcontrol.watchdog import EvaluationStopped
from registry.store.errors import GuardsChanged, NotFound, RevisionConflict
from registry.store.types import ObjectKey, Row
from registry.tasks import gather_all

T = TypeVar("T")

MANAGER: Final = "storage-version-migrator-controller"
# As many as fit into one transaction.
BATCH: Final = 64
# Sending more to PostgreSQL at once holds the event loop for long; defaults may have made them larger.
_BATCH_BYTES: Final = 1 << 20
# Rows read at a time.
_READ: Final = 512
# This many rows that cannot be converted mean that none can: the webhook is down.
_MOST_FAILURES: Final = 100


class Pace:
    """Limits the rate to so many rows a second, measured over each batch, to leave capacity to others."""

    def __init__(self, rows_per_second: int) -> None:
        self._rows_per_second = rows_per_second
        self._next = 0.0

    async def wait(self, rows: int) -> None:
        """Waits until the next batch of `rows` may begin."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._next = max(self._next, now)
        delay, self._next = self._next - now, self._next + rows / self._rows_per_second
        await asyncio.sleep(delay)


class ResourceGone(Exception):
    """The resource does not exist (any more)."""


class StillOutdated(Exception):
    """The storage version has changed meanwhile: there is more to rewrite."""


@dataclass(slots=True)
class RewriteOutcome:
    """`definition` is the one at whose storage version all rows have been found."""

    definition: Definition
    rewritten: int = 0
    failures: int = 0
    failure: StatusError | None = None


@dataclass(slots=True)
class Rewriting:
    """The rows of one resource of a tenant. `whole` also takes rows that an earlier schema has processed."""

    client: ControllerClient
    group: str
    plural: str
    pace: Pace
    whole: bool = False
    rewritten: int = 0
    _failures: dict[ObjectKey, StatusError] = field(default_factory=dict)

    async def run(self) -> AsyncIterator[int]:
        """Yields the number of rows after each batch. Raises ResourceGone."""
        catalog = await self.client.catalog()
        after = ObjectKey("")
        while True:
            served = self._served(catalog)
            rows = await self._outdated_rows(served, self._schema(served), after, _READ)
            if not rows:
                return
            for batch in _batches(rows):
                await self.pace.wait(len(batch))
                try:
                    self.rewritten += await self._rewrite(catalog, served, batch)
                except CatalogStale as stale:
                    catalog = await self.client.backend.catalogs.fresh(self.client.tenant, stale.guards)
                    break
                after = batch[-1].key
                yield len(batch)
                if len(self._failures) >= _MOST_FAILURES:
                    return

    async def outcome(self) -> RewriteOutcome:
        """Returns the outcome after `run`, by the current definition. Raises StillOutdated, ResourceGone."""
        catalog = await self.client.catalog()
        served = self._served(catalog)
        left = await self._outdated_rows(served, None, ObjectKey(""), 1)
        first = next(iter(self._failures.values()), None)
        outcome = RewriteOutcome(served.definition, self.rewritten, len(self._failures), first)
        if left and outcome.failure is None:
            raise StillOutdated
        return outcome

    async def remaining(self) -> int:
        """Returns how many rows are to be examined. Raises ResourceGone."""
        served = self._served(await self.client.catalog())
        tenant, resource, version = self.client.tenant, served.resource_name, served.version.name
        return await self.client.backend.store.rewrites.count_outdated(
            tenant, resource, version=version, schema=self._schema(served)
        )

    def _schema(self, served: Served) -> int | None:
        return served.identity if self.whole else None

    def _served(self, catalog: TenantCatalog) -> Served:
        definition = catalog.definition(self.group, self.plural)
        if definition is None:
            raise ResourceGone
        return catalog.at_storage_version(definition)

    async def _outdated_rows(self, served: Served, schema: int | None, after: ObjectKey, limit: int) -> list[Row]:
        tenant, resource, version = self.client.tenant, served.resource_name, served.version.name
        return await self.client.backend.store.rewrites.outdated_rows(
            tenant, resource, version=version, schema=schema, after=after, limit=limit
        )

    async def _rewrite(self, catalog: TenantCatalog, served: Served, rows: Sequence[Row]) -> int:
        objects = await self._objects(catalog, served, rows)
        return sum(await gather_all(self._write(catalog, served, row, obj) for row, obj in objects))

    async def _objects(self, catalog: TenantCatalog, served: Served, rows: Sequence[Row]) -> list[tuple[Row, Object]]:
        """Returns the rows' objects at the storage version; records and omits those that cannot be converted."""
        for row in rows:
            self._failures.pop(row.key, None)
        served = self.client.request(catalog, served, rows[0].key).served
        if served.conversions is not None:
            try:
                texts = await convert_texts(served, [image_of(row) for row in rows])
                pairs = []
                for row, text in zip(rows, texts, strict=True):
                    work = partial(_with_defaults, served, row, partial(decode_stored, text))
                    pairs.append((row, await _evaluate(work, len(text))))
                return pairs
            except StatusError as error:
                if len(rows) == 1:
                    self._failures[rows[0].key] = error.with_traceback(None)  # which refers to this object
                    return []
                halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
                return [pair for half in halves for pair in await self._objects(catalog, served, half)]
        objects = []
        for row in rows:
            try:
                work = partial(_with_defaults, served, row, partial(served.object, row))
                objects.append((row, await _evaluate(work, len(row.body))))
            except StatusError as error:
                self._failures[row.key] = error.with_traceback(None)
        return objects

    async def _write(self, catalog: TenantCatalog, served: Served, row: Row, obj: Object) -> bool:
        stored = await _evaluate(partial(served.stored_form, obj), len(row.body))
        if stored.version == row.version and stored.body == row.body:
            return False
        request = self.client.request(catalog, served, row.key)
        try:
            await replace(request, Start(row, catalog.guards), obj, obj, stored, request.actor(MANAGER, "update"))
        except (RevisionConflict, NotFound):
            return False
        except GuardsChanged as stale:
            raise CatalogStale(stale.guards) from stale
        return True


def _batches(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yields consecutive rows, at most BATCH and _BATCH_BYTES at a time, but at least one."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        size += len(row.body)
        if batch and (len(batch) == BATCH or size > _BATCH_BYTES):
            yield batch
            batch, size = [], len(row.body)
        batch.append(row)
    if batch:
        yield batch


def _with_defaults(served: Served, row: Row, read: Callable[[], Object]) -> Object:
    """Applies the storage version's defaults, which a read of the rewritten row would fill in, to the object `read`."""
    obj = read()
    if row.version != served.version.name:
        with Budget():
            served.version.schema().prune_and_default(obj)
    return obj


async def _evaluate(work: Callable[[], T], size: int) -> T:
    """Evaluates for one row, as for a request: beside the event loop if it is large, and within limits. Raises
    StatusError."""
    try:
        return await evaluate(work, size, repeatable=True)
    except BudgetExceeded as error:
        raise too_large(str(error)) from error
    except EvaluationStopped as error:
        raise service_unavailable(str(error)) from error
