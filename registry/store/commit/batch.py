"""Chooses which waiting writes share a transaction, encodes the call for them and decodes its rows. No I/O here.

If more wait than fit into a transaction, tenants are interleaved: one that floods the queue only delays its own writes.

The call checks all writes of a batch against the rows as they were before, so two writes may share one only if the
second does not depend on the first: no object twice, nothing of a tenant after a write that changes its guards except
what was prepared together with it (`group`), and nothing of it before a write that depends on existing objects
(`unless_used`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from registry.store.arrays import RecordArray, bytes_literal, literal, number_literal, prefixed_literal, record
from registry.store.encoding import contents_json, label_elements, label_prefix, owner_element
from registry.store.errors import (
    AlreadyExists,
    GuardsChanged,
    InUse,
    NotFound,
    QuotaExceeded,
    RevisionConflict,
    SharingRefused,
    StoreError,
    TenancyRefused,
    TenantNotFound,
    TenantSuspended,
)
from registry.store.exchange import Value
from registry.store.statements import statement
from registry.store.types import (
    NO_FLAGS,
    Committed,
    Guards,
    Row,
    Tenant,
    TenantId,
    Uid,
    Write,
    WriteFlag,
    WriteOperation,
)

# More rows per transaction gain little (facts: 50 rows already give 17 to 31 times the rate of one), and add latency.
MAX_ROWS: Final = 64
# A few large bodies take as long as many small ones.
MAX_BYTES: Final = 4 << 20
# What a label takes in a call, with its prefix.
_LABEL_BYTES: Final = 32
# From here on arguments are encoded beside the event loop: 16 objects of 60,000 labels held it for 50 ms.
_MANY_LABELS: Final = 8_000
# How many writes that have to wait for another are skipped in search of some that need not.
MAX_SKIPPED: Final = 256

COMMIT: Final = statement(
    "commit",
    "Commits a batch of writes (sql/commit.sql); by the primary keys of domains, tenants and objects.",
    """
    SELECT * FROM registry_commit(
        %(batch)s::bigint, %(writes)s::registry_write[], %(room)s::bigint, %(exact)s::boolean
    )
    """,
)

COMMIT_TENANT: Final = statement(
    "commit-tenant",
    "Commits the write of an object that is a tenant, with the tenant's row (sql/tenancy.sql); by primary keys.",
    """
    SELECT * FROM registry_commit_tenant(
        %(batch)s::bigint, %(writes)s::registry_write[], %(room)s::bigint, %(exact)s::boolean, %(tenancy)s::text::jsonb
    )
    """,
)

COMMIT_SHARED: Final = statement(
    "commit-shared",
    "Commits the write of a definition, an export or a binding, with what it does to the tenants that share it"
    " (sql/sharing.sql); by primary keys, and the index of providers.",
    """
    SELECT * FROM registry_commit_shared(
        %(batch)s::bigint, %(writes)s::registry_write[], %(room)s::bigint, %(exact)s::boolean, %(sharing)s::text::jsonb
    )
    """,
)


_CHANGES_GUARDS: Final = int(WriteFlag.CHANGES_DEFINITIONS | WriteFlag.CHANGES_NAMESPACES)


@dataclass(slots=True, eq=False)
class Pending:
    """A write in progress, and the future of its caller. `done` may have been cancelled: then no caller waits."""

    tenant: Tenant
    write: Write
    size: int
    done: asyncio.Future[Committed]
    # The tracing span of the request, if tracing is on.
    span: Any = None


class Waiting:
    """The writes that have not been sent yet, in order per tenant."""

    def __init__(self) -> None:
        # Invariant: no queue is empty. The first tenant is the next to be served.
        self._queues: dict[TenantId, deque[Pending]] = {}
        self._count = 0
        self.size = 0  # the total bytes of the queues

    def __len__(self) -> int:
        return self._count

    def append(self, pending: Pending) -> None:
        queue = self._queues.get(pending.tenant.id)
        if queue is None:
            self._queues[pending.tenant.id] = deque((pending,))
        else:
            queue.append(pending)
        self._count += 1
        self.size += pending.size

    def put_back(self, pending: list[Pending]) -> None:
        """Puts writes back, ahead of all others of their tenants."""
        for one in reversed(pending):
            self._queues.setdefault(one.tenant.id, deque()).appendleft(one)
            self.size += one.size
        self._count += len(pending)

    def take(self) -> list[Pending]:
        """Removes and returns the next batch; writes that may not join it stay, in order.

        Writes cancelled before they were sent are dropped and never happen. The write of a tenant object, or of what
        tenants share, is sent alone, by another function.
        """
        batch: list[Pending] = []
        size = 0
        turns = deque(_Turn(queue) for queue in self._queues.values())
        served: list[_Turn] = []
        while turns and len(batch) < MAX_ROWS and size < MAX_BYTES:
            turn = turns[0]
            pending = turn.next(alone=not batch)
            if pending is None:
                served.append(turns.popleft())
                continue
            batch.append(pending)
            size += pending.size
            if pending.write.alone:
                break
            turns.rotate(-1)
        self._release([*turns, *served])
        return batch

    def _release(self, turns: list[_Turn]) -> None:
        """Puts back what stays; the tenants that got least come first."""
        queues: dict[TenantId, deque[Pending]] = {}
        for turn in turns:
            turn.queue.extendleft(reversed(turn.stays))
            self._count -= turn.taken
            self.size -= turn.size
            if turn.queue:
                queues[turn.queue[0].tenant.id] = turn.queue
        self._queues = queues


class _Turn:
    """One tenant's queue while a batch is taken from it."""

    __slots__ = ("_fenced", "_group", "_touched", "queue", "size", "stays", "taken")

    def __init__(self, queue: deque[Pending]) -> None:
        self.queue = queue
        self.stays: list[Pending] = []
        self.taken = 0
        self.size = 0
        self._touched: set[tuple[str, str]] = set()
        # After a write that changes guards only writes of its group may follow.
        self._fenced = False
        self._group: int | None = None

    def next(self, *, alone: bool) -> Pending | None:
        """Returns the tenant's next write that may join the batch; `alone` is True while the batch is empty."""
        queue, touched = self.queue, self._touched
        while queue and len(self.stays) < MAX_SKIPPED:
            if self._fenced and (self._group is None or queue[0].write.group != self._group):
                break
            pending = queue.popleft()
            write = pending.write
            if pending.done.done():
                self._took(pending)
                continue
            which = (write.resource, write.key)
            # A write that depends on existing objects precedes all others of its tenant, or waits for the next batch.
            stays = which in touched or (write.unless_used is not None and self.taken > 0)
            if write.alone and not alone:
                stays = self._fenced = True
            # A write that stays also holds back those behind it: no later write of its object, and none that depends on
            # its guards, may overtake it.
            touched.add(which)
            if write.flags is not NO_FLAGS and write.flags & _CHANGES_GUARDS:
                self._fenced, self._group = True, write.group
            if not stays:
                self._took(pending)
                return pending
            self.stays.append(pending)
        return None

    def _took(self, pending: Pending) -> None:
        self.taken += 1
        self.size += pending.size


