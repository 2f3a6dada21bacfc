"""Checks the servers of APIServices, and writes the results into their conditions.

Each process checks the servers of the tenants that it gets requests for, as each kube-apiserver does, and proxies by
its own results. A tenant is checked by one task, a few servers at a time, every CHECK_EVERY_SECONDS, sooner after a
change or a failure, and no longer once there are no requests for the tenant.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Final, Self

from registry.aggregation.availability import Availability, AvailabilityVerdict, inspect
from registry.aggregation.backends import Backends
from registry.aggregation.discovery import Resources
from registry.aggregation.model import AVAILABLE, GROUP, PLURAL, Aggregated, APIServer
from registry.aggregation.openapi_documents import OpenAPIDocuments
from registry.api.api_services import API_SERVICES
from registry.api.catalog import TenantCatalog
from registry.api.clock import timestamp
from registry.api.errors import StatusError
from registry.api.request import Backend
from registry.api.served import Object
from registry.api.verbs.update import copy_of
from registry.controllers.api_services.namespaces import NamespaceCleaner, left_names, without_left
from registry.controllers.controller_client import ControllerClient
from registry.controllers.queue import Requeue
from registry.definitions.conditions import find, with_condition
from registry.store.errors import StoreError, TenantNotFound
from registry.store.types import ObjectKey, ResourceName, Tenant, TenantId
from registry.tasks import cancel

logger = logging.getLogger(__name__)

CHECK_EVERY_SECONDS: Final = 30.0
# The first retry delay for an unavailable server, which doubles up to the usual interval.
FIRST_RETRY_SECONDS: Final = 0.5
# A tenant without requests for this long is not checked.
IDLE_SECONDS: Final = 600.0
# Another process may have changed an APIService: requests may follow the old one for this long.
CURRENT_SECONDS: Final = 1.0
_REMEMBERED: Final = 10_000
# Servers of a tenant that are checked concurrently, so that none waits for some that hang; tenants that are checked.
_AT_A_TIME: Final = 32
_TENANTS: Final = 2000
_MANAGER: Final = "kube-apiserver"
# The shortest interval between checks of a tenant, and the longest that a request waits for the first one.
_PAUSE_SECONDS: Final = 0.1
_FIRST_CHECK_SECONDS: Final = 1.0
# The longest that discovery waits for other servers.
DISCOVERY_WAIT_SECONDS: Final = 0.1


class Monitor:
    """Checks the tenants that are touched, between entering and leaving."""

    def __init__(self, backend: Backend, backends: Backends, *, every_seconds: float = CHECK_EVERY_SECONDS) -> None:
        self.availability = Availability()
        self.openapi = OpenAPIDocuments(backends)
        self.cleaner = NamespaceCleaner(backends, self.availability)
        self._backend = backend
        self._backends = backends
        self._every_seconds = every_seconds
        self._tenants: dict[TenantId, _Checked] = {}
        # Until when a catalog counts as current, by tenant.
        self._current: dict[TenantId, float] = {}
        # Tenants with an APIService written by this process since it last read the catalog.
        self._changed: set[TenantId] = set()
        # Objects being written here, whose events are ignored.
        self._writing: set[tuple[TenantId, ObjectKey]] = set()
        self._running = contextlib.ExitStack()

    async def __aenter__(self) -> Self:
        self.availability.expose()
        self._running.callback(self.availability.withdraw)
        self._running.enter_context(self._backend.events.subscribed(self.enqueue))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.close()
        await cancel(*(checked.task for checked in self._tenants.values()))
        await self.cleaner.aclose()
        await self.openapi.aclose()

    async def catalog(self, tenant: Tenant, group: str, plural: str) -> TenantCatalog:
        """Returns the tenant's catalog for proxying: if it names other servers, it is at most CURRENT_SECONDS old, and
        they are checked. It may contain the definition of this resource only; `plural` is empty for documents."""
        catalogs = self._backend.catalogs
        changed = tenant.id in self._changed
        self._changed.discard(tenant.id)
        if changed:
            catalog = await catalogs.current(tenant)
        else:
            catalog = await (catalogs.for_resource(tenant, group, plural) if plural else catalogs.get(tenant))
        if not catalog.aggregated:
            return catalog
        self.touch(tenant)
        now = time.monotonic()
        if now < self._current.get(tenant.id, 0.0):
            return catalog
        if len(self._current) >= _REMEMBERED:
            self._current.clear()
        self._current[tenant.id] = now + CURRENT_SECONDS
        return await catalogs.current(tenant)

    async def is_available(self, tenant: Tenant, server: APIServer) -> bool:
        """Returns this process's result; before its first check the stored condition, or the result of that check."""
        known = self.availability.is_available(tenant, server)
        if known is None and not server.available:
            await self.touch(tenant).wait_until_checked(_FIRST_CHECK_SECONDS)
            known = self.availability.is_available(tenant, server)
        return server.available if known is None else known

    async def resources(self, tenant: Tenant, aggregated: Aggregated) -> dict[tuple[str, str], Resources]:
        """Returns what the servers serve, by group and version. Waits briefly for the first check of the tenant."""
        if not self.availability.names_of(tenant):
            await self.touch(tenant).wait_until_checked(DISCOVERY_WAIT_SECONDS)
        return {key: self.availability.resources(tenant, server) for key, server in aggregated.servers.items()}

    def enqueue(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        if resource == API_SERVICES and (tenant.id, key) not in self._writing:
            self._changed.add(tenant.id)
            self.touch(tenant).wake()

    def suspect(self, tenant: Tenant) -> None:
        """Schedules an early check after a server of the tenant has not answered a request."""
        self.touch(tenant).hurry()

    def touch(self, tenant: Tenant) -> _Checked:
        """Records a request for the tenant."""
        checked = self._tenants.get(tenant.id)
        if checked is None:
            checked = _Checked()
            if len(self._tenants) < _TENANTS:
                self._tenants[tenant.id] = checked
                checked.task = asyncio.create_task(self._run(tenant, checked), name=f"API servers of {tenant.name}")
        checked.touched = time.monotonic()
        return checked

    async def _run(self, tenant: Tenant, checked: _Checked) -> None:
        retry = FIRST_RETRY_SECONDS
        try:
            while time.monotonic() - checked.touched < IDLE_SECONDS:
                checked.begin()
                all_answer = await self._check_all(tenant)
                if all_answer is None:
                    return
                retry = FIRST_RETRY_SECONDS if all_answer else min(2 * retry, self._every_seconds)
                await asyncio.sleep(_PAUSE_SECONDS)
                await checked.wait(self._every_seconds if all_answer else retry)
        except TenantNotFound:
            pass
        finally:
            self.availability.forget(tenant, self.availability.names_of(tenant))
            if self._tenants.get(tenant.id) is checked:
                del self._tenants[tenant.id]

    async def _check_all(self, tenant: Tenant) -> bool | None:
        """Returns whether all servers are available, and their resources known; None if there are no servers."""
        try:
            servers = (await self._backend.catalogs.current(tenant)).aggregated.servers.values()
            if not servers:
                return None
            known = {server.name for server in servers}
            self.availability.forget(tenant, (n for n in self.availability.names_of(tenant) if n not in known))
            return all(await self._check_some(tenant, servers))
        except TenantNotFound:
            raise
        except StoreError as error:
            self._backend.store.database.log_failure(
                logger, "the API servers of %s were not checked: %s", tenant.name, error
            )
        except Exception:
            logger.exception("checking the API servers of %s failed", tenant.name)
        return False

    async def _check_some(self, tenant: Tenant, servers: Iterable[APIServer]) -> list[bool]:
        places = asyncio.Semaphore(_AT_A_TIME)

        async def check_one(server: APIServer) -> bool:
            async with places:
                finding = await inspect(self._backends, tenant, server)
                self.availability.note(tenant, server, finding)
                left = await self._write(tenant, server, finding.verdict)
                if left and finding.verdict.is_available:
                    await self._delete_left(tenant, server, left)
                # A server whose discovery fails is checked again soon, so that it is not listed as stale for long.
                return finding.verdict.is_available and finding.resources is not None

        return await asyncio.gather(*(check_one(server) for server in servers))

    async def _delete_left(self, tenant: Tenant, server: APIServer, names: Sequence[str]) -> None:
        """Deletes the content that terminated namespaces have left in a server that was unavailable."""
        done = await self.cleaner.delete_left(tenant, server, names)

        def update(old: Object) -> Object:
            new = copy_of(old)
            annotations = without_left(old["metadata"].get("annotations"), done)
            return {**new, "metadata": {**new["metadata"], "annotations": annotations}}

        client = ControllerClient(self._backend, tenant, _MANAGER)
        await client.change(GROUP, PLURAL, ObjectKey(server.name), update, uid=server.uid)

    async def _write(self, tenant: Tenant, server: APIServer, verdict: AvailabilityVerdict) -> list[str]:
        """Writes the condition; returns the namespaces whose content is left in the server."""
        now = timestamp()
        left: list[str] = []

        def with_verdict(old: Object) -> Object:
            left[:] = left_names(old["metadata"].get("annotations"))
            condition = find(old, AVAILABLE) or {}
            if tuple(condition.get(name) for name in ("status", "reason", "message")) == verdict:
                return copy_of(old)
            status = with_condition(old.get("status") or {}, AVAILABLE, *verdict, now)
            return {**copy_of(old), "status": status}

        client, key = ControllerClient(self._backend, tenant, _MANAGER), ObjectKey(server.name)
        self._writing.add((tenant.id, key))
        try:
            await client.change(GROUP, PLURAL, key, with_verdict, subresource="status", uid=server.uid)
        except Requeue:
            pass  # definitions keep changing: the next check writes it
        except StatusError as error:
            if error.code != 409:
                raise
        finally:
            self._writing.discard((tenant.id, key))
        return left


class _Checked:
    """A checked tenant: the time of its last request, and an event that ends the wait for the next check."""

    def __init__(self) -> None:
        self.touched = time.monotonic()
        self.task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._first = asyncio.Event()
        self._hurried = False

    def begin(self) -> None:
        self._wanted.clear()
        self._hurried = False

    def wake(self) -> None:
        self._wanted.set()

    def hurry(self) -> None:
        if not self._hurried:
            self._hurried = True
            asyncio.get_running_loop().call_later(FIRST_RETRY_SECONDS, self._wanted.set)

    async def wait_until_checked(self, seconds: float) -> None:
        """Returns after the first check, or on timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._first.wait()

    async def wait(self, seconds: float) -> None:
        self._first.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted.wait()
