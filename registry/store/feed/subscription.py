"""A reader of a domain's feed: the changes of one tenant or of all, of one resource or of all.

feed.py describes how it works.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from registry.flowcontrol.rounds import resolve
from registry.flowcontrol.time_slice import TimeSlice
from registry.store import change_log
from registry.store.bounds import READ_BYTES
from registry.store.connection import Pool
from registry.store.encryption.sealing import Sealing
from registry.store.errors import Closed, StoreError, TenantNotFound
from registry.store.feed.domain_feed import DomainFeed
from registry.store.types import Batch, Change, ResourceName, Tenant

# The queue of a reader before it has to read again from the ring or the log. Queued changes are shared with all
# other readers that wait for them, so this bounds how long their bodies are kept.
MAX_QUEUED: Final = 1_000
MAX_QUEUED_BYTES: Final = READ_BYTES
# What its reader gets at a time.
MAX_BATCH_BYTES: Final = READ_BYTES


Changes = TypeVar("Changes", list[Change], tuple[Change, ...])
# Calls its first argument, which returns whether the reader still waits, when a reader of this tenant may be woken.
WakeReader = Callable[[Callable[[], bool], str], None]


class Subscription:
    """For one reader: `await next_batch()` repeatedly, then `close()`; or `async for batch in ...`."""

    __slots__ = (
        "_deadline", "_error", "_feed", "_held", "_left", "_live", "_most_bytes", "_pool", "_queue", "_queued",
        "_queued_bytes", "_sealing", "_timer", "_timer_at", "_waiter", "_wake_reader", "_woken", "position", "resource",
        "tenant",
    )  # fmt: skip

    def __init__(
        self,
        pool: Pool,
        feed: DomainFeed,
        tenant: Tenant,
        resource: ResourceName | None,
        after: int,
        left: Callable[[DomainFeed, Subscription], None],
        sealing: Sealing,
        wake_reader: WakeReader,
    ) -> None:
        self._pool = pool
        self._feed = feed
        self.tenant = tenant
        self.resource = resource
        self._left = left
        # The reader has been given everything up to here.
        self.position = after
        # Invariant: live means that the queue holds all its changes between `position` and the feed's position.
        self._live = False
        # A list: a deque takes 600 bytes even while it is empty, as it nearly always is.
        self._queue: list[tuple[tuple[Change, ...], int]] = []
        self._queued = 0
        self._queued_bytes = 0
        # The size of a batch that was returned, while it has not been read again.
        self._most_bytes: int | None = None
        self._waiter: asyncio.Future[None] | None = None
        # Whether the reader is about to be woken, and what decides when.
        self._woken = False
        self._wake_reader = wake_reader
        # Until when the reader waits. The timer may be due earlier: it is not moved for each wait.
        self._deadline = math.inf
        self._timer: asyncio.Handle | None = None
        self._timer_at = math.inf
        self._error: StoreError | None = None
        self._sealing = sealing
        # What the reader is about to get: if it is cancelled while that is decrypted, it is returned by the next call.
        self._held: Batch | None = None

    async def start(self) -> None:
        """Raises RevisionExpired if the log no longer reaches back to the start."""
        if self.position < self._feed.base:
            domain = self.tenant.domain
            counters = await change_log.counters(self._pool, [domain])
            if domain not in counters:
                raise TenantNotFound(f"tenant {self.tenant.name} does not exist")
            counters[domain].resume_after(self.position)

    async def next_batch(self, timeout: float | None = None) -> Batch:  # noqa: ASYNC109 (nothing is cancelled by it)
        """Waits for changes, at most `timeout` seconds, and returns all that arrived; none when the time is over.

        Either way `revision` says that everything up to there has been returned. A subscription that began at a
        revision in the future returns nothing up to there. Raises RevisionExpired if it was so slow that the log was
        cut before it read on, TenantNotFound, Unreadable, Closed, and Unavailable, after which it may be called again.
        A cancelled call loses nothing.
        """
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while self._held is None:
            if self._queue:
                self._held = self._drain()
            elif self._error is not None:
                raise type(self._error)(*self._error.args)  # what is raised refers to all that its reader holds
            elif not self._live:
                self._held = await self._catch_up()
            else:
                # Not in a coroutine of its own, which would take 0.2 kB of each reader that waits.
                waiter = self._begin_wait(loop, deadline)
                try:
                    await waiter
                finally:
                    self._waiter = None
                    self._woken = False
                TimeSlice.current().begin_next()  # it was woken in its turn
                if self._live and not self._queue and self._error is None:
                    self._held = self._nothing()
            if self._held is None and deadline is not None and not self._queue and loop.time() >= deadline:
                self._held = self._nothing()
        batch = self._held
        if batch.changes and self._sealing.masters is not None:
            await self._open(batch.changes)
        self._held = None
        return batch

    async def _open(self, changes: Sequence[Change]) -> None:
        """Decrypts changes."""
        if self.tenant.id != change_log.ALL_TENANTS:
            await self._sealing.changes(changes)
            return
        for _, of_tenant in itertools.groupby(changes, key=lambda change: change.tenant):
            await self._sealing.changes(list(of_tenant))

    def _nothing(self) -> Batch:
        if self._live:
            self.position = max(self.position, self._feed.position)
        return Batch((), self.position)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Batch:
        return await self.next_batch()

    def give_back(self, batch: Batch, after: int) -> None:
        """Returns the last batch unread, to be read again by the next call: no more of it, but perhaps less. `after` is
        where the subscription was before."""
        self._most_bytes = sum([change.size for change in batch.changes])
        self.position = after
        self.fall_behind()

    def close(self) -> None:
        self.end(Closed("the subscription is closed"))

    def end(self, error: StoreError) -> None:
        """Removes it from the feed; the reader gets what is queued, then `error`."""
        if self._error is None:
            self._error = error
            self._left(self._feed, self)
            if self._timer is not None:
                self._timer.cancel()
            self.wake()

    # Called by the feed. None of it awaits.

    def push(self, changes: tuple[Change, ...], size: int) -> None:
        if not self._live:
            return
        if changes[0].revision <= self.position:
            # We have read further than the feed had, or began in the future.
            changes = tuple([change for change in changes if change.revision > self.position])
            if not changes:
                return
        if self._queue and (self._queued >= MAX_QUEUED or self._queued_bytes >= MAX_QUEUED_BYTES):
            self.fall_behind()
            return
        self._queue.append((changes, size))
        self._queued += len(changes)
        self._queued_bytes += size
        self.wake()

    def fall_behind(self) -> None:
        """Drops the queue: the reader will read by itself from its position."""
        self._live = False
        self._forget_queue()
        self.wake()

    @property
    def live(self) -> bool:
        return self._live

    def _drain(self) -> Batch:
        changes: tuple[Change, ...]
        if len(self._queue) == 1:
            # The usual case; all subscriptions share the tuple.
            changes = self._queue[0][0]
            self._forget_queue()
        else:
            changes = self._first_shares()
        # What is still queued begins after the last of these.
        self.position = changes[-1].revision if self._queue else max(self.position, self._feed.position)
        return Batch(changes, self.position)

    def _first_shares(self) -> tuple[Change, ...]:
        """Takes shares off the queue, up to MAX_BATCH_BYTES, at least one."""
        shares: list[Change] = []
        size = count = 0
        for share, share_size in self._queue:
            if count and size + share_size > MAX_BATCH_BYTES:
                break
            shares += share
            size += share_size
            count += 1
        del self._queue[:count]
        self._queued -= len(shares)
        self._queued_bytes -= size
        return tuple(shares)

    async def _catch_up(self) -> Batch | None:
        """Returns the next changes from the ring, which makes it live, or else from the log."""
        most_bytes, self._most_bytes = self._most_bytes, None
        recent = self._feed.recent(self.tenant.id, self.resource, self.position)
        if recent is None:
            changes, revision = await change_log.replay(
                self._pool, self.tenant.id, self.tenant.domain, self.resource, self.position
            )
            if most_bytes is not None and len(fit := _fitting(changes, most_bytes)) < len(changes):
                changes, revision = fit, fit[-1].revision
            self.position = revision
            return Batch(changes, revision) if changes else None
        fitting = _fitting(recent, most_bytes or MAX_BATCH_BYTES)
        if len(fitting) < len(recent):
            recent = fitting
            self.position = recent[-1].revision
            return Batch(tuple(recent), self.position)
        self._live = True
        self.position = max(self.position, self._feed.position)
        return Batch(tuple(recent), self.position) if recent else None

    def _begin_wait(self, loop: asyncio.AbstractEventLoop, deadline: float | None) -> asyncio.Future[None]:
        """Returns what is resolved when the reader is woken, at the deadline at the latest."""
        assert self._waiter is None, "a subscription has one reader"
        self._waiter = loop.create_future()
        self._deadline = math.inf if deadline is None else deadline
        if self._deadline < self._timer_at:
            self._set_timer(loop)
        return self._waiter

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # The handle does not say when: uvloop has no TimerHandle for what is due within half a millisecond.
        self._timer, self._timer_at = loop.call_at(self._deadline, self._look_at_deadline), self._deadline

    def _look_at_deadline(self) -> None:
        self._timer, self._timer_at = None, math.inf
        if self._waiter is None:
            return
        loop = self._waiter.get_loop()
        if self._deadline <= loop.time():
            self.wake()
        elif self._deadline < math.inf:
            self._set_timer(loop)

    def wake(self) -> None:
        """Wakes a waiting reader, even if there is nothing for it: in a later iteration if there are many."""
        if self._waiter is not None and not self._woken:
            self._woken = True
            self._wake_reader(partial(resolve, self._waiter), self.tenant.name)

    def _forget_queue(self) -> None:
        self._queue.clear()
        self._queued = self._queued_bytes = 0


def _fitting(changes: Changes, most_bytes: int) -> Changes:
    """Returns the first changes within the limits of a batch; at least one."""
    size = 0
    for count, change in enumerate(changes):
        size += change.size
        if count and (count >= MAX_QUEUED or size > most_bytes):
            return changes[:count]
    return changes
