"""The store: the one object through which everything above reads and writes PostgreSQL.

Connections of a process: 2 writers, 2 readers, 4 for pages, tenants and rare calls, 2 for queries over declared
indexes, 2 for the change feed, 1 each to notify, listen, maintain reporting views and probe: at most 16.
Each is opened on first use.
"""

from __future__ import annotations

import asyncio
import datetime
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self, Unpack

from registry.flowcontrol.rounds import WOKEN_AT_ONCE, Rounds
from registry.store import change_log, compaction
from registry.store.bounds import CHUNK_ROWS
from registry.store.commit.writer import Writer
from registry.store.connection import CONNECT_TIMEOUT_SECONDS, Pool
from registry.store.database import Database
from registry.store.encryption import resealing
from registry.store.encryption.sealing import MARK, Encryption, Sealing
from registry.store.errors import AlreadyExists, RevisionConflict, TenantNotFound
from registry.store.feed.feed import Feed
from registry.store.feed.subscription import Subscription, WakeReader
from registry.store.indexes import Indexing
from registry.store.leader import INTERVAL_SECONDS, LEASE_SECONDS, Leader, run_housekeeping
from registry.store.process_activity import ProcessActivity
from registry.store.process_heartbeats import ProcessHeartbeats
from registry.store.reads import indexed
from registry.store.reads.grouped import GroupReads
from registry.store.reads.history import HistoryReads
from registry.store.reads.indexed import IndexReads
from registry.store.reads.lookups import Lookups
from registry.store.reads.pages import PLACES, Pages, Places, Query, Where
from registry.store.reads.points import Done, PointReader
from registry.store.reads.statistics import StatisticsReads
from registry.store.reads.wildcard import WildcardReads
from registry.store.reads.words import Words
from registry.store.reporting.logins import END_BLOCKERS
from registry.store.reporting.setup import REPORTS_LOCK
from registry.store.rewrites import Rewrites
from registry.store.session_check import SessionCheck
from registry.store.sharing import Sharing
from registry.store.signing_keys import StoredSigningKeys
from registry.store.tenants import Tenants
from registry.store.timelines import Timelines
from registry.store.tokens import Tokens
from registry.store.types import (
    Change,
    Committed,
    DomainId,
    Guards,
    ObjectKey,
    Page,
    ResourceName,
    Row,
    State,
    Tenant,
    TenantName,
    Write,
)
from registry.store.watch_cache import WatchCache
from registry.tasks import cancel

POOL_CONNECTIONS: Final = 8
# Queries over declared indexes that run at the same time; two of one tenant.
QUERY_CONNECTIONS: Final = 3


