"""The rows that reporting keeps of views and definitions, and where a view stands. For registry/store/reporting.py.

Every function runs in its transaction, under its lock.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from psycopg.types.json import Jsonb

from registry.store.connection import Connection
from registry.store.reporting_model import Kind, Path, Report, Shape, shape_from_json, shape_to_json
from registry.store.reporting_setup import ALL_SCHEMA, OWN_SCHEMA, Roles
from registry.store.reporting_sql import SQL_VERSION, Place, drops, identifier
from registry.store.types import Tenant, TenantId

DDL_TIMEOUT: Final = "60s"
_LOCK: Final = 0x7265_6769_7265_7000


@dataclass(frozen=True, slots=True)
class View:
    """A row of `report_views`. `others` are tenants that have it, apart from the one in question."""

    id: int
    name: str
    digests: tuple[str, ...]
    shape: Shape
    last_tenant: int
    others: int
    # The facets that its SQL uses; None: it has none yet.
    live: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has become of a definition: 'ready', 'off' or 'refused', and why."""

    state: str
    reason: str = ""
    view: str = ""


SUFFIXES: Final = ("_raw", "_history", "_conditions_history", "_conditions", "_as_of", "_at_revision")


async def begin(connection: Connection) -> None:
    await connection.execute(f"SET LOCAL statement_timeout = '{DDL_TIMEOUT}'".encode())
    await connection.execute(b"SET LOCAL lock_timeout = '10s'")
    await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


async def one_row(connection: Connection, text: str, values: Sequence[Any]) -> tuple[Any, ...] | None:
    cursor = await connection.execute(text.encode(), values)
    return await cursor.fetchone()


async def run_as(connection: Connection, owner: str, texts: Sequence[str]) -> None:
    """Statements as the owner of views, in one round trip."""
    script = "; ".join([f"SET LOCAL ROLE {identifier(owner)}", *texts, "RESET ROLE"])
    await connection.execute(script.encode(), prepare=False)


async def places_of(connection: Connection, roles: Roles, resource: str, view: View,
                  tenant: Tenant | None) -> list[tuple[str, Place]]:
    """Where a view stands, and who owns it there: in `reports`, in `reports_all` if that is there, and in the schemas
    of its tenants. With a tenant: only in its schema."""
    found = []
    if tenant is None:
        found.append((roles.owner, Place(OWN_SCHEMA, view.name, resource, view.id, roles.tables)))
        if await has_schema(connection, ALL_SCHEMA):
            found.append((roles.owner_all, Place(ALL_SCHEMA, view.name, resource, view.id, roles.tables, across=True)))
    cursor = await connection.execute(
        "SELECT s.name, s.tenant_id, d.short_name FROM report_schemas s JOIN report_definitions d"
        " ON d.tenant_id = s.tenant_id WHERE d.view_id = %s AND (%s::bigint IS NULL OR s.tenant_id = %s::bigint)",
        (view.id, tenant.id if tenant else None, tenant.id if tenant else None))
    for schema, tenant_id, short_name in await cursor.fetchall():
        name = short_name or view.name
        found.append((roles.owner, Place(schema, name, resource, view.id, roles.tables, tenant_id=tenant_id)))
    return found


async def views_of(connection: Connection, resource: str, tenant: Tenant) -> list[View]:
    cursor = await connection.execute(
        "SELECT v.id, v.name, v.digests, v.shape, v.last_tenant_id, (SELECT count(*) FROM report_definitions d"
        " WHERE d.view_id = v.id AND d.tenant_id <> %s AND d.state <> 'deleted' AND d.reason <> 'bound')"
        " FROM report_views v WHERE v.resource = %s ORDER BY v.id", (tenant.id, resource))
    return [View(row[0], row[1], tuple(row[2]), shape_from_json(row[3]), row[4], row[5], row[3].get("live"))
            for row in await cursor.fetchall()]


