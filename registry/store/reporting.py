"""Keeps reporting views in step with definitions: which view a definition belongs to, its SQL, its documents.

One change at a time in a database, under an advisory lock, in one transaction: what readers see is always whole. Rules:

- A tenant's new definition joins the view of an equal one, else it gets a view of its own.
- A definition that changes takes its view along, unless other tenants have it too and the change is large or would
  show what was hidden: then it moves to a view of its own, or to that of an equal definition.
- A view whose last definition has gone stays for the retention time, since its history does.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import psycopg
from psycopg.types.json import Jsonb

from registry.store.arrays import BigintArray
from registry.store.connection import Connection, Pool
from registry.store.documents import emptied
from registry.store.errors import StoreError, Unstorable
from registry.store.reporting_catalogue import (
    SUFFIXES,
    Outcome,
    View,
    begin,
    count_relations,
    drop_empty,
    drop_schema_of,
    drop_schemas,
    has_schema,
    has_view,
    is_living,
    is_of_others,
    is_schema_name,
    note_all_empty,
    note_empty,
    one_row,
    places_of,
    put_definition,
    run_as,
    shared_facets,
    update_view,
    version_made_by,
    version_text,
    views_of,
)
from registry.store.reporting_logins import ENFORCE
from registry.store.reporting_model import Facet, Report, Shape, shape_from_json, shape_to_json
from registry.store.reporting_setup import ALL_SCHEMA, OWN_SCHEMA, Roles, make_schema, roles_of
from registry.store.reporting_sql import (
    SQL_VERSION,
    child_name,
    comments,
    identifier,
    literal,
    statements,
)
from registry.store.reporting_statements import (
    BOUND,
    DEFINITIONS,
    FOLLOW_BINDINGS,
    GONE,
    OUTDATED,
    PUT_DOCUMENTS,
    SETTLED,
    STALE_DOCUMENTS,
)
from registry.store.tenants import tenant_of
from registry.store.types import ObjectKey, ResourceName, Tenant

logger = logging.getLogger(__name__)

# A view takes some 20 kB of the catalogue. Beyond this many a definition gets fewer views, then none.
MAX_VIEWS: Final = 10_000
# Histories of child views double what a definition takes: they are made while so much room is left.
ROOM_FOR_CHILD_HISTORIES: Final = MAX_VIEWS // 2
NO_CHILD_HISTORIES: Final = "no histories of child views: there are too many views already"

Grow = Callable[[Shape, Shape], tuple[Shape, bool]]

class ReportingUnavailable(Exception):
    """The database does not let us make what reports need; the text says what is missing."""


class Reporting:
    """`grow` is how shapes grow (registry/reporting/evolution.py): the old and the new one give the grown one, and
    whether a view that others have too may grow so. `name` gives the name that a new view would like.
    """

    def __init__(self, pool: Pool, grow: Grow, name: Callable[[str, str], str],
                 mark: Callable[[str, str], str]) -> None:
        self._pool = pool
        self._grow = grow
        self._name = name
        self._mark = mark
        self._roles: Roles | None = None

    async def prepare(self) -> None:
        """Roles, policies and schemas, and all views anew where they are made differently now.

        Raises ReportingUnavailable. Doing it again does no harm.
        """
        try:
            async with self._pool.connection() as connection, connection.transaction():
                await begin(connection)
                roles = await roles_of(connection)
                strange = await is_of_others(connection, roles)
                if strange or await version_made_by(connection) != SQL_VERSION:
                    across = await has_schema(connection, ALL_SCHEMA)
                    if strange:
                        await drop_schemas(connection)
                    await make_schema(connection, roles, across=False)
                    if across:
                        await make_schema(connection, roles, across=True)
                    await self._remake(connection, roles)
                    text = f"COMMENT ON SCHEMA {identifier(OWN_SCHEMA)} IS {literal(version_text())}"
                    await connection.execute(text.encode(), prepare=False)
                self._roles = roles
        except StoreError as error:
            if isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
                raise unavailable(error) from error
            raise

    async def make_across(self) -> None:
        """The second set of views, which show many tenants: it is there once a login needs it."""
        try:
            async with self._pool.connection() as connection, connection.transaction():
                await begin(connection)
                roles = await roles_of(connection)
                if not await has_schema(connection, ALL_SCHEMA):
                    await make_schema(connection, roles, across=True)
                    await self._remake(connection, roles, only_across=True)
        except StoreError as error:
            if isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
                raise unavailable(error) from error
            raise

    # ---- which tenants and definitions are due

    async def outdated(self, limit: int) -> list[Tenant]:
        await self._pool.execute(GONE, {})
        return [tenant_of(row) for row in await self._pool.fetch(OUTDATED, {"limit": limit})]

    async def due(self, tenant: Tenant, definitions: ResourceName) -> list[ObjectKey]:
        """The definitions of a tenant that views have not been made by as they are now, and those that are gone."""
        rows = await self._pool.fetch(DEFINITIONS, {"tenant": tenant.id, "resource": definitions})
        return [ObjectKey(key) for key, now, then in rows if now != then]

    async def settled(self, tenant: Tenant, revision: int) -> None:
        await self._pool.execute(SETTLED, {"tenant": tenant.id, "revision": revision})

    async def follow_bindings(self) -> None:
        """Tenants that use a definition of another see their objects in its view."""
        async with self._pool.connection() as connection, connection.transaction():
            await begin(connection)
            await connection.execute(FOLLOW_BINDINGS.sql)

    async def bound(self, tenant: Tenant, resource: str) -> list[Tenant]:
        """The tenants that use this definition."""
        rows = await self._pool.fetch(BOUND, {"tenant": tenant.id, "resource": resource})
        return [tenant_of(row) for row in rows]

    # ---- one definition

    async def settle(self, tenant: Tenant, report: Report, revision: int, *, indexed: bool) -> Outcome:
        """Makes the views of a definition as of its `revision`. `indexed`: all its objects carry the report's facets;
        else its views do without them until `indexed` is called."""
        async with self._pool.connection() as connection, connection.transaction():
            await begin(connection)
            if not await is_living(connection, tenant.id):
                return Outcome("off")
            roles = self._roles or await roles_of(connection)
            known = await one_row(connection, "SELECT view_id, revision, facets, short_name FROM report_definitions"
                               " WHERE tenant_id = %s AND resource = %s", (tenant.id, report.resource))
            if known is not None and known[1] > revision:
                return Outcome("ready")     # somebody knows of a later state
            if not report.enabled:
                off = Outcome("off", "views are switched off")
                await put_definition(connection, tenant, report, revision, None, off)
                await note_empty(connection, report.resource)
                return Outcome("off")
            views = await views_of(connection, report.resource, tenant)
            before = next((v for v in views if known is not None and v.id == known[0]), None)
            view, shape = self._choose(views, before, report, tenant)
            reason = report.reason
            room = MAX_VIEWS - await count_relations(connection)
            if view is None and shape.children and 2 * shape.relations > room - ROOM_FOR_CHILD_HISTORIES:
                shape = replace(shape, bare=True)
                reason = f"{reason}; {NO_CHILD_HISTORIES}" if reason else NO_CHILD_HISTORIES
            if view is None and 2 * shape.relations > room:
                await drop_empty(connection, roles, datetime.timedelta(0))
                room = MAX_VIEWS - await count_relations(connection)
            if view is None:
                if 2 * shape.relations > room:
                    shape, reason = replace(shape, children=()), "no child views: there are too many views already"
                if 2 * shape.relations > room:
                    outcome = Outcome("refused", f"a database has {MAX_VIEWS:,} reporting views at most")
                    await put_definition(connection, tenant, report, revision, None, outcome)
                    return outcome
                view = await self._insert(connection, report, shape, tenant)
            elif shape is not view.shape:
                view = await update_view(connection, view, shape, report.digest)
            outcome = Outcome("ready", reason, view.name)
            facets = {facet.slot: list(facet.path) for facet in report.facets} if indexed else {}
            await put_definition(connection, tenant, report, revision, view.id, outcome, facets)
            await connection.execute(
                "UPDATE report_definitions d SET facets = %s, view_id = %s FROM api_bindings b WHERE b.provider_id = %s"
                " AND b.resource = %s AND b.until IS NULL AND d.tenant_id = b.tenant_id AND d.resource = b.resource"
                " AND d.reason = 'bound'", (Jsonb(facets), view.id, tenant.id, report.resource))
            await self._make(connection, roles, report.resource, view, tenant)
            await note_empty(connection, report.resource)
            return outcome

    async def indexed(self, tenant: Tenant, resource: str, facets: Sequence[Facet]) -> None:
        """All objects of a definition carry these facets: views whose tenants all do can use them."""
        async with self._pool.connection() as connection, connection.transaction():
            await begin(connection)
            value = {facet.slot: list(facet.path) for facet in facets}
            await connection.execute(
                "UPDATE report_definitions d SET facets = %s FROM api_bindings b WHERE b.provider_id = %s"
                " AND b.resource = %s AND b.until IS NULL AND d.tenant_id = b.tenant_id AND d.resource = b.resource",
                (Jsonb(value), tenant.id, resource))
            row = await one_row(connection, "UPDATE report_definitions SET facets = %s WHERE tenant_id = %s AND"
                             " resource = %s AND facets <> %s RETURNING view_id",
                             (Jsonb(value), tenant.id, resource, Jsonb(value)))
            if row is None or row[0] is None:
                return
            view = next(v for v in await views_of(connection, resource, tenant) if v.id == row[0])
            await self._make(connection, self._roles or await roles_of(connection), resource, view, tenant)

    async def unindexed(self, tenant: Tenant, resource: str) -> None:
        """The documents of a definition are about to be written anew: its views must not rely on facets meanwhile."""
        await self.indexed(tenant, resource, ())

    async def forget(self, tenant: Tenant, resource: str) -> None:
        """A definition has gone. Its view stays, for its history, until it has been empty for the retention time."""
        async with self._pool.connection() as connection, connection.transaction():
            await begin(connection)
            await connection.execute("UPDATE report_definitions SET state = 'deleted', reason = '', at = now()"
                                     " WHERE tenant_id = %s AND resource = %s", (tenant.id, resource))
            await note_empty(connection, resource)

    async def facets_live(self, tenant: Tenant, resource: str) -> dict[str, list[str]] | None:
        """What `indexed` has said of a definition; None where there is none."""
        async with self._pool.connection() as connection:
            row = await one_row(connection, "SELECT facets FROM report_definitions WHERE tenant_id = %s"
                                " AND resource = %s AND state = 'ready'", (tenant.id, resource))
            return None if row is None else row[0]

    async def enforce_limits(self) -> None:
        """Ends what report logins do for longer than they may."""
        await self._pool.execute(ENFORCE, {})

    async def tidy(self, retention: datetime.timedelta) -> list[str]:
        """Drops the views that no definition has had for the retention time."""
        async with self._pool.connection() as connection, connection.transaction():
            await begin(connection)
            await note_all_empty(connection)
            return await drop_empty(connection, self._roles or await roles_of(connection), retention)

    # ---- documents

    async def stale_documents(self, tenant: Tenant, resource: str, layout: str, after: str,
                              limit: int) -> list[tuple[str, int, str]]:
        """Key, revision and body of objects whose document is not of the layout. An empty layout: that have one."""
        rows = await self._pool.fetch(STALE_DOCUMENTS, {"tenant": tenant.id, "resource": resource, "after": after,
                                                        "layout": layout or None, "limit": limit})
        return [(row[0], row[1], row[2]) for row in rows]

    async def put_documents(self, tenant: Tenant, resource: str, layout: str,
                            documents: Sequence[tuple[str, int, str | None]]) -> None:
        """Key, revision and document each. A document that is refused is left out, and the object is NULL in views."""
        try:
            await self._put_documents(tenant, resource, documents)
        except Unstorable:
            for key, revision, document in documents:
                try:
                    await self._put_documents(tenant, resource, [(key, revision, document)])
                except Unstorable as error:
                    logger.warning("%s %s is stored without its doc: %s", resource, key, error)
                    await self._put_documents(tenant, resource, [(key, revision, emptied(document))])

    async def _put_documents(self, tenant: Tenant, resource: str,
                             documents: Sequence[tuple[str, int, str | None]]) -> None:
        await self._pool.execute(PUT_DOCUMENTS, {
            "tenant": tenant.id, "resource": resource, "keys": [d[0] for d in documents],
            "revisions": BigintArray([d[1] for d in documents]), "docs": [d[2] for d in documents]})

    # ---- a tenant's own schema

    async def name_schema(self, tenant: Tenant) -> str:
        """Makes the schema that the tenant's row names, drops one that it named before; why not, where it cannot."""
        async with self._pool.connection() as connection, connection.transaction():
            await begin(connection)
            roles = self._roles or await roles_of(connection)
            row = await one_row(connection, "SELECT t.sql_schema, s.name FROM tenants t LEFT JOIN report_schemas s"
                             " ON s.tenant_id = t.id WHERE t.id = %s AND t.deleted_at IS NULL", (tenant.id,))
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
            owner = identifier(roles.owner)
            await connection.execute(f"CREATE SCHEMA {identifier(wanted)} AUTHORIZATION {owner}".encode(),
                                     prepare=False)
            await connection.execute("INSERT INTO report_schemas (name, tenant_id) VALUES (%s, %s)",
                                     (wanted, tenant.id))
            await self._grant_schema(connection, roles, wanted, tenant)
            cursor = await connection.execute(
                "SELECT v.resource, v.id FROM report_views v JOIN report_definitions d ON d.view_id = v.id"
                " WHERE d.tenant_id = %s AND d.state = 'ready'", (tenant.id,))
            for resource, view_id in await cursor.fetchall():
                view = next(v for v in await views_of(connection, resource, tenant) if v.id == view_id)
                await self._make(connection, roles, resource, view, tenant)
            return ""

    async def _grant_schema(self, connection: Connection, roles: Roles, schema: str, tenant: Tenant) -> None:
        # Logins are roles of the whole server: in a database from elsewhere there may be none of that name.
        cursor = await connection.execute(
            "SELECT l.name FROM report_logins l JOIN pg_roles r ON r.rolname = l.name"
            " WHERE NOT l.across AND l.tenant_ids = %s", (BigintArray([tenant.id]),))
        texts = [f"ALTER DEFAULT PRIVILEGES IN SCHEMA {identifier(schema)} GRANT SELECT ON TABLES TO "
                 + identifier(roles.reader)]
        texts += [f"GRANT USAGE ON SCHEMA {identifier(schema)} TO {identifier(row[0])}"
                  for row in await cursor.fetchall()]
        await run_as(connection, roles.owner, texts)

    # ---- the parts

    def _choose(self, views: Sequence[View], before: View | None, report: Report,
                tenant: Tenant) -> tuple[View | None, Shape]:
        """The view that a definition is to have, and the shape that it gets; no view: a new one."""
        equal = next((v for v in views if report.digest in v.digests), None)
        if before is None:
            if equal is not None:
                return equal, equal.shape
            left = next((v for v in views if not v.others and v.last_tenant == tenant.id), None)
            return (None, report.shape) if left is None else (left, self._grow(left.shape, report.shape)[0])
        if report.digest == before.digests[-1]:
            return before, before.shape
        if before.others and report.digest in before.digests:
            return before, before.shape
        shape, may_share = self._grow(before.shape, report.shape)
        if not before.others or may_share:
            return before, shape
        return (None, report.shape) if equal is None else (equal, equal.shape)

    async def _insert(self, connection: Connection, report: Report, shape: Shape, tenant: Tenant) -> View:
        name = self._name(report.plural, report.group)
        rivals = [name, *(f"{name}{s}" for s in SUFFIXES), *(name.removesuffix(s) for s in SUFFIXES)]
        if await one_row(connection, "SELECT 1 FROM report_views WHERE name = ANY (%s)", (rivals,)):
            name = self._mark(name, f"{report.resource} {report.digest}")
            number = 0
            while await one_row(connection, "SELECT 1 FROM report_views WHERE name = %s", (name,)):
                number += 1
                name = self._mark(name, f"{report.resource} {report.digest} {number}")
        row = await one_row(
            connection,
            "INSERT INTO report_views (resource, name, digests, shape, relations, last_tenant_id)"
            " VALUES (%s, %s, %s, %s, %s, %s) RETURNING id",
            (report.resource, name, [report.digest], Jsonb(shape_to_json(shape)), shape.relations, tenant.id))
        assert row is not None
        return View(row[0], name, (report.digest,), shape, tenant.id, 0)

    async def _make(self, connection: Connection, roles: Roles, resource: str, view: View, tenant: Tenant) -> None:
        """The SQL of a view wherever it stands, if it has changed; else only in the schema of its newest tenant."""
        facets = await shared_facets(connection, view.id, view.shape)
        live = {slot: list(path) for (path, _), slot in facets.items()}
        is_new = view.live is None
        for owner, place in await places_of(connection, roles, resource, view, tenant if live == view.live else None):
            texts = list(statements(place, view.shape, facets))
            if is_new or place.tenant_id is not None:
                texts += comments(place, view.shape)
            await run_as(connection, owner, texts)
        if live != view.live:
            await connection.execute("UPDATE report_views SET shape = jsonb_set(shape, '{live}', %s) WHERE id = %s",
                                     (Jsonb(live), view.id))

    async def _with_room(self, connection: Connection, view: View) -> View:
        """A view that was made before there were histories of child views goes on without where there is no room."""
        first = view.shape.children[:1]
        if not first or view.shape.bare or await has_view(connection, child_name(view.name, first[0], "_history")):
            return view
        if await count_relations(connection) + 2 * len(view.shape.children) <= MAX_VIEWS - ROOM_FOR_CHILD_HISTORIES:
            return view
        return await update_view(connection, view, replace(view.shape, bare=True), view.digests[-1])

    async def _remake(self, connection: Connection, roles: Roles, only_across: bool = False) -> None:
        """Every view, wherever it stands."""
        cursor = await connection.execute("SELECT id, resource, name, shape, digests FROM report_views ORDER BY id")
        for view_id, resource, name, shape, digests in await cursor.fetchall():
            view = await self._with_room(connection, View(view_id, name, digests, shape_from_json(shape), 0, 0))
            facets = await shared_facets(connection, view_id, view.shape)
            for owner, place in await places_of(connection, roles, resource, view, None):
                if only_across and not place.across:
                    continue
                texts = [*statements(place, view.shape, facets), *comments(place, view.shape)]
                await run_as(connection, owner, texts)
                await asyncio.sleep(0)


def unavailable(error: StoreError) -> ReportingUnavailable:
    return ReportingUnavailable(f"{error}; docs/sql.md says what the role of the server needs")


__all__ = ["Outcome", "Reporting", "ReportingUnavailable"]
