"""Schemas, roles and policies below reporting views, and the views that describe the others.

Four roles without login, named after the database because roles belong to the whole PostgreSQL cluster:

    <database>_reports        owns the views of `reports`; sees a session's own tenant by a policy
    <database>_reports_all    owns the views of `reports_all`; sees the tenants that a session may see across
    <database>_reader         may read `reports`: each login of one tenant is a member
    <database>_reader_all     may read `reports_all`: each login across tenants is a member

Readers have no privileges on tables, and the owners of views none to write one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from registry.store.connection import Connection
from registry.store.reporting.model import BuiltInViews
from registry.store.reporting.quoting import identifier, literal
from registry.store.reporting.sql import TENANT_NAME, child_name

OWN_SCHEMA: Final = "reports"
ALL_SCHEMA: Final = "reports_all"

# Columns readable by the views. `body` is for kinds without documents (ddl.py), shown without managed fields.
_OBJECTS: Final = tuple(
    """
    tenant_id resource key uid revision version doc body created_at updated_at facet_any facet_text1 facet_text2
    facet_text3 facet_int1 facet_int2 facet_float1 facet_time1 facet_ready facet_ready_since
    """.split()
)
_CHANGES: Final = tuple(
    """
    domain_id revision tenant_id resource key uid type version body previous_revision previous_body previous_doc
    actor_user actor_manager actor_verb at
    """.split()
)

# The columns by which policies decide who sees a row: tenant, resource and revision.
_PROTECTED: Final = {
    "tenants": ("id",),
    "objects": ("tenant_id", "resource"),
    "changes": ("tenant_id", "resource", "revision"),
}

DDL_TIMEOUT_SECONDS: Final = 60
# How long for a lock that a session of a login may hold.
LOCK_TIMEOUT: Final = "1s"
REPORTS_LOCK: Final = 0x7265_6769_7265_7000


@dataclass(frozen=True, slots=True)
class Roles:
    """The names of the roles of one database, and of the schema of its tables."""

    database: str
    tables: str
    owner: str
    owner_all: str
    reader: str
    reader_all: str

    def of(self, across: bool) -> tuple[str, str]:
        """Returns the owner and the reader of the views."""
        return (self.owner_all, self.reader_all) if across else (self.owner, self.reader)


async def roles_of(connection: Connection) -> Roles:
    row = await one_row(connection, "SELECT current_database(), quote_ident(current_schema())")
    assert row is not None
    base = row[0]
    if len(base.encode()) > 48:
        base = base.encode()[:39].decode("utf-8", "ignore") + hashlib.blake2b(base.encode(), digest_size=4).hexdigest()
    return Roles(row[0], row[1], f"{base}_reports", f"{base}_reports_all", f"{base}_reader", f"{base}_reader_all")


async def one_row(connection: Connection, text: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
    return await (await connection.execute(text.encode(), values)).fetchone()


async def holds(connection: Connection, text: str, value: Any) -> bool:
    """Returns whether the query for a value has a row, whose first column is true."""
    row = await one_row(connection, text, (value,))
    return row is not None and bool(row[0])


async def run(connection: Connection, text: str) -> None:
    """Runs a statement that is made for one occasion."""
    await connection.execute(text.encode(), prepare=False)


async def begin(connection: Connection) -> None:
    """Begins a transaction that changes reports, one at a time.

    It waits for others of these, and then hardly for sessions that use the same view: meanwhile the reports of no
    tenant change, and new queries of the view wait, too.
    """
    await connection.execute(f"SET LOCAL statement_timeout = '{DDL_TIMEOUT_SECONDS}s'".encode())
    connection.call_limit_seconds = DDL_TIMEOUT_SECONDS + 5
    await connection.execute(b"SET LOCAL lock_timeout = '10s'")
    await connection.execute("SELECT pg_advisory_xact_lock(%s)", (REPORTS_LOCK,))
    await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'".encode())


async def make_schema(connection: Connection, roles: Roles, across: bool, built_in: Sequence[BuiltInViews]) -> None:
    """Creates what a set of views is missing, after its policies; kinds' own views are not included, `built_in` are
    only listed. Raises psycopg's InsufficientPrivilege."""
    for text in _base(roles, across, built_in):
        await run(connection, text)


async def make_policies(connection: Connection, roles: Roles, across: bool) -> None:
    """Creates roles and row policies. One transaction per table: its lock blocks every write, and two such locks could
    deadlock with writes that take them in another order."""
    owner, reader = roles.of(across)
    async with connection.transaction():
        await begin(connection)
        for role in (owner, reader):
            await _make_role(connection, role)
    policy, tables = identifier("report_across" if across else "report_own"), roles.tables
    for table, columns in _PROTECTED.items():
        visible = _visible_rows(tables, across, *columns)
        async with connection.transaction():
            await begin(connection)
            for text in (
                f"ALTER TABLE {tables}.{table} ENABLE ROW LEVEL SECURITY",
                f"DROP POLICY IF EXISTS {policy} ON {tables}.{table}",
                f"CREATE POLICY {policy} ON {tables}.{table} FOR SELECT TO {identifier(owner)} USING ({visible})",
            ):
                await run(connection, text)


