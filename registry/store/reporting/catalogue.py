"""The bookkeeping rows of views and definitions, for registry/store/reporting/views.py.

Every function runs in its transaction, under its lock.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from psycopg.types.json import Jsonb

from registry.store.connection import Connection
from registry.store.reporting.locations import places_of, run_as, short_name
from registry.store.reporting.model import (
    KnownView,
    Path,
    Report,
    ReportKind,
    ReportOutcome,
    ReportView,
    Shape,
    shape_from_json,
    shape_to_json,
)
from registry.store.reporting.setup import Roles, one_row
from registry.store.reporting.sql import child_name, drops
from registry.store.types import Tenant, TenantId


async def known_view(connection: Connection, tenant: Tenant, resource: str) -> KnownView | None:
    row = await one_row(
        connection,
        "SELECT view_id, revision FROM report_definitions WHERE tenant_id = %s AND resource = %s",
        (tenant.id, resource),
    )
    return None if row is None else KnownView(*row)


async def views_of(connection: Connection, resource: str, tenant: TenantId) -> list[ReportView]:
    cursor = await connection.execute(
        "SELECT v.id, v.name, v.digests, v.shape, v.last_tenant_id, (SELECT count(*) FROM report_definitions d"
        " WHERE d.view_id = v.id AND d.tenant_id <> %s AND d.state <> 'deleted' AND d.reason <> 'bound')"
        " FROM report_views v WHERE v.resource = %s ORDER BY v.id",
        (tenant, resource),
    )
    return [
        ReportView(row[0], row[1], tuple(row[2]), shape_from_json(row[3]), row[4], row[5], row[3].get("live"))
        for row in await cursor.fetchall()
    ]


def stored_shape(name: str, shape: Shape) -> dict[str, Any]:
    """Returns the stored form of a shape, with the names of the views that show it, for `catalogue`."""
    document = shape_to_json(shape)
    for child, entry in zip(shape.children, document["children"], strict=True):
        entry["relation"] = child_name(name, child)
        entry["history"] = None if shape.bare else child_name(name, child, "_history")
    return document


async def update_view(connection: Connection, view: ReportView, shape: Shape, digest: str) -> ReportView:
    """The last digest is that of the shape. Digests of shapes that hid more are dropped: they must not join again."""
    shows_more = not set(view.shape.redacted) <= set(shape.redacted)
    digests = (digest,) if shows_more else (*(d for d in view.digests if d != digest), digest)[-50:]
    await connection.execute(
        "UPDATE report_views SET shape = %s, digests = %s, relations = %s WHERE id = %s",
        (Jsonb(stored_shape(view.name, shape)), list(digests), shape.relations, view.id),
    )
    return replace(view, shape=shape, digests=digests, live=None)


async def put_definition(
    connection: Connection,
    tenant: Tenant,
    report: Report,
    revision: int,
    view_id: int | None,
    outcome: ReportOutcome,
    facets: Mapping[str, Any] | None = None,
) -> None:
    """Records a definition's outcome. A short name never changes once assigned, since views are named by it."""
    short = await short_name(connection, tenant.id, report.resource)
    await connection.execute(
        "INSERT INTO report_definitions (tenant_id, resource, revision, version, view_id, state, reason, facets,"
        " short_name) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
        " ON CONFLICT (tenant_id, resource) DO UPDATE SET revision = excluded.revision, version = excluded.version,"
        " view_id = excluded.view_id, state = excluded.state, reason = excluded.reason, facets = excluded.facets,"
        " short_name = coalesce(report_definitions.short_name, excluded.short_name), at = now()",
        (
            tenant.id,
            report.resource,
            revision,
            report.version,
            view_id,
            outcome.state,
            outcome.reason,
            Jsonb(facets or {}),
            short,
        ),
    )
    if view_id is not None:
        await connection.execute(
            "UPDATE report_views SET last_tenant_id = %s, empty_since = NULL WHERE id = %s", (tenant.id, view_id)
        )


async def retry_refused(connection: Connection) -> None:
    """Makes the next sweep retry refused definitions, since there is room, or they would be built differently now."""
    await connection.execute(
        "WITH refused AS (UPDATE report_definitions SET revision = 0 WHERE state = 'refused' RETURNING tenant_id)"
        " DELETE FROM report_tenants WHERE tenant_id IN (SELECT tenant_id FROM refused)"
    )


