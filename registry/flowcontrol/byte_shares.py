"""Bytes that a process holds for requests, shared between tenants: request bodies, and answers that wait for clients.

A tenant may hold as much as is still free: alone half of the limit; with n others that want as much, 1/(n+2) of it. So
there is always room for a tenant that holds nothing, without reserving any.

A body counts from its first byte until its request is answered. Small bodies have a part of the limit to themselves, so
that a tenant whose large uploads have used up its share can continue its small writes.

An answer counts, with the data it is built from, until the client has read it. A list waits for room before anything is
read for it: for as much as the last one of the same needed. If its first part needs more, it waits for that, and is
read again; if a later one does, it waits with what it has. One such list of a tenant may exceed the tenant's share, so
that those that have begun do not wait for each other. The state with which a watch begins is such a list; its changes
are given back until there is room for them. Other long answers wait for room once they are made. A write waits before
its commit, for as much as its object needs: its answer is sent then, beyond the share if need be. Because
answers wait for their clients, a tenant's own may use up its share: then the one that has waited longest for its client
is aborted, and one that has found no room in time is rejected with a request to retry, or aborted if it has begun.

Follows the dynamic thresholds of shared-memory switches (Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2),
1998), with a factor of one.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from contextvars import ContextVar
from time import monotonic
from typing import Any, Final, NamedTuple

from prometheus_client import Counter as CounterMetric

from registry.caches import LruCache
from registry.flowcontrol.fair_queue import MAX_WAITING, TooManyRequests
from registry.gauges import LoopGauge

UPLOADS: Final = LoopGauge(
    "registry_upload_bytes", "Bytes of request bodies that are held until their requests are answered."
)
REFUSED: Final = CounterMetric("registry_uploads_refused", "Requests refused since bodies held too many bytes.")
ANSWERS: Final = LoopGauge("registry_answer_bytes", "Bytes of answers that are being made or wait for their clients.")
CUT: Final = CounterMetric("registry_answers_cut", "Answers refused or cut since answers held too many bytes.")

MIB: Final = 1024 * 1024
# The key of an ASGI scope: a function that closes the connection at once.
ABORT: Final = "registry.abort"
# An answer whose client has read nothing for this long may be aborted in favour of another.
STALLED_SECONDS: Final = 2.0
# How long a list waits for room, in these steps. One that has begun looks for it this often.
_WAITS: Final = 5
_LOOK_SECONDS: Final = 0.05
# How many lists that have begun may wait for room, of a tenant and of all: each has read a part that is not counted.
_GROWING_OF_TENANT: Final = 8
_GROWING: Final = 32
# What a list is taken to need until one of the same has been read: the most that one query returns, held four times.
_UNKNOWN_BYTES: Final = 16 * MIB
# A list holds a quarter more than its first part needs: later parts may be a little longer.
_SPARE_PART: Final = 4
# How often a list is read again that turns out to be longer than the last one of the same.
_RESTARTS: Final = 2
# How many kinds of lists are remembered.
_SIZES: Final = 10_000
# How often the texts of a list or a watch are held: as rows, as texts, and as bytes, once joined and once in parts.
HELD_TIMES: Final = 4
# Smaller answers are not counted: the number of connections bounds them. Bodies up to this size are small.
SMALL_BYTES: Final = 64 * 1024
# The fraction of the limit for bodies that is reserved for small ones; and what tenants leave that exceed their shares.
_SMALL_PART: Final = 8
_LEFT_PART: Final = 8

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


class NeedsMoreRoom(TooManyRequests):
    """A list is longer than the last one of the same, and nothing of it has been sent: it can be read again, after
    another `reserve`, which waits for room."""


class ByteShares:
    """Invariant: `held_bytes` is the sum over tenants; no tenant is listed with 0."""

    def __init__(self, limit_bytes: int, held: LoopGauge = UPLOADS, refused: CounterMetric = REFUSED) -> None:
        self._limit_bytes = limit_bytes
        self._held = held
        self._refused = refused
        self.held_bytes = 0
        self._of_tenants: dict[str, int] = {}

    def has_room(self, tenant: str, count: int) -> bool:
        """Returns whether the tenant may hold so much more."""
        return self._of_tenants.get(tenant, 0) + count <= self._limit_bytes - self.held_bytes - count

    def take(self, tenant: str, count: int, *, beyond: bool = False) -> None:
        """Raises TooManyRequests, and takes nothing, if the tenant would hold more than is free, or than it may hold
        `beyond` its share."""
        if not (self.has_room_beyond(count) if beyond else self.has_room(tenant, count)):
            self._refused.inc()
            raise TooManyRequests
        self.take_always(tenant, count)

    def take_always(self, tenant: str, count: int) -> None:
        self._of_tenants[tenant] = self._of_tenants.get(tenant, 0) + count
        self._add(count)

    def has_room_beyond(self, count: int) -> bool:
        """Returns whether a tenant may hold so much more beyond its share: something is left for another tenant."""
        return self.held_bytes + count <= self._limit_bytes - self._limit_bytes // _LEFT_PART

    def give_back(self, tenant: str, count: int) -> None:
        left = self._of_tenants.pop(tenant) - count
        if left:
            self._of_tenants[tenant] = left
        self._add(-count)

    def _add(self, count: int) -> None:
        self.held_bytes += count
        self._held.count += count


class Uploads:
    """The request bodies of a process: small ones have their own part of the limit."""

    def __init__(self, limit_bytes: int) -> None:
        small_bytes = limit_bytes // _SMALL_PART
        self.small = ByteShares(small_bytes)
        self.large = ByteShares(limit_bytes - small_bytes)

    @property
    def held_bytes(self) -> int:
        return self.small.held_bytes + self.large.held_bytes


class Upload:
    """The body of one request, counted among the large ones once it exceeds SMALL_BYTES. Call `end` after the
    answer."""

    __slots__ = ("_bytes", "_shares", "_tenant", "_uploads")

    def __init__(self, uploads: Uploads, tenant: str) -> None:
        self._uploads = uploads
        self._shares = uploads.small
        self._tenant = tenant
        self._bytes = 0

    def receiving(self, receive: Receive) -> Receive:
        """Wraps `receive` to count bytes. Raises TooManyRequests instead of returning what there is no room for."""

        async def receive_counted() -> Message:
            message = await receive()
            count = len(message.get("body", b""))
            if count:
                self._add(count)
            return message

        return receive_counted

    def _add(self, count: int) -> None:
        whole = self._bytes + count
        if whole > SMALL_BYTES and self._shares is self._uploads.small:
            self.end()
            self._shares, count = self._uploads.large, whole
        self._shares.take(self._tenant, count)
        self._bytes = whole

    def end(self) -> None:
        if self._bytes:
            self._shares.give_back(self._tenant, self._bytes)
            self._bytes = 0


class Answers:
    """The large answers of a process."""

    def __init__(self, limit_bytes: int) -> None:
        self._shares = ByteShares(limit_bytes, ANSWERS, CUT)
        self._limit_bytes = limit_bytes
        self._most_bytes = limit_bytes // 4
        self._large: dict[str, dict[HeldAnswer, None]] = {}
        # Lists that wait for room, by tenant: first come, first served. No queue is empty.
        self._waiting: dict[str, deque[_Waiting]] = {}
        # The list of a tenant that may exceed its share, and the tenants of those that wait for room.
        self._beyond: dict[str, HeldAnswer] = {}
        self._growing: Counter[str] = Counter()
        # What the last list of the same needed.
        self._sizes: LruCache[Hashable, int] = LruCache(_SIZES)

    def begin(self, tenant: str, abort: Callable[[], None] | None) -> HeldAnswer:
        """Starts an answer for the tenant in the current task; `end` must follow."""
        answer = HeldAnswer(self, tenant, abort)
        _current.set(answer)
        return answer

    def change(self, answer: HeldAnswer, count: int, *, always: bool = False) -> None:
        """Changes what the answer holds to `count` bytes. Raises TooManyRequests if there is no room for more, unless
        they are to be held `always`."""
        more = count - answer.held_bytes
        tenant = answer.tenant
        if more > 0:
            self._take(answer, more, always=always)
            self._large.setdefault(tenant, {})[answer] = None
        elif more < 0:
            self._shares.give_back(tenant, -more)
        answer.held_bytes = count
        if not count and (large := self._large.get(tenant)) is not None:
            large.pop(answer, None)
            if not large:
                del self._large[tenant]
            if self._beyond.get(tenant) is answer:
                del self._beyond[tenant]
        if more < 0 and self._waiting:
            self._wake()

    def _take(self, answer: HeldAnswer, more: int, *, always: bool) -> None:
        if always:
            self._shares.take_always(answer.tenant, more)
            return
        try:
            self._shares.take(answer.tenant, more, beyond=self._beyond.get(answer.tenant) is answer)
        except TooManyRequests:
            self._cut_longest_stalled(answer.tenant)
            raise

    async def reserve(self, answer: HeldAnswer, of: Hashable) -> bool:
        """Waits until there is room for a list like the last one `of` the same. Returns whether there has been one.
        Raises TooManyRequests."""
        known = self._sizes.get(of)
        expected = known or _UNKNOWN_BYTES
        if expected <= SMALL_BYTES:
            return True
        await self.hold_in_turn(answer, expected)
        return known is not None

    async def hold_in_turn(self, answer: HeldAnswer, count: int) -> None:
        """Changes what the answer holds to `count` bytes, when there is room and nothing of its tenant waits before it.
        Raises TooManyRequests."""
        count = min(count, self._most_bytes)  # a tenant may always have one, whatever it needs
        if answer.tenant in self._waiting or not self.has_room(answer, count):
            await self._wait(answer, count)
        else:
            self.change(answer, count)

    async def grow(self, answer: HeldAnswer, count: int) -> None:
        """Changes what an answer holds of which something has been made to `count` bytes, when there is room. Raises
        TooManyRequests."""
        tenant, more = answer.tenant, count - answer.held_bytes
        if self._growing[tenant] >= _GROWING_OF_TENANT or self._growing.total() >= _GROWING or more > self._limit_bytes:
            answer.hold(count)  # at once, or not at all
            return
        self._growing[tenant] += 1
        try:
            await self._wait_to_grow(answer, more)
            answer.hold(count)  # nothing if the request has ended meanwhile
        finally:
            self._growing[tenant] -= 1
            if not self._growing[tenant]:
                del self._growing[tenant]
            if not answer.held_bytes and self._beyond.get(tenant) is answer:
                del self._beyond[tenant]

    async def _wait_to_grow(self, answer: HeldAnswer, more: int) -> None:
        tenant, waited = answer.tenant, 0.0
        while not self._shares.has_room(tenant, more):
            if self._beyond.setdefault(tenant, answer) is answer and self._shares.has_room_beyond(more):
                return
            if waited >= _WAITS * STALLED_SECONDS:
                CUT.inc()
                raise TooManyRequests
            await asyncio.sleep(_LOOK_SECONDS)
            waited += _LOOK_SECONDS
            if waited % STALLED_SECONDS < _LOOK_SECONDS and self._beyond.get(tenant) is answer:
                self._cut_longest_stalled(tenant)

    async def wait_to_hold(self, answer: HeldAnswer, count: int) -> None:
        """Changes what the answer holds from nothing to `count` bytes, when there is room. Raises TooManyRequests."""
        await self._wait(answer, count)

    def has_room(self, answer: HeldAnswer, count: int) -> bool:
        """Returns whether the answer may hold `count` bytes instead of what it holds."""
        return self._shares.has_room(answer.tenant, count - answer.held_bytes)

    def learn(self, of: Hashable, count: int) -> None:
        """Records what a list needed."""
        self._sizes.put(of, max(count, 1))

    async def _wait(self, answer: HeldAnswer, count: int) -> None:
        """Waits for the answer's turn and for room, which it holds then. Raises TooManyRequests."""
        tenant, turn = answer.tenant, asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(tenant, deque())
        if len(queue) >= MAX_WAITING:
            raise TooManyRequests
        waiting = _Waiting(turn, answer, count)
        queue.append(waiting)
        try:
            for _ in range(_WAITS):
                await asyncio.wait([turn], timeout=STALLED_SECONDS)
                if turn.done():
                    return
                # Only the first that waits, so that hundreds do not end as many answers to clients that are slow.
                if queue[0] is waiting:
                    self._cut_longest_stalled(tenant)
            CUT.inc()
            raise TooManyRequests
        finally:
            if not turn.done():
                queue.remove(waiting)
                if not queue:
                    del self._waiting[tenant]
            self._wake()

    def _wake(self) -> None:
        """Lets the first list of each tenant go on if there is room for it."""
        for tenant, queue in list(self._waiting.items()):
            if self._shares.has_room(tenant, queue[0].needed_bytes):
                turn, answer, count = queue.popleft()
                # Not when the woken list goes on: others may wait in another queue by then.
                if not queue:
                    del self._waiting[tenant]
                self.change(answer, count)
                turn.set_result(None)

    def _cut_longest_stalled(self, tenant: str) -> None:
        stalled = [answer for answer in self._large.get(tenant, ()) if answer.waits_since is not None]
        oldest = min(stalled, key=lambda answer: answer.waits_since or 0.0, default=None)
        if oldest is not None and monotonic() - (oldest.waits_since or 0.0) > STALLED_SECONDS:
            oldest.cut()