def parameters(batch: list[Pending], batch_id: int, type_oid: int, *, exact: bool = False) -> dict[str, Value]:
    """Returns the arguments of `registry_commit`; `type_oid` is the OID of `registry_write` in this database."""
    writes = [pending.write for pending in batch]
    return {
        "batch": batch_id,
        "writes": RecordArray(type_oid, [_record(pending.tenant, pending.write) for pending in batch]),
        # A character takes at most four bytes in UTF-8.
        "room": sum(
            (len(write.body) if write.body.isascii() else 4 * len(write.body)) + _index_bytes(write) for write in writes
        ),
        "exact": exact,
    }


def is_long(batch: list[Pending]) -> bool:
    """Returns whether encoding the arguments takes milliseconds: some 40 ns for each label."""
    return sum([len(pending.write.labels) for pending in batch]) > _MANY_LABELS


def _index_bytes(write: Write) -> int:
    """Counts bytes as registry_index_bytes does (sql/commit.sql)."""
    return sum([len(entry) + 64 for entry in write.indexed.entries]) if write.indexed else 0


def _record(tenant: Tenant, write: Write) -> bytes:
    """Encodes a `registry_write` (sql/commit.sql), whose attributes have this order."""
    guards, actor, stored = write.expected_guards, write.actor, write.operation is not WriteOperation.DELETE
    indexed = write.indexed
    return record(
        (
            tenant.id,
            tenant.domain,
            write.schema,
            write.flags,
            write.expected_revision,
            guards.definitions if guards else None,
            guards.namespaces if guards else None,
            indexed.layout if indexed else None,
        ),
        (
            write.operation,
            write.resource,
            write.key,
            write.uid,
            write.version,
            write.body,
            actor.user,
            actor.manager,
            actor.verb,
            _labels(tenant.id, write) if write.labels and stored else None,
            _owners(tenant.id, write) if write.owners and stored else None,
            write.doc,
            contents_json(write.unless_used) if write.unless_used else None,
            number_literal(indexed.numbers) if indexed else None,
            bytes_literal(indexed.entries) if indexed else None,
        ),
    )


def size_of(write: Write) -> int:
    """Returns the size of the call and of what it replaces, approximately."""
    replaced = len(write.replaced.row.body) if write.replaced else 0
    return len(write.body) + len(write.labels) * _LABEL_BYTES + (len(write.doc) if write.doc else 0) + replaced


def _labels(tenant: TenantId, write: Write) -> str:
    prefix = label_prefix(tenant, write.resource)
    return prefixed_literal(prefix, label_elements(write.labels))


def _owners(tenant: TenantId, write: Write) -> str:
    return literal([owner_element(tenant, uid) for uid in write.owners])


def outcome_of(write: Write, row: tuple[Any, ...]) -> Committed | StoreError:
    """Returns what a row that the commit function returns says of its write: committed, or why not."""
    _, outcome, revision, definitions, namespaces, uid, stored_revision, version, schema, body, refusal = row
    if outcome == "ok":
        return Committed(revision, Guards(definitions, namespaces))
    if outcome == "missing":
        return NotFound(f"{write.resource} {write.key} does not exist")
    if outcome == "used":
        return InUse(f"{write.resource} {write.key} is in use")
    if outcome == "guards":
        return GuardsChanged(Guards(definitions, namespaces))
    if outcome == "tenant":
        return TenantNotFound("the tenant does not exist")
    if outcome == "suspended":
        return TenantSuspended("the tenant is suspended")
    if outcome == "quota":
        what, requested, used, limit = refusal.split(" ")
        return QuotaExceeded(what, int(requested), int(used), int(limit))
    if outcome == "tenancy":
        reason, _, name = refusal.partition(" ")
        return TenancyRefused(reason, name)
    if outcome == "sharing":
        reason, _, detail = refusal.partition(" ")
        return SharingRefused(reason, detail)
    current = Row(write.resource, write.key, Uid(uid), stored_revision, version, schema, body)
    return AlreadyExists(current) if outcome == "exists" else RevisionConflict(current)
