"""Reports to the cache of tenants which have changed: follows the objects that describe them, which change in the
transaction that changes the tenant's row."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from registry.store.errors import Closed, StoreError
from registry.store.feed.domain_feed import DomainFeed
from registry.store.feed.feed import Feed
from registry.store.types import Change, ResourceName, Tenant
from registry.tasks import cancel

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 5.0


class ChangedTenants(Protocol):
    """What changes are reported to: the cache of tenants."""

    def forget_name(self, name: str) -> None: ...

    def forget_all(self) -> None: ...


class TenantChanges:
    """Follows the tenant objects once `start` has been called. `find` returns the tenant that has them."""

    def __init__(
        self, feed: Feed, changed: ChangedTenants, find: Callable[[], Awaitable[Tenant]], resource: ResourceName
    ) -> None:
        self._feed = feed
        self._changed = changed
        self._find = find
        self._resource = resource
        self._followed: _Followed | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def known_at(self) -> float:
        """The time, by time.monotonic(), up to which all changes have been reported: -inf if they are not followed."""
        followed = self._followed
        return -math.inf if followed is None or followed.ended else followed.feed.current_at

    def start(self) -> None:
        """Begins to follow, unless that has begun. `known_at` has a value once the feed has been polled."""
        if self._task is None:
            # In a context of its own: the task does not belong to the request that happens to start it.
            self._task = asyncio.get_running_loop().create_task(
                self._follow(), name="registry tenant changes", context=contextvars.Context()
            )

    async def close(self) -> None:
        if self._task is not None:
            await cancel(self._task)
        self._leave()

    async def _follow(self) -> None:
        """Begins again when it has ended, until the store is closed."""
        while True:
            try:
                if self._followed is None or self._followed.ended:
                    self._leave()
                    await self._begin()
            except Closed:
                return
            except StoreError as error:
                logger.debug("tenants cannot be followed: %s", error)
            except Exception:
                logger.exception("following tenants failed unexpectedly")
            await asyncio.sleep(_RETRY_SECONDS)

    async def _begin(self) -> None:
        tenant = await self._find()
        feed = await self._feed.of(tenant)
        self._followed = _Followed(tenant, self._resource, feed, self._changed)
        self._feed.attach(feed, self._followed)
        self._changed.forget_all()  # what was read before may have changed until now

    def _leave(self) -> None:
        if self._followed is not None:
            self._feed.detach(self._followed.feed, self._followed)
            self._followed = None


class _Followed:
    """A Subscriber of the feed (feed/domain_feed.py)."""

    live = True

    def __init__(self, tenant: Tenant, resource: ResourceName, feed: DomainFeed, changed: ChangedTenants) -> None:
        self.tenant = tenant
        self.resource = resource
        self.feed = feed
        self.ended = False
        self._changed = changed

    @property
    def position(self) -> int:
        return self.feed.position

    def push(self, changes: tuple[Change, ...], size: int) -> None:
        for change in changes:
            self._changed.forget_name(change.key)

    def fall_behind(self) -> None:
        self._changed.forget_all()

    def end(self, error: StoreError) -> None:
        self.ended = True
