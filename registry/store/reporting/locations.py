"""Where views exist: the schemas `reports`, `reports_all` and those of tenants, and the names in them.

Every function runs in the transaction of registry/store/reporting/views.py, under its lock.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final

from registry.store.arrays import BigintArray
from registry.store.connection import Connection
from registry.store.reporting.model import BUILT_IN, ReportView
from registry.store.reporting.quoting import identifier
from registry.store.reporting.setup import ALL_SCHEMA, OWN_SCHEMA, Roles, one_row, run
from registry.store.reporting.sql import SQL_VERSION, ViewPlace
from registry.store.types import Tenant, TenantId

SUFFIXES: Final = ("_raw", "_history", "_conditions_history", "_conditions", "_as_of", "_at_revision")


def rival_names(name: str) -> list[str]:
    """Returns the names that conflict with a set of views of this name."""
    return [name, *(f"{name}{s}" for s in SUFFIXES), *(name.removesuffix(s) for s in SUFFIXES)]


async def run_as(connection: Connection, owner: str, texts: Sequence[str]) -> None:
    """Runs statements as the owner of views, in one round trip."""
    await run(connection, "; ".join([f"SET LOCAL ROLE {identifier(owner)}", *texts, "RESET ROLE"]))


async def places_of(
    connection: Connection, roles: Roles, resource: str, view: ReportView, tenants: Sequence[TenantId] | None
) -> list[tuple[str, ViewPlace]]:
    """Returns where a view exists, and its owner there: in `reports`, in `reports_all` if that exists, and in the
    schemas of its tenants. With `tenants`: only in theirs."""
    places = []
    if tenants is None:
        places.append((roles.owner, ViewPlace(OWN_SCHEMA, view.name, resource, view.id, roles.tables)))
        if await has_schema(connection, ALL_SCHEMA):
            places.append(
                (roles.owner_all, ViewPlace(ALL_SCHEMA, view.name, resource, view.id, roles.tables, across=True))
            )
    cursor = await connection.execute(
        "SELECT s.name, s.tenant_id, d.short_name FROM report_schemas s JOIN report_definitions d"
        " ON d.tenant_id = s.tenant_id WHERE d.view_id = %s AND (%s OR s.tenant_id = ANY (%s))"
        " ORDER BY s.tenant_id",
        (view.id, tenants is None, BigintArray(tenants or ())),
    )
    for schema, tenant_id, short in await cursor.fetchall():
        if short is None:
            # For another tenant's definition: it gets its short name once there is a schema.
            short = await short_name(connection, tenant_id, resource)
            await connection.execute(
                "UPDATE report_definitions SET short_name = %s WHERE tenant_id = %s AND resource = %s",
                (short, tenant_id, resource),
            )
        places.append((roles.owner, ViewPlace(schema, short, resource, view.id, roles.tables, tenant_id=tenant_id)))
    return places


async def copies_of(connection: Connection, tenant: Tenant, view: ReportView | None) -> int:
    """Returns the number of schemas that contain a view once a tenant has it: `reports`, `reports_all`, and those of
    its tenants."""
    row = await one_row(
        connection,
        "SELECT count(*) FROM report_schemas s WHERE s.tenant_id = %s OR s.tenant_id IN"
        " (SELECT d.tenant_id FROM report_definitions d WHERE d.view_id = %s)",
        (tenant.id, view.id if view else None),
    )
    assert row is not None
    return 2 + int(row[0])


async def consumers_of(connection: Connection, tenant: Tenant, resource: str) -> list[TenantId]:
    """Returns the tenants with schemas of their own that use this definition."""
    cursor = await connection.execute(
        "SELECT b.tenant_id FROM api_bindings b JOIN report_schemas s ON s.tenant_id = b.tenant_id"
        " WHERE b.provider_id = %s AND b.resource = %s AND b.until IS NULL",
        (tenant.id, resource),
    )
    return [row[0] for row in await cursor.fetchall()]


async def short_name(connection: Connection, tenant: TenantId, resource: str) -> str:
    """Returns the plural, with a digest if the name conflicts with that of another definition of the tenant, or its
    views.

    Never two underscores, which are reserved for the names of child views.
    """
    plain = re.sub("_+", "_", re.sub("[^a-z0-9]", "_", resource.partition(".")[0].lower()))[:48].strip("_")
    wanted, number = plain, 0
    while True:
        rivals = rival_names(wanted)
        if not await one_row(
            connection,
            "SELECT 1 FROM report_definitions WHERE tenant_id = %s AND resource <> %s AND short_name = ANY (%s)",
            (tenant, resource, rivals),
        ):
            return wanted
        digest = hashlib.blake2b(f"{resource} {number}".encode(), digest_size=4).hexdigest()
        wanted, number = f"{plain[:39]}_{digest}", number + 1


async def count_relations(connection: Connection) -> int:
    """Counts our views except built-in ones. Those of `reports` count twice: `reports_all` has them too, or will once a
    login needs it. The catalog of PostgreSQL is read only if there are schemas of tenants: each new view counts."""
    row = await one_row(
        connection,
        "SELECT 2 * coalesce((SELECT sum(relations) FROM report_views), 0) + CASE WHEN EXISTS ("
        "SELECT 1 FROM report_schemas WHERE tenant_id IS NOT NULL) THEN (SELECT count(*) FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace JOIN report_schemas s ON s.name = n.nspname"
        " WHERE s.tenant_id IS NOT NULL AND c.relkind = 'v' AND c.relname !~ %s) ELSE 0 END",
        (_BUILT_IN_RELATIONS,),
    )
    assert row is not None
    return int(row[0])


# The built-in sets of views. No other view matches: `__` occurs only in names of child views.
_BUILT_IN_RELATIONS: Final = f"^({'|'.join(BUILT_IN)})(_raw|_history|_conditions(_history)?|__.*)?$"


async def has_schema(connection: Connection, name: str) -> bool:
    return await one_row(connection, "SELECT 1 FROM report_schemas WHERE name = %s", (name,)) is not None


async def has_view(connection: Connection, schema: str, name: str) -> bool:
    text = (
        "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s"
    )
    return await one_row(connection, text, (schema, name)) is not None


_MADE_BY: Final = "Views of custom resources, kept in step with their definitions (made by version {})"
_VERSION: Final = re.compile(re.escape(_MADE_BY).replace(r"\{\}", r"(\d{1,9})"))


def version_text() -> str:
    return _MADE_BY.format(SQL_VERSION)


async def version_made_by(connection: Connection) -> int:
    """Returns the version of ours that created the views; 0 if there are none."""
    row = await one_row(
        connection, "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s", (OWN_SCHEMA,)
    )
    match = _VERSION.fullmatch(row[0] or "") if row is not None else None
    return int(match[1]) if match else 0


async def is_of_others(connection: Connection, roles: Roles) -> bool:
    """Returns whether the views belong to the wrong role: in a database that was copied, renamed or restored."""
    row = await one_row(
        connection,
        "SELECT pg_get_userbyid(nspowner) <> %s FROM pg_namespace WHERE nspname = %s",
        (roles.owner, OWN_SCHEMA),
    )
    return row is not None and bool(row[0])


async def drop_schema_of(connection: Connection, tenant: TenantId) -> bool:
    """Drops a tenant's schema with its own views, but not those in shared schemas. Returns whether there was one."""
    row = await one_row(connection, "DELETE FROM report_schemas WHERE tenant_id = %s RETURNING name", (tenant,))
    if row is None:
        return False
    await run(connection, f"DROP SCHEMA IF EXISTS {identifier(row[0])} CASCADE")
    return True


async def drop_schemas(connection: Connection) -> None:
    """Drops all schemas of views. Their shapes are kept, including columns of removed fields."""
    cursor = await connection.execute("DELETE FROM report_schemas RETURNING name")
    for (name,) in await cursor.fetchall():
        await run(connection, f"DROP SCHEMA IF EXISTS {identifier(name)} CASCADE")


def is_schema_name(name: str) -> bool:
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit() and name == name.lower()
    return plain and len(name) <= 63 and not name.startswith("pg_") and name not in _RESERVED_SCHEMAS


_RESERVED_SCHEMAS: Final = frozenset({"public", "information_schema", OWN_SCHEMA, ALL_SCHEMA})
