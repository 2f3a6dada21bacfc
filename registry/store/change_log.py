"""Reads the change log and converts its rows to Changes."""

from __future__ import annotations

from typing import Any, Final, LiteralString, NamedTuple, cast

from registry.store.arrays import BigintArray
from registry.store.bounds import READ_BYTES, within_bytes
from registry.store.connection import Pool
from registry.store.encoding import label_prefix
from registry.store.errors import RevisionExpired, TenantNotFound
from registry.store.labels import NO_LABELS, StoredLabels
from registry.store.lost import Lost, lower_bound, resume_after, skip_lost
from registry.store.statements import Statement, statement
from registry.store.types import (
    Actor,
    Change,
    ChangeType,
    DomainId,
    LoggedChange,
    ObjectKey,
    ResourceName,
    TenantId,
    Uid,
)

COLUMNS: Final = """
    c.tenant_id, c.revision, c.type, c.resource, c.key, c.uid, c.version, c.schema_id, c.body, array_send(c.labels),
    c.previous_revision, c.previous_version, c.previous_schema_id, c.previous_body, array_send(c.previous_labels),
    c.actor_user, c.actor_manager, c.actor_verb, c.at
"""

# The size of a row r before compression (bounds.py).
SIZE: Final = "coalesce(octet_length(r.body), 0) + coalesce(octet_length(r.previous_body), 0)"


def within_size(rows: LiteralString, order: LiteralString) -> LiteralString:
    """Returns SQL for the first of `rows` of the log, as bounds.within_bytes does, by the sizes of both bodies."""
    return within_bytes(rows, order, SIZE)


# Interleaves the domains, first changes first, so that large changes in one domain do not delay the others.
NEWS: Final = statement(
    "news",
    "The next changes of several domains, each after a revision, up to some bytes together; by the log's index of"
    " revisions.",
    f"""
    SELECT c.domain_id,{COLUMNS}
    FROM (
        SELECT r.*, {SIZE} AS size, sum({SIZE}) OVER (
            ORDER BY r.revision - r.position, r.ordinal ROWS UNBOUNDED PRECEDING) AS upto
        FROM unnest(%(domains)s::bigint[], %(positions)s::bigint[]) WITH ORDINALITY AS w (domain_id, position, ordinal)
        CROSS JOIN LATERAL (
            SELECT c.*, w.position, w.ordinal FROM changes c
            WHERE (c.domain_id, c.revision) > (w.domain_id, w.position)
                AND (c.domain_id, c.revision) <= (w.domain_id, w.position + %(rows)s::bigint)
            OFFSET 0
        ) r
    ) c
    WHERE c.upto <= %(bytes)s::bigint OR c.upto = c.size
    ORDER BY c.domain_id, c.revision
    """,
)

MISSING: Final = statement(
    "missing-tenants",
    "Which of some tenants there no longer are; by their primary key.",
    """
    SELECT w.tenant_id FROM unnest(%(tenants)s::bigint[]) AS w (tenant_id)
    LEFT JOIN LATERAL (
        SELECT t.id FROM tenants t WHERE t.id = w.tenant_id AND t.deleted_at IS NULL OFFSET 0
    ) t ON true
    WHERE t.id IS NULL
    """,
)

NEWER: Final = statement(
    "newer-counters",
    "The counters of those of some domains that are above a revision; by their primary key.",
    """
    SELECT w.domain_id, d.revision
    FROM unnest(%(domains)s::bigint[], %(revisions)s::bigint[]) AS w (domain_id, revision)
    CROSS JOIN LATERAL (SELECT d.revision FROM domains d WHERE d.id = w.domain_id OFFSET 0) d
    WHERE d.revision > w.revision
    """,
)

COUNTERS: Final = statement(
    "counters",
    "The counters and compact revisions of some domains; by their primary key.",
    "SELECT id, revision, compact_revision, lost FROM domains WHERE id = ANY (%(domains)s::bigint[])",
)


# `+ 0` keeps the planner from using the index of keys, which would require a sort.
_REPLAYED: Final = """
    SELECT * FROM changes c
    WHERE c.domain_id = d.id AND c.revision > %(after)s::bigint AND c.revision <= %(upto)s::bigint
        AND (%(tenant)s::bigint = 0 OR c.tenant_id + 0 = %(tenant)s::bigint)
        AND (%(resource)s::text IS NULL OR c.resource = %(resource)s::text)
    ORDER BY c.revision LIMIT %(rows)s::bigint
"""


def _replay(name: str, what: str, columns: LiteralString) -> Statement:
    return statement(
        name,
        f"{what} of one tenant in a window of revisions, with the domain's counter and compact revision in the same"
        " snapshot; by the log's index of revisions.",
        f"""
        SELECT d.revision AS current, {lower_bound("%(after)s::bigint")} AS compact_revision, d.lost, c.*
        FROM domains d LEFT JOIN LATERAL (SELECT{columns} FROM ({within_size(_REPLAYED, "r.revision")}) c) c ON true
        WHERE d.id = %(domain)s::bigint
        ORDER BY c.revision
        """,
    )


