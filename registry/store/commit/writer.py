"""Batched writes: those that wait together are committed together, each with its own precondition and result.

A transaction holds its domain's counter until it is flushed to disk, so a domain has one commit per flush, and each
writer that queues for the counter inside PostgreSQL makes it worse (docs: facts on PostgreSQL). So a process queues its
own writes: it has a few writer connections, and a domain uses the same one while it has writes in progress. That is the
first one, so that writes of many domains share a transaction; the second one while the first is behind: its call takes
long, as behind a lock, or has no room for more. A connection sends what waits, up to 64 writes, and what arrives during
the call waits for the next one. An idle connection sends at once; one that has just received the results of a batch
lets the event loop run what is ready first, which adds an eighth to the next batch. Domains with large writes have a
connection of their own: for 60,000 labels PostgreSQL takes a second.

On failure, depending on what is known:

    what failed                        was it written?        action
    one write's precondition           no, but the others     that write gets its error, the others their results
    the call (a value, a constraint)   no, none               the writes one by one, so that only the bad one fails
    the call (read-only, full disk)    no, none               Unavailable for all
    a deadlock                         no, none               one retry
    the connection                     not known              see recovery.py: read from the log, else Uncertain

Writes that grow a tenant near a limit are not written at first, but sent again to be counted one by one.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import random
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import psycopg

from registry import tracing
from registry.caches import ExpiringCache
from registry.logs import LoggedCondition
from registry.store.commit import batch as batches
from registry.store.commit import recovery
from registry.store.commit.batch import COMMIT, COMMIT_SHARED, COMMIT_TENANT, Pending, Waiting, outcome_of
from registry.store.database import Database
from registry.store.encoding import strip_document
from registry.store.errors import Closed, StoreError, Unavailable, Uncertain, ValueRefused
from registry.store.own_changes import CommittedWrite
from registry.store.session import Connection
from registry.store.translate import first_line, is_conflict_of_transactions, is_transient, lacks_partition, translate
from registry.store.types import Committed, DomainId, Tenant, Write

logger = logging.getLogger(__name__)

# A connection whose call takes longer is behind.
_LONG_SECONDS: Final = 0.01
# From here on a write is large, as `size_of` counts.
LARGE_BYTES: Final = 256 * 1024
# For how long after a large write the next is expected to be large, too, and for how many domains.
_LARGE_SECONDS: Final = 10.0
_MANY_LARGE: Final = 1_000

# The queue of one connection. At 5,000 writes a second this is two seconds' worth; more would only time out.
MAX_WAITING: Final = 10_000
MAX_WAITING_BYTES: Final = 128 << 20

T = TypeVar("T")
OnCommit = Callable[[list[CommittedWrite]], None]
MakePartitions = Callable[[], Awaitable[object]]


# How long a rejection is reported as the current state while there are no writes.
REFUSAL_SECONDS: Final = 10.0


class Refusal(NamedTuple):
    """Why PostgreSQL rejected a write, or does not confirm it; `at` by time.monotonic."""

    at: float
    is_full: bool
    reason: str


class Writer:
    """`on_commit` is called with what a transaction has written, in the order of its revisions."""

    def __init__(self, database: Database, *, on_commit: OnCommit, make_partitions: MakePartitions) -> None:
        refused = LoggedCondition(logger, "PostgreSQL refuses writes", "PostgreSQL takes writes again")
        lost = LoggedCondition(
            logger, "a commit lost its connection", "commits are answered again", level=logging.WARNING
        )
        unconfirmed = LoggedCondition(logger, "commits are not confirmed", "commits are confirmed again")
        self._first, self._second, self._for_large = self._connections = [
            WriterConnection(database, on_commit, make_partitions, refused, lost, unconfirmed) for _ in range(3)
        ]
        self._large: ExpiringCache[DomainId, bool] = ExpiringCache(_MANY_LARGE)
        # Of the domains that have writes in progress.
        self._used: dict[DomainId, _Use] = {}

    async def commit(self, tenant: Tenant, write: Write) -> Committed:
        """Commits one write, or raises the reason (registry.store.errors).

        Cancelled before the write was sent, nothing is written; cancelled later, it is written nevertheless.
        """
        size = batches.size_of(write)
        if size >= LARGE_BYTES:
            self._large.put(tenant.domain, True, _LARGE_SECONDS)
        if self._large.get(tenant.domain):
            return await self._for_large.submit(tenant, write, size)
        use = self._used.get(tenant.domain)
        if use is None:
            use = self._used[tenant.domain] = _Use(self._second if self._first.is_behind() else self._first)
        use.writes += 1
        try:
            return await use.connection.submit(tenant, write, size)
        finally:
            use.writes -= 1
            if not use.writes:
                del self._used[tenant.domain]

    def problem(self, *, full: bool) -> str | None:
        """Returns why PostgreSQL has rejected or not confirmed all recent writes: for lack of space (`full`), or for
        another reason."""
        now = time.monotonic()
        for connection in self._connections:
            refusal = connection.refusal
            if refusal is not None and now - refusal.at < REFUSAL_SECONDS and refusal.is_full == full:
                return refusal.reason
        return None

    async def close(self) -> None:
        """Accepts no more writes and returns when those accepted are committed."""
        await asyncio.gather(*(connection.close() for connection in self._connections))


class _Use:
    """The connection of a domain, while it has writes in progress."""

    __slots__ = ("connection", "writes")

    def __init__(self, connection: WriterConnection) -> None:
        self.connection = connection
        self.writes = 0


class WriterConnection:
    def __init__(
        self,
        database: Database,
        on_commit: OnCommit,
        make_partitions: MakePartitions,
        refused: LoggedCondition,
        lost: LoggedCondition,
        unconfirmed: LoggedCondition,
    ) -> None:
        self._database = database
        self._on_commit = on_commit
        self._make_partitions = make_partitions
        self._waiting = Waiting()
        self._wake = asyncio.Event()
        self._closing = False
        # Since when the current batch is being committed, by time.monotonic.
        self._busy_since = math.inf
        self._link: recovery.BackendConnection | None = None
        # Connections abandoned in the middle of a call: their backends may wait for standbys as long as these are away,
        # and are terminated on the next connection.
        self._given_up: list[recovery.BackendConnection] = []
        self.refusal: Refusal | None = None
        self._refused, self._lost, self._unconfirmed = refused, lost, unconfirmed
        self._task: asyncio.Task[None] | None = None

    def submit(self, tenant: Tenant, write: Write, size: int) -> asyncio.Future[Committed]:
        if self._closing:
            raise Closed("the store is closed")
        if self._link is None:
            self._database.require()
        if len(self._waiting) >= MAX_WAITING or self._waiting.size >= MAX_WAITING_BYTES:
            raise Unavailable("too many writes wait")
        loop = asyncio.get_running_loop()
        if self._task is None:
            # In its own context: the task does not belong to the request that happens to start it.
            self._task = loop.create_task(self._run(), name="registry writer", context=contextvars.Context())
        pending = Pending(tenant, write, size, loop.create_future(), tracing.current())
        self._waiting.append(pending)
        self._wake.set()
        return pending.done

    def is_behind(self) -> bool:
        """Returns whether a write would wait for long, or for more than one call."""
        return len(self._waiting) >= batches.MAX_ROWS or time.monotonic() - self._busy_since > _LONG_SECONDS

    async def close(self) -> None:
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await self._task
        await self._disconnect()

    async def _run(self) -> None:
        is_idle = True
        while True:
            if not self._waiting:
                if self._closing:
                    return
                self._wake.clear()
                await self._wake.wait()
                is_idle = True
                continue
            if not is_idle:
                await asyncio.sleep(0)
            is_idle = False
            batch = self._waiting.take()
            if not batch:
                continue
            self._busy_since = time.monotonic()
            try:
                with tracing.shared("commit", [pending.span for pending in batch]):
                    await self._commit(batch)
            except Exception as error:
                # Whatever it is, no caller may wait forever, and later batches must be committed.
                logger.exception("a batch of writes failed unexpectedly")
                await self._disconnect()
                _fail(batch, Uncertain(f"unforeseen: {error}"))
            finally:
                self._busy_since = math.inf

    async def _commit(self, batch: list[Pending], *, again: bool = True, exact: bool = False) -> None:
        """Resolves every write of the batch; `exact` counts each one individually against its tenant's limits."""
        batch_id = random.getrandbits(62)
        try:
            link = await self._connect()
        except Unavailable as error:
            # The queued writes fail too: each batch would only wait for the same timeout again.
            _fail(batch, error)
            while self._waiting:
                _fail(self._waiting.take(), error)
            return
        try:
            make = partial(batches.parameters, batch, batch_id, link.write_oid, exact=exact)
            arguments = await asyncio.to_thread(make) if batches.is_long(batch) else make()
            call = COMMIT
            if batch[0].write.tenancy is not None:
                call, arguments["tenancy"] = COMMIT_TENANT, batch[0].write.tenancy
            elif batch[0].write.sharing is not None:
                call, arguments["sharing"] = COMMIT_SHARED, batch[0].write.sharing
            rows = await link.connection.call(call, arguments)
        except (psycopg.Error, OSError) as error:
            await self._fail(batch, batch_id, error, again=again)
        except (ValueError, OverflowError, struct.error) as error:
            # A text that is not Unicode, an integer beyond 64 bits: detected before anything was sent.
            await self._one_by_one(batch, ValueRefused(f"not a value for PostgreSQL: {error}"))
        else:
            if link.connection.is_unreplicated and not await self._confirm(batch, link.connection):
                return
            if self.refusal is not None:
                self.refusal = None
                self._refused.end()
                self._unconfirmed.end()
            near = self._resolve(batch, rows)
            if near:
                await self._commit(near, exact=True)

    async def _confirm(self, batch: list[Pending], connection: Connection) -> bool:
        """Returns whether the commits of this connection are replicated after all; else fails the batch."""
        try:
            await recovery.wait_for_replication(connection)
        except (Uncertain, psycopg.Error, OSError) as error:
            await self._disconnect()
            self._note_unconfirmed(error)
            _fail(batch, Uncertain(f"committed, but not replicated: {first_line(error)}"))
            return False
        return True

    async def _fail(self, batch: list[Pending], batch_id: int, error: Exception, *, again: bool) -> None:
        link = self._link
        if not isinstance(error, psycopg.Error) or link is None or link.connection.closed:
            await self._recover(batch, batch_id, error)
        elif is_conflict_of_transactions(error) and again:
            await self._commit(batch, again=False)
        elif lacks_partition(error):
            await self._make_room(batch, error, again=again)
        elif is_transient(error) or isinstance(error, psycopg.errors.InsufficientPrivilege):
            self._refuse(batch, first_line(error), is_full=isinstance(error, psycopg.errors.DiskFull))
        else:
            await self._one_by_one(batch, translate(error))

    async def _make_room(self, batch: list[Pending], error: psycopg.Error, *, again: bool) -> None:
        """Makes the partition that the log lacks, and commits again. None can be made for a time before the log's."""
        try:
            if not again:
                raise translate(error)
            await self._make_partitions()
        except StoreError as failure:
            self._refuse(batch, f"the change log lacks a partition: {failure}")
        else:
            await self._commit(batch, again=False)

    def _refuse(self, batch: list[Pending], reason: str, *, is_full: bool = False) -> None:
        """Fails the batch because PostgreSQL rejects all writes for now; nothing of it was written."""
        self._refused.hold(reason)
        self.refusal = Refusal(time.monotonic(), is_full, reason)
        _fail(batch, Unavailable(reason))

    def _note_unconfirmed(self, error: Exception) -> None:
        self._unconfirmed.hold(first_line(error))
        self.refusal = Refusal(time.monotonic(), False, first_line(error))

    async def _one_by_one(self, batch: list[Pending], error: StoreError) -> None:
        """Commits the writes one by one after their transaction failed; only the bad one gets the error."""
        if len(batch) > 1:
            for pending in batch:
                await self._commit([pending])
        elif batch[0].write.doc is not None:
            # The reporting column is ours, not the user's: it must not make a write fail.
            logger.warning("%s %s is stored without its doc: %s", batch[0].write.resource, batch[0].write.key, error)
            doc = batch[0].write.doc
            less = strip_document(doc)
            batch[0].write = replace(batch[0].write, doc=None if less == doc else less)
            await self._commit(batch)
        else:
            _fail(batch, error)

    async def _recover(self, batch: list[Pending], batch_id: int, error: Exception) -> None:
        """Handles a connection that broke during the call: finds the outcome, and repeats what was not written."""
        self._lost.hold(first_line(error))
        lost, self._link = self._link, None
        if lost is not None:
            lost.connection.finish()
        try:
            outcomes = await self._with_new_connection(lambda link: recovery.outcome(link, lost, batch_id, batch))
        except StoreError as failure:
            await self._disconnect()
            if isinstance(failure, Uncertain):  # PostgreSQL is there: it does not say that it will keep the commit
                self._note_unconfirmed(failure)
            _fail(batch, Uncertain(f"the connection broke during a commit: {failure}"))
            return
        self._lost.end()
        repeat = []
        for pending, committed in zip(batch, outcomes, strict=True):
            if committed is None:
                repeat.append(pending)
            elif not pending.done.done():
                pending.done.set_result(committed)
        self._deliver(
            [CommittedWrite(p.tenant, c.revision, None) for p, c in zip(batch, outcomes, strict=True) if c is not None]
        )
        # No limit on repetitions: each time PostgreSQL was up again and had not written them.
        self._waiting.put_back(repeat)

    def _resolve(self, batch: list[Pending], rows: list[tuple[Any, ...]]) -> list[Pending]:
        """Gives each write its outcome; returns those near a limit of their tenant, which have none yet."""
        committed, near = [], []
        for pending, row in zip(batch, rows, strict=True):
            if row[1] == "near":
                near.append(pending)
                continue
            outcome = outcome_of(pending.write, row)
            if isinstance(outcome, Committed):
                committed.append(CommittedWrite(pending.tenant, outcome.revision, pending.write))
            if pending.done.done():
                continue
            if isinstance(outcome, Committed):
                pending.done.set_result(outcome)
            else:
                pending.done.set_exception(outcome)
        self._deliver(committed)
        return near

    def _deliver(self, committed: list[CommittedWrite]) -> None:
        if committed:
            self._on_commit(committed)

    async def _connect(self) -> recovery.BackendConnection:
        """Returns the connection, a new one if it is gone. Raises Unavailable after the connect timeout."""
        if self._link is not None and not self._link.connection.closed:
            return self._link
        return await self._with_new_connection(_itself)

    async def _with_new_connection(self, ask: Callable[[recovery.BackendConnection], Awaitable[T]]) -> T:
        """Calls `ask`, which must be repeatable, on a new connection; retries if that breaks, until the connect
        timeout."""
        deadline = asyncio.get_running_loop().time() + self._database.connect_timeout_seconds
        while True:
            connection = await self._database.connect_with_retry("writer")
            try:
                self._link = await recovery.link(connection)
                while self._given_up:
                    await recovery.dismiss(self._link, self._given_up[-1])
                    self._given_up.pop()
                return await ask(self._link)
            except (psycopg.Error, OSError) as error:
                await connection.close()
                if asyncio.get_running_loop().time() > deadline:
                    raise Unavailable(first_line(error)) from error

    async def _disconnect(self) -> None:
        link, self._link = self._link, None
        if link is not None and link.connection.closed:
            self._given_up.append(link)
        elif link is not None:
            await link.connection.close()


async def _itself(link: recovery.BackendConnection) -> recovery.BackendConnection:
    return link


def _fail(batch: list[Pending], error: StoreError) -> None:
    for pending in batch:
        if not pending.done.done():
            # Each gets its own exception: raising one adds to its traceback.
            pending.done.set_exception(type(error)(str(error)))
