"""Checks the servers of APIServices, and writes the results into their conditions.

Each process checks the servers of the tenants that it gets requests for, as each kube-apiserver does, and proxies by
its own results. One task for each tenant follows its APIServices; checks.py says when each server is checked. Checks
end once there are no requests for the tenant.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Self

from registry.aggregation.availability import Availability, AvailabilityVerdict, inspect
from registry.aggregation.backends import Backends
from registry.aggregation.discovery import Resources
from registry.aggregation.model import AVAILABLE, GROUP, PLURAL, Aggregated, APIServer
from registry.aggregation.openapi_documents import OpenAPIDocuments
from registry.api.admission.namespace_lifecycle import NAMESPACES
from registry.api.api_services import API_SERVICES
from registry.api.catalog import TenantCatalog
from registry.api.clock import timestamp
from registry.api.decoding import metadata_of
from registry.api.errors import StatusError
from registry.api.request import Backend
from registry.api.served import Object
from registry.controllers.api_services.checks import FIRST_RETRY_SECONDS, PAUSE_SECONDS, CheckServer, ServerCheck
from registry.controllers.api_services.namespaces import NamespaceCleaner, left_names, without_left
from registry.controllers.controller_client import ControllerClient
from registry.controllers.queue import Requeue
from registry.definitions.conditions import has_condition, with_condition
from registry.gauges import expose_gauge
from registry.store.errors import StoreError, TenantNotFound
from registry.store.types import ObjectKey, ResourceName, Tenant, TenantId
from registry.tasks import cancel

logger = logging.getLogger(__name__)

CHECK_EVERY_SECONDS: Final = 30.0
# A tenant without requests for this long is not checked.
IDLE_SECONDS: Final = 600.0
# Another process may have changed an APIService: requests may follow the old one for this long.
CURRENT_SECONDS: Final = 1.0
_REMEMBERED: Final = 10_000
# Servers of a tenant that are checked concurrently for the first time, and as many again: a server that is registered
# does not wait for others that hang.
_AT_A_TIME: Final = 32
# Limits per process: tenants, and servers of all tenants.
_TENANTS: Final = 2000
_SERVERS: Final = 20_000
_SERVICES: Final = ResourceName("services")
# The longest that a request waits for a server's first check, and that discovery waits for other servers, from the
# beginning of that check: a document takes a tenth of a second more, of which this is not all.
_FIRST_CHECK_SECONDS: Final = 1.0
DISCOVERY_WAIT_SECONDS: Final = 0.08
# The longest until an unavailable server that is asked for is checked again.
_REFUSED_SECONDS: Final = 2.0


class Monitor:
    """Checks the tenants that are touched, between entering and leaving."""

    def __init__(self, backend: Backend, backends: Backends) -> None:
        self.availability = Availability()
        self.openapi = OpenAPIDocuments(backends)
        self.cleaner = NamespaceCleaner(backends, self.availability)
        self._backend = backend
        self._backends = backends
        self._tenants: dict[TenantId, _CheckedTenant] = {}
        # Until when a catalog counts as current, by tenant.
        self._current: dict[TenantId, float] = {}
        # Tenants with an APIService written by this process since it last read the catalog.
        self._changed: set[TenantId] = set()
        # Objects being written here, whose events are ignored.
        self._writing: set[tuple[TenantId, ObjectKey]] = set()
        self._running = contextlib.ExitStack()

    async def __aenter__(self) -> Self:
        self._running.enter_context(expose_gauge(self.availability.measure))
        self._running.enter_context(self._backend.events.subscription(self.enqueue))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.close()
        checks = [task for checked in self._tenants.values() for task in checked.close()]
        await cancel(*(checked.task for checked in self._tenants.values()), *checks)
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
            check = self.touch(tenant).check_of(server)
            if check is not None:
                await check.wait(check.evaluated, _FIRST_CHECK_SECONDS)
            known = self.availability.is_available(tenant, server)
        return server.available if known is None else known

    async def resources(self, tenant: Tenant, aggregated: Aggregated) -> dict[tuple[str, str], Resources]:
        """Returns what the servers serve, by group and version. Waits briefly for a server that is being checked for
        the first time."""
        checked = self.touch(tenant)
        checks = [check for server in aggregated.servers.values() if (check := checked.check_of(server)) is not None]
        await asyncio.gather(*(check.wait(check.checked, DISCOVERY_WAIT_SECONDS) for check in checks if check.is_first))
        return {key: self.availability.resources(tenant, server) for key, server in aggregated.servers.items()}

    def enqueue(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        """Checks the server of an APIService that was written, or those whose Service was."""
        if resource == API_SERVICES and (tenant.id, key) not in self._writing:
            self._changed.add(tenant.id)
            self.touch(tenant).reload(key)
        elif resource == _SERVICES and (checked := self._tenants.get(tenant.id)) is not None:
            for check in checked.checks.values():
                if key == f"{check.server.service.namespace}/{check.server.service.name}":
                    check.restart()

    def suspect(self, tenant: Tenant, server: APIServer) -> None:
        """Schedules an early check of a server that has not answered a request."""
        self._hurry(tenant, server, FIRST_RETRY_SECONDS)

    def refused(self, tenant: Tenant, server: APIServer) -> None:
        """Schedules an early check of an unavailable server that is asked for: another process may have changed its
        Service."""
        self._hurry(tenant, server, _REFUSED_SECONDS)

    def _hurry(self, tenant: Tenant, server: APIServer, seconds: float) -> None:
        check = self.touch(tenant).check_of(server)
        if check is not None:
            check.hurry(seconds)

    def touch(self, tenant: Tenant) -> _CheckedTenant:
        """Records a request for the tenant."""
        checked = self._tenants.get(tenant.id)
        if checked is None:
            checked = _CheckedTenant(partial(self._check, tenant), self._room)
            if len(self._tenants) < _TENANTS:
                self._tenants[tenant.id] = checked
                checked.task = asyncio.create_task(self._run(tenant, checked), name=f"API servers of {tenant.name}")
        checked.touched = time.monotonic()
        return checked

    def _room(self) -> int:
        """Returns how many more servers this process checks."""
        return _SERVERS - sum(len(checked.checks) for checked in self._tenants.values())

    async def _run(self, tenant: Tenant, checked: _CheckedTenant) -> None:
        """Follows the tenant's APIServices, as long as there are any and requests for the tenant."""
        try:
            while time.monotonic() - checked.touched < IDLE_SECONDS:
                changed = checked.begin()
                aggregated = await self._load(tenant)
                if aggregated is not None:
                    if not aggregated:
                        return
                    checked.follow(aggregated)
                    known = {server.name for server in aggregated.servers.values()}
                    self.availability.forget(tenant, (n for n in self.availability.names_of(tenant) if n not in known))
                    for name in changed:
                        checked.wake(name)
                await asyncio.sleep(PAUSE_SECONDS)
                await checked.wait(CHECK_EVERY_SECONDS if aggregated is not None else FIRST_RETRY_SECONDS)
        except TenantNotFound:
            pass
        finally:
            checked.close()
            self.availability.forget(tenant, self.availability.names_of(tenant))
            if self._tenants.get(tenant.id) is checked:
                del self._tenants[tenant.id]

    async def _load(self, tenant: Tenant) -> Aggregated | None:
        """Loads the tenant's servers; None if that has failed."""
        try:
            return (await self._backend.catalogs.current(tenant)).aggregated
        except TenantNotFound:
            raise
        except StoreError as error:
            self._log(tenant, error)
        except Exception:
            logger.exception("checking the API servers of %s failed", tenant.name)
        return None

    async def _check(self, tenant: Tenant, check: ServerCheck) -> bool:
        """Checks a server; returns whether it is available, and its resources known."""
        server = check.server
        left: list[str] = []

        async def report(verdict: AvailabilityVerdict) -> None:
            self.availability.note_verdict(tenant, server, verdict)
            check.evaluated.set()
            left.extend(await self._write(tenant, server, verdict))

        try:
            finding = await inspect(self._backends, tenant, server, report)
            self.availability.note(tenant, server, finding)
            if left and finding.verdict.is_available:
                await self._delete_left(tenant, server, left)
        except TenantNotFound:
            self.touch(tenant).reload(server.name)  # ends all checks of the tenant
            return False
        except StoreError as error:
            self._log(tenant, error)
            return False
        except Exception:
            logger.exception("checking the API server %s of %s failed", server.name, tenant.name)
            return False
        # A server whose discovery fails is checked again soon, so that it is not listed as stale for long.
        return finding.verdict.is_available and finding.resources is not None

    def _log(self, tenant: Tenant, error: StoreError) -> None:
        self._backend.store.database.log_failure(
            logger, "the API servers of %s were not checked: %s", tenant.name, error
        )

    async def _delete_left(self, tenant: Tenant, server: APIServer, names: Sequence[str]) -> None:
        """Deletes the content that terminated namespaces have left in a server that was unavailable."""
        done: list[str] = []
        for name in names:
            row, _ = await self._backend.store.load(tenant, NAMESPACES, ObjectKey(name))
            metadata = None if row is None else await metadata_of(row.body)
            created = None if metadata is None else datetime.datetime.fromisoformat(metadata["creationTimestamp"])
            is_deleted = await self.cleaner.delete_left(tenant, server, name, created)
            if is_deleted is None:
                break
            if is_deleted:
                done.append(name)
        if done:
            client, make = ControllerClient(self._backend, tenant), partial(without_left, done=done)
            await client.annotate(GROUP, PLURAL, ObjectKey(server.name), make, uid=server.uid)

    async def _write(self, tenant: Tenant, server: APIServer, verdict: AvailabilityVerdict) -> list[str]:
        """Writes the condition; returns the namespaces whose content is left in the server."""
        now = timestamp()
        left: list[str] = []

        def with_verdict(old: Object) -> Object:
            left[:] = left_names(old["metadata"].get("annotations") or {})
            status = old.get("status") or {}
            is_same = has_condition(old, AVAILABLE, *verdict)
            return status if is_same else with_condition(status, AVAILABLE, *verdict, now)

        client, key = ControllerClient(self._backend, tenant), ObjectKey(server.name)
        self._writing.add((tenant.id, key))
        try:
            await client.change_status(GROUP, PLURAL, key, with_verdict, uid=server.uid)
        except Requeue:
            pass  # definitions keep changing: the next check writes it
        except StatusError as error:
            if error.code != 409:
                raise
        finally:
            self._writing.discard((tenant.id, key))
        return left


