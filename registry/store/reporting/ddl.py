"""Creates and drops views wherever they exist, with their comments, and schemas of tenants of their own, for
registry/store/reporting/views.py: in its transaction, under its lock.

If the views in `reports` and `reports_all`, which are shared, cannot be created, the transaction fails. A tenant's own
schema repeats them under short names: a failure there must not affect other tenants.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import psycopg
from psycopg.types.json import Jsonb

from registry.store.arrays import BigintArray
from registry.store.connection import Connection
from registry.store.reporting import choice as reporting_choice
from registry.store.reporting.catalogue import shared_facets, stored_shape, update_view, views_of
from registry.store.reporting.choice import TOO_MANY
from registry.store.reporting.locations import (
    count_relations,
    drop_schema_of,
    has_view,
    is_schema_name,
    places_of,
    rival_names,
    run_as,
)
from registry.store.reporting.model import BuiltInViews, ReportColumn, ReportView, Shape, shape_from_json
from registry.store.reporting.quoting import identifier, literal
from registry.store.reporting.setup import ALL_SCHEMA, OWN_SCHEMA, Roles, one_row, run
from registry.store.reporting.sql import ViewPlace, child_name, drops, relation_of_child, statements
from registry.store.reporting.statements import FOLLOW_BINDINGS, LEAVING_VIEWS
from registry.store.translate import is_transient, translate
from registry.store.types import Tenant, TenantId

logger = logging.getLogger(__name__)


async def make(
    connection: Connection, roles: Roles, resource: str, view: ReportView, tenants: Sequence[TenantId]
) -> dict[int, str]:
    """Creates a view wherever it exists, if it has changed; else only in the schemas of these tenants.

    Returns the tenants whose own schemas lack it, and why.
    """
    facets = await shared_facets(connection, view.id, view.shape)
    live = {slot: list(path) for (path, _), slot in facets.items()}
    is_new = view.live is None
    refused: dict[int, str] = {}
    for owner, place in await places_of(connection, roles, resource, view, tenants if live == view.live else None):
        texts = list(statements(place, view.shape, facets))
        if is_new or place.tenant_id is not None:
            texts += comments(place, view.shape)
        if place.tenant_id is None:
            await run_as(connection, owner, texts)
        elif why := await _make_own(connection, owner, place, view.shape, texts):
            logger.warning("%s is not in the schema %s: %s", resource, place.schema, why)
            refused[place.tenant_id] = why
    if live != view.live:
        await connection.execute(
            "UPDATE report_views SET shape = jsonb_set(shape, '{live}', %s) WHERE id = %s", (Jsonb(live), view.id)
        )
    return refused


async def unmake(
    connection: Connection, roles: Roles, resource: str, view: ReportView, tenants: Sequence[TenantId]
) -> None:
    """Drops a view from the schemas of these tenants, which no longer use it."""
    for owner, place in await places_of(connection, roles, resource, view, tenants):
        await run_as(connection, owner, list(drops(place, view.shape)))


async def remake(connection: Connection, roles: Roles, only_across: bool = False) -> None:
    """Recreates every view wherever it exists. One that fails does not prevent the others."""
    cursor = await connection.execute("SELECT id, resource, name, shape, digests FROM report_views ORDER BY id")
    for view_id, resource, name, shape, digests in await cursor.fetchall():
        view = await _with_room(connection, ReportView(view_id, name, digests, shape_from_json(shape), 0, 0))
        await connection.execute(
            "UPDATE report_views SET shape = %s || jsonb_strip_nulls(jsonb_build_object('live', shape -> 'live'))"
            " WHERE id = %s",
            (Jsonb(stored_shape(name, view.shape)), view_id),
        )
        facets = await shared_facets(connection, view_id, view.shape)
        for owner, place in await places_of(connection, roles, resource, view, None):
            if only_across and not place.across:
                continue
            texts = [*statements(place, view.shape, facets), *comments(place, view.shape)]
            why = await replace_views(connection, owner, place, view.shape, texts)
            if why:
                logger.warning("the views of %s cannot be made in %s: %s", resource, place.schema, why)
            if why and place.tenant_id is None:
                await connection.execute(
                    "UPDATE report_definitions SET state = 'refused', reason = %s"
                    " WHERE view_id = %s AND state = 'ready' AND reason <> 'bound'",
                    (refusal(why), view_id),
                )
            await asyncio.sleep(0)


def refusal(why: str) -> str:
    return f"PostgreSQL does not take its views: {why}"


async def _make_own(connection: Connection, owner: str, place: ViewPlace, shape: Shape, texts: Sequence[str]) -> str:
    """Creates a view in a tenant's schema, if MAX_VIEWS permits. Returns why it could not be created; "" if it was."""
    is_there = await has_view(connection, place.schema, place.name)
    if not is_there and await count_relations(connection) + shape.relations > reporting_choice.MAX_VIEWS:
        return TOO_MANY
    return await replace_views(connection, owner, place, shape, texts)


