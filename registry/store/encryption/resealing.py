"""Re-encryption: a new data key for each tenant, and with it everything that an older one, or none, has sealed.

The rows themselves say what is left to do, and a setting says since when: interrupted, it is called again and goes on.
Nothing changes for clients: no revision is given, no event is made. It is paced by rows a second. A server that still
seals with the key before does so for CURRENT_SECONDS at the most; after that what it wrote meanwhile is re-encrypted.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from registry.store import change_log
from registry.store.arrays import BigintArray, TextArray
from registry.store.bounds import READ_BYTES, within_bytes
from registry.store.connection import Pool
from registry.store.encryption.master_keys import CannotUnseal, MasterKeys, key_name, seal, unseal
from registry.store.encryption.sealing import CURRENT_SECONDS, MARK, Sealing, prefix_of, purpose_of, seal_body
from registry.store.errors import Unreadable
from registry.store.settings import SharedSettings
from registry.store.signing_keys import PURPOSE as SIGNING
from registry.store.statements import Statement, statement
from registry.store.types import TenantId

SETTING: Final = "encryption-rotation"
BATCH_ROWS: Final = 100
DEFAULT_RATE: Final = 1000

CLOCK: Final = statement("rotation-clock", "The clock that keys are dated by.", "SELECT clock_timestamp()")

TENANTS: Final = statement(
    "tenants-with-keys",
    "Tenants in the order of their ids, with their newest data key and its date; by the primary keys.",
    """
    SELECT t.id, t.domain_id, coalesce(k.number, 0), k.created_at FROM tenants t
    LEFT JOIN LATERAL (
        SELECT number, created_at FROM tenant_keys k WHERE k.tenant_id = t.id ORDER BY number DESC LIMIT 1
    ) k ON true
    WHERE t.id > %(after)s::bigint AND (t.deleted_at IS NULL OR t.deleted_at > now()) ORDER BY t.id LIMIT 500
    """,
)

HAS_ROWS: Final = statement(
    "has-rows-to-seal",
    "Whether a tenant has, or had, anything of some resources; by the primary key and the log's index of keys.",
    """
    SELECT EXISTS (
        SELECT 1 FROM objects WHERE tenant_id = %(tenant)s::bigint AND resource = ANY (%(resources)s)
    ) OR EXISTS (
        SELECT 1 FROM changes WHERE tenant_id = %(tenant)s::bigint AND resource = ANY (%(resources)s)
    )
    """,
)

COUNT_ROWS: Final = statement(
    "count-rows-to-seal",
    "How many objects and changes there are of some resources, in all tenants; reads the index of each.",
    """
    SELECT (SELECT count(*) FROM objects WHERE resource = ANY (%(resources)s))
        + (SELECT count(*) FROM changes WHERE resource = ANY (%(resources)s))
    """,
)


def _stale(body: LiteralString) -> LiteralString:
    """Returns SQL for what must be sealed but is not by the newest key, and what is sealed but need not be any more."""
    return (
        f"CASE WHEN resource = ANY (%(resources)s) THEN NOT starts_with({body}, %(prefix)s::text)"
        f" ELSE starts_with({body}, %(mark)s::text) END"
    )


STALE_OBJECTS: Final = statement(
    "stale-objects",
    "The first objects of a tenant that are to be re-encrypted, after one of them, up to some bytes; by the primary"
    " key.",
    within_bytes(
        "SELECT resource, key, revision, body, NULL FROM objects"
        " WHERE tenant_id = %(tenant)s::bigint"
        " AND (resource, key) > (%(resource)s::text, %(key)s::text)"
        f" AND {_stale('body')} ORDER BY resource, key LIMIT %(limit)s::bigint",
        "r.resource, r.key",
    ),
)

STALE_CHANGES: Final = statement(
    "stale-changes",
    "The first changes of a tenant that are to be re-encrypted, after one of them, up to some bytes; by the log's index"
    " of keys.",
    change_log.within_size(
        "SELECT resource, key, revision, body, previous_body FROM changes WHERE tenant_id = %(tenant)s::bigint"
        " AND (resource, key, revision) > (%(resource)s::text, %(key)s::text, %(revision)s::bigint)"
        f" AND ({_stale('coalesce(body, previous_body)')} OR {_stale('coalesce(previous_body, body)')})"
        " ORDER BY resource, key, revision LIMIT %(limit)s::bigint",
        "r.resource, r.key, r.revision",
    ),
)

LOCK_DOMAIN: Final = statement(
    "lock-domain",
    "Holds back the writes of a domain; by the primary key.",
    "SELECT 1 FROM domains WHERE id = %(domain)s::bigint FOR UPDATE",
)

REPLACE_OBJECTS: Final = statement(
    "reseal-objects",
    "Objects with their bodies re-encrypted and without documents, unless they have been written meanwhile, and the"
    " tenant's count of bytes; after the domain's counter has been locked; by the primary keys.",
    """
    WITH resealed AS MATERIALIZED (
        SELECT w.*, octet_length(w.body) - octet_length(o.body) AS growth
        FROM unnest(%(resources)s::text[], %(keys)s::text[], %(revisions)s::bigint[], %(bodies)s::text[])
            AS w (resource, key, revision, body)
        JOIN objects o ON o.tenant_id = %(tenant)s::bigint AND o.resource = w.resource AND o.key = w.key
            AND o.revision = w.revision
    ), counted AS (
        UPDATE tenants t SET bytes = t.bytes + (SELECT sum(growth) FROM resealed)
        WHERE t.id = %(tenant)s::bigint AND EXISTS (SELECT 1 FROM resealed)
    )
    UPDATE objects o SET body = a.body, doc = NULL FROM resealed a
    WHERE o.tenant_id = %(tenant)s::bigint AND o.resource = a.resource AND o.key = a.key
    """,
)

REPLACE_CHANGES: Final = statement(
    "reseal-changes",
    "Changes with their bodies re-encrypted, without documents; by the log's index of keys.",
    """
    UPDATE changes c SET body = w.body, previous_body = w.previous, previous_doc = NULL
    FROM unnest(%(resources)s::text[], %(keys)s::text[], %(revisions)s::bigint[], %(bodies)s::text[],
        %(previous)s::text[]) AS w (resource, key, revision, body, previous)
    WHERE c.tenant_id = %(tenant)s::bigint AND c.resource = w.resource AND c.key = w.key AND c.revision = w.revision
    """,
)

WRAPPED_BY_OTHERS: Final = statement(
    "wrapped-by-others",
    "Data keys that are not wrapped by a master key; reads the table of keys.",
    "SELECT tenant_id, number, master, wrapped FROM tenant_keys WHERE master <> %(master)s::text LIMIT 500",
)

REWRAP: Final = statement(
    "rewrap",
    "A data key wrapped again; by the primary key.",
    """
    UPDATE tenant_keys SET master = %(master)s::text, wrapped = %(wrapped)s::bytea
    WHERE tenant_id = %(tenant)s::bigint AND number = %(number)s::bigint
    """,
)

SIGNING_KEYS: Final = statement(
    "signing-key-secrets", "The secrets of all signing keys.", "SELECT id, secret FROM signing_keys"
)

RESEAL_SIGNING_KEY: Final = statement(
    "reseal-signing-key",
    "A signing key re-encrypted; by the primary key.",
    "UPDATE signing_keys SET secret = %(secret)s::bytea WHERE id = %(id)s::text",
)

UNUSED_KEYS: Final = statement(
    "unused-data-keys",
    "Removes the older data keys of a tenant, once nothing is sealed with them; by the primary key.",
    "DELETE FROM tenant_keys WHERE tenant_id = %(tenant)s::bigint AND number < %(number)s::bigint",
)

MASTERS_IN_USE: Final = statement(
    "masters-in-use",
    "How many data keys each master key wraps.",
    "SELECT master, count(*) FROM tenant_keys GROUP BY master ORDER BY master",
)


ONE_WRAPPED_BY_EACH: Final = statement(
    "one-wrapped-by-each",
    "A data key of each master key that wraps any; reads the table of keys.",
    """
    SELECT DISTINCT ON (master) tenant_id, number, master, wrapped FROM tenant_keys ORDER BY master, tenant_id, number
    """,
)

ANY_OBJECT: Final = statement("any-object", "Whether anything was ever stored.", "SELECT 1 FROM objects LIMIT 1")


@dataclass(slots=True)
class Progress:
    """`total` is how many objects and changes there were of the encrypted resources when it began."""

    total: int = 0
    tenants: int = 0
    objects: int = 0
    changes: int = 0
    rewrapped: int = 0


async def rotate(
    pool: Pool, sealing: Sealing, *, rate: int = DEFAULT_RATE, report: Callable[[Progress], None] = lambda _: None
) -> Progress:
    """Re-encrypts everything, or resumes doing so. Raises Unreadable for data sealed by an unlisted key."""
    assert sealing.masters is not None, "there is nothing to seal with"
    settings, progress = SharedSettings(pool), Progress()
    began = await settings.get(SETTING)
    if not began:
        clock: datetime.datetime = (await pool.fetch(CLOCK, {}))[0][0]
        value = {"began": clock.isoformat()}
        if not await settings.put(SETTING, value, expected=began):
            value = await settings.get(SETTING) or value
        began = value
    await _rewrap(pool, sealing, progress)
    [[progress.total]] = await pool.fetch(COUNT_ROWS, {"resources": TextArray(sorted(sealing.resources))})
    rotation = _Rotation(pool, sealing, rate, progress, report)
    done = await rotation.reseal_all(datetime.datetime.fromisoformat(began["began"]))
    # By now no process seals with an older key.
    await asyncio.sleep(CURRENT_SECONDS + 1)
    for tenant, domain, number in done:
        await rotation.reseal(tenant, domain, number)
        await pool.execute(UNUSED_KEYS, {"tenant": tenant, "number": number})
    await settings.put(SETTING, {}, expected=began)
    return progress


async def _rewrap(pool: Pool, sealing: Sealing, progress: Progress) -> None:
    """Re-wraps everything that master keys seal with the first one, so that the others can be removed."""
    masters = sealing.masters
    assert masters is not None
    while rows := await pool.fetch(WRAPPED_BY_OTHERS, {"master": masters.first}):
        for tenant, number, master, wrapped in rows:
            purpose = purpose_of(tenant, number)
            rewrapped = masters.wrap(masters.unwrap(bytes(wrapped), purpose, master), purpose)
            await pool.execute(
                REWRAP, {"tenant": tenant, "number": number, "master": masters.first, "wrapped": rewrapped}
            )
            progress.rewrapped += 1
    for key, secret in await pool.fetch(SIGNING_KEYS, {}):
        if key_name(bytes(secret)) != masters.first:
            plain = unseal(masters, bytes(secret), SIGNING)
            await pool.execute(RESEAL_SIGNING_KEY, {"id": key, "secret": seal(masters, plain, SIGNING)})
            progress.rewrapped += 1


class _Rotation:
    """Seals rows with the newest keys, at most `rate` a second."""

    def __init__(
        self, pool: Pool, sealing: Sealing, rate: int, progress: Progress, report: Callable[[Progress], None]
    ) -> None:
        self._pool = pool
        self._sealing = sealing
        self._rate = rate
        self._progress = progress
        self._report = report

    async def reseal_all(self, began: datetime.datetime) -> list[tuple[TenantId, int, int]]:
        """Seals what each tenant stores with a key made since `began`; returns tenants with their domain and key."""
        pool, sealing = self._pool, self._sealing
        done = []
        resources = TextArray(sorted(sealing.resources))
        async for tenant, domain, number, made_at in _tenants(pool):
            if not number:
                rows = await pool.fetch(HAS_ROWS, {"tenant": tenant, "resources": resources})
                if not rows[0][0]:
                    continue
            if made_at is None or made_at < began:
                number += 1
                await sealing.make_key(tenant, number)
            await self.reseal(tenant, domain, number)
            done.append((tenant, domain, number))
            self._progress.tenants += 1
        return done

    async def reseal(self, tenant: TenantId, domain: int, number: int) -> None:
        pool, sealing, progress = self._pool, self._sealing, self._progress
        cipher = await sealing.key(tenant, number)

        async def reseal_body(resource: str, key: str, body: str | None) -> str | None:
            if body is None or (body.startswith(prefix_of(tenant, number)) and resource in sealing.resources):
                return body
            plain = await sealing.text(tenant, resource, key, body)
            if resource not in sealing.resources:
                return plain
            return seal_body(tenant, resource, key, number, cipher, plain)

        for find, put in ((STALE_OBJECTS, REPLACE_OBJECTS), (STALE_CHANGES, REPLACE_CHANGES)):
            async for rows in self._stale(find, tenant, number):
                bodies = [await reseal_body(r[0], r[1], r[3]) for r in rows]
                previous = [await reseal_body(r[0], r[1], r[4]) for r in rows]
                values: dict[str, Any] = {
                    "tenant": tenant,
                    "resources": TextArray([r[0] for r in rows]),
                    "keys": TextArray([r[1] for r in rows]),
                    "revisions": BigintArray([r[2] for r in rows]),
                    "bodies": TextArray(bodies),
                }
                if put is REPLACE_OBJECTS:
                    async with pool.connection() as connection, connection.transaction():
                        await connection.execute(LOCK_DOMAIN.sql, {"domain": domain})
                        # A separate statement, so that it sees what the lock's previous holders have written.
                        await connection.execute(put.sql, values)
                    progress.objects += len(rows)
                else:
                    await pool.execute(put, {**values, "previous": TextArray(previous)})
                    progress.changes += len(rows)
                self._report(progress)
                await asyncio.sleep(len(rows) / self._rate)

    async def _stale(self, find: Statement, tenant: TenantId, number: int) -> AsyncIterator[list[tuple[Any, ...]]]:
        resource, key, revision = "", "", 0
        while True:
            values: dict[str, Any] = {
                "tenant": tenant,
                "resources": TextArray(sorted(self._sealing.resources)),
                "prefix": prefix_of(tenant, number),
                "mark": MARK,
                "resource": resource,
                "key": key,
                "limit": BATCH_ROWS,
                "bytes": READ_BYTES,
            }
            if find is STALE_CHANGES:
                values["revision"] = revision
            rows = await self._pool.fetch(find, values)
            if not rows:
                return
            yield rows
            resource, key, revision = rows[-1][:3]


async def _tenants(pool: Pool) -> AsyncIterator[tuple[TenantId, int, int, datetime.datetime | None]]:
    after = 0
    while rows := await pool.fetch(TENANTS, {"after": after}):
        for row in rows:
            yield TenantId(row[0]), row[1], row[2], row[3]
        after = rows[-1][0]


async def require_masters(pool: Pool, masters: MasterKeys | None) -> None:
    """Raises Unreadable if a master key in use is not listed, or a different key is listed by its name."""
    for tenant, number, name, wrapped in await pool.fetch(ONE_WRAPPED_BY_EACH, {}):
        if masters is None or name not in masters.names:
            raise _missing(name)
        try:
            masters.unwrap(bytes(wrapped), purpose_of(tenant, number), name)
        except CannotUnseal as error:
            raise _another(name) from error
    for _, secret in await pool.fetch(SIGNING_KEYS, {}):
        name = key_name(bytes(secret))
        if name and (masters is None or name not in masters.names):
            raise _missing(name)
        try:
            unseal(masters, bytes(secret), SIGNING)
        except CannotUnseal as error:
            raise _another(name) from error


def _missing(name: str) -> Unreadable:
    return Unreadable(f"the database is encrypted by the master key {name}, which is missing")


def _another(name: str) -> Unreadable:
    return Unreadable(f"the database is encrypted by another key than the master key {name} that is listed")


async def seal_signing_keys(pool: Pool, masters: MasterKeys) -> None:
    """Seals signing keys that are stored in the clear."""
    for key, secret in await pool.fetch(SIGNING_KEYS, {}):
        if not key_name(bytes(secret)):
            sealed = seal(masters, unseal(masters, bytes(secret), SIGNING), SIGNING)
            await pool.execute(RESEAL_SIGNING_KEY, {"id": key, "secret": sealed})


async def is_unused(pool: Pool) -> bool:
    """Returns whether the database was never served: a server first stores objects of its own."""
    return not await pool.fetch(ANY_OBJECT, {})


async def masters_in_use(pool: Pool) -> dict[str, int]:
    """Returns how much each master key has sealed, by name; "" counts signing keys that are not sealed."""
    counts = {row[0]: row[1] for row in await pool.fetch(MASTERS_IN_USE, {})}
    for _, secret in await pool.fetch(SIGNING_KEYS, {}):
        name = key_name(bytes(secret))
        counts[name] = counts.get(name, 0) + 1
    return counts
