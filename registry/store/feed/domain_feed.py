"""A feed's state for one domain: the ring of its newest changes, and its subscribers."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Protocol

from registry.store import change_log
from registry.store.errors import StoreError
from registry.store.types import Change, DomainId, ResourceName, Tenant, TenantId


class Subscriber(Protocol):
    """A reader of the changes (subscription.py)."""

    @property
    def tenant(self) -> Tenant: ...

    @property
    def resource(self) -> ResourceName | None: ...

    @property
    def position(self) -> int: ...

    @property
    def live(self) -> bool:
        """Whether changes are pushed to it; else it reads by itself."""

    def push(self, changes: tuple[Change, ...], size: int) -> None:
        """Delivers the next changes, of `size` bytes in all."""

    def fall_behind(self) -> None:
        """Makes it read again, from its position."""

    def end(self, error: StoreError) -> None:
        """Makes it raise the error once it has been read to its end."""


class DomainFeed:
    """A feed's state for one domain."""

    __slots__ = (
        "base", "current_at", "domain", "newest", "position", "read", "ring", "since_unused", "subscriptions",
        "waiting",
    )  # fmt: skip

    def __init__(self, domain: DomainId, position: int) -> None:
        self.domain = domain
        self.position = position
        # Invariant: the ring holds every change with base < revision <= position.
        self.base = position
        self.ring: deque[tuple[TenantId, Change]] = deque()
        # The newest revision announced: when it is above the position there is something to read.
        self.newest = position
        # When the position was last found to be the newest revision, by time.monotonic().
        self.current_at = -math.inf
        # The number of the last read that returned changes.
        self.read = 0
        self.subscriptions: dict[tuple[TenantId, ResourceName | None], set[Subscriber]] = {}
        self.since_unused: float | None = None
        # Those that wait for a position.
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def reach(self, revision: int, seconds: float) -> None:
        """Waits until the position is at a revision, for so long at most."""
        if self.position >= revision:
            return
        reached = asyncio.get_running_loop().create_future()
        self.waiting.append((revision, reached))
        try:
            await asyncio.wait([reached], timeout=seconds)
        finally:
            if not reached.done():
                self.waiting.remove((revision, reached))

    def recent(self, tenant: TenantId, resource: ResourceName | None, after: int) -> list[Change] | None:
        """Returns the changes after a revision, from the ring; None if it does not reach back that far."""
        if after < self.base:
            return None
        changes: list[Change] = []
        for owner, change in reversed(self.ring):
            if change.revision <= after:
                break
            if tenant in (owner, change_log.ALL_TENANTS) and (resource is None or change.resource == resource):
                changes.append(change)
        changes.reverse()
        return changes

    def cross(self, revision: int) -> None:
        """Continues at a revision after lost ones. Subscriptions that have seen a lost one learn of it from the log."""
        before, self.position = self.position, revision
        self.ring.clear()
        self.base = revision
        for subscriptions in self.subscriptions.values():
            for subscription in subscriptions:
                if not subscription.live or subscription.position > before:
                    subscription.fall_behind()

    def publish(self, changes: list[tuple[TenantId, Change]]) -> None:
        """Appends the next changes to the ring and delivers them to the subscriptions.

        No await in here: the position and the queues change together.
        """
        self.ring.extend(changes)
        self.position = changes[-1][1].revision
        self.newest = max(self.newest, self.position)
        if self.waiting:
            self._resolve_waiting()
        if not self.subscriptions:
            return
        shares: dict[tuple[TenantId, ResourceName | None], list[Change]] = {}
        for tenant, change in changes:
            all_of: tuple[tuple[TenantId, ResourceName | None], ...] = (
                (tenant, change.resource), (tenant, None), (change_log.ALL_TENANTS, change.resource))  # fmt: skip
            for which in all_of:
                if which in self.subscriptions:
                    shares.setdefault(which, []).append(change)
        for which, share in shares.items():
            shared = tuple(share)
            size = sum([change.size for change in shared])
            for subscription in self.subscriptions[which]:
                subscription.push(shared, size)

    def _resolve_waiting(self) -> None:
        waiting, self.waiting = self.waiting, []
        for revision, reached in waiting:
            if revision > self.position:
                self.waiting.append((revision, reached))
            elif not reached.done():
                reached.set_result(None)