class Store:
    """Created by `await Store.open(dsn)`, closed by `await store.close()`.

    Every method may raise Unavailable; those that take a tenant, TenantNotFound.
    """

    def __init__(
        self,
        dsn: str,
        *,
        listen_dsn: str | None = None,
        retention: datetime.timedelta = compaction.DEFAULT_RETENTION,
        connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
        encryption: Encryption | None = None,
        wake_reader: WakeReader | None = None,
    ) -> None:
        """`wake_reader` decides when watches are woken that have something to send; by default a few at a time."""
        self.process = secrets.token_hex(8)
        self.retention = retention  # how far the change log reaches back
        timelines = Timelines(self._forget)
        self.database = Database(dsn, connect_timeout_seconds=connect_timeout_seconds, timelines=timelines)
        listens = self.database
        if listen_dsn is not None:
            listens = Database(listen_dsn, connect_timeout_seconds=connect_timeout_seconds, timelines=timelines)
        self._pool = Pool(self.database, "pool", POOL_CONNECTIONS)
        self._reader = PointReader(self.database)
        # A separate pool, so that lists do not delay watches.
        self._feed_pool = Pool(self.database, "feed", 2)
        self._sealing = Sealing(self._pool, encryption)
        self._feed = Feed(
            self._feed_pool,
            self.database,
            listens,
            self.process,
            self._sealing,
            wake_reader or Rounds(WOKEN_AT_ONCE).run,
        )
        self._writer = Writer(
            self.database, on_commit=self._feed.notify_committed, make_partitions=self.make_partitions
        )
        self._session_check = SessionCheck(self.database)
        # A separate pool, so that expensive queries do not delay other lists.
        self._query_pool = Pool(self.database, "query", QUERY_CONNECTIONS, settings=indexed.SESSION)
        self.index_reads = IndexReads(self._query_pool, self._pool)
        self.group_reads = GroupReads(self._query_pool)
        self.indexing = Indexing(self._pool, self._sealing)
        self._pages = Pages(self._pool)
        self._watch_cache = WatchCache(self._pages, self._reader, self._feed)
        self.tenancy = Tenants(self._pool)
        self.history = HistoryReads(self._pool, self._sealing)
        self.statistics = StatisticsReads(self._pool, self._sealing)
        self.wildcard = WildcardReads(self._pool, self._sealing)
        self.lookups = Lookups(self._pool, self._sealing)
        self.rewrites = Rewrites(self._pool, self._sealing)
        self.tokens = Tokens(self._pool)
        self.sharing = Sharing(self._pool)
        # One connection: views are created one at a time, and wait for each other in PostgreSQL.
        self.reporting_pool = Pool(self.database, "reporting", 1)
        self.keys = StoredSigningKeys(self._pool, self._sealing.masters)
        self._housekeeping: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, dsn: str, *, listen_dsn: str | None = None, housekeeping: bool = True, **options: Any) -> Self:
        """Connects and creates missing log partitions. The database must be migrated (migrate.upgrade)."""
        store = cls(dsn, listen_dsn=listen_dsn, **options)
        store.database.start()
        try:
            await store.make_partitions()
        except BaseException:
            await store.close()
            raise
        if housekeeping:
            store._housekeeping = asyncio.create_task(store._run_housekeeping(), name="registry store housekeeping")
        return store

    async def close(self) -> None:
        """Ends watches, finishes accepted writes, closes all connections."""
        await cancel(self._housekeeping)
        await self._session_check.close()
        await self.database.close()
        self._watch_cache.close()
        await self.tenancy.close()
        await self._feed.close()
        await self._writer.close()
        await self._feed.notifier.close()
        await self._reader.close()
        await self._feed_pool.close()
        await self._query_pool.close()
        await self.reporting_pool.close()
        await self._pool.close()

    def _forget(self) -> None:
        """Drops caches when PostgreSQL is on a new timeline: what was read on the old one may be lost."""
        self._sealing.forget()
        self._watch_cache.forget()
        self.tenancy.forget_all()
        self._feed.wake_all()
        # Connections to the old server may still be open, and carry nothing.
        self.database.abort()

    async def require_readable(self) -> None:
        """Raises Unreadable if anything is encrypted by a master key that is not configured."""
        await resealing.require_masters(self._pool, self._sealing.masters)

    async def commit(self, tenant: Tenant, write: Write) -> Committed:
        """Commits one write. Raises AlreadyExists, NotFound, RevisionConflict, InUse, GuardsChanged, Unstorable,
        Unavailable, Uncertain.

        Cancelled before the write was sent, nothing is written; cancelled later, it is written nevertheless.
        """
        if write.resource in self._sealing.resources:
            write = await self._sealing.write(tenant, write)
        try:
            return await self._writer.commit(tenant, write)
        except TenantNotFound:
            self.tenancy.forget(tenant)
            raise
        except (AlreadyExists, RevisionConflict) as error:
            error.current = await self._sealing.row(tenant.id, error.current)
            raise
        finally:
            if write.tenancy is not None:
                self.tenancy.forget_name(write.key)

    async def load(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> tuple[Row | None, State]:
        try:
            row, state = await self._reader.load(tenant, resource, key)
        except TenantNotFound:
            self.tenancy.forget(tenant)
            raise
        return await self._sealing.row(tenant.id, row), state

    def begin_load(self, tenant: Tenant, resource: ResourceName, key: ObjectKey, done: Done) -> None:
        """Starts a load whose row may still be sealed (`is_sealed`). `resource` and `key` are ASCII. Raises Closed and
        Unavailable at once; `done` gets the row or another error, once, in a later iteration of the event loop."""
        self._reader.begin(tenant, resource, key, done)

    @staticmethod
    def is_sealed(row: Row) -> bool:
        """Whether the body of a row from `begin_load` is encrypted, and must not be used."""
        return row.body.startswith(MARK)

    async def state(self, tenant: Tenant) -> State:
        try:
            return await self._reader.state(tenant)
        except TenantNotFound:
            self.tenancy.forget(tenant)
            raise

    async def page(
        self,
        tenant: Tenant,
        resource: ResourceName,
        *,
        limit: int | None = None,
        left: int | None = None,
        **where: Unpack[Where],
    ) -> Page:
        """Returns rows in the order of their keys, exact at one revision: `at`, or now. Without `limit` all of them, if
        they total at most GATHERED_BYTES (registry/store/bounds.py). `left` is `remaining` of the page before.

        Raises RevisionExpired, RevisionInFuture, TooManyBytes, IndexNotReady.
        """
        return await self._open_page(
            tenant, await self._watch_cache.page(tenant, Query(resource, left=left, **where), limit)
        )

    async def scan(
        self,
        tenant: Tenant,
        resource: ResourceName,
        *,
        words: Words | None = None,
        rows: int = CHUNK_ROWS,
        **where: Unpack[Where],
    ) -> AsyncGenerator[Page, None]:
        """Yields all rows in chunks of about `rows`, at one revision; at least one chunk. Holds two chunks at a
        time."""
        async with aclosing(self._watch_cache.scan(tenant, Query(resource, words=words, **where), rows)) as pages:
            async for page in pages:
                yield await self._open_page(tenant, page)

    async def places(
        self, tenant: Tenant, resource: ResourceName, *, limit: int | None = None, **where: Unpack[Where]
    ) -> AsyncGenerator[Places, None]:
        """Yields the places of objects without their bodies, all at one revision: at least one part, perhaps empty."""
        left = limit
        query = Query(resource, **where)
        while True:
            part = await self._pages.places(tenant, query, min(left or PLACES, PLACES))
            yield part
            if left is not None:
                left -= len(part.places)
            if not part.more or left == 0:
                return
            query = replace(query, at=part.revision, after=part.places[-1].key)

    async def _open_page(self, tenant: Tenant, page: Page) -> Page:
        rows = await self._sealing.rows(tenant.id, page.rows)
        return page if rows is page.rows else replace(page, rows=rows)

    async def subscribe(
        self, tenant: Tenant, resource: ResourceName | None = None, after: int | None = None
    ) -> Subscription:
        """Subscribes to changes after a revision (None: after now), of one resource or of all. Close it when done.

        Raises RevisionExpired. A revision in the future is waited for.
        """
        if after is None:
            after = (await self.state(tenant)).revision
        return await self._feed.subscribe(tenant, resource, after)

    async def subscribe_wildcard(self, domain: DomainId, resource: ResourceName, after: int) -> Subscription:
        """Subscribes to a resource in all tenants of a domain; the caller decides which changes may be seen."""
        all_tenants = Tenant(change_log.ALL_TENANTS, TenantName("*"), domain, Guards(0, 0))
        return await self._feed.subscribe(all_tenants, resource, after)

    async def changes(
        self, tenant: Tenant, resource: ResourceName, *, after: int, upto: int
    ) -> AsyncIterator[Sequence[Change]]:
        """Yields the changes of a resource after a revision, at least up to `upto`, in batches bounded by bytes. They
        lack the bodies that they replaced, but those of deletions.

        Raises RevisionExpired.
        """
        while after < upto:
            changes, after = await change_log.replay(self._pool, tenant.id, tenant.domain, resource, after, states=True)
            await self._sealing.changes(changes)
            yield changes

    async def create_tenant(
        self, name: TenantName, domain: DomainId | None = None, attributes: dict[str, Any] | None = None
    ) -> Tenant:
        """Raises TenantExists. `domain` is that of the tenants with which it is to be watched together."""
        return await self.tenancy.create(name, domain, attributes)

    async def tenant(self, name: TenantName) -> Tenant:
        """Returns a tenant, as it was at most five seconds ago (tenants.CACHE_SECONDS); its guards may be older."""
        return await self.tenancy.find(name)

    def follow_tenants(self, owner: TenantName, resource: ResourceName) -> None:
        """Says where the objects are that describe the tenants: with many, their changes are followed."""
        self.tenancy.follow(self._feed, owner, resource)

    async def tenants(self, after: TenantName | None = None, limit: int = 500) -> list[Tenant]:
        return await self.tenancy.list(after, limit)

    def leader(self, name: str, *, seconds: float = 15.0) -> Leader:
        """Returns a candidate, for this process, for the leadership of a background job."""
        return Leader(self._pool, name, self.process, seconds=seconds)

    def heartbeats(self, *, seconds: float = 30.0) -> ProcessHeartbeats:
        """Returns the heartbeat of this process, which also finds the unfinished work of crashed ones."""
        return ProcessHeartbeats(self._pool, self.process, self._sealing, seconds=seconds)

    async def end_blockers_of_reports(self) -> None:
        """Ends the sessions of report logins for which a change of reports waits, on a connection of others."""
        await self._pool.execute(END_BLOCKERS, {"lock": REPORTS_LOCK})

    def activity(self) -> ProcessActivity:
        """Publishes the tenants' activity in this process, and reads that of the others."""
        return ProcessActivity(self._pool, self.process)

    async def make_partitions(self) -> list[str]:
        return await compaction.make_partitions(self._pool, self.retention)

    async def compact(self) -> list[str]:
        """Drops log partitions older than the retention."""
        return await compaction.compact(self._pool, self.retention)

    async def ping(self) -> None:
        """Raises Unavailable unless PostgreSQL answers. Returns within some 50 ms."""
        await self.database.ping()

    def problems(self) -> dict[str, Callable[[], str | None]]:
        """Returns further health checks by name: each returns what is wrong now, or None."""
        return {
            "database": self.database.problem,
            "new-session": lambda: self._session_check.problem,
            "migrations": lambda: self._session_check.migration_problem,
            "feed": self._feed.problem,
            "disk": lambda: self._writer.problem(full=True),
            "writes": lambda: self._writer.problem(full=False),
            "clock": lambda: self.database.clock_problem,
        }

    async def try_session(self) -> None:
        """Raises Unavailable unless PostgreSQL has lately opened a new session that can run our functions."""
        await self._session_check.require()

    async def _run_housekeeping(self) -> None:
        leader = self.leader("store housekeeping", seconds=LEASE_SECONDS)
        finish_deletions = partial(self.tenancy.finish_deletions, seconds=10 * INTERVAL_SECONDS)
        clean = [self.tokens.clean, self.keys.clean, self.sharing.clean]
        await run_housekeeping(self.database, leader, [self.make_partitions, self.compact, finish_deletions, *clean])
