"""Garbage collection: the background work when an object is deleted, marked for deletion, or names an owner.

The process that commits a write also does this work. Deleted objects are gathered for a moment, and their dependents
looked up together, by the index of owners: an object that owns nothing costs a fraction of a query, off the request
path. references.py and deletion.py do what a single object's owners and dependents require.

Nothing is lost in a crash:
- An owner that waits for its dependents, or for their orphaning, is `pending` in its row; the leader finds it.
- The dependents of a deleted object, and objects with owners that have not been looked up yet, are in no row. Each
  process publishes every few seconds since when it may have such work (store/process_heartbeats.py), and advances that
  time only to its oldest unfinished work, for domains that are late apart from others. After a crash the leader reads
  the change log from that time on, and repeats all of it, which does no harm. Work that does not fit into the queues is
  recovered in the same way, by the process itself.
- The log is read in turns, so that no domain waits for one whose work hangs. What remains to be read counts as
  unfinished work of the process that reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import heapq
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final, Self

from registry.api.decoding import metadata_of
from registry.api.dependents import DeletedObject, Reference
from registry.api.errors import StatusError
from registry.api.request import Backend
from registry.caches import LruCache
from registry.controllers.controller_client import CONTROLLER_MANAGER, ControllerClient
from registry.controllers.garbage.absent_owner_cache import AbsentOwnerCache
from registry.controllers.garbage.deletion import Garbage
from registry.controllers.garbage.references import served_by_name, served_by_reference
from registry.controllers.work import Work, WorkScope, work_queue
from registry.flowcontrol.time_slice import TimeSlice
from registry.store.errors import StoreError, TenantNotFound
from registry.store.process_heartbeats import MissedChange
from registry.store.types import DomainId, ObjectKey, ResourceName, Row, Tenant, TenantId, Uid
from registry.tasks import BoundedTasks, cancel

logger = logging.getLogger(__name__)

# A tenant has at most half of them.
_WORKERS: Final = 64
_MAX_RETRY_SECONDS: Final = 30.0
# How long deleted objects are gathered, and how many are looked up in one query.
GATHER_SECONDS: Final = 0.005
GATHER_OBJECTS: Final = 500
# Concurrent lookups, of several tenants.
_LOOKUPS: Final = 4
# Deleted objects waiting for a lookup, with their owners; a tenant has at most half. Those beyond it are found in
# the change log.
GONE_LIMIT: Final = 100_000
_PAGE_ROWS: Final = 500
RENEW_SECONDS: Final = 10.0
# The shortest time between a client's mark and the removal: the client sees the object once more as it was returned,
# and can choose another policy. In a cluster the collector takes tens of milliseconds to a second to see the mark.
MARK_SECONDS: Final = 0.25
# How much later the sweep checks an owner that this process has begun with, for what others have missed.
_SWEEP_AGAIN_SECONDS: Final = 60.0
_BEGUN_LIMIT: Final = 10_000
_RETRY_SECONDS: Final = 1.0
# Domains whose change log is read for unfinished work at the same time, and for how long before it is another's turn.
_RECOVERIES: Final = 4
_TURN_SECONDS = 5.0
# The age of unfinished work from which its domain has a heartbeat of its own, and how many domains have one.
_LATE_SECONDS: Final = 60.0
_LATE_DOMAINS: Final = 1_000
# The uid of an object that still exists.
_NOBODY: Final = Uid("")


class Collector:
    """The Dependents of a process: handles its notifications between entering and leaving."""

    def __init__(self, backend: Backend, *, renew_seconds: float = RENEW_SECONDS) -> None:
        self._backend = backend
        self._absent = AbsentOwnerCache()
        self._queue = work_queue(
            "the garbage collector", self._handle, backend, workers=_WORKERS, max_retry_seconds=_MAX_RETRY_SECONDS
        )
        # Deleted objects not looked up yet, by tenant. Invariant: `_gone_since` has the domain, and the time of the
        # oldest, of each tenant in `_gone` or being looked up, and `_gone_sizes` how many are in `_gone`, with their
        # owners.
        self._gone: dict[TenantId, list[DeletedObject]] = {}
        self._gone_sizes: Counter[TenantId] = Counter()
        self._gone_since: dict[TenantId, tuple[DomainId, float]] = {}
        self._lookups: dict[TenantId, asyncio.Task[None]] = {}
        self._looking_up = asyncio.Semaphore(_LOOKUPS)
        self._wake: asyncio.Queue[Tenant] = asyncio.Queue()
        # Since when the change log of a domain has to be read: work was dropped for lack of room, or left by a crashed
        # process. Those that are being read, with the revision up to which they have been.
        self._unread: dict[DomainId, float] = {}
        self._reading: dict[DomainId, tuple[float, int]] = {}
        self._recovery: asyncio.Task[None] | None = None
        self._takes_over = False
        # When this process last notified the dependents of an owner.
        self._begun: LruCache[Work, float] = LruCache(_BEGUN_LIMIT)
        self._renew_seconds = renew_seconds
        self._heartbeats = backend.store.heartbeats(seconds=3 * renew_seconds)
        self._tasks: list[asyncio.Task[None]] = []
        self._subscription = ExitStack()

    async def __aenter__(self) -> Self:
        await self._renew()
        await self._queue.__aenter__()
        self._subscription.enter_context(self._backend.events.collector_subscription(self))
        self._tasks = [
            asyncio.create_task(self._ask(), name="dependents of what is gone"),
            asyncio.create_task(self._keep_heartbeats(), name="heartbeats of the garbage collector"),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._subscription.close()
        await cancel(*self._tasks, self._recovery, *self._lookups.values())
        await self._queue.__aexit__()
        await self._leave()

    async def _leave(self) -> None:
        """Removes the heartbeat if no work is left; otherwise the leader finds it expired and takes over."""
        try:
            async with asyncio.timeout(1):
                if not self.oldest_pending():
                    await self._heartbeats.end()
                else:
                    await self._renew(ending=True)
        except (StoreError, TimeoutError):
            pass

    # -- notifications
    def notify_owned(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        self._enqueue(Work(tenant, resource, key, WorkScope.NEW_OWNERS))

    def notify_marked(self, tenant: Tenant, resource: ResourceName, key: ObjectKey, *, by_server: bool) -> None:
        """Enqueues an object that waits for the collector. It is `pending`, so it is found again if there is no
        room."""
        work = Work(tenant, resource, key)
        if by_server:
            self._queue.enqueue(work)
        else:
            self._queue.debounce(work, MARK_SECONDS)

    def enqueue_swept(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        """Handles an object, found by the leader, that waits for a collector."""
        work = Work(tenant, resource, key)
        notified_at = self._begun.peek(work)
        if notified_at is None or notified_at + _SWEEP_AGAIN_SECONDS < _now():
            self._queue.enqueue(work)

    def notify_unblocked(self, tenant: Tenant, namespace: str, owners: Sequence[Reference]) -> None:
        self.notify_gone(tenant, DeletedObject("", "", namespace, "", _NOBODY, owners))

    def notify_gone(self, tenant: Tenant, deleted: DeletedObject) -> None:
        if deleted.uid:
            self._absent.add(tenant, deleted)
        waiting = self._gone.get(tenant.id)
        if waiting is None:
            waiting = self._gone[tenant.id] = []
            self._wake.put_nowait(tenant)
        size = _size(deleted)
        if self._gone_sizes[tenant.id] + size > GONE_LIMIT - self._gone_sizes.total():
            self._drop(tenant)
            return
        waiting.append(deleted)
        self._gone_sizes[tenant.id] += size
        self._gone_since.setdefault(tenant.id, (tenant.domain, _now()))

    def _enqueue(self, work: Work) -> None:
        if not self._queue.enqueue(work):
            self._drop(work.tenant)

    def _drop(self, tenant: Tenant) -> None:
        self._unread.setdefault(tenant.domain, _now())

    # -- background work
    async def _handle(self, work: Work) -> None:
        client = ControllerClient(self._backend, work.tenant, CONTROLLER_MANAGER)
        garbage = Garbage(client, self._absent, self._queue.enqueue, self._begin)
        identity = work._replace(scope=WorkScope.ALL)
        await garbage.reconcile(work, has_begun=identity in self._begun)

    def _begin(self, work: Work) -> None:
        self._begun.put(work, _now())

    async def _ask(self) -> None:
        """Starts a task for each tenant with deleted objects, forever: a tenant with many does not delay others."""
        while True:
            tenant = await self._wake.get()
            task = asyncio.create_task(self._ask_of(tenant), name=f"dependents of what is gone in {tenant.name}")
            self._lookups[tenant.id] = task

    async def _ask_of(self, tenant: Tenant) -> None:
        """Enqueues the dependents of a tenant's deleted objects."""
        await asyncio.sleep(GATHER_SECONDS)
        waiting = self._gone[tenant.id]
        while waiting:
            batch = waiting[:GATHER_OBJECTS]
            del waiting[:GATHER_OBJECTS]
            self._gone_sizes[tenant.id] -= sum(map(_size, batch))
            await self._query_with_retries(tenant, batch)
        del self._gone[tenant.id], self._gone_sizes[tenant.id]
        self._gone_since.pop(tenant.id, None)
        del self._lookups[tenant.id]

    async def _query_with_retries(self, tenant: Tenant, deleted: list[DeletedObject]) -> None:
        """Retries while the database is away, since no other process would do it."""
        while True:
            try:
                await self._spread(tenant, deleted)
                return
            except TenantNotFound:
                return
            except (StoreError, StatusError) as error:
                self._backend.store.database.log_failure(
                    logger, "the dependents of what is gone are asked for again: %s", error
                )
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception:
                logger.exception("the dependents of %s deleted objects could not be processed", len(deleted))
                self._drop(tenant)
                return

    async def _spread(self, tenant: Tenant, deleted: list[DeletedObject]) -> None:
        uids = [g.uid for g in deleted if g.uid]
        after: Row | None = None
        while uids:
            async with self._looking_up:
                rows = await self._backend.store.lookups.owned_by(tenant, uids, after=after, limit=_PAGE_ROWS)
            for row in rows:
                await self._queue.put(Work(tenant, row.resource, row.key))
            if not rows:
                break
            after = rows[-1]
        blocked = [(g.namespace, r) for g in deleted for r in g.owners if r.get("blockOwnerDeletion")]
        if not blocked:
            return
        catalog = await self._backend.catalogs.get(tenant)
        slices = TimeSlice.current()
        for namespace, reference in blocked:
            if slices.expired():
                await slices.yield_now()
            served = served_by_reference(catalog, reference)
            if served is not None:
                key = served.key(namespace, reference.get("name") or "")
                await self._queue.put(Work(tenant, served.resource_name, key, WorkScope.WAITING))

    # -- unfinished work
    def oldest_pending(self) -> dict[DomainId, float]:
        """Returns the time, by the loop's clock, of the oldest unfinished work of each domain that has some."""
        oldest = dict(self._unread)
        of_tenants = [(work.tenant.domain, since) for work, since in self._queue.oldest()]
        reading = [(domain, since) for domain, (since, _) in self._reading.items()]
        for domain, since in (*of_tenants, *self._gone_since.values(), *reading):
            oldest[domain] = min(since, oldest.get(domain, since))
        return oldest

    async def _renew(self, *, ending: bool = False) -> None:
        """`ending`: this process is shutting down, so the leader may take over at once."""
        now = _now()
        ages = {domain: now - since for domain, since in self.oldest_pending().items()}
        late = heapq.nlargest(_LATE_DOMAINS, [(age, domain) for domain, age in ages.items() if age > _LATE_SECONDS])
        of_late = {domain: ages.pop(domain) for _, domain in late}
        await self._heartbeats.renew(max(ages.values(), default=0.0), of_late, lives=not ending)

    async def _keep_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(self._renew_seconds)
            try:
                await self._renew()
            except StoreError as error:
                self._backend.store.database.log_failure(
                    logger, "the heartbeat of the garbage collector was not renewed: %s", error
                )
            self._recover()

    def take_over(self) -> None:
        """Begins, as the leader, with the unfinished work of crashed processes: the sweep does not wait for it."""
        self._takes_over = True
        self._recover()

    def _recover(self) -> None:
        """Begins to read the change log where that is due, unless it is in progress."""
        if self._recovery is None or self._recovery.done():
            self._recovery = asyncio.create_task(self._read_in_turns(), name="recovery of the garbage collector")

    async def _read_in_turns(self) -> None:
        tasks = BoundedTasks(_RECOVERIES)
        try:
            while True:
                if self._takes_over:
                    self._takes_over = False
                    await self._take_over()
                for domain in {**self._unread, **self._reading}:
                    await tasks.start(self._read(domain))
                await tasks.finish()
                if not self._reading:
                    return
        except StoreError as error:
            self._backend.store.database.log_failure(logger, "unfinished work will be recovered later: %s", error)
        except Exception:
            logger.exception("unfinished work could not be recovered")
        finally:
            await tasks.cancel()

    async def _take_over(self) -> None:
        """Makes the work of crashed processes that of this one."""
        for process in await self._heartbeats.dead():
            logger.info("process %s is gone: its unfinished work since %s is taken over", process.name, process.since)
            for domain, since in process.late.items():
                self._leave_unread(domain, since)
            if process.since is not None:
                async for domain in self._heartbeats.domains_with_missed_changes(process.since):
                    self._leave_unread(domain, process.since)
            await self._renew()
            await self._heartbeats.forget(process)

    def _leave_unread(self, domain: DomainId, since: datetime.datetime) -> None:
        now = _now()
        at = now - (datetime.datetime.now(datetime.UTC) - since).total_seconds()
        self._unread[domain] = min(at, self._unread.get(domain, at))

    async def _read(self, domain: DomainId) -> None:
        """Reads the log of a domain, for one turn."""
        if domain not in self._reading:
            self._reading[domain] = self._unread.pop(domain), 0
        since, revision = self._reading[domain]
        at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=_now() - since)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TURN_SECONDS):
                async for page, last in self._heartbeats.missed_changes(at, domain, revision):
                    await self._make_good(page)
                    self._reading[domain] = since, last
                del self._reading[domain]

    async def _make_good(self, page: Sequence[MissedChange]) -> None:
        deleted: dict[int, list[tuple[Tenant, DeletedObject]]] = {}
        for missed in page:
            self._backend.enqueue(missed.tenant, missed.resource, missed.key)
            if missed.last_body is None:
                await self._queue.put(Work(missed.tenant, missed.resource, missed.key, WorkScope.NEW_OWNERS))
            else:
                one = await self._deleted_object(missed)
                self._absent.add(missed.tenant, one)
                deleted.setdefault(missed.tenant.id, []).append((missed.tenant, one))
        for batch in deleted.values():
            await self._query_with_retries(batch[0][0], [one for _, one in batch])

    async def _deleted_object(self, missed: MissedChange) -> DeletedObject:
        catalog = await self._backend.catalogs.get(missed.tenant)
        served = served_by_name(catalog, missed.resource)
        group, kind = (served.kind.group, served.kind.name) if served else (missed.resource.partition(".")[2], "")
        return DeletedObject.of(group, kind, await metadata_of(missed.last_body or ""), missed.uid)


def _size(deleted: DeletedObject) -> int:
    """Returns what a deleted object counts for: it may refer to thousands of owners."""
    return 1 + len(deleted.owners)


def _now() -> float:
    return asyncio.get_running_loop().time()
