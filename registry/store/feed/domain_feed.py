"""What the feed knows of one domain: the ring of its newest changes, and who reads them."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from registry.store import change_log
from registry.store.errors import StoreError
from registry.store.types import Change, DomainId, ResourceName, Tenant, TenantId


class Subscriber(Protocol):
    """One reader of the changes (subscription.py)."""

    tenant: Tenant
    resource: ResourceName | None
    position: int

    @property
    def live(self) -> bool:
        """Whether it gets changes pushed; else it reads by itself."""

    def push(self, changes: tuple[Change, ...], size: int) -> None:
        """The next changes for it, of `size` bytes in all."""

    def fall_behind(self) -> None:
        """It has to read again, from its position."""

    def end(self, error: StoreError) -> None:
        """It raises the error when it has been read to its end."""


class DomainFeed:
    """What the feed knows of one domain."""

    __slots__ = ("base", "domain", "newest", "position", "read", "ring", "since_unused", "subscriptions")

    def __init__(self, domain: DomainId, position: int) -> None:
        self.domain = domain
        self.position = position
        # Invariant: the ring holds every change with base < revision <= position.
        self.base = position
        self.ring: deque[tuple[TenantId, Change]] = deque()
        # The newest revision heard of: when it is above the position there is something to read.
        self.newest = position
        # Grows with each read that has brought changes.
        self.read = 0
        self.subscriptions: dict[tuple[TenantId, ResourceName | None], set[Subscriber]] = {}
        self.since_unused: float | None = None

    def recent(self, tenant: TenantId, resource: ResourceName | None, after: int) -> list[Change] | None:
        """The changes after a revision, from the ring; None when it does not reach back so far."""
        if after < self.base:
            return None
        found: list[Change] = []
        for owner, change in reversed(self.ring):
            if change.revision <= after:
                break
            if tenant in (owner, change_log.ALL_TENANTS) and (resource is None or change.resource == resource):
                found.append(change)
        found.reverse()
        return found

    def cross(self, revision: int) -> None:
        """Goes on from a revision behind lost ones. Subscriptions that have seen any of these find out from the log."""
        before, self.position = self.position, revision
        self.ring.clear()
        self.base = revision
        for subscriptions in self.subscriptions.values():
            for subscription in subscriptions:
                if not subscription.live or subscription.position > before:
                    subscription.fall_behind()

    def publish(self, changes: list[tuple[TenantId, Change]]) -> None:
        """Takes the next changes in: appends them to the ring and gives each subscription its share of them.

        No await in here: the position and the queues change together.
        """
        self.ring.extend(changes)
        self.position = changes[-1][1].revision
        self.newest = max(self.newest, self.position)
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
