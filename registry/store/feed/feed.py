"""The feed of a process: each change is read once, kept for a while, and delivered to all subscriptions.

"Position" of a domain's feed: the revision up to which it has read, in order and without a gap. Revisions are gapless
and become visible in order, so what a read finds after the position is what comes next, or there is nothing yet.

    wake-up                                 delay
    a commit of this process                none: its changes need not even be read (own_changes.py)
    a notification of another process       some 5 ms
    the poll of the counters                1 s; 0.1 s while notifications are not known to arrive

A subscription is either live (the feed appends to its queue) or behind (it reads by itself: from the ring of recent
changes if that reaches back far enough, else from the log). It starts behind, becomes live when it has caught up, and
falls behind again when its reader is too slow for its queue: the queue is dropped and read again later. So memory is
bounded by the queues' limits, and nothing is lost, repeated or reordered: a subscription always continues from the
revision that its reader was last given.

The ring is bounded for the whole process; the oldest change is dropped first, whatever its domain.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from registry.logs import LoggedCondition
from registry.store import change_log
from registry.store.connection import Pool
from registry.store.database import Database
from registry.store.encryption.sealing import Sealing
from registry.store.errors import Closed, RevisionExpired, StoreError, TenantNotFound
from registry.store.feed.domain_feed import DomainFeed, Subscriber
from registry.store.feed.signals import CONDITION_DELAY_SECONDS, Listener, Notifier
from registry.store.feed.subscription import Subscription, WakeReader
from registry.store.own_changes import CommittedWrite, changes_after
from registry.store.types import Change, DomainId, ResourceName, Tenant, TenantId
from registry.tasks import cancel

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 1.0
UNHEALTHY_POLL_SECONDS: Final = 0.1

# New watches mostly start a few seconds back; the log serves the others.
RING_CHANGES: Final = 20_000
RING_BYTES: Final = 48 << 20

# Watches end every few minutes and resume at once, so the ring of a domain outlives its last subscription.
LINGER_SECONDS: Final = 60.0

# Watches that have stalled for this long make the process unready.
STILL_SECONDS: Final = 5.0

# Domains per read.
MAX_DOMAINS: Final = 200


class Feed:
    def __init__(
        self, pool: Pool, database: Database, listens: Database, process: str, sealing: Sealing, wake_reader: WakeReader
    ) -> None:
        self._pool = pool
        self._sealing = sealing
        self._wake_reader = wake_reader
        self._process = process
        self._database = database
        self._unread = LoggedCondition(
            logger,
            "watches do not go on",
            "watches go on",
            level=logging.WARNING,
            delay_seconds=CONDITION_DELAY_SECONDS,
        )
        self.notifier = Notifier(database, process)
        self.listener = Listener(listens, process, self.notifier, self._heard)
        self._domains: dict[DomainId, DomainFeed] = {}
        # In the order of reading: the feed of each change in a ring, oldest change first, and its size.
        self._ages: deque[tuple[DomainFeed, int]] = deque()
        self._ring_bytes = 0
        self._reads = 0
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    def notify_committed(self, committed: Sequence[CommittedWrite]) -> None:
        """Delivers what this process has committed in one transaction, or else wakes the feed to read it; other
        processes, if there are any, get a notification."""
        news: dict[DomainId, int] = {}
        for one in committed:
            news[one.tenant.domain] = max(one.revision, news.get(one.tenant.domain, 0))
        if not self.listener.is_alone:
            self.notifier.notify(news)
        for domain in news:
            if (feed := self._domains.get(domain)) is not None:
                changes = changes_after(feed.position, [one for one in committed if one.tenant.domain == domain])
                if changes is not None:
                    self._publish(feed, changes)
        self._heard(news, hint_all=False)

    def _publish(self, feed: DomainFeed, changes: list[tuple[TenantId, Change]]) -> None:
        feed.publish(changes)
        self._remember(feed, changes)

    async def subscribe(self, tenant: Tenant, resource: ResourceName | None, after: int) -> Subscription:
        """Subscribes to what comes after a revision. Raises RevisionExpired, TenantNotFound, Closed, Unavailable."""
        feed = await self.of(tenant)
        subscription = Subscription(
            self._pool, feed, tenant, resource, after, self.detach, self._sealing, self._wake_reader
        )
        self.attach(feed, subscription)
        try:
            await subscription.start()
        except BaseException:
            subscription.close()
            raise
        return subscription

    async def of(self, tenant: Tenant) -> DomainFeed:
        """Returns the feed of the tenant's domain, for `attach` at once. Raises TenantNotFound, Closed, Unavailable."""
        if self._closed:
            raise Closed("the store is closed")
        if not self._tasks:
            self.listener.start()
            self._tasks = [
                # In their own context: the tasks do not belong to the request that happens to start them.
                asyncio.create_task(self._read_forever(), name="registry feed", context=contextvars.Context()),
                asyncio.create_task(self._poll_forever(), name="registry feed poll", context=contextvars.Context()),
            ]
        feed = self._domains.get(tenant.domain)
        if feed is None:
            counters = await change_log.counters(self._pool, [tenant.domain])
            if tenant.domain not in counters:
                raise TenantNotFound(f"tenant {tenant.name} does not exist")
            # Another subscription may have created it meanwhile.
            feed = self._domains.setdefault(tenant.domain, DomainFeed(tenant.domain, counters[tenant.domain].revision))
        return feed

    @staticmethod
    def attach(feed: DomainFeed, subscriber: Subscriber) -> None:
        """Delivers to the subscriber what comes after the feed's position."""
        feed.subscriptions.setdefault((subscriber.tenant.id, subscriber.resource), set()).add(subscriber)
        feed.since_unused = None

    async def close(self) -> None:
        """Ends all subscriptions: their readers get Closed after what has arrived."""
        self._closed = True
        await cancel(*self._tasks)
        await self.listener.close()
        for feed in self._domains.values():
            _end(feed, Closed("the store is closed"))

    def problem(self) -> str | None:
        """Returns how far watches are behind, if they have stalled."""
        if self._unread.since_seconds() < STILL_SECONDS:
            return None
        behind = sum(feed.newest - feed.position for feed in self._domains.values())
        return f"watches are behind by {behind} revisions"

    def wake_all(self) -> None:
        """Wakes the feeds of all domains, since what is known of them may be outdated."""
        self._heard({})

    @staticmethod
    def detach(feed: DomainFeed, subscriber: Subscriber) -> None:
        which = (subscriber.tenant.id, subscriber.resource)
        others = feed.subscriptions.get(which)
        if others is None:
            return
        others.discard(subscriber)
        if not others:
            del feed.subscriptions[which]
        if not feed.subscriptions:
            feed.since_unused = asyncio.get_running_loop().time()

    def _heard(self, news: dict[DomainId, int], hint_all: bool = True) -> None:
        if not news and hint_all:
            # What was missed is unknown: look at all domains.
            for feed in self._domains.values():
                feed.newest = max(feed.newest, feed.position + 1)
            self._wake.set()
        for domain, revision in news.items():
            known = self._domains.get(domain)
            if known is not None and revision > known.newest:
                known.newest = revision
                self._wake.set()

    async def _read_forever(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._read()
                self._unread.end()
            except StoreError as error:
                self._note_unread(error)
                self._wake.set()
                await asyncio.sleep(UNHEALTHY_POLL_SECONDS)
            except Exception:
                logger.exception("reading the change log failed unexpectedly")
                self._wake.set()
                await asyncio.sleep(POLL_SECONDS)

    def _note_unread(self, error: StoreError) -> None:
        # An outage of PostgreSQL is logged elsewhere.
        self._unread.hold(str(error), silent=self._database.away is not None)

    async def _read(self) -> None:
        """Reads until no domain is known to be behind."""
        while True:
            behind = [feed for feed in self._domains.values() if feed.newest > feed.position]
            if not behind:
                return
            # Large changes of some may leave no room for others: those that have waited longest come first.
            behind.sort(key=lambda feed: feed.read)
            behind = behind[:MAX_DOMAINS]
            positions = {feed.domain: (feed, feed.position, feed.newest) for feed in behind}
            by_domain = await change_log.next_changes(
                self._pool, {domain: entry[1] for domain, entry in positions.items()}
            )
            quiet = []
            for domain, (feed, position, newest) in positions.items():
                changes = by_domain.get(domain)
                if not changes:
                    # A hint that was too high, a log cut above our position, or a tenant that is gone.
                    quiet.append((feed, newest))
                elif changes[-1][1].revision <= feed.position:
                    pass  # published meanwhile, as committed by this process
                elif changes[0][1].revision != position + 1:
                    await self._start_again([feed])
                else:
                    self._reads += 1
                    feed.read = self._reads
                    self._publish(feed, changes[feed.position - position :])
            if quiet:
                await self._check(quiet)

    async def _check(self, quiet: list[tuple[DomainFeed, int]]) -> None:
        """Finds out why a read returned nothing: nothing is new, or the changes were compacted, deleted with their
        tenant, or lost by a failover (store/timelines.py)."""
        counters = await change_log.counters(self._pool, [feed.domain for feed, _ in quiet])
        for feed, newest in quiet:
            if feed.domain not in counters:
                self._forget(feed)
                _end(feed, TenantNotFound("the tenant does not exist"))
                continue
            counter = counters[feed.domain]
            try:
                onward = counter.resume_after(feed.position)
            except RevisionExpired:
                await self._start_again([feed])
                continue
            if onward != feed.position:
                feed.cross(onward)
            if feed.newest == newest:
                feed.newest = max(counter.revision, feed.position)

    async def _start_again(self, feeds: Iterable[DomainFeed]) -> None:
        """Restarts feeds at the current revision after a hole in the log; subscriptions learn of it from the log."""
        for feed in feeds:
            position = feed.position
            counters = await change_log.counters(self._pool, [feed.domain])
            # Otherwise it has gone on meanwhile, with commits of this process.
            if feed.domain in counters and feed.position == position:
                feed.ring.clear()
                feed.position = feed.base = feed.newest = counters[feed.domain].revision
                for subscriptions in feed.subscriptions.values():
                    for subscription in subscriptions:
                        subscription.fall_behind()

    def _remember(self, feed: DomainFeed, changes: list[tuple[TenantId, Change]]) -> None:
        for _, change in changes:
            size = change.size
            self._ages.append((feed, size))
            self._ring_bytes += size
        while self._ages and (len(self._ages) > RING_CHANGES or self._ring_bytes > RING_BYTES):
            oldest, size = self._ages.popleft()
            self._ring_bytes -= size
            # A feed that has been restarted or dropped has nothing left of that age.
            if oldest.ring:
                oldest.base = oldest.ring.popleft()[1].revision

    async def _poll_forever(self) -> None:
        """Polls the counters in case hints are lost, and checks that the tenants still exist."""
        while True:
            await asyncio.sleep(POLL_SECONDS if self.listener.healthy else UNHEALTHY_POLL_SECONDS)
            self._retire()
            try:
                await self._poll()
                if self._unread.since_seconds():
                    self._wake.set()  # a read decides whether it is over: there may be nothing new to wake it
            except StoreError as error:
                self._note_unread(error)
            except Exception:
                logger.exception("polling the counters failed unexpectedly")

    async def _poll(self) -> None:
        """In parts, so that a thousand tenants do not hold the event loop each second."""
        domains = list(self._domains)
        for start in range(0, len(domains), MAX_DOMAINS):
            # Some may have been dropped meanwhile.
            part = [self._domains[domain] for domain in domains[start : start + MAX_DOMAINS] if domain in self._domains]
            began = time.monotonic()
            newer = await change_log.newer_revisions(self._pool, {feed.domain: feed.newest for feed in part})
            self._heard(newer, hint_all=False)
            for feed in part:
                if feed.position >= feed.newest:
                    feed.current_at = began
            watched = {tenant for feed in part for tenant, _ in feed.subscriptions if tenant != change_log.ALL_TENANTS}
            missing = await change_log.missing_tenants(self._pool, list(watched)) if watched else ()
            if missing:
                for feed in part:
                    _end(feed, TenantNotFound("the tenant does not exist"), missing)

    def _retire(self) -> None:
        now = asyncio.get_running_loop().time()
        for feed in list(self._domains.values()):
            if feed.since_unused is not None and now - feed.since_unused > LINGER_SECONDS:
                self._forget(feed)

    def _forget(self, feed: DomainFeed) -> None:
        if self._domains.get(feed.domain) is feed:
            del self._domains[feed.domain]
        feed.ring.clear()
        feed.base = feed.position


def _end(feed: DomainFeed, error: StoreError, tenants: Collection[TenantId] | None = None) -> None:
    """Ends the feed's subscriptions, or only those of `tenants`."""
    for (tenant, _), subscriptions in list(feed.subscriptions.items()):
        if tenants is None or tenant in tenants:
            for subscription in list(subscriptions):
                subscription.end(error)
