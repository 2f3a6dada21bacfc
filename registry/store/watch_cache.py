"""The watch cache: rows of collections that are listed again and again, in memory, kept right by the feed.

A part has the rows of a range of keys. It is right from the revision `since`, where its contents came about as far as
is known, up to the position of the domain's feed, whose changes are applied to it. A list of the newest state reads
the newest revision from PostgreSQL and takes from memory what is right at that revision; as kube-apiserver does with
etcd (KEP-2340, consistent reads from cache). What is not right then, or not there, is read from PostgreSQL.

Only collections whose list is read for the second time within a minute are kept: a list that is read once costs
nothing. Lists with selectors, and encrypted objects, are not kept. Only reads that allow it are from memory: lists that
clients request, and what watches begin with.
"""

from __future__ import annotations

import asyncio
import contextvars
from bisect import bisect_left, insort
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from sys import getsizeof
from time import monotonic
from typing import Final

from prometheus_client import Counter

from registry.caches import ExpiringCache, LruCache
from registry.store.bounds import CHUNK_ROWS, GATHERED_BYTES
from registry.store.encryption.sealing import MARK
from registry.store.errors import StoreError, TooManyBytes
from registry.store.feed.domain_feed import DomainFeed
from registry.store.feed.feed import Feed
from registry.store.reads.pages import LARGE_BYTES, Pages, Query, next_size
from registry.store.reads.points import PointReader
from registry.store.types import Change, ChangeType, ObjectKey, Page, ResourceName, Row, State, Tenant, TenantId

PARTS: Final = Counter("registry_list_parts_total", "Pages and chunks of lists, by where they come from.", ["source"])
_FROM_MEMORY: Final = PARTS.labels("memory")
_FROM_POSTGRESQL: Final = PARTS.labels("postgresql")

CAPACITY_BYTES: Final = 64 << 20
# Collections that are kept, and that are remembered as read once.
COLLECTIONS: Final = 1_000
# Shorter lists are read from PostgreSQL in hardly more time than the newest revision.
WORTH_BYTES: Final = 32 << 10
# A collection that has not been read for this long is not kept.
KEPT_SECONDS: Final = 60.0
# Namespaces whose lists are kept of a collection, and different limits of pages of each, or of all.
_NAMESPACES: Final = 500
_LIMITS: Final = 4
# Parts that are kept of such a list.
_PARTS: Final = 2_000
# A row takes this much more memory than its body.
_ROW_BYTES: Final = 400
# A feed is this far behind at most, usually: it waits for the commits of this process, or a notification of another's.
_LAG_SECONDS: Final = 0.02
# The most rows of a part. It may grow by a quarter, or by this.
_PART_ROWS: Final = 4 * CHUNK_ROWS
_GROWTH_BYTES: Final = 16 << 10

_LAST_KEY: Final = ObjectKey("\U0010ffff")
_ALL: Final = "*"
_Name = tuple[TenantId, ResourceName]
# The resource of a tenant; a namespace, or _ALL; the limit of a page, or, below zero, the rows of a scan's first
# chunk; the key after which the part begins.
_PartKey = tuple[TenantId, ResourceName, str, int, str]


@dataclass(slots=True)
class _Part:
    """The rows of keys after one key, up to `end`, which is behind all keys in the last part of a list.

    `remaining` is that of a first page. `size` is what the part took when it was read, and `grown` what it takes more.
    """

    rows: list[Row]
    since: int
    end: ObjectKey
    more: bool
    remaining: int | None
    size: int
    grown: int = 0
    # Whether a list may still read the rows: they are copied before the next change.
    is_read: bool = False


