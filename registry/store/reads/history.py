"""The logged changes of one object, and the deleted objects of a resource.

Both reach as far back as the log is kept (compaction.py). Pages are bounded by rows and by bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from registry.store import change_log
from registry.store.bounds import READ_BYTES
from registry.store.connection import Pool
from registry.store.encoding import storable
from registry.store.encryption.sealing import Sealing
from registry.store.errors import TenantNotFound
from registry.store.rows import STATE
from registry.store.statements import Statement, statement
from registry.store.types import Guards, LoggedChange, ObjectKey, ResourceName, State, Tenant

# A page of very large objects is cut short.
MAX_PAGE_BYTES: Final = READ_BYTES


def _page_of(rows: LiteralString, order: LiteralString) -> LiteralString:
    """Returns SQL for a page of changes, with the state and the number of all `rows`, which are in `order`."""
    fitting = change_log.within_size(f"SELECT *, count(*) OVER () AS found FROM ({rows}) c", f"r.{order}")
    return (
        f"SELECT s.*, c.* FROM ({STATE}) s LEFT JOIN LATERAL (SELECT{change_log.COLUMNS}, c.found FROM ({fitting}) c) c"
        f" ON true ORDER BY c.{order}"
    )


OBJECT_HISTORY: Final = statement(
    "object-history",
    "The changes of one object before a revision, newest first; by the log's index of keys.",
    _page_of(
        """
        SELECT * FROM changes c
        WHERE c.tenant_id = %(tenant)s::bigint AND c.resource = %(resource)s::text
            AND c.key = %(key)s::text AND c.revision < %(before)s::bigint
        ORDER BY c.revision DESC LIMIT %(limit)s::bigint
        """,
        "revision DESC",
    ),
)


def _deleted_statement(condition: LiteralString) -> Statement:
    return statement(
        "deleted",
        "The deletions of a range of keys whose objects have not come again, in the order of the keys, each key's last;"
        " by the log's index of deletions and the primary key.",
        _page_of(
            f"""
            SELECT DISTINCT ON (c.key) c.* FROM changes c
            WHERE c.type = 'DELETED' AND c.tenant_id = %(tenant)s::bigint AND c.resource = %(resource)s::text
                AND c.key > %(after)s::text {condition}
                AND NOT EXISTS (
                    SELECT 1 FROM objects o
                    WHERE o.tenant_id = c.tenant_id AND o.resource = c.resource AND o.key = c.key OFFSET 0
                )
            ORDER BY c.key, c.revision DESC LIMIT %(limit)s::bigint
            """,
            "key",
        ),
    )


_DELETED: Final = _deleted_statement("")
_DELETED_IN_NAMESPACE: Final = _deleted_statement("AND c.key < %(end)s::text")
_DELETED_KEY: Final = _deleted_statement("AND c.key = %(key)s::text")


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of changes. `compact_revision` is the revision after which the log is complete."""

    changes: Sequence[LoggedChange]
    more: bool
    compact_revision: int
    state: State


class HistoryReads:
    def __init__(self, pool: Pool, sealing: Sealing) -> None:
        self._pool = pool
        self._sealing = sealing

    async def of_object(
        self, tenant: Tenant, resource: ResourceName, key: ObjectKey, *, before: int, limit: int
    ) -> HistoryPage:
        """Returns the changes of one object with revisions below `before`, newest first."""
        parameters = {
            "tenant": tenant.id,
            "resource": resource,
            "key": storable(key),
            "before": before,
            "limit": limit + 1,
            "bytes": MAX_PAGE_BYTES,
        }
        return await self._page(tenant, OBJECT_HISTORY, parameters, limit)

    async def list_deleted(
        self,
        tenant: Tenant,
        resource: ResourceName,
        *,
        namespace: str | None,
        key: ObjectKey | None = None,
        after: ObjectKey,
        limit: int,
    ) -> HistoryPage:
        """Returns the last deletion of each key without a current object, ordered by key, after `after`; or of `key`
        alone, which must be in `namespace`."""
        start = storable(after)
        parameters: dict[str, Any] = {
            "tenant": tenant.id,
            "resource": resource,
            "limit": limit + 1,
            "after": start,
            "bytes": MAX_PAGE_BYTES,
        }
        if key is not None:
            return await self._page(tenant, _DELETED_KEY, {**parameters, "key": storable(key)}, limit)
        if namespace is not None:
            # "0" is the character after "/".
            start = max(start.encode(), f"{storable(namespace)}/".encode()).decode()
            parameters |= {"end": f"{storable(namespace)}0", "after": start}
        find = _DELETED if namespace is None else _DELETED_IN_NAMESPACE
        return await self._page(tenant, find, parameters, limit)

    async def _page(self, tenant: Tenant, read: Statement, parameters: dict[str, Any], limit: int) -> HistoryPage:
        past = _past(tenant, await self._pool.fetch(read, parameters), limit)
        await self._sealing.changes(past.changes)
        return past


def _past(tenant: Tenant, rows: list[tuple[Any, ...]], limit: int) -> HistoryPage:
    if not rows:
        raise TenantNotFound(f"tenant {tenant.name} does not exist")
    current, compact_revision, definitions, namespaces = rows[0][:4]
    fits = [row for row in rows if row[5] is not None][:limit]
    changes = [change_log.change_of(row[4:-1]) for row in fits]
    return HistoryPage(
        changes,
        bool(fits) and rows[0][-1] > len(fits),
        compact_revision,
        State(current, Guards(definitions, namespaces)),
    )