async def replace_views(
    connection: Connection, owner: str, place: ViewPlace, shape: Shape, texts: Sequence[str]
) -> str:
    """Replaces views; those whose columns differ, from an earlier version, are dropped first."""
    why = ""
    for attempt in (texts, [*drops(place, shape), *texts]):
        try:
            async with connection.transaction():
                await run_as(connection, owner, attempt)
            return ""
        except psycopg.Error as error:
            if is_transient(error):
                raise
            why = str(translate(error))
    return why


async def _with_room(connection: Connection, view: ReportView) -> ReportView:
    """Leaves out histories of child views, for a view from before they existed, if there is no room for them."""
    first = view.shape.children[:1]
    if not first or view.shape.bare:
        return view
    if await has_view(connection, OWN_SCHEMA, child_name(view.name, first[0], "_history")):
        return view
    room = reporting_choice.MAX_VIEWS - reporting_choice.ROOM_FOR_CHILD_HISTORIES
    if await count_relations(connection) + 2 * len(view.shape.children) <= room:
        return view
    return await update_view(connection, view, replace(view.shape, bare=True), view.digests[-1])


# -- comments on views and their columns, which SQL clients show
_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "tenant": "Tenant that the object belongs to",
    "namespace": "metadata.namespace",
    "name": "metadata.name",
    "uid": "metadata.uid; child views have it too",
    "labels": "metadata.labels",
    "annotations": "metadata.annotations",
    "owner_references": "metadata.ownerReferences",
    "finalizers": "metadata.finalizers",
    "generation": "metadata.generation",
    "resource_version": "metadata.resourceVersion as a number: comparable within a tenant",
    "stored_version": "API version that the object is stored in",
    "created_at": "When the object was created",
    "created_by": "User who created the object; NULL beyond the retention time of the log",
    "updated_at": "When the object was last written",
    "updated_by": "User who last wrote the object; NULL beyond the retention time of the log",
    "deletion_timestamp": "metadata.deletionTimestamp: the object waits for its finalizers",
    "ready": "Whether the condition Ready (else Available) is True",
    "ready_reason": "Reason of that condition",
    "ready_since": "lastTransitionTime of that condition",
}


def comments(place: ViewPlace, shape: Shape) -> Iterator[str]:
    yield _comment("VIEW", place.relation(), shape.description or f"Objects of {place.resource}")
    yield _comment("VIEW", place.relation("_raw"), f"Objects of {place.resource} whole, without sensitive fields")
    yield _comment(
        "VIEW",
        place.relation("_history"),
        f"States of objects of {place.resource} within the retention time, deleted ones too",
    )
    taken = {column.name for column in shape.columns}
    for name, text in _DESCRIPTIONS.items():
        if name in taken:
            continue
        yield _comment("COLUMN", f"{place.relation()}.{identifier(name)}", text)
    yield from _column_comments(place.relation(), shape.columns, ())
    yield from _column_comments(place.relation("_history"), shape.columns, ())
    for child in shape.children:
        relation = relation_of_child(place, child)
        flat = tuple(step for path in child.path for step in (*path[:-1], f"{path[-1]}[]"))
        elements = f"Elements of {'.'.join(flat)} of {place.resource}"
        yield _comment("VIEW", relation, f"{elements}; position counts from 0")
        if not shape.bare:
            # Its columns are described on the view without history: each comment is a row of the catalog.
            yield _comment(
                "VIEW",
                relation_of_child(place, child, "_history"),
                f"{elements} in each state within the retention time",
            )
        yield from _column_comments(relation, child.columns, flat)


def _comment(what: str, which: str, text: str) -> str:
    return f"COMMENT ON {what} {which} IS {literal(text)}"


def _column_comments(relation: str, columns: Sequence[ReportColumn], above: tuple[str, ...]) -> Iterator[str]:
    for column in columns:
        path = ".".join((*above, *column.path))
        text = f"{column.description}\n({path})" if column.description else path
        yield _comment("COLUMN", f"{relation}.{identifier(column.name)}", text)