async def add_reason(connection: Connection, tenant: Tenant, resource: str, reason: str) -> None:
    await connection.execute(
        "UPDATE report_definitions SET reason = concat_ws('; ', nullif(reason, ''), %s::text) WHERE tenant_id = %s"
        " AND resource = %s",
        (reason, tenant.id, resource),
    )


async def note_empty(connection: Connection, resource: str) -> None:
    """Records since when the views of a resource have had no definition."""
    await connection.execute(
        "UPDATE report_views v SET empty_since = CASE WHEN EXISTS (SELECT 1 FROM report_definitions d WHERE"
        " d.view_id = v.id AND d.state <> 'deleted') THEN NULL ELSE coalesce(v.empty_since, now()) END"
        " WHERE v.resource = %s",
        (resource,),
    )


async def drop_empty(connection: Connection, roles: Roles, retention: datetime.timedelta) -> list[str]:
    """Drops views that have been empty for `retention`, at most 50, longest empty first; returns their names."""
    cursor = await connection.execute(
        "SELECT id, resource, name, shape FROM report_views WHERE empty_since < now() - %s"
        " ORDER BY empty_since LIMIT 50",
        (retention,),
    )
    dropped = []
    for view_id, resource, name, shape in await cursor.fetchall():
        view = ReportView(view_id, name, (), shape_from_json(shape), 0, 0)
        for owner, place in await places_of(connection, roles, resource, view, None):
            await run_as(connection, owner, list(drops(place, view.shape)))
        await connection.execute("DELETE FROM report_definitions WHERE view_id = %s", (view_id,))
        await connection.execute("DELETE FROM report_views WHERE id = %s", (view_id,))
        dropped.append(name)
    return dropped


async def expired_views(
    connection: Connection, retention: datetime.timedelta
) -> list[tuple[TenantId, str, ReportView]]:
    """Returns definitions deleted for `retention` whose views other tenants still use, with these views."""
    cursor = await connection.execute(
        "SELECT d.tenant_id, d.resource, v.id, v.name, v.shape FROM report_definitions d"
        " JOIN report_views v ON v.id = d.view_id WHERE d.state = 'deleted' AND d.at < now() - %s LIMIT 50",
        (retention,),
    )
    return [
        (row[0], row[1], ReportView(row[2], row[3], (), shape_from_json(row[4]), 0, 0))
        for row in await cursor.fetchall()
    ]


async def note_all_empty(connection: Connection) -> None:
    """Does `note_empty` for every resource: a tenant's definitions vanish with it, without separate events."""
    await connection.execute(
        "UPDATE report_views v SET empty_since = now() WHERE v.empty_since IS NULL AND NOT EXISTS (SELECT 1 FROM"
        " report_definitions d WHERE d.view_id = v.id AND d.state <> 'deleted')"
    )


async def is_living(connection: Connection, tenant: TenantId) -> bool:
    """Returns whether the tenant still exists. A removal takes our lock after marking the tenant, so nothing that is
    created under the lock after this check outlives it."""
    row = await one_row(connection, "SELECT 1 FROM tenants WHERE id = %s AND deleted_at IS NULL", (tenant,))
    return row is not None


async def shared_facets(connection: Connection, view_id: int, shape: Shape) -> dict[tuple[Path, ReportKind], str]:
    """Returns the facet columns that hold the same field in the objects of all tenants of a view."""
    cursor = await connection.execute(
        "SELECT DISTINCT facets FROM report_definitions WHERE view_id = %s AND state <> 'deleted' LIMIT 100", (view_id,)
    )
    layouts = [row[0] for row in await cursor.fetchall()]
    common = (
        {slot: path for slot, path in layouts[0].items() if all(t.get(slot) == path for t in layouts)}
        if layouts
        else {}
    )
    kinds = {c.path: c.kind for c in shape.columns}
    slots: dict[tuple[Path, ReportKind], str] = {}
    for slot, path in common.items():
        kind = ReportKind.BOOLEAN if slot == "ready" else kinds.get(tuple(path))
        if kind is not None and (slot == "ready" or _KIND_OF_SLOT[slot.rstrip("0123456789")] is kind):
            slots[tuple(path), kind] = slot
    return slots


_KIND_OF_SLOT: Final = {
    "text": ReportKind.TEXT,
    "int": ReportKind.INTEGER,
    "float": ReportKind.NUMBER,
    "time": ReportKind.TIME,
}
