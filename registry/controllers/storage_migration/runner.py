"""Runs storage migrations beside the other controllers, with a separate queue, since they may take hours."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final, Self

from registry.api.bound_definitions import DEFINITIONS
from registry.api.request import Backend
from registry.controllers.storage_migration.controller import MIGRATIONS, Migrations
from registry.controllers.storage_migration.rewriting import Pace
from registry.controllers.work import Work, sweep_as_leader, work_queue
from registry.store.errors import StoreError
from registry.store.types import ObjectKey, ResourceName, Tenant
from registry.tasks import running

logger = logging.getLogger(__name__)

# Concurrent migrations of a process, half of them of one tenant; they share its pace.
_WORKERS: Final = 4
_MAX_RETRY_SECONDS: Final = 5.0
# How often one of all processes looks for definitions with several stored versions, and how many it takes at a time.
CHECK_SECONDS: Final = 60.0
_LOOK_LIMIT: Final = 1000
# Matches definitions with more than one stored version. Their canonical text has these in one place; a schema that
# contains the same text only causes a useless check.
_SEVERAL_STORED: Final = r'"storedVersions":\["[^]]*,'


@dataclass(frozen=True, slots=True)
class MigrationSettings:
    """`automatic`: definitions unchanged for `after_seconds` are migrated automatically."""

    automatic: bool = False
    after_seconds: float = 600.0
    rows_per_second: int = 1000
    check_seconds: float = field(default_factory=lambda: CHECK_SECONDS)


class Migrator:
    """Runs enqueued migrations between entering and leaving."""

    def __init__(self, backend: Backend, settings: MigrationSettings) -> None:
        self._backend = backend
        self._settings = settings
        migrations = Migrations(backend, Pace(settings.rows_per_second))
        self._queue = work_queue(
            "storage migration", migrations.reconcile, backend, workers=_WORKERS, max_retry_seconds=_MAX_RETRY_SECONDS
        )
        self._running = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._running.enter_async_context(self._queue)
        await self._running.enter_async_context(running(self._sweep(), "storage migration sweep"))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._running.aclose()

    def __len__(self) -> int:
        return len(self._queue)

    def enqueue(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        """Enqueues whatever may be due for this object, if it is a migration."""
        if resource == MIGRATIONS:
            self._queue.enqueue(Work(tenant, resource, key))

    async def _sweep(self) -> None:
        """Enqueues unfinished migrations of crashed processes at once, rather than at the leader's next sweep.

        Then, as the leader, enqueues the automatic migrations of every tenant.
        """
        try:
            for tenant, key in await self._backend.store.rewrites.pending(MIGRATIONS, limit=_LOOK_LIMIT):
                self.enqueue(tenant, MIGRATIONS, key)
        except StoreError as error:
            logger.warning("looking for unfinished storage migrations failed: %s", error)
        if self._settings.automatic:
            seconds, sweep = self._settings.check_seconds, self._enqueue_mixed
            await sweep_as_leader(self._backend, "storage migration", sweep, seconds, logger, "storage migrations")

    async def _enqueue_mixed(self) -> None:
        mixed = await self._backend.store.rewrites.matching(
            DEFINITIONS, _SEVERAL_STORED, seconds=self._settings.after_seconds, limit=_LOOK_LIMIT
        )
        for tenant, key in mixed:
            self._queue.enqueue(Work(tenant, DEFINITIONS, key))
