"""A tenant's own PostgreSQL schema for reports, with its views under short names (docs/sql.md).

For registry/store/reporting/views.py: in its transaction, under its lock.
"""

from __future__ import annotations

from registry.store.arrays import BigintArray
from registry.store.connection import Connection
from registry.store.reporting.catalogue import views_of
from registry.store.reporting.ddl import make, unmake
from registry.store.reporting.locations import drop_schema_of, is_schema_name, run_as
from registry.store.reporting.quoting import identifier
from registry.store.reporting.setup import Roles, one_row, run
from registry.store.reporting.statements import FOLLOW_BINDINGS, LEAVING_VIEWS
from registry.store.types import Tenant, TenantId


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
