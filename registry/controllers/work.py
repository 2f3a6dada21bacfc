"""The items of the controllers' queues, one object to reconcile each, and the sweeps for those that are in no queue."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Final, NamedTuple

from registry.api.request import Backend
from registry.controllers.queue import WorkQueue
from registry.store.errors import StoreError
from registry.store.types import ObjectKey, ResourceName, Tenant

# Stands for all objects of a resource of a tenant that are one work item, whichever of them has changed. No object has
# this name.
ALL: Final = ObjectKey("*")


class WorkScope(enum.Enum):
    """How much of an object is checked."""

    ALL = "all"  # whatever is due
    NEW_OWNERS = "new owners"  # only whether there are any; collection for a waiting owner is not requested yet
    WAITING = "waiting"  # only whether its deletion can continue


class Work(NamedTuple):
    """One object to reconcile. Equality ignores all of the tenant but its ID."""

    tenant: Tenant
    resource: ResourceName
    key: ObjectKey
    scope: WorkScope = WorkScope.ALL

    def __hash__(self) -> int:
        return hash((self.tenant.id, self.resource, self.key, self.scope))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Work)
            and self.tenant.id == other.tenant.id
            and self.resource == other.resource
            and self.key == other.key
            and self.scope is other.scope
        )

    def __str__(self) -> str:
        return f"{self.resource} {self.key} of tenant {self.tenant.name}"


def work_queue(
    name: str, handle: Callable[[Work], Awaitable[None]], backend: Backend, *, workers: int, max_retry_seconds: float
) -> WorkQueue[Work]:
    """Returns a queue that is fair between tenants."""
    flow, database = attrgetter("tenant.id"), backend.store.database
    return WorkQueue(name, handle, database, flow=flow, workers=workers, max_retry_seconds=max_retry_seconds)


async def sweep_as_leader(
    backend: Backend, name: str, sweep: Callable[[], Awaitable[None]], seconds: float, logger: logging.Logger, what: str
) -> None:
    """Runs `sweep` at intervals while this process leads, until cancelled. A sweep that fails is logged."""
    leader = backend.store.leader(name, seconds=3 * seconds)
    try:
        while True:
            try:
                if await leader.acquire():
                    await sweep()
            except StoreError as error:
                backend.store.database.log_failure(logger, "the sweep for %s failed: %s", what, error)
            except Exception:
                logger.exception("the sweep for %s failed", what)
            await asyncio.sleep(seconds)
    finally:
        await leader.release()
