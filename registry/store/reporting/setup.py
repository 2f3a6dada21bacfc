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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from registry.store.connection import Connection
from registry.store.reporting.model import BuiltInViews
from registry.store.reporting.quoting import identifier, literal
from registry.store.reporting.sql import TENANT_NAME, child_name

OWN_SCHEMA: Final = "reports"
ALL_SCHEMA: Final = "reports_all"

# Columns readable by the views. `body` is for kinds without documents (built_in.py), shown without managed fields.
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
_LOCK: Final = 0x7265_6769_7265_7000


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
    cursor = await connection.execute("SELECT current_database(), quote_ident(current_schema())")
    row = await cursor.fetchone()
    assert row is not None
    base = row[0]
    if len(base.encode()) > 48:
        base = base.encode()[:39].decode("utf-8", "ignore") + hashlib.blake2b(base.encode(), digest_size=4).hexdigest()
    return Roles(row[0], row[1], f"{base}_reports", f"{base}_reports_all", f"{base}_reader", f"{base}_reader_all")


async def begin(connection: Connection) -> None:
    """Begins a transaction that changes reports, one at a time."""
    await connection.execute(f"SET LOCAL statement_timeout = '{DDL_TIMEOUT_SECONDS}s'".encode())
    connection.call_limit_seconds = DDL_TIMEOUT_SECONDS + 5
    await connection.execute(b"SET LOCAL lock_timeout = '10s'")
    await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


async def make_schema(connection: Connection, roles: Roles, across: bool, built_in: Sequence[BuiltInViews]) -> None:
    """Creates what a set of views is missing, after its policies; kinds' own views are not included, `built_in` are
    only listed. Raises psycopg's InsufficientPrivilege."""
    for text in _base(roles, across, built_in):
        await connection.execute(text.encode(), prepare=False)


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
                await connection.execute(text.encode(), prepare=False)


async def _make_role(connection: Connection, name: str) -> None:
    cursor = await connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,))
    if await cursor.fetchone() is None:
        await connection.execute(f"CREATE ROLE {identifier(name)} NOLOGIN".encode(), prepare=False)
    cursor = await connection.execute("SELECT pg_has_role(current_user, %s, 'MEMBER')", (name,))
    row = await cursor.fetchone()
    if row is None or not row[0]:
        await connection.execute(f"GRANT {identifier(name)} TO CURRENT_USER".encode(), prepare=False)


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
    yield from _catalogue(quoted, tables, across)
    yield from _views(quoted, tables, across, built_in)
    yield _TIME_IN_STATE.format(schema=quoted)
    yield (
        f"COMMENT ON FUNCTION {quoted}.time_in_state IS"
        " 'How long each object had each value of a column of a history view, between two times'"
    )
    yield "RESET ROLE"


# Runs with its caller's privileges. A state whose beginning is unknown, because it is older than the log, counts from
# `since` on; nothing counts after now. Consecutive stays without a gap are one.
_TIME_IN_STATE: Final = """
    CREATE OR REPLACE FUNCTION {schema}.time_in_state(
        history regclass, field text, since timestamptz, until timestamptz DEFAULT now()
    ) RETURNS TABLE (
        tenant text, namespace text, name text, uid text, value text, duration interval, stays bigint, still boolean
    ) LANGUAGE plpgsql STABLE AS $function$
    BEGIN
        RETURN QUERY EXECUTE format($query$
            WITH states AS (
                SELECT h.tenant, h.namespace, h.name, h.uid, h.%I::text AS value, greatest(h.valid_from, $1) AS began,
                    least(h.valid_to, $2) AS ended, h.valid_to IS NULL OR h.valid_to > $2 AS lasts
                FROM %s h
                WHERE h.operation <> 'delete' AND (h.valid_from IS NULL OR h.valid_from < $2)
                    AND (h.valid_to IS NULL OR h.valid_to > $1)
            ), followed AS (
                SELECT s.*, lag(s.ended) OVER before = s.began AND lag(s.value) OVER before IS NOT DISTINCT FROM s.value
                    AS goes_on
                FROM states s WHERE s.began < s.ended
                WINDOW before AS (PARTITION BY s.tenant, s.uid ORDER BY s.began)
            )
            SELECT f.tenant, f.namespace, f.name, f.uid, f.value, sum(f.ended - f.began),
                count(*) FILTER (WHERE f.goes_on IS NOT TRUE), bool_or(f.lasts)
            FROM followed f GROUP BY 1, 2, 3, 4, 5
        $query$, field, history) USING since, least(until, now());
    END
    $function$"""


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