# -- namespaces, roles and their bindings
async def make_built_in(connection: Connection, roles: Roles, across: bool, kinds: Sequence[BuiltInViews]) -> None:
    """Creates or replaces the views of kinds that every tenant has, in one of the schemas; failures are logged.

    There is one set for all tenants, created with its schema. Objects of these kinds have no documents, since no tenant
    has enabled reporting on them: the views decode the stored bodies.
    """
    schema = ALL_SCHEMA if across else OWN_SCHEMA
    for kind in kinds:
        taken = "SELECT resource FROM report_views WHERE name = ANY (%s)"
        if (rival := await one_row(connection, taken, (rival_names(kind.name),))) is not None:
            logger.warning("%s has no views: the definition %s has views of that name", kind.resource, rival[0])
            continue
        place = ViewPlace(schema, kind.name, kind.resource, 0, roles.tables, across=across, built_in=True)
        texts = [*statements(place, kind.shape, {}), *comments(place, kind.shape)]
        why = await replace_views(connection, roles.of(across)[0], place, kind.shape, texts)
        if why:
            logger.warning("the views of %s cannot be made in %s: %s", kind.resource, schema, why)


# -- schemas of tenants of their own
async def name_schema(connection: Connection, roles: Roles, tenant: Tenant) -> str:
    """Creates the schema named in the tenant's row, and drops the previous one; returns why it could not, else ""."""
    row = await one_row(
        connection,
        "SELECT t.sql_schema, s.name FROM tenants t LEFT JOIN report_schemas s"
        " ON s.tenant_id = t.id WHERE t.id = %s AND t.deleted_at IS NULL",
        (tenant.id,),
    )
    if row is None or row[0] == row[1]:
        return ""
    wanted, present = row
    if present is not None:
        await drop_schema_of(connection, tenant.id)
    if wanted is None:
        return ""
    if not is_schema_name(wanted):
        return f"{wanted} cannot be the name of a tenant's schema"
    if await one_row(connection, "SELECT 1 FROM pg_namespace WHERE nspname = %s", (wanted,)):
        return f"there is a schema {wanted} already"
    await run(connection, f"CREATE SCHEMA {identifier(wanted)} AUTHORIZATION {identifier(roles.owner)}")
    await connection.execute("INSERT INTO report_schemas (name, tenant_id) VALUES (%s, %s)", (wanted, tenant.id))
    await _grant(connection, roles, wanted, tenant)
    cursor = await connection.execute(
        "SELECT v.resource, v.id FROM report_views v JOIN report_definitions d ON d.view_id = v.id"
        " WHERE d.tenant_id = %s AND d.state = 'ready' ORDER BY v.resource",
        (tenant.id,),
    )
    for resource, view_id in await cursor.fetchall():
        await _make(connection, roles, tenant.id, resource, view_id)
    return ""


async def follow_bindings(connection: Connection, roles: Roles) -> None:
    """Adds tenants that use another tenant's definition to its view, and the view to their own schemas, if any."""
    cursor = await connection.execute("SELECT tenant_id FROM report_schemas WHERE tenant_id IS NOT NULL")
    owners = {row[0] for row in await cursor.fetchall()}
    if owners:
        cursor = await connection.execute(LEAVING_VIEWS.sql)
        for tenant, resource, view_id in await cursor.fetchall():
            for view in await views_of(connection, resource, tenant):
                if view.id == view_id:
                    await unmake(connection, roles, resource, view, [tenant])
    cursor = await connection.execute(FOLLOW_BINDINGS.sql)
    for tenant, resource, view_id in await cursor.fetchall():
        if tenant in owners:
            await _make(connection, roles, tenant, resource, view_id)


async def _make(connection: Connection, roles: Roles, tenant: TenantId, resource: str, view_id: int) -> None:
    for view in await views_of(connection, resource, tenant):
        if view.id == view_id:
            await make(connection, roles, resource, view, [tenant])


async def _grant(connection: Connection, roles: Roles, schema: str, tenant: Tenant) -> None:
    # Logins are roles of the whole cluster: a database from elsewhere may have none of that name.
    cursor = await connection.execute(
        "SELECT l.name FROM report_logins l JOIN pg_roles r ON r.rolname = l.name"
        " WHERE NOT l.across AND l.tenant_ids = %s",
        (BigintArray([tenant.id]),),
    )
    texts = [
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA {identifier(schema)} GRANT SELECT ON TABLES TO " + identifier(roles.reader)
    ]
    texts += [f"GRANT USAGE ON SCHEMA {identifier(schema)} TO {identifier(row[0])}" for row in await cursor.fetchall()]
    await run_as(connection, roles.owner, texts)
