"""Runs the controllers: at once in the process that made the write, and as the leader for unfinished work of others.

Every controller is an idempotent function that reconciles one object, so work may be enqueued twice or late, and a lost
item does no harm. Failed work is retried with exponential backoff.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, Self

from registry.api.admission.namespace_lifecycle import NAMESPACES
from registry.api.api_services import API_SERVICES
from registry.api.automatic_api_services import follow_definitions
from registry.api.bound_definitions import BINDINGS, DEFINITIONS
from registry.api.request import QUOTAS, Backend
from registry.authentication.tokens.service_accounts import SECRETS, SERVICE_ACCOUNTS
from registry.authorization.rbac.stored import CLUSTER_ROLES
from registry.controllers import (
    account_secrets,
    aggregation,
    definitions,
    namespaces,
    policy_status,
    quota,
    sharing,
    tenants,
)
from registry.controllers.api_services.namespaces import NamespaceCleaner
from registry.controllers.controller_client import ControllerClient
from registry.controllers.garbage.collector import RENEW_SECONDS, Collector
from registry.controllers.held import HeldContents
from registry.controllers.namespace_defaults import Trust, ensure_defaults, namespace_to_complete
from registry.controllers.policy_status import POLICIES
from registry.controllers.queue import Requeue
from registry.controllers.storage_migration.runner import MigrationSettings, Migrator
from registry.controllers.work import ALL, Work, sweep_as_leader, work_queue
from registry.flowcontrol.time_slice import TimeSlice
from registry.store.types import ObjectKey, ResourceName, Tenant
from registry.tasks import running

logger = logging.getLogger(__name__)

_CONTROLLERS: Final[dict[ResourceName, Callable[[ControllerClient, ObjectKey], Awaitable[None]]]] = {
    API_SERVICES: lambda client, _: follow_definitions(client.backend, client.tenant),
    POLICIES: policy_status.reconcile,
    CLUSTER_ROLES: aggregation.reconcile,
    sharing.EXPORTS: sharing.reconcile_export,
}
# Concurrent workers for definitions, namespaces and others, of which a tenant has half.
_WORKERS = 8
# Tenants that are removed concurrently are half of these; each keeps the database busy half of the time.
_REMOVERS = 4
# The longest interval between retries of work that waits for others.
_MAX_RETRY_SECONDS = 5.0
# The same for a namespace whose quota leaves no room.
_MAX_DEFAULTS_RETRY_SECONDS = 60.0
# How often the leader looks for unfinished work (its process may have crashed).
SWEEP_SECONDS: Final = 10.0
_SWEPT: Final = 10_000
# Writes of APIServices and definitions in quick succession are followed by one of the automatic APIServices.
_API_SERVICES_QUIET_SECONDS: Final = 0.1


class ControllerManager:
    """Runs the controllers' workers between entering and leaving."""

    def __init__(
        self,
        backend: Backend,
        *,
        trust: Trust | None = None,
        cleaner: NamespaceCleaner | None = None,
        sweep_seconds: float = SWEEP_SECONDS,
        renew_seconds: float = RENEW_SECONDS,
        recount_seconds: float = quota.RECOUNT_SECONDS,
        migration: MigrationSettings | None = None,
    ) -> None:
        """`trust` is the certificates that every namespace gets; `cleaner` deletes what other servers hold in a
        namespace."""
        self._backend = backend
        self._sweep_seconds = sweep_seconds
        self._due = definitions.DueDefinitions()
        self._queue = work_queue(
            "a controller", self._handle, backend, workers=_WORKERS, max_retry_seconds=_MAX_RETRY_SECONDS
        )
        self._removal = work_queue(
            "the removal of tenants", self._remove, backend, workers=_REMOVERS, max_retry_seconds=_MAX_RETRY_SECONDS
        )
        self._quotas = work_queue(
            "quotas", self._count, backend, workers=_WORKERS, max_retry_seconds=_MAX_RETRY_SECONDS
        )
        self._recount = quota.Recount(backend.store, self._enqueue_quotas, seconds=recount_seconds)
        self._trust = trust or Trust()
        self._cleaner = cleaner
        self._held = HeldContents()
        self._defaults = work_queue(
            "defaults", self._ensure_defaults, backend, workers=_WORKERS, max_retry_seconds=_MAX_DEFAULTS_RETRY_SECONDS
        )
        self._collector = Collector(backend, renew_seconds=renew_seconds)
        self._migrator = Migrator(backend, migration or MigrationSettings())
        self._running = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._queue)
            await stack.enter_async_context(self._defaults)
            await stack.enter_async_context(self._removal)
            await stack.enter_async_context(self._quotas)
            await stack.enter_async_context(self._collector)
            await stack.enter_async_context(self._migrator)
            stack.enter_context(self._backend.events.subscription(self.enqueue))
            sweeping = sweep_as_leader(
                self._backend, "controllers", self._sweep, self._sweep_seconds, logger, "unfinished work"
            )
            await stack.enter_async_context(running(sweeping, "controller sweep"))
            self._running = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._running.aclose()

    def enqueue(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        """Enqueues whatever may be due for this object."""
        if resource == CLUSTER_ROLES:
            self._queue.enqueue(Work(tenant, resource, ALL))
        elif resource == API_SERVICES:
            self._queue.debounce(Work(tenant, resource, ALL), _API_SERVICES_QUIET_SECONDS)
        elif resource == POLICIES:
            self._queue.debounce(Work(tenant, resource, key), policy_status.QUIET_SECONDS)
        elif resource in (NAMESPACES, BINDINGS) or resource in _CONTROLLERS:
            self._queue.enqueue(Work(tenant, resource, key))
        if resource == DEFINITIONS:
            self._due.add(tenant, [key])
            self._queue.enqueue(Work(tenant, resource, ALL))
            self._queue.debounce(Work(tenant, API_SERVICES, ALL), _API_SERVICES_QUIET_SECONDS)
        self._migrator.enqueue(tenant, resource, key)
        if resource == tenants.TENANTS:
            self._removal.enqueue(Work(tenant, resource, key))
        if resource in (SECRETS, SERVICE_ACCOUNTS):
            self._defaults.enqueue(Work(tenant, resource, key))
        if resource == QUOTAS:
            self._enqueue_quotas(tenant, key)
        namespace = namespace_to_complete(resource, key)
        if namespace is not None:
            self._defaults.enqueue(Work(tenant, NAMESPACES, namespace))

    def _enqueue_quotas(self, tenant: Tenant, key: ObjectKey) -> None:
        """Enqueues a count of the key's namespace."""
        self._quotas.enqueue(Work(tenant, QUOTAS, ObjectKey(f"{key.partition('/')[0]}/")))

    async def _count(self, work: Work) -> None:
        await quota.reconcile(ControllerClient(self._backend, work.tenant), work.key)

    async def _remove(self, work: Work) -> None:
        await tenants.reconcile(ControllerClient(self._backend, work.tenant), work.key)

    async def _ensure_defaults(self, work: Work) -> None:
        client = ControllerClient(self._backend, work.tenant)
        if work.resource == SECRETS:
            await account_secrets.reconcile_secret(client, work.key, self._trust.root_ca)
        elif work.resource == SERVICE_ACCOUNTS and work.key.endswith("/"):
            await account_secrets.reconcile_secrets(client, work.key[:-1], self._trust.root_ca)
        elif work.resource == SERVICE_ACCOUNTS:
            await account_secrets.reconcile_account(client, work.key, partial(self._check_secrets, work))
        else:
            await ensure_defaults(client, work.key, self._trust)

    def _check_secrets(self, work: Work, namespace: ObjectKey) -> None:
        quiet, longest = account_secrets.QUIET_SECONDS, account_secrets.MAX_DEBOUNCE_SECONDS
        self._defaults.debounce_flow(work._replace(key=namespace), quiet, longest)

    @property
    def is_idle(self) -> bool:
        """Whether everything enqueued in this process has been handled."""
        queues = (self._queue, self._defaults, self._migrator)
        return not any(len(queue) for queue in queues) and not self._collector.oldest_pending()

    async def _handle(self, work: Work) -> None:
        if work.resource == NAMESPACES:
            client, enqueue = ControllerClient(self._backend, work.tenant), partial(self._queue.enqueue, work)
            await namespaces.reconcile(client, work.key, self._cleaner, enqueue, self._held)
        elif work.resource == DEFINITIONS:
            await self._reconcile_definitions(work)
        elif work.resource == BINDINGS:
            await sharing.reconcile(ControllerClient(self._backend, work.tenant), work.key, self._held)
        else:
            await _CONTROLLERS[work.resource](ControllerClient(self._backend, work.tenant), work.key)

    async def _reconcile_definitions(self, work: Work) -> None:
        client = ControllerClient(self._backend, work.tenant)
        if work.key != ALL:
            await definitions.reconcile(client, work.key, self._held)
            return
        for key in await definitions.reconcile_due(client, self._due):
            self._queue.enqueue(work._replace(key=key))
        if work.tenant in self._due:
            raise Requeue

    async def _enqueue_pending(self) -> None:
        slices = TimeSlice.current()
        for tenant, resource, key in await self._backend.store.lookups.pending(_SWEPT):
            if slices.expired():
                await slices.yield_now()
            self.enqueue(tenant, resource, key)
            self._collector.enqueue_swept(tenant, resource, key)

    async def _sweep(self) -> None:
        """Enqueues the unfinished work of every tenant, whichever process started it."""
        await self._enqueue_pending()
        self._collector.take_over()
        await self._recount.round()