async def update_view(connection: Connection, view: View, shape: Shape, digest: str) -> View:
    """The last digest is that of the shape. Those of shapes that hid more are forgotten: they must not join again."""
    shows_more = not set(view.shape.redacted) <= set(shape.redacted)
    digests = (digest,) if shows_more else (*(d for d in view.digests if d != digest), digest)[-50:]
    await connection.execute("UPDATE report_views SET shape = %s, digests = %s, relations = %s WHERE id = %s",
                             (Jsonb(shape_to_json(shape)), list(digests), shape.relations, view.id))
    return replace(view, shape=shape, digests=digests, live=None)


async def put_definition(connection: Connection, tenant: Tenant, report: Report, revision: int, view_id: int | None,
               outcome: Outcome, facets: Mapping[str, Any] | None = None) -> None:
    short = await short_name(connection, tenant, report)
    await connection.execute(
        "INSERT INTO report_definitions (tenant_id, resource, revision, version, view_id, state, reason, facets,"
        " short_name) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
        " ON CONFLICT (tenant_id, resource) DO UPDATE SET revision = excluded.revision, version = excluded.version,"
        " view_id = excluded.view_id, state = excluded.state, reason = excluded.reason, facets = excluded.facets,"
        " short_name = excluded.short_name, at = now()",
        (tenant.id, report.resource, revision, report.version, view_id, outcome.state, outcome.reason,
         Jsonb(facets or {}), short))
    if view_id is not None:
        await connection.execute("UPDATE report_views SET last_tenant_id = %s, empty_since = NULL WHERE id = %s",
                                 (tenant.id, view_id))


async def short_name(connection: Connection, tenant: Tenant, report: Report) -> str | None:
    """The plural, unless another definition of the tenant is called so, or what a view of one would be."""
    wanted = "".join(c if c.isalnum() else "_" for c in report.plural.lower())[:48]
    rivals = [wanted, *(f"{wanted}{s}" for s in SUFFIXES), *(wanted.removesuffix(s) for s in SUFFIXES)]
    taken = await one_row(connection, "SELECT 1 FROM report_definitions WHERE tenant_id = %s AND resource <> %s"
                       " AND short_name = ANY (%s)", (tenant.id, report.resource, rivals))
    return None if taken else wanted


async def note_empty(connection: Connection, resource: str) -> None:
    """Since when the views of a resource have had no definition."""
    await connection.execute(
        "UPDATE report_views v SET empty_since = CASE WHEN EXISTS (SELECT 1 FROM report_definitions d WHERE"
        " d.view_id = v.id AND d.state <> 'deleted') THEN NULL ELSE coalesce(v.empty_since, now()) END"
        " WHERE v.resource = %s", (resource,))


async def drop_empty(connection: Connection, roles: Roles, retention: datetime.timedelta) -> list[str]:
    """Drops the views that have been empty for as long; their names. The longest empty first, not too many at once."""
    cursor = await connection.execute(
        "SELECT id, resource, name, shape FROM report_views WHERE empty_since < now() - %s"
        " ORDER BY empty_since LIMIT 50", (retention,))
    dropped = []
    for view_id, resource, name, shape in await cursor.fetchall():
        view = View(view_id, name, (), shape_from_json(shape), 0, 0)
        for owner, place in await places_of(connection, roles, resource, view, None):
            await run_as(connection, owner, list(drops(place, view.shape)))
        await connection.execute("DELETE FROM report_definitions WHERE view_id = %s", (view_id,))
        await connection.execute("DELETE FROM report_views WHERE id = %s", (view_id,))
        dropped.append(name)
    return dropped


async def note_all_empty(connection: Connection) -> None:
    """As `note_empty` of every resource: with a tenant its definitions have gone, without a word about each."""
    await connection.execute(
        "UPDATE report_views v SET empty_since = now() WHERE v.empty_since IS NULL AND NOT EXISTS (SELECT 1 FROM"
        " report_definitions d WHERE d.view_id = v.id AND d.state <> 'deleted')")