async def _make_role(connection: Connection, name: str) -> None:
    if not await holds(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", name):
        await run(connection, f"CREATE ROLE {identifier(name)} NOLOGIN")
    await become_member(connection, name)


async def become_member(connection: Connection, role: str) -> None:
    if not await holds(connection, "SELECT pg_has_role(current_user, %s, 'MEMBER')", role):
        await run(connection, f"GRANT {identifier(role)} TO CURRENT_USER")


def _base(roles: Roles, across: bool, built_in: Sequence[BuiltInViews]) -> Iterator[str]:
    owner, reader = roles.of(across)
    schema = ALL_SCHEMA if across else OWN_SCHEMA
    tables, quoted, to = roles.tables, identifier(schema), identifier(owner)
    yield f"GRANT USAGE ON SCHEMA {tables} TO {to}"
    yield f"GRANT SELECT ({', '.join(_OBJECTS)}) ON {tables}.objects TO {to}"
    yield f"GRANT SELECT ({', '.join(_CHANGES)}) ON {tables}.changes TO {to}"
    yield f"GRANT SELECT (id, name, domain_id) ON {tables}.tenants TO {to}"
    yield f"GRANT SELECT (id, revision, compact_revision) ON {tables}.domains TO {to}"
    yield f"GRANT SELECT ON {tables}.report_definitions, {tables}.report_views TO {to}"
    yield f"CREATE SCHEMA IF NOT EXISTS {quoted} AUTHORIZATION {to}"
    yield f"INSERT INTO {tables}.report_schemas (name) VALUES ({literal(schema)}) ON CONFLICT DO NOTHING"
    yield f"SET LOCAL ROLE {to}"
    yield f"GRANT USAGE ON SCHEMA {quoted} TO {identifier(reader)}"
    yield f"ALTER DEFAULT PRIVILEGES IN SCHEMA {quoted} GRANT SELECT ON TABLES TO {identifier(reader)}"
    yield _catalogue(quoted, tables, across, built_in)
    yield "RESET ROLE"


def _visible_rows(tables: str, across: bool, tenant: str, resource: str = "", since: str = "") -> str:
    """Returns the condition for rows that a session may see, by the columns of tenant and resource, or of tenant alone.

    Its sub-selects do not reference the row, so they run once per query. `since`, the row's revision, is the exception:
    bound objects are visible from the binding on.
    """
    if not across:
        return f"{tenant} = (SELECT {tables}.report_tenant())"
    bound = f"{tenant} IN (SELECT b.tenant_id FROM {tables}.report_bound() b)"
    if resource:
        bound = f"({tenant}, {resource}) IN (SELECT b.tenant_id, b.resource FROM {tables}.report_bound() b)"
    if since:
        bound += f" AND {since} > {tables}.report_bound_since({tenant}, {resource})"
    named = f"{tenant} = ANY ((SELECT {tables}.report_tenants_seen())::bigint[])"
    return f"((SELECT {tables}.report_sees_all()) OR {named} OR {bound})"


def _catalogue(schema: str, tables: str, across: bool, built_in: Sequence[BuiltInViews]) -> str:
    """Returns the statements of catalogue.sql."""
    rows = ", ".join(
        f"({literal(view)}, {literal(kind.resource)}, {literal(shows)})"
        for kind in built_in
        for view, shows in _views_of(kind)
    )
    parts = {
        "schema": schema,
        "tables": tables,
        "tenant": TENANT_NAME,
        "sees_tenant": _visible_rows(tables, across, "t.id"),
        "sees_definition": _visible_rows(tables, across, "m.tenant_id", "m.resource"),
        "sees_indexed": _visible_rows(tables, across, "i.tenant_id", "i.resource"),
        "built_in": f"UNION ALL SELECT f.* FROM (VALUES {rows}) f (view, definition, shows)" if rows else "",
    }
    text = files(__package__).joinpath("catalogue.sql").read_text("utf-8")
    return re.sub(r"\{(\w+)\}", lambda name: parts[name[1]], text.partition("\n\n")[2])


def _views_of(kind: BuiltInViews) -> Iterator[tuple[str, str]]:
    yield kind.name, "objects"
    yield f"{kind.name}_raw", "whole objects"
    yield f"{kind.name}_history", "states of objects"
    for child in kind.shape.children:
        elements = f"elements of {'.'.join('.'.join(path) + '[]' for path in child.path)}"
        yield child_name(kind.name, child), elements
        yield child_name(kind.name, child, "_history"), f"states of {elements}"