class _CheckedTenant:
    """The checks of a tenant's servers, by name, the time of its last request, and which APIServices have changed."""

    def __init__(self, check: CheckServer, room: Callable[[], int]) -> None:
        self.touched = time.monotonic()
        self.task: asyncio.Task[None] | None = None
        self.checks: dict[str, ServerCheck] = {}
        self._check = check
        self._room = room
        self._first = asyncio.Semaphore(_AT_A_TIME)
        self._others = asyncio.Semaphore(_AT_A_TIME)
        self._changed: set[str] = set()
        self._wanted = asyncio.Event()

    def reload(self, name: str) -> None:
        """Schedules a check of an APIService that was written."""
        self._changed.add(name)
        self._wanted.set()

    def begin(self) -> set[str]:
        """Returns the names of the APIServices that have changed since the last call."""
        self._wanted.clear()
        changed, self._changed = self._changed, set()
        return changed

    def follow(self, aggregated: Aggregated) -> None:
        """Begins to check servers that are new or have changed, and ends the checks of those that are gone."""
        servers = {server.name: server for server in aggregated.servers.values()}
        for name in [n for n, check in self.checks.items() if not _is_same(check.server, servers.get(n))]:
            self.checks.pop(name).close()
        for server in [server for name, server in servers.items() if name not in self.checks][: max(self._room(), 0)]:
            self._begin(server)

    def check_of(self, server: APIServer) -> ServerCheck | None:
        """Returns the checks of a server, which begin if it is unknown; None beyond the limits.

        None also if this is not the server that is checked: either may be outdated, so the APIServices are read again.
        """
        check = self.checks.get(server.name)
        if check is not None and _is_same(check.server, server):
            return check
        self._wanted.set()
        return self._begin(server) if check is None and self.task is not None and self._room() > 0 else None

    def _begin(self, server: APIServer) -> ServerCheck:
        check = self.checks[server.name] = ServerCheck(server, self._check_in_turn, CHECK_EVERY_SECONDS)
        return check

    async def _check_in_turn(self, check: ServerCheck) -> bool:
        async with self._first if check.is_first else self._others:
            return await self._check(check)

    def wake(self, name: str) -> None:
        if name in self.checks:
            self.checks[name].wake()

    def close(self) -> list[asyncio.Task[None]]:
        """Ends all checks; returns those that are being cancelled."""
        tasks = [task for check in self.checks.values() if (task := check.close()) is not None]
        self.checks.clear()
        return tasks

    async def wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wanted.wait()


def _is_same(checked: APIServer, server: APIServer | None) -> bool:
    return server is not None and checked == server and checked.uid == server.uid