def _catalogue(schema: str, tables: str, across: bool) -> Iterator[str]:
    """Yields the views that describe the views. They show the definitions of the tenants that a session may see."""

    def mine(tenant: str, resource: str = "") -> str:
        return _visible_rows(tables, across, tenant, resource)

    yield f"""CREATE OR REPLACE VIEW {schema}.definitions WITH (security_barrier) AS
        SELECT {TENANT_NAME} AS tenant, m.resource AS definition, m.version, v.name AS view, m.state, m.reason,
            m.short_name, m.revision, m.at AS since
        FROM {tables}.report_definitions m
            LEFT JOIN {tables}.report_views v ON v.id = m.view_id
            LEFT JOIN {tables}.tenants t ON t.id = m.tenant_id
        WHERE {mine("m.tenant_id", "m.resource")}"""
    yield f"COMMENT ON VIEW {schema}.definitions IS 'What has become of each definition in reports, and why'"
    yield f"""CREATE OR REPLACE VIEW {schema}.catalogue WITH (security_barrier) AS
        SELECT v.name AS view, c.part, m.definition, m.version, c.name AS column, c.kind AS type,
            c.field_path, c.description, m.indexed @> jsonb_build_object(coalesce(c.field_path, ''), 1) AS indexed,
            c.relation, c.history
        FROM {tables}.report_views v
        CROSS JOIN LATERAL (
            SELECT min(m.resource) AS definition, string_agg(DISTINCT m.version, ', ' ORDER BY m.version) AS version,
                coalesce((SELECT jsonb_object_agg(
                    array_to_string(ARRAY(SELECT jsonb_array_elements_text(f.value)), '.'), 1)
                    FROM {tables}.report_definitions i, jsonb_each(i.facets) f
                    WHERE i.view_id = v.id AND {mine("i.tenant_id", "i.resource")}), '{{}}') AS indexed
            FROM {tables}.report_definitions m
            WHERE m.view_id = v.id AND {mine("m.tenant_id", "m.resource")}
            HAVING count(*) > 0
        ) m
        CROSS JOIN LATERAL (
            SELECT NULL AS part, x.value ->> 'name' AS name, x.value ->> 'kind' AS kind,
                array_to_string(ARRAY(SELECT jsonb_array_elements_text(x.value -> 'path')), '.') AS field_path,
                x.value ->> 'description' AS description, v.name AS relation, v.name || '_history' AS history
            FROM jsonb_array_elements(v.shape -> 'columns') x
            UNION ALL
            SELECT p.value ->> 'name', x.value ->> 'name', x.value ->> 'kind',
                (SELECT string_agg(array_to_string(ARRAY(SELECT jsonb_array_elements_text(s.value)), '.') || '[]', '.'
                    ORDER BY s.ordinality) FROM jsonb_array_elements(p.value -> 'path') WITH ORDINALITY s)
                    || '.' || array_to_string(ARRAY(SELECT jsonb_array_elements_text(x.value -> 'path')), '.'),
                x.value ->> 'description', p.value ->> 'relation', p.value ->> 'history'
            FROM jsonb_array_elements(v.shape -> 'children') p, jsonb_array_elements(p.value -> 'columns') x
        ) c"""
    yield f"COMMENT ON VIEW {schema}.catalogue IS 'Which column of which view shows which field of which definition'"
    yield f"""CREATE OR REPLACE VIEW {schema}.revision WITH (security_barrier) AS
        SELECT {TENANT_NAME} AS tenant, d.revision, d.compact_revision AS history_from
        FROM {tables}.tenants t JOIN {tables}.domains d ON d.id = t.domain_id
        WHERE {mine("t.id")}"""
    yield (
        f"COMMENT ON VIEW {schema}.revision IS 'The revision that a transaction sees, and from which on there is "
        "history'"
    )
    yield f"""CREATE OR REPLACE VIEW {schema}.usage AS
        SELECT {TENANT_NAME} AS tenant, o.resource AS definition, count(*) AS objects,
            sum(pg_column_size(o.doc)) AS stored_bytes, max(o.updated_at) AS last_write
        FROM {tables}.objects o LEFT JOIN {tables}.tenants t ON t.id = o.tenant_id
        GROUP BY {TENANT_NAME}, o.resource"""
    yield f"COMMENT ON VIEW {schema}.usage IS 'Objects of each definition and tenant, and the size of their documents'"


def _views(schema: str, tables: str, across: bool, built_in: Sequence[BuiltInViews]) -> Iterator[str]:
    """Yields the list of views, which psql cannot give: of definitions of visible tenants, and of `built_in`."""
    elements = """(SELECT string_agg(array_to_string(ARRAY(SELECT jsonb_array_elements_text(s.value)), '.') || '[]', '.'
                    ORDER BY s.ordinality) FROM jsonb_array_elements(p.value -> 'path') WITH ORDINALITY s)"""
    fixed = ", ".join(
        f"({literal(view)}, {literal(kind.resource)}, {literal(shows)})"
        for kind in built_in
        for view, shows in _views_of(kind)
    )
    yield f"""CREATE OR REPLACE VIEW {schema}.views WITH (security_barrier) AS
        SELECT r.view, v.resource AS definition, r.shows
        FROM {tables}.report_views v
        CROSS JOIN LATERAL (
            VALUES (v.name, 'objects'), (v.name || '_raw', 'whole objects'), (v.name || '_history', 'states of objects')
            UNION ALL
            SELECT p.value ->> 'relation', 'elements of ' || {elements}
            FROM jsonb_array_elements(v.shape -> 'children') p
            UNION ALL
            SELECT p.value ->> 'history', 'states of elements of ' || {elements}
            FROM jsonb_array_elements(v.shape -> 'children') p WHERE p.value ->> 'history' IS NOT NULL
        ) r (view, shows)
        WHERE EXISTS (SELECT 1 FROM {tables}.report_definitions m
            WHERE m.view_id = v.id AND {_visible_rows(tables, across, "m.tenant_id", "m.resource")})
        {f"UNION ALL SELECT f.* FROM (VALUES {fixed}) f (view, definition, shows)" if fixed else ""}"""
    yield f"COMMENT ON VIEW {schema}.views IS 'The views that have rows for this session, and what a row is'"


def _views_of(kind: BuiltInViews) -> Iterator[tuple[str, str]]:
    yield kind.name, "objects"
    yield f"{kind.name}_raw", "whole objects"
    yield f"{kind.name}_history", "states of objects"
    for child in kind.shape.children:
        elements = f"elements of {'.'.join('.'.join(path) + '[]' for path in child.path)}"
        yield child_name(kind.name, child), elements
        yield child_name(kind.name, child, "_history"), f"states of {elements}"