class _Waiting(NamedTuple):
    turn: asyncio.Future[None]
    answer: HeldAnswer
    needed_bytes: int


class HeldAnswer:
    """What one request holds of its answer. `waits_since` is when it began to wait for its client."""

    __slots__ = (
        "_abort", "_answers", "_is_committed", "_is_known", "_is_over", "_is_reserved", "_needed_bytes", "_of",
        "_restarts_left", "held_bytes", "tenant", "waits_since",
    )  # fmt: skip

    def __init__(self, answers: Answers, tenant: str, abort: Callable[[], None] | None) -> None:
        self._answers = answers
        self._abort = abort
        self._is_over = False
        # What was reserved for, whether that was what the last one needed, and whether nothing has been read of it yet.
        self._of: Hashable = None
        self._is_known = self._is_reserved = False
        # What the largest part needed.
        self._needed_bytes = 0
        self._restarts_left = _RESTARTS
        self.tenant = tenant
        self.held_bytes = 0
        # Whether the request has changed something, so that the body of its answer is not refused any more.
        self._is_committed = False
        self.waits_since: float | None = None

    def hold(self, count: int) -> None:
        """Changes what is held to `count` bytes, or to 0 if that is small. Raises TooManyRequests."""
        count = count if count > SMALL_BYTES and not self._is_over else 0
        if count != self.held_bytes:
            self._answers.change(self, count)

    def try_hold(self, count: int) -> bool:
        """Changes what is held as `hold` does, if there is room; else returns False."""
        if count > max(self.held_bytes, SMALL_BYTES) and not self._answers.has_room(self, count):
            return False
        self.hold(count)
        return True

    async def hold_body(self, count: int) -> None:
        """Changes what is held as `hold` does, for the whole body of the answer: when there is room, or at once if the
        request has changed something. Raises TooManyRequests."""
        if count <= max(self.held_bytes, SMALL_BYTES) or self._is_over:
            self.hold(count)
        elif self._is_committed:
            self._answers.change(self, count, always=True)
        else:
            await self._answers.grow(self, count)

    async def before_commit(self, count: int) -> None:
        """Holds at least `count` bytes, when there is room, before the request changes something. A body is not refused
        from then on; a list is, as others are: nothing has been held for what a collection had. Raises
        TooManyRequests."""
        if count > max(self.held_bytes, SMALL_BYTES) and not self._is_over:
            await self._answers.hold_in_turn(self, count)
        self._is_committed = True

    async def wait_to_hold(self, count: int) -> None:
        """Releases what is held, and waits for room for `count` bytes, which it holds then. Raises TooManyRequests."""
        self.hold(0)
        if count > SMALL_BYTES and not self._is_over:
            await self._answers.wait_to_hold(self, count)

    async def reserve(self, of: Hashable) -> None:
        """Waits for room for a list like the last one `of` the same, before it is read. Raises TooManyRequests."""
        if self._is_reserved:
            return  # by an earlier attempt of the request
        self._is_known = await self._answers.reserve(self, of)
        self._of, self._is_reserved = of, True

    async def hold_part(self, count: int, *, may_grow: bool = False) -> None:
        """Holds what a part of a list needs, or as much as an earlier part did, or the last list of the same, if that
        was more; and what was reserved for an unknown list that `may_grow`. Waits for room. Raises TooManyRequests, and
        at most _RESTARTS times, for the first part, NeedsMoreRoom."""
        count += count // _SPARE_PART
        self._needed_bytes = max(self._needed_bytes, count)
        is_first, self._is_reserved = self._is_reserved, False
        if count <= self.held_bytes and (self._is_known or may_grow or not is_first):
            return
        if self._of is not None:
            self._answers.learn(self._of, count)
        if is_first and self._restarts_left and not self._answers.has_room(self, count):
            self._restarts_left -= 1
            self.hold(0)
            raise NeedsMoreRoom
        if count <= SMALL_BYTES or self._is_over:
            self.hold(count)
        else:
            await self._answers.grow(self, count)

    async def hold_page(self, count: int, *, more: bool) -> None:
        """Holds what a page of a watch's state needs; if there is `more`, as much as was reserved or an earlier page
        needed, if that is more: the next page is read within it. Waits for room. Raises TooManyRequests."""
        self._is_reserved = False
        self._needed_bytes = max(self._needed_bytes, count)
        if more:
            count = max(count, self.held_bytes)
        else:
            self.end_parts()
        if count <= max(self.held_bytes, SMALL_BYTES) or self._is_over:
            self.hold(count)
        else:
            await self._answers.grow(self, count)

    def end_parts(self) -> None:
        """Records what the list needed, all of which has been read."""
        if self._of is not None:
            self._answers.learn(self._of, self._needed_bytes)

    def cut(self) -> None:
        """Closes the connection: what was held is released when the request ends as a result."""
        if self._abort is not None:
            self._abort()

    def end(self) -> None:
        """Releases everything, for good: tasks of the request may outlive it."""
        self._is_over = True
        self.hold(0)

    @staticmethod
    def current() -> HeldAnswer | None:
        """Returns the answer of the current task's request, or None."""
        return _current.get()


_current: ContextVar[HeldAnswer | None] = ContextVar("answer", default=None)