REPLAY: Final = _replay("replay", "The changes", COLUMNS)
REPLAY_STATES: Final = _replay(
    "replay-states",
    "The changes, without the bodies that they replaced,",
    COLUMNS.replace("c.previous_body", "CASE WHEN c.body IS NULL THEN c.previous_body END AS previous_body"),
)

# Stands for all tenants of a domain. No tenant has this ID.
ALL_TENANTS: Final = TenantId(0)

# The window bounds the scan where few revisions are of the resource; rows and bytes bound the result.
REPLAY_WINDOW: Final = 10_000
MAX_ROWS: Final = 500
MAX_BYTES: Final = READ_BYTES


class Counter(NamedTuple):
    revision: int
    compact_revision: int
    lost: Lost

    def resume_after(self, revision: int) -> int:
        """Returns the revision to resume from after everything up to `revision` was seen. Raises RevisionExpired."""
        onward = resume_after(revision, self.lost)
        if revision < self.compact_revision or onward is None:
            lowest = self.compact_revision if onward is not None else self.revision
            raise RevisionExpired(revision, lowest, self.revision)
        return onward


async def counters(pool: Pool, domains: list[DomainId]) -> dict[DomainId, Counter]:
    """Returns the counter of each domain that exists."""
    rows = await pool.fetch(COUNTERS, {"domains": BigintArray(domains)})
    return {DomainId(row[0]): Counter(row[1], row[2], row[3]) for row in rows}


async def newer_revisions(pool: Pool, known: dict[DomainId, int]) -> dict[DomainId, int]:
    """Returns the newest revision of each domain in which it is above the known one."""
    values = {"domains": BigintArray(list(known)), "revisions": BigintArray(list(known.values()))}
    return {DomainId(row[0]): row[1] for row in await pool.fetch(NEWER, values)}


async def missing_tenants(pool: Pool, tenants: list[TenantId]) -> set[TenantId]:
    """Returns those that do not exist, or are being deleted."""
    return {TenantId(row[0]) for row in await pool.fetch(MISSING, {"tenants": BigintArray(tenants)})}


async def next_changes(pool: Pool, positions: dict[DomainId, int]) -> dict[DomainId, list[tuple[TenantId, Change]]]:
    """Returns the next changes of each domain after its position, up to MAX_ROWS and MAX_BYTES.

    When all together are too large, the domains listed last may get none.
    """
    rows = await pool.fetch(
        NEWS,
        {
            "domains": BigintArray(list(positions)),
            "positions": BigintArray(list(positions.values())),
            "rows": MAX_ROWS,
            "bytes": MAX_BYTES,
        },
    )
    by_domain: dict[DomainId, list[tuple[TenantId, Change]]] = {}
    for row in rows:
        by_domain.setdefault(row[0], []).append((row[1], change_of(row[1:])))
    return by_domain


async def replay(
    pool: Pool, tenant: TenantId, domain: DomainId, resource: ResourceName | None, after: int, *, states: bool = False
) -> tuple[tuple[Change, ...], int]:
    """Returns the next changes after a revision, and the revision up to which there are no others. Bounded: call it
    again.

    `tenant` may be ALL_TENANTS. `states` leaves out the bodies that were replaced, but those of deletions. The end is
    reached when it returns no changes and a revision not above `after` + REPLAY_WINDOW.
    Raises RevisionExpired when `after` is below the compact revision. An `after` in the future returns no changes and
    `after` itself.
    """
    rows = await pool.fetch(
        REPLAY_STATES if states else REPLAY,
        {
            "domain": domain,
            "tenant": tenant,
            "resource": resource,
            "after": after,
            "upto": after + REPLAY_WINDOW,
            "rows": MAX_ROWS,
            "bytes": MAX_BYTES,
        },
    )
    if not rows:
        raise TenantNotFound("the tenant does not exist")
    current, compact_revision, lost = rows[0][:3]
    if after < compact_revision:
        raise RevisionExpired(after, compact_revision, current)
    changes = tuple([change_of(row[3:]) for row in rows if row[4] is not None])
    if changes:
        return changes, changes[-1].revision
    return changes, skip_lost(after, max(after, min(after + REPLAY_WINDOW, current)), lost)


def change_of(row: tuple[Any, ...]) -> LoggedChange:
    (
        tenant, revision, kind, resource, key, uid, version, schema, body, labels,
        previous_revision, previous_version, previous_schema, previous_body, previous_labels,
        user, manager, verb, at,
    ) = row  # fmt: skip
    skip = len(label_prefix(tenant, resource))
    return LoggedChange(
        revision=revision,
        type=_TYPES[kind],
        resource=cast(ResourceName, resource),
        key=cast(ObjectKey, key),
        uid=cast(Uid, uid),
        version=version,
        schema=schema,
        body=previous_body if body is None else body,
        labels=StoredLabels(labels, skip) if labels else NO_LABELS,
        previous_revision=previous_revision or 0,
        previous_version=previous_version or "",
        previous_schema=previous_schema or 0,
        previous_body=previous_body,
        previous_labels=StoredLabels(previous_labels, skip) if previous_labels else NO_LABELS,
        actor=Actor(user, manager, verb),
        at=at,
        tenant=TenantId(tenant),
    )


_TYPES: Final = {member.value: member for member in ChangeType}
