"""Ends watches when their definition changes, as kube-apiserver does.

A process follows the definitions of a domain while it serves a watch there, by one subscription for all watches.
After each change of a definition the watches of its tenant, and of tenants that have bound it, are compared with the
present catalog.

Follows apiextensions-apiserver pkg/apiserver/customresource_handler.go (updateCustomResourceDefinition): any change of
the spec or of the accepted names ends all watches of a definition.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from registry.api.bound_definitions import DEFINITIONS
from registry.api.catalog import TenantCatalog
from registry.definitions.compiled import is_served_alike
from registry.definitions.model import Definition
from registry.logs import LoggedCondition
from registry.store.errors import StoreError, TenantNotFound
from registry.store.store import Store
from registry.store.types import Change, DomainId, Guards, Tenant, TenantId

logger = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
# Longer than a restart of PostgreSQL takes. From then on it is logged, and the process is not ready.
STILL_SECONDS: Final = 5.0


class FollowedDefinition:
    """A watch's definition. From the revision `ended_at` on it is another one."""

    __slots__ = ("_leave", "definition", "ended_at", "is_bound", "tenant", "wake")

    def __init__(
        self,
        tenant: Tenant,
        definition: Definition,
        is_bound: bool,
        wake: Callable[[], None],
        leave: Callable[[FollowedDefinition], None],
    ) -> None:
        self.tenant = tenant
        self.definition = definition
        self.is_bound = is_bound
        self.wake = wake
        self.ended_at: int | None = None
        self._leave = leave

    def close(self) -> None:
        self._leave(self)


class FollowedDomain:
    """Invariant: `task` runs while there are `all_followed`."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.all_followed: set[FollowedDefinition] = set()
        # The revision of the last change that was compared; None while no changes are read.
        self.compared_at: int | None = None

    def follows_since(self, revision: int) -> bool:
        """Whether all changes of definitions after `revision` are still to be compared."""
        return self.compared_at is not None and self.compared_at <= revision


class DefinitionChanges:
    def __init__(self, store: Store, fresh: Callable[[Tenant, Guards], Awaitable[TenantCatalog]]) -> None:
        self._store = store
        self._fresh = fresh
        self._domains: dict[DomainId, FollowedDomain] = {}
        # Why the changes of a domain cannot be read now.
        self._failing: dict[DomainId, str] = {}
        self._unread = LoggedCondition(
            logger,
            "changes of definitions cannot be read",
            "changes of definitions are read again",
            level=logging.WARNING,
            delay_seconds=STILL_SECONDS,
        )

    async def follow(
        self, tenant: Tenant, definition: Definition, *, is_bound: bool, wake: Callable[[], None], known_at: int | None
    ) -> FollowedDefinition:
        """Calls `wake` when the definition is no longer served as given; perhaps at once. It was the present one at
        the revision `known_at` of the tenant's domain, or later. To be closed."""
        followed = FollowedDefinition(tenant, definition, is_bound, wake, self._forget)
        domain = self._domains.get(tenant.domain)
        if domain is None:
            # In a context of its own: the task does not belong to the request that starts it.
            task = asyncio.create_task(
                self._read(tenant.domain), name="registry definition changes", context=contextvars.Context()
            )
            domain = self._domains[tenant.domain] = FollowedDomain(task)
        domain.all_followed.add(followed)
        if known_at is not None and domain.follows_since(known_at):
            return followed
        try:
            # Finds changes that have been compared before.
            await self._check(tenant, [followed])
        except BaseException:
            followed.close()
            raise
        return followed

    def problem(self) -> str | None:
        """Returns why changes of definitions have not been read for a while; None if they are."""
        if self._unread.since_seconds() < STILL_SECONDS:
            return None
        return next(iter(self._failing.values()), None)

    def _forget(self, followed: FollowedDefinition) -> None:
        domain = self._domains.get(followed.tenant.domain)
        if domain is None:
            return
        domain.all_followed.discard(followed)
        if not domain.all_followed:
            del self._domains[followed.tenant.domain]
            domain.task.cancel()
            self._note_read(followed.tenant.domain)

    async def _read(self, domain: DomainId) -> None:
        while True:
            try:
                await self._read_on(domain)
            except StoreError as error:
                self._failing[domain] = str(error)
                # An outage of PostgreSQL is logged elsewhere.
                self._unread.hold(str(error), silent=self._store.database.away is not None)
            except Exception:
                logger.exception("reading changes of definitions failed unexpectedly")
            await asyncio.sleep(_RETRY_SECONDS)

    async def _read_on(self, domain: DomainId) -> None:
        state = self._domains[domain]
        # That of any served tenant will do; one of them may be gone by now.
        revision = (await self._store.state(next(iter(state.all_followed)).tenant)).revision
        subscription = await self._store.subscribe_wildcard(domain, DEFINITIONS, revision)
        try:
            # Changes may have been missed after a failure.
            await self._check_all(state.all_followed)
            state.compared_at = revision
            self._note_read(domain)
            async for batch in subscription:
                for change in batch.changes:
                    state.compared_at = change.revision
                    await self._check_all(self._followed_of(domain, change), change.revision)
        finally:
            state.compared_at = None
            subscription.close()

    def _note_read(self, domain: DomainId) -> None:
        self._failing.pop(domain, None)
        if not self._failing:
            self._unread.end()

    def _followed_of(self, domain: DomainId, change: Change) -> list[FollowedDefinition]:
        all_followed = self._domains[domain].all_followed
        return [
            followed
            for followed in all_followed
            if followed.definition.name == change.key and (followed.is_bound or followed.tenant.id == change.tenant)
        ]

    async def _check_all(self, all_followed: Iterable[FollowedDefinition], revision: int | None = None) -> None:
        by_tenant: dict[TenantId, list[FollowedDefinition]] = {}
        for followed in all_followed:
            by_tenant.setdefault(followed.tenant.id, []).append(followed)
        for some in by_tenant.values():
            with contextlib.suppress(TenantNotFound):  # the store ends its watches
                await self._check(some[0].tenant, some, revision)

    async def _check(
        self, tenant: Tenant, all_followed: Iterable[FollowedDefinition], revision: int | None = None
    ) -> None:
        """Ends those whose definition has changed, from `revision` on; None if that revision is unknown."""
        state = await self._store.state(tenant)
        catalog = await self._fresh(tenant, state.guards)
        for followed in all_followed:
            known = followed.definition
            current = catalog.definition(known.group, known.names.plural)
            if followed.ended_at is None and (current is None or not is_served_alike(known, current)):
                followed.ended_at = state.revision + 1 if revision is None else revision
                followed.wake()
