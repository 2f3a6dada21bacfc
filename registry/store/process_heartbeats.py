"""Heartbeats of processes, so that work left unfinished by a crashed one is picked up by another.

A process renews its row while it runs. The row of a crashed process expires; the work it may have left is then found
in the change log from the time in that row. The rows share the table of leaders: the name is `duties/<process>`, the
holder the time from which to read the log. Both times are PostgreSQL's, as are those of the log.
`late/<process>/<domain>` is the same for a domain with older work, perhaps work that fails for days, so that only the
log of that domain is read from then on.
`release/<process>` names the newest migration that the process's code knows (see migration_plan.py).
`session/<process>` names a session of the process: once that is gone, so is the process, without waiting for the expiry
(leader.py says what this does not detect).
"""

from __future__ import annotations

import datetime
import math
from collections.abc import AsyncIterator, Mapping
from typing import Final, NamedTuple

from registry.store.arrays import BigintArray
from registry.store.bounds import READ_BYTES, within_bytes
from registry.store.connection import Pool
from registry.store.encryption.sealing import Sealing, StoredBody
from registry.store.revision import newest_revision
from registry.store.rows import tenant_of
from registry.store.statements import statement
from registry.store.types import DomainId, ObjectKey, ResourceName, Tenant, Uid

# The longest time assumed between a transaction's time stamp and its commit.
MARGIN_SECONDS: Final = 60.0
PAGE_ROWS: Final = 500

RENEW: Final = statement(
    "renew-heartbeat",
    "Says that a process runs, and since when it may have left work unfinished, in all and in some domains; by the"
    " primary key.",
    """
    WITH late AS (
        SELECT 'late/' || %(process)s::text || '/' || u.domain AS name,
            (clock_timestamp() - u.age * interval '1 second')::text AS holder
        FROM unnest(%(late)s::bigint[], %(ages)s::bigint[]) AS u (domain, age)
    ), ended AS (
        DELETE FROM leaders
        WHERE name >= 'late/' || %(process)s::text || '/' AND name < 'late/' || %(process)s::text || '0'
            AND NOT EXISTS (SELECT FROM late WHERE late.name = leaders.name)
    )
    INSERT INTO leaders AS l (name, holder, expires_at)
    SELECT said.name, said.holder, clock_timestamp() + %(seconds)s::float8 * interval '1 second'
    FROM pg_stat_activity a, LATERAL (VALUES
        ('duties/' || %(process)s::text, (clock_timestamp() - %(age)s::float8 * interval '1 second')::text),
        ('session/' || %(process)s::text, a.pid || '/' || extract(epoch FROM a.backend_start)),
        ('release/' || %(process)s::text, %(release)s::text)) AS said (name, holder)
    WHERE a.pid = pg_backend_pid()
    UNION ALL
    SELECT late.name, late.holder, clock_timestamp() + %(seconds)s::float8 * interval '1 second' FROM late
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
    """,
)

DEAD: Final = statement(
    "dead-processes",
    "Processes that have not renewed their heartbeats in time, or whose session is gone; reads the whole table, of"
    " three rows a process, one a job, and one for each domain in which a process is late.",
    """
    SELECT p.process, d.holder::timestamptz, ARRAY(
            SELECT ARRAY[split_part(l.name, '/', 3)::bigint, floor(extract(epoch FROM l.holder::timestamptz))::bigint]
            FROM leaders l
            WHERE l.name >= 'late/' || p.process || '/' AND l.name < 'late/' || p.process || '0')
    FROM (
            SELECT split_part(name, '/', 2) AS process FROM leaders WHERE name >= 'duties/' AND name < 'duties0'
            UNION SELECT split_part(name, '/', 2) FROM leaders WHERE name >= 'late/' AND name < 'late0'
        ) p
        LEFT JOIN leaders d ON d.name = 'duties/' || p.process
        LEFT JOIN leaders s ON s.name = 'session/' || p.process
    WHERE d.name IS NULL OR d.expires_at < clock_timestamp()
        OR (s.name IS NOT NULL AND NOT EXISTS (
            SELECT FROM pg_stat_activity a WHERE a.pid::text = split_part(s.holder, '/', 1)
            AND (a.backend_start IS NULL OR extract(epoch FROM a.backend_start)::text = split_part(s.holder, '/', 2))))
    ORDER BY p.process
    """,
)

FORGET: Final = statement(
    "forget-process",
    "Removes the heartbeat of a process, unless it was renewed after it was found expired; by the primary key.",
    """
    DELETE FROM leaders WHERE (name IN (
            'duties/' || %(process)s::text, 'session/' || %(process)s::text, 'release/' || %(process)s::text
        ) OR (name >= 'late/' || %(process)s::text || '/' AND name < 'late/' || %(process)s::text || '0'))
        AND (%(since)s::timestamptz IS NULL OR EXISTS (
            SELECT FROM leaders d WHERE d.name = 'duties/' || %(process)s::text
            AND d.holder::timestamptz = %(since)s::timestamptz))
    """,
)