async def drop_schema_of(connection: Connection, tenant: TenantId) -> bool:
    """Whether there was one. It goes with the tenant's own views in it; those that other tenants have, too, stay."""
    row = await one_row(connection, "DELETE FROM report_schemas WHERE tenant_id = %s RETURNING name", (tenant,))
    if row is None:
        return False
    await connection.execute(f"DROP SCHEMA IF EXISTS {identifier(row[0])} CASCADE".encode(), prepare=False)
    return True


async def is_living(connection: Connection, tenant: TenantId) -> bool:
    """Who removes a tenant takes our lock after it has been marked: what is made under it after that is not made."""
    found = await one_row(connection, "SELECT 1 FROM tenants WHERE id = %s AND deleted_at IS NULL", (tenant,))
    return found is not None


async def shared_facets(connection: Connection, view_id: int, shape: Shape) -> dict[tuple[Path, Kind], str]:
    """The columns that hold the same field in the objects of all tenants of a view."""
    cursor = await connection.execute(
        "SELECT DISTINCT facets FROM report_definitions WHERE view_id = %s AND state <> 'deleted' LIMIT 100",
        (view_id,))
    told = [row[0] for row in await cursor.fetchall()]
    common = {slot: path for slot, path in told[0].items() if all(t.get(slot) == path for t in told)} if told else {}
    kinds = {c.path: c.kind for c in shape.columns}
    found: dict[tuple[Path, Kind], str] = {}
    for slot, path in common.items():
        kind = Kind.BOOLEAN if slot == "ready" else kinds.get(tuple(path))
        if kind is not None and (slot == "ready" or _KIND_OF_SLOT[slot.rstrip("0123456789")] is kind):
            found[tuple(path), kind] = slot
    return found


_KIND_OF_SLOT: Final = {"text": Kind.TEXT, "int": Kind.INTEGER, "float": Kind.NUMBER, "time": Kind.TIME}


async def count_relations(connection: Connection) -> int:
    row = await one_row(connection, "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                     " JOIN report_schemas s ON s.name = n.nspname WHERE c.relkind = 'v'", ())
    assert row is not None
    return int(row[0])


async def has_schema(connection: Connection, name: str) -> bool:
    return await one_row(connection, "SELECT 1 FROM report_schemas WHERE name = %s", (name,)) is not None


async def has_view(connection: Connection, name: str) -> bool:
    return await one_row(connection, "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                                     " WHERE n.nspname = %s AND c.relname = %s", (OWN_SCHEMA, name)) is not None


def version_text() -> str:
    return f"Views of custom resources, kept in step with their definitions (made by version {SQL_VERSION})"


async def version_made_by(connection: Connection) -> int:
    """By which version of ours the views have been made; 0 where there are none."""
    row = await one_row(connection, "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s",
                     (OWN_SCHEMA,))
    return SQL_VERSION if row is not None and row[0] == version_text() else 0


async def is_of_others(connection: Connection, roles: Roles) -> bool:
    """Whether the views belong to another role than they should: in a database that was copied, renamed or restored."""
    row = await one_row(connection, "SELECT pg_get_userbyid(nspowner) <> %s FROM pg_namespace WHERE nspname = %s",
                        (roles.owner, OWN_SCHEMA))
    return row is not None and bool(row[0])


async def drop_schemas(connection: Connection) -> None:
    """All schemas of views. What they were made of stays: the shapes, with columns of fields that are no more."""
    cursor = await connection.execute("DELETE FROM report_schemas RETURNING name")
    for (name,) in await cursor.fetchall():
        await connection.execute(f"DROP SCHEMA IF EXISTS {identifier(name)} CASCADE".encode(), prepare=False)


def is_schema_name(name: str) -> bool:
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit() and name == name.lower()
    return plain and len(name) <= 63 and not name.startswith("pg_") and name not in _RESERVED_SCHEMAS


_RESERVED_SCHEMAS: Final = frozenset({"public", "information_schema", OWN_SCHEMA, ALL_SCHEMA})
