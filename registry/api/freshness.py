"""Waits for a revision that a client has seen and this database may not have assigned yet.

With one PostgreSQL every acknowledged write is visible at once, so a future revision is a mistake of the client's (or
the result of a restored backup); it is answered as kube-apiserver does, after a short wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from registry.api.errors import revision_in_future
from registry.api.request import ResourceRequest
from registry.store.types import ResourceName, State

# kube-apiserver's watch cache waits three seconds for a revision (cacher/watch_cache.go, blockTimeout).
WAIT_SECONDS = 3.0
STEP_SECONDS = 0.25
# Not in the watch cache.
EVENTS = ResourceName("events")


class HasRevision(Protocol):
    @property
    def revision(self) -> int: ...


R = TypeVar("R", bound=HasRevision)


async def wait_for_revision(request: ResourceRequest, revision: int) -> None:
    """Returns when the tenant has reached `revision`. Raises 504 if it has not after WAIT_SECONDS.

    Events are not in kube-apiserver's watch cache, so reads of them do not wait.
    """

    async def now() -> State:
        return await request.backend.store.state(request.tenant)

    if request.served.resource_name == EVENTS:
        if (current := (await now()).revision) < revision:
            raise revision_in_future(revision, current, retry_after_seconds=0)
        return
    await wait_until(revision, now)


async def wait_until(revision: int, read: Callable[[], Awaitable[R]]) -> R:
    """Waits until what `read` returns is of `revision` or later, and returns it. Raises 504 after WAIT_SECONDS."""
    waited = 0.0
    while (current := await read()).revision < revision:
        if waited >= WAIT_SECONDS:
            raise revision_in_future(revision, current.revision)
        await asyncio.sleep(STEP_SECONDS)
        waited += STEP_SECONDS
    return current