# Of each domain apart, so that none waits for the work of another. `at` excludes older partitions.
DOMAINS: Final = statement(
    "domains-with-missed-changes",
    "Domains with changes since a time after which other objects may have to change, in their order; by the log's index"
    " of revisions, over the partitions since then.",
    """
    SELECT d.id FROM domains d
    WHERE d.id > %(domain)s::bigint AND (
        SELECT true FROM changes c
        WHERE c.domain_id = d.id AND c.at >= %(since)s::timestamptz AND c.follow_up IS NOT false
        ORDER BY c.revision DESC LIMIT 1)
    ORDER BY d.id LIMIT %(limit)s::bigint
    """,
)

# Read in pages, in the order of the log's index of revisions.
MISSED: Final = statement(
    "missed-changes",
    "The changes of a domain since a time after which other objects may have to change, up to some bytes; by the log's"
    " index of revisions, over the partitions since then.",
    within_bytes(
        """
    SELECT t.id, t.name, t.domain_id AS domain, t.definitions_revision, t.namespaces_revision, t.attributes,
        c.domain_id, c.revision, c.resource, c.key, c.uid,
        CASE WHEN c.type = 'DELETED' THEN c.previous_body END AS body
    FROM changes c JOIN tenants t ON t.id = ANY (ARRAY[c.tenant_id])
    WHERE c.at >= %(since)s::timestamptz AND c.domain_id = %(domain)s::bigint AND c.revision > %(revision)s::bigint
        AND c.follow_up IS NOT false AND t.deleted_at IS NULL
    ORDER BY c.revision LIMIT %(limit)s::bigint
        """,
        "r.revision",
        "coalesce(octet_length(r.body), 0)",
    ),
)


class MissedChange(NamedTuple):
    """A change whose follow-up work may be missing. `last_body` is the body of a deleted object, else None."""

    tenant: Tenant
    resource: ResourceName
    key: ObjectKey
    uid: Uid
    last_body: str | None


class DeadProcess(NamedTuple):
    """A crashed process, and since when it may have left work unfinished: in all domains, and in some for longer.

    `since` is None if a server of an earlier release has recovered all but the latter.
    """

    name: str
    since: datetime.datetime | None
    late: dict[DomainId, datetime.datetime]


class ProcessHeartbeats:
    """Renews the heartbeat of this process, and finds crashed ones."""

    def __init__(self, pool: Pool, process: str, sealing: Sealing, *, seconds: float = 30.0) -> None:
        self._pool = pool
        self._sealing = sealing
        self._process = process
        self._seconds = seconds

    async def renew(
        self, age_seconds: float, late: Mapping[DomainId, float] | None = None, *, lives: bool = True
    ) -> None:
        """Renews the heartbeat for `seconds`. All follow-up work of commits older than `age_seconds` is done, but in
        the domains of `late` only that of commits older than they name.

        `lives` False: this process is about to end and leaves unfinished work to others.
        """
        seconds = self._seconds if lives else 0.0
        parameters = {
            "process": self._process,
            "age": age_seconds,
            "seconds": seconds,
            "release": newest_revision(),
            "late": BigintArray([*(late or ())]),
            "ages": BigintArray([math.ceil(age) for age in (late or {}).values()]),
        }
        await self._pool.execute(RENEW, parameters)

    async def end(self) -> None:
        """Removes the heartbeat: nothing is left unfinished."""
        await self._pool.execute(FORGET, {"process": self._process, "since": None})

    async def dead(self) -> list[DeadProcess]:
        """Returns the crashed processes."""
        rows = await self._pool.fetch(DEAD, {})
        return [DeadProcess(name, since, {DomainId(d): _time(at) for d, at in late}) for name, since, late in rows]

    async def forget(self, process: DeadProcess) -> None:
        """Removes the heartbeat of a crashed process once its work is done or taken over. The row stays if the process
        still runs and has renewed it meanwhile."""
        await self._pool.execute(FORGET, {"process": process.name, "since": process.since})

    async def domains_with_missed_changes(self, since: datetime.datetime) -> AsyncIterator[DomainId]:
        """Returns every domain with a change since then that may need follow-up work."""
        last = 0
        while rows := await self._pool.fetch(DOMAINS, {"since": _start(since), "domain": last, "limit": PAGE_ROWS}):
            for (domain,) in rows:
                yield DomainId(domain)
            last = rows[-1][0]

    async def missed_changes(
        self, since: datetime.datetime, domain: DomainId, after: int = 0
    ) -> AsyncIterator[tuple[list[MissedChange], int]]:
        """Returns every change of a domain since then that may need follow-up work, in pages; each with the revision
        `after` which the next one begins."""
        revision = after
        bounds = {"since": _start(since), "domain": domain, "limit": PAGE_ROWS, "bytes": READ_BYTES}
        while rows := await self._pool.fetch(MISSED, {**bounds, "revision": revision}):
            changes = [(tenant_of(row), ResourceName(row[8]), ObjectKey(row[9]), Uid(row[10]), row[11]) for row in rows]
            sealed = [StoredBody(tenant.id, resource, key, body or "") for tenant, resource, key, _, body in changes]
            texts = await self._sealing.texts(sealed)
            missed = [
                MissedChange(tenant, resource, key, uid, None if body is None else text)
                for (tenant, resource, key, uid, body), text in zip(changes, texts, strict=True)
            ]
            revision = rows[-1][7]
            yield missed, revision


def _time(epoch: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(epoch, datetime.UTC)


def _start(since: datetime.datetime) -> datetime.datetime:
    return since - datetime.timedelta(seconds=MARGIN_SECONDS)