class _Collection:
    """The parts of a resource in a tenant. It is a Subscriber of the feed (feed/domain_feed.py).

    `unchanged_since` is a revision from which on nothing has changed, as far as the feed has read.
    """

    live = False  # after a failover it begins again, whatever has been lost

    def __init__(
        self, tenant: Tenant, resource: ResourceName, feed: DomainFeed, parts: LruCache[_PartKey, _Part]
    ) -> None:
        self.tenant = tenant
        self.resource = resource
        self.feed = feed
        self.unchanged_since = feed.position
        self.used = monotonic()
        # The tenant is gone, or the store is closed.
        self.ended = False
        self._parts = parts
        # The keys after which parts begin, in their order, by namespace and limit. Parts may be missing.
        self._starts: dict[str, dict[int, list[str]]] = {}

    @property
    def position(self) -> int:
        return self.feed.position

    def part(self, query: Query, limit: int) -> _Part | None:
        """Returns the part that begins where the query does."""
        return self._parts.get(self._key(_namespace(query), limit, query.after or ""))

    def keep(self, query: Query, limit: int, page: Page) -> None:
        """Keeps a page that was read, if it shows what is there now."""
        rows, namespace, after = page.rows, _namespace(query), query.after or ""
        if self.ended or not self.unchanged_since <= page.revision <= self.position or len(rows) > _PART_ROWS:
            return
        if limit > 0 and query.after is None and query.at is not None:
            return  # the number of remaining objects is not exact if they are many
        size = sum([getsizeof(row.body) for row in rows]) + _ROW_BYTES * len(rows)
        limits = self._starts.get(namespace, {})
        if limit not in limits and (size < WORTH_BYTES or len(limits) >= _LIMITS or not self._has_room(namespace)):
            return
        if any(row.body.startswith(MARK) for row in rows) or self._takes_too_much(size):
            return
        starts = self._starts.setdefault(namespace, {}).setdefault(limit, [])
        end = rows[-1].key if page.more else _LAST_KEY
        self._make_way(namespace, limit, starts, after, end)
        if len(starts) < _PARTS:
            insort(starts, after)
            part = _Part(list(rows), page.revision, end, page.more, page.remaining, size)
            self._parts.put(self._key(namespace, limit, after), part)

    def _has_room(self, namespace: str) -> bool:
        """Returns whether lists of the namespace may be kept, once those are forgotten of which nothing is left."""
        if namespace not in self._starts and len(self._starts) >= _NAMESPACES:
            for other, limits in list(self._starts.items()):
                lists = [(limit, start) for limit, starts in limits.items() for start in starts]
                if not any(self._key(other, *one) in self._parts for one in lists):
                    del self._starts[other]
        return namespace in self._starts or len(self._starts) < _NAMESPACES

    def _takes_too_much(self, size: int) -> bool:
        """Returns whether parts of others would be dropped for a collection that holds half of the cache."""
        parts = self._parts
        if parts.weight + size <= parts.capacity:
            return False
        limits = [(name, limit, some) for name, by_limit in self._starts.items() for limit, some in by_limit.items()]
        held = [parts.peek(self._key(name, limit, start)) for name, limit, some in limits for start in some]
        return sum([part.size for part in held if part is not None]) + size > parts.capacity // 2

    def _make_way(self, namespace: str, limit: int, starts: list[str], after: str, end: str) -> None:
        """Drops the parts that overlap a range: they are of another reading, and an object is in one part at most."""
        first, last = bisect_left(starts, after), bisect_left(starts, end)
        if first:
            before = self._parts.peek(self._key(namespace, limit, starts[first - 1]))
            first -= before is not None and before.end > after
        self._drop_parts(namespace, limit, starts, first, last)
        if len(starts) >= _PARTS:
            starts[:] = [start for start in starts if self._key(namespace, limit, start) in self._parts]

    def _drop_parts(self, namespace: str, limit: int, starts: list[str], first: int, last: int) -> None:
        for start in starts[first:last]:
            self._parts.pop(self._key(namespace, limit, start))
        del starts[first:last]

    def push(self, changes: tuple[Change, ...], size: int) -> None:
        for change in changes:
            self.unchanged_since = change.revision
            for namespace in (_ALL, change.key.rpartition("/")[0]):
                for limit, starts in self._starts.get(namespace, {}).items():
                    self._apply(namespace, limit, starts, change)

    def fall_behind(self) -> None:
        self.forget()
        self.unchanged_since = self.position

    def end(self, error: StoreError) -> None:
        self.forget()
        self.ended = True

    def forget(self) -> None:
        """Drops all parts."""
        for namespace, limits in self._starts.items():
            for limit, starts in limits.items():
                self._drop_parts(namespace, limit, starts, 0, len(starts))
        self._starts.clear()

    def _key(self, namespace: str, limit: int, start: str) -> _PartKey:
        return (self.tenant.id, self.resource, namespace, limit, start)

    def _apply(self, namespace: str, limit: int, starts: list[str], change: Change) -> None:
        place = bisect_left(starts, change.key)
        if limit > 0 and change.type is not ChangeType.MODIFIED:
            # Pages that begin before the key may have other rows now, and another number of objects behind them.
            self._drop_parts(namespace, limit, starts, 0, place)
        elif place:
            key = self._key(namespace, limit, starts[place - 1])
            part = self._parts.peek(key)
            if part is not None and change.key <= part.end:
                self._replace(key, part, change)

    def _replace(self, key: _PartKey, part: _Part, change: Change) -> None:
        """Applies a change to the part that has its key."""
        if part.is_read:
            part.rows, part.is_read = part.rows.copy(), False
        rows = part.rows
        place = bisect_left(rows, change.key, key=_key_of)
        row = rows[place] if place < len(rows) and rows[place].key == change.key else None
        if row is not None:
            part.grown -= getsizeof(row.body) + _ROW_BYTES
            del rows[place]
        if change.type is not ChangeType.DELETED:
            part.grown += getsizeof(change.body) + _ROW_BYTES
            state = (change.key, change.uid, change.revision, change.version, change.schema, change.body)
            rows.insert(place, Row(self.resource, *state))
        part.since = change.revision
        is_expected = (row is None) is (change.type is ChangeType.ADDED)
        is_large = len(rows) > _PART_ROWS or part.grown > max(part.size // 4, _GROWTH_BYTES)
        if not is_expected or is_large or change.body.startswith(MARK):
            self._parts.pop(key)


def _key_of(row: Row) -> ObjectKey:
    return row.key


class WatchCache:
    """Lists, from memory as far as they are kept. Methods raise as those of Pages do."""

    def __init__(self, pages: Pages, reader: PointReader, feed: Feed) -> None:
        self._pages = pages
        self._reader = reader
        self._feed = feed
        self._parts: LruCache[_PartKey, _Part] = LruCache(CAPACITY_BYTES, weigh=lambda part: part.size)
        self._collections: dict[_Name, _Collection] = {}
        self._read_once: ExpiringCache[tuple[TenantId, ResourceName, str, int], bool] = ExpiringCache(COLLECTIONS)
        self._sweep: asyncio.Handle | None = None

    def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()

    def forget(self) -> None:
        """Drops all that is kept."""
        for collection in list(self._collections.values()):
            self._drop(collection)

    async def page(self, tenant: Tenant, query: Query, limit: int | None) -> Page:
        """Returns at most `limit` rows after `query.after`; without a limit all of them, if they fit in GATHERED_BYTES.

        Raises RevisionExpired, RevisionInFuture, TenantNotFound, TooManyBytes, IndexNotReady.
        """
        if limit:
            page, _ = await self._first(tenant, query, limit)
            return page
        chunks = []
        size = 0
        async with aclosing(self.scan(tenant, query)) as scan:
            async for chunk in scan:
                chunks.append(chunk)
                size += chunk.size
                if size > GATHERED_BYTES:
                    raise TooManyBytes(query.resource)
        rows = chunks[0].rows if len(chunks) == 1 else [row for chunk in chunks for row in chunk.rows]
        return Page(rows, chunks[0].revision, False, None, chunks[0].state)

    async def scan(self, tenant: Tenant, query: Query, rows: int = CHUNK_ROWS) -> AsyncGenerator[Page, None]:
        """Yields all rows in chunks, all at the revision of the first; at least one chunk, perhaps empty.

        The next chunk is read while the caller works on this one, unless this one is large: then the caller is busy
        enough, perhaps for long.
        """
        page, end = await self._first(tenant, query, -rows)
        while page.more:
            rest = replace(query, at=page.revision, after=end, left=None)
            known = self._from_memory(tenant, rest, -rows, page.state, page.revision)
            if known is not None:
                yield page
                page, end = known
                continue
            size = next_size(page.rows)
            if page.size > LARGE_BYTES:
                yield page
                page, end = await self._read(tenant, rest, -rows, size)
                continue
            ahead = asyncio.create_task(self._read(tenant, rest, -rows, size))
            try:
                yield page
                page, end = await ahead
            finally:
                ahead.cancel()
        yield page

    async def _first(self, tenant: Tenant, query: Query, limit: int) -> tuple[Page, ObjectKey]:
        """Returns the first page or chunk, and the key after which the next one begins."""
        collection = self._collection(tenant, query)
        if collection is not None and collection.part(query, limit) is not None:
            if query.at is None:
                state = await self._reader.state(tenant)
            else:
                state = await self._pages.state_at(tenant, query.at)
            revision = state.revision if query.at is None else query.at
            await collection.feed.reach(revision, _LAG_SECONDS)
            known = self._from_memory(tenant, query, limit, state, revision)
            if known is not None:
                return known
        page, end = await self._read(tenant, query, limit, abs(limit))
        if collection is None and _is_plain(query) and query.at is None and page.size > WORTH_BYTES:
            await self._note_read(tenant, query, limit, page)
        return page, end

    def _from_memory(
        self, tenant: Tenant, query: Query, limit: int, state: State, revision: int
    ) -> tuple[Page, ObjectKey] | None:
        """Returns what `_first` does if it is kept and right at the revision."""
        collection = self._collection(tenant, query)
        part = collection.part(query, limit) if collection is not None else None
        if part is None or collection is None or not part.since <= revision <= collection.position:
            return None
        remaining = part.remaining
        if limit > 0 and part.more and query.after is not None:
            if query.left is None:
                return None
            remaining = max(0, query.left - len(part.rows))
        part.is_read = True
        _FROM_MEMORY.inc()
        return Page(part.rows, revision, part.more, remaining, state), part.end

    async def _read(self, tenant: Tenant, query: Query, limit: int, rows: int) -> tuple[Page, ObjectKey]:
        """Reads a page from PostgreSQL, and keeps it if its collection is kept."""
        _FROM_POSTGRESQL.inc()
        if limit > 0:
            page = await self._pages.page(tenant, query, rows)
        else:
            page = await self._pages.chunk(tenant, query, rows)
        collection = self._collection(tenant, query)
        if collection is not None:
            if query.at is None:
                await collection.feed.reach(page.revision, _LAG_SECONDS)
            collection.keep(query, limit, page)
        return page, page.rows[-1].key if page.rows else _LAST_KEY

    async def _note_read(self, tenant: Tenant, query: Query, limit: int, page: Page) -> None:
        """Begins to keep the collection of a first page if it has been read before."""
        which = (tenant.id, query.resource, _namespace(query), limit)
        if self._read_once.get(which) is None:
            self._read_once.put(which, True, KEPT_SECONDS)
            return
        try:
            feed = await self._feed.of(tenant)
        except StoreError:
            return  # the page has been read, and may be sent
        if (tenant.id, query.resource) in self._collections:
            return
        while len(self._collections) >= COLLECTIONS:
            self._drop(min(self._collections.values(), key=lambda one: one.used))
        collection = _Collection(tenant, query.resource, feed, self._parts)
        self._collections[tenant.id, query.resource] = collection
        self._feed.attach(feed, collection)
        collection.keep(query, limit, page)
        if self._sweep is None:
            # In a context of its own, not in that of the request that happens to begin it.
            contextvars.Context().run(self._sweep_later)

    def _collection(self, tenant: Tenant, query: Query) -> _Collection | None:
        collection = self._collections.get((tenant.id, query.resource))
        if collection is None or not _is_plain(query):
            return None
        if collection.ended:
            self._drop(collection)
            return None
        collection.used = monotonic()
        return collection

    def _drop_unused(self) -> None:
        self._sweep = None
        now = monotonic()
        for collection in list(self._collections.values()):
            if collection.ended or now - collection.used > KEPT_SECONDS:
                self._drop(collection)
        if self._collections:
            self._sweep_later()

    def _sweep_later(self) -> None:
        self._sweep = asyncio.get_running_loop().call_later(KEPT_SECONDS / 2, self._drop_unused)

    def _drop(self, collection: _Collection) -> None:
        collection.forget()
        self._feed.detach(collection.feed, collection)
        del self._collections[collection.tenant.id, collection.resource]


def _is_plain(query: Query) -> bool:
    return query.from_memory and not query.requirements and query.key is None and query.words is None


def _namespace(query: Query) -> str:
    return _ALL if query.namespace is None else query.namespace
