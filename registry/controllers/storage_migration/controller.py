"""Storage migration: rewrites what is stored at former storage versions, and updates status.storedVersions.

It is requested by a StorageVersionMigration, or starts automatically when a definition has had several stored versions
for a while. Either way the old versions are removed from status.storedVersions atomically: the definition is updated at
the very revision by which no row was found at another version. From that revision on no write uses another one, since
every commit is checked against the definitions of its tenant.

A migration resumes after a crash: the object is pending until the migration is complete, and its rows are the cursor
(rewriting.py). One process at a time works on a resource, by a lease; two would do no harm.

Follows kubernetes pkg/controller/storageversionmigrator/{migrationrunner,customresource,resourceversion}.go.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Any, Final

from registry.api.bound_definitions import DEFINITIONS
from registry.api.clock import age_seconds, timestamp
from registry.api.request import Backend
from registry.api.served import Object
from registry.api.strategies.storageversionmigration import FAILED, RUNNING, SUCCEEDED, is_finished
from registry.controllers.controller_client import CONTROLLER_MANAGER, ControllerClient
from registry.controllers.queue import Requeue
from registry.controllers.storage_migration.rewriting import (
    Pace,
    ResourceGone,
    RewriteOutcome,
    Rewriting,
    StillOutdated,
)
from registry.controllers.work import Work
from registry.definitions.conditions import is_true, with_condition
from registry.definitions.defaulting import storage_version
from registry.store.leader import Leader
from registry.store.types import ObjectKey, ResourceName

logger = logging.getLogger(__name__)

MIGRATIONS: Final = ResourceName("storageversionmigrations.storagemigration.k8s.io")
_GROUP, _PLURAL = "storagemigration.k8s.io", "storageversionmigrations"

# A resource may be defined shortly after its migration is requested, as when both are in one file.
UNKNOWN_SECONDS: Final = 5.0
# How long a crashed holder is waited for. A batch takes a small part of it.
LEASE_SECONDS: Final = 6.0
# After this long the migration yields to others, and continues after them.
SLICE_SECONDS: Final = 20.0
# The annotation of a StorageVersionMigration with its progress: "1200/40000" objects.
PROGRESS: Final = "storagemigration.registry/progress"
# Each report is a write of the StorageVersionMigration; one that finishes sooner makes none.
PROGRESS_SECONDS: Final = 2.0


@dataclass(slots=True)
class Migrations:
    """The state shared by the migrations of a process."""

    backend: Backend
    pace: Pace
    # The leases that this process holds.
    held: set[str] = field(default_factory=set)

    async def reconcile(self, work: Work) -> None:
        """Continues one migration: that of a StorageVersionMigration, or of a definition. Raises Requeue."""
        client = ControllerClient(self.backend, work.tenant, CONTROLLER_MANAGER)
        if work.resource == MIGRATIONS:
            await self._start_requested(client, work.key)
        elif work.resource == DEFINITIONS:
            await self._automatic(client, work.key)

    # -- requested by a StorageVersionMigration
    async def _start_requested(self, client: ControllerClient, key: ObjectKey) -> None:
        migration = await _load(client, key)
        if migration is None or is_finished(migration) or migration["metadata"].get("deletionTimestamp"):
            return
        wanted = (migration.get("spec") or {}).get("resource") or {}
        group, plural = wanted.get("group") or "", wanted.get("resource") or ""
        async with _Lease(self, client, group, plural) as lease:
            await self._carry_out(client, key, migration, group, plural, lease)

    async def _carry_out(
        self, client: ControllerClient, key: ObjectKey, migration: Object, group: str, plural: str, lease: _Lease
    ) -> None:
        catalog = await client.catalog()
        definition = catalog.definition(group, plural)
        if definition is None and age_seconds(migration["metadata"]["creationTimestamp"]) < UNKNOWN_SECONDS:
            raise Requeue
        await self._begin(client, key, migration)
        if definition is None:
            await _end(client, key, FAILED, "StorageVersionMigrationFailed", "resource does not exist in discovery")
            return
        if not definition.builtin:
            name = migration["metadata"]["name"]
            running = ("True", "MigrationRunning", f"Migration {name} is running")
            await _set_definition_condition(client, group, plural, running)
            progress = _Progress(client, key, migration)
            outcome = await self._rewrite(client, group, plural, lease, progress)
            if outcome is None or outcome.failure is not None:
                await _set_definition_condition(
                    client, group, plural, ("False", "MigrationFailed", "The migration has failed")
                )
                why = outcome.failure.message if outcome and outcome.failure else "the resource is gone"
                await _end(
                    client,
                    key,
                    FAILED,
                    "StorageVersionMigrationFailed",
                    f"migration encountered unhandled error: {_outcome_message(outcome)}{why}",
                )
                return
            await _finish_definition(client, group, plural, outcome)
        await _end(client, key, SUCCEEDED, "StorageVersionMigrationSucceeded", "")

    async def _begin(self, client: ControllerClient, key: ObjectKey, migration: Object) -> None:
        if is_true(migration, RUNNING):
            return
        revision = (await self.backend.store.state(client.tenant)).revision

        def set_running(old: Object) -> Object:
            status = old.get("status") or {}
            status = {**status, "resourceVersion": status.get("resourceVersion") or str(revision)}
            return with_condition(status, RUNNING, "True", "MigrationRunning", "The migration is running", timestamp())

        await client.change_status(_GROUP, _PLURAL, key, set_running)

    # -- automatic
    async def _automatic(self, client: ControllerClient, key: ObjectKey) -> None:
        plural, _, group = str(key).partition(".")
        catalog = await client.catalog()
        definition = catalog.definition(group, plural)
        if definition is None or definition.terminating or definition.builtin:
            return
        async with _Lease(self, client, group, plural) as lease:
            outcome = await self._rewrite(client, group, plural, lease)
            if outcome is None:
                return
            if outcome.failure is not None:
                logger.warning(
                    "%s of tenant %s cannot be migrated to its storage version: %s%s",
                    key,
                    client.tenant.name,
                    _outcome_message(outcome),
                    outcome.failure.message,
                )
                return  # it will be checked again
            await _finish_definition(client, group, plural, outcome)

    # -- the rows
    async def _rewrite(
        self, client: ControllerClient, group: str, plural: str, lease: _Lease, progress: _Progress | None = None
    ) -> RewriteOutcome | None:
        """Returns the outcome, or None if the resource is gone. Raises Requeue when its lease is over.

        With `progress`, the migration was requested: rows that an earlier schema has processed are rewritten as well.
        """
        rewriting = Rewriting(client, group, plural, self.pace, whole=progress is not None)
        try:
            if progress is not None:
                await progress.begin(rewriting)
            async for rows in rewriting.run():
                if progress is not None:
                    await progress.advance(rows)
                if await lease.is_over():
                    raise Requeue
            return await rewriting.outcome()
        except ResourceGone:
            return None
        except StillOutdated as error:
            raise Requeue from error
        finally:
            if rewriting.rewritten:
                logger.info(
                    "%d objects of %s.%s of tenant %s have been rewritten at the storage version",
                    rewriting.rewritten,
                    plural,
                    group,
                    client.tenant.name,
                )


class _Progress:
    """The progress of a requested migration, in an annotation of its StorageVersionMigration.

    The total is that of its first slice. A crash loses the count of the rows since the last report, never the rows.
    """

    def __init__(self, client: ControllerClient, key: ObjectKey, migration: Object) -> None:
        self._controlled = client
        self._key = key
        text = (migration["metadata"].get("annotations") or {}).get(PROGRESS, "")
        done, _, total = text.partition("/")
        is_known = done.isdecimal() and total.isdecimal() and len(text) < 32
        self._done, self._total = (int(done), int(total)) if is_known else (0, 0)
        self._next = 0.0

    async def begin(self, rewriting: Rewriting) -> None:
        self._next = time.monotonic() + PROGRESS_SECONDS
        self._total = self._total or await rewriting.remaining()

    async def advance(self, rows: int) -> None:
        """Counts `rows`, and reports at intervals."""
        # Rows that need no change are read again in each slice, and new ones may have been written.
        self._done = min(self._done + rows, self._total)
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + PROGRESS_SECONDS
        text = f"{self._done}/{self._total}"
        await self._controlled.annotate(_GROUP, _PLURAL, self._key, lambda old: {**old, PROGRESS: text})


class _Lease:
    """Lets one migration at a time work on a resource, across all processes, and yield to others at intervals."""

    def __init__(self, migrations: Migrations, client: ControllerClient, group: str, plural: str) -> None:
        self._name = f"storage migration of {plural}.{group} of tenant {client.tenant.id}"
        self._leader: Leader = migrations.backend.store.leader(self._name, seconds=LEASE_SECONDS)
        self._held = migrations.held
        self._ends = self._renewed = 0.0

    async def __aenter__(self) -> _Lease:
        """Raises Requeue while another migration holds it."""
        if self._name in self._held:
            raise Requeue
        self._held.add(self._name)
        try:
            if not await self._leader.acquire():
                raise Requeue
        except BaseException:
            self._held.discard(self._name)
            raise
        self._renewed = time.monotonic()
        self._ends = self._renewed + SLICE_SECONDS
        return self

    async def __aexit__(self, *_: object) -> None:
        self._held.discard(self._name)
        await self._leader.release()

    async def is_over(self) -> bool:
        now = time.monotonic()
        if now - self._renewed > LEASE_SECONDS / 3:
            if not await self._leader.acquire():
                return True
            self._renewed = now
        return now >= self._ends


async def _load(client: ControllerClient, key: ObjectKey) -> Object | None:
    # Built in: any catalog has it.
    catalog = await client.cached_catalog()
    row, _ = await client.backend.store.load(client.tenant, MIGRATIONS, key)
    definition = catalog.definition(_GROUP, _PLURAL)
    assert definition is not None
    return None if row is None else catalog.at_version(definition, definition.versions["v1beta1"]).object(row)


async def _end(client: ControllerClient, key: ObjectKey, kind: str, reason: str, message: str) -> None:
    def end(migration: Object) -> Object:
        status, now = migration.get("status") or {}, timestamp()
        status = with_condition(status, RUNNING, "False", "MigrationCompleted", "Migration completed", now)
        return with_condition(status, kind, "True", reason, message, now)

    await client.change_status(_GROUP, _PLURAL, key, end)


# -- the definition


async def _set_definition_condition(
    client: ControllerClient, group: str, plural: str, condition: tuple[str, str, str]
) -> None:
    key = ObjectKey(f"{plural}.{group}")
    await client.change_definition_status(key, lambda old: _with_migrating(old, *condition))


async def _finish_definition(client: ControllerClient, group: str, plural: str, outcome: RewriteOutcome) -> None:
    """Removes the former versions from status.storedVersions, if the definition is still that of the outcome.

    Raises Requeue if it is not: then the rows are read again.
    """
    definition = outcome.definition
    key = ObjectKey(f"{plural}.{group}")

    def finish(old: Object) -> Object:
        if old["metadata"].get("uid") != definition.uid:
            return old.get("status") or {}  # another definition of the same name; nothing of it has been migrated
        if old["metadata"].get("resourceVersion") != str(definition.revision):
            raise Requeue
        assert storage_version(old) == definition.storage_version, "the catalog is of this revision"
        message = "The migration has succeeded and the stored versions have been updated"
        status = _with_migrating(old, "False", "MigrationSucceeded", message)
        return {**status, "storedVersions": [definition.storage_version]}

    await client.change_definition_status(key, finish)


def _with_migrating(crd: Object, status: str, reason: str, message: str) -> dict[str, Any]:
    """Returns the status with the condition StorageMigrating, which includes its generation."""
    new_status = with_condition(crd.get("status") or {}, "StorageMigrating", status, reason, message, timestamp())
    generation = crd["metadata"].get("generation")
    conditions = [
        {**c, "observedGeneration": generation} if c["type"] == "StorageMigrating" else c
        for c in new_status["conditions"]
    ]
    return {**new_status, "conditions": conditions}


def _outcome_message(outcome: RewriteOutcome | None) -> str:
    if outcome is None or outcome.failures < 2:
        return ""
    return f"{outcome.failures} objects could not be migrated, the first one: "
