"""Keeps reporting views in step with definitions: which view a definition belongs to, and what it shows.

One change at a time per database, under an advisory lock, in one transaction, so readers always see a consistent set.
A view whose last definition is deleted stays for the retention time, since its history does.

    choice.py           the view of a definition, and its shape
    ddl.py              the SQL of a view, wherever it exists, the views of kinds that every tenant has, and
                        schemas of tenants of their own
    catalogue.py        the bookkeeping rows
    documents.py        the documents of objects
    repair.py           what logins have changed about themselves
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from typing import Final

import psycopg
from psycopg.types.json import Jsonb

from registry.store.connection import Connection, Pool
from registry.store.errors import StoreError, Unstorable
from registry.store.reporting import choice as reporting_choice
from registry.store.reporting.catalogue import (
    add_reason,
    drop_empty,
    expired_views,
    is_living,
    known_view,
    note_all_empty,
    note_empty,
    put_definition,
    retry_refused,
    stored_shape,
    update_view,
    views_of,
)
from registry.store.reporting.choice import Grow, choose, describe_omitted, fit_shape
from registry.store.reporting.ddl import follow_bindings, make, make_built_in, name_schema, refusal, remake, unmake
from registry.store.reporting.locations import (
    consumers_of,
    copies_of,
    count_relations,
    drop_schemas,
    has_schema,
    is_of_others,
    rival_names,
    version_made_by,
    version_text,
)
from registry.store.reporting.logins import ENFORCE, HELD_BACK, TRANSACTION_SECONDS
from registry.store.reporting.model import BuiltInViews, Facet, Report, ReportOutcome, ReportView, Shape
from registry.store.reporting.quoting import identifier, literal
from registry.store.reporting.repair import Drift, repair
from registry.store.reporting.setup import (
    ALL_SCHEMA,
    OWN_SCHEMA,
    Roles,
    begin,
    make_policies,
    make_schema,
    one_row,
    roles_of,
    run,
)
from registry.store.reporting.sql import SQL_VERSION
from registry.store.reporting.statements import BOUND, DEFINITIONS, GONE, MARK_DONE, OUTDATED
from registry.store.rows import tenant_of
from registry.store.types import ObjectKey, ResourceName, Tenant, TenantId

# How often passwords of logins are set again if the server cannot read whether they have changed.
UNSEEN_SECONDS: Final = 3600.0


class ReportingUnavailable(Exception):
    """The database role lacks privileges that reports need; the text says which."""


class Reporting:
    """`grow` grows shapes (registry/reporting/evolution.py). `name` proposes a name for a new view, `mark` a similar
    one if that is taken. `built_in` are the kinds that every tenant has and that get views.
    """

    def __init__(
        self,
        pool: Pool,
        grow: Grow,
        name: Callable[[str, str], str],
        mark: Callable[[str, str], str],
        built_in: Callable[[], Sequence[BuiltInViews]],
    ) -> None:
        self._pool = pool
        self._grow = grow
        self._name = name
        self._mark = mark
        self._built_in = built_in
        self._roles: Roles | None = None
        self._passwords_set = -UNSEEN_SECONDS

    async def prepare(self) -> None:
        """Creates roles, policies and schemas, and recreates all views of an older version or another role.

        Raises ReportingUnavailable. Idempotent.
        """
        try:
            async with self._pool.connection() as connection:
                roles = await roles_of(connection)
                if await _is_due(connection, roles):
                    across = await has_schema(connection, ALL_SCHEMA)
                    for which in (False, True)[: 1 + across]:
                        await make_policies(connection, roles, which)
                    async with connection.transaction():
                        await begin(connection)
                        if await _is_due(connection, roles):
                            await _make_all(connection, roles, across, self._built_in())
                self._roles = roles
        except StoreError as error:
            if isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
                raise unavailable(error) from error
            raise

    async def make_wildcard_views(self) -> None:
        """Creates the second set of views, which show many tenants, once a login needs it."""
        try:
            async with self._pool.connection() as connection:
                roles = await roles_of(connection)
                if await has_schema(connection, ALL_SCHEMA):
                    return
                await make_policies(connection, roles, across=True)
                async with connection.transaction():
                    await begin(connection)
                    await make_schema(connection, roles, True, self._built_in())
                    await make_built_in(connection, roles, True, self._built_in())
                    await remake(connection, roles, only_across=True)
        except StoreError as error:
            if isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
                raise unavailable(error) from error
            raise

    # ---- which tenants and definitions are due

    async def outdated_tenants(self, after: TenantId, limit: int) -> list[Tenant]:
        """Returns at most `limit` tenants, in the order of their ids."""
        return [tenant_of(row) for row in await self._pool.fetch(OUTDATED, {"after": after, "limit": limit})]

    async def forget_gone(self) -> None:
        await self._pool.execute(GONE, {})

    async def due_definitions(self, tenant: Tenant, definitions: ResourceName) -> list[ObjectKey]:
        """Returns the definitions of a tenant that have changed since their views were created, and deleted ones."""
        rows = await self._pool.fetch(DEFINITIONS, {"tenant": tenant.id, "resource": definitions})
        return [ObjectKey(key) for key, now, then in rows if now != then]

    async def mark_done(self, tenant: Tenant, revision: int) -> None:
        await self._pool.execute(MARK_DONE, {"tenant": tenant.id, "revision": revision})

    async def follow_bindings(self) -> None:
        """Adds tenants that use another tenant's definition to its view."""
        async with self._pool.connection() as connection, connection.transaction():
            await begin(connection)
            await follow_bindings(connection, self._roles or await roles_of(connection))

    async def bound(self, tenant: Tenant, resource: str) -> list[Tenant]:
        """Returns the tenants that use this definition."""
        rows = await self._pool.fetch(BOUND, {"tenant": tenant.id, "resource": resource})
        return [tenant_of(row) for row in rows]

    # ---- one definition

    async def apply_report(self, tenant: Tenant, report: Report, revision: int, *, indexed: bool) -> ReportOutcome:
        """Creates the views of a definition as of its `revision`. `indexed`: all its objects carry the report's facets;
        else its views do without them until `mark_indexed` is called."""
        try:
            async with self._pool.connection() as connection, connection.transaction():
                await begin(connection)
                return await self._apply_report(connection, tenant, report, revision, indexed)
        except Unstorable as error:
            outcome = ReportOutcome("refused", refusal(str(error)))
        async with self._pool.connection() as connection, connection.transaction():
            await begin(connection)
            known = await known_view(connection, tenant, report.resource)
            if await is_living(connection, tenant.id) and (known is None or known.revision <= revision):
                await put_definition(connection, tenant, report, revision, known.view if known else None, outcome)
        return outcome

    async def _apply_report(
        self, connection: Connection, tenant: Tenant, report: Report, revision: int, indexed: bool
    ) -> ReportOutcome:
        if not await is_living(connection, tenant.id):
            return ReportOutcome("off")
        roles = self._roles or await roles_of(connection)
        known = await known_view(connection, tenant, report.resource)
        if known is not None and known.revision > revision:
            return ReportOutcome("ready")  # a later state has been handled already
        views = await views_of(connection, report.resource, tenant.id)
        before = next((v for v in views if known is not None and v.id == known.view), None)
        if not report.enabled:
            await self._move(connection, roles, tenant, report, before, None)
            await put_definition(
                connection, tenant, report, revision, None, ReportOutcome("off", "views are switched off")
            )
            await note_empty(connection, report.resource)
            return ReportOutcome("off")
        view, wanted = choose(views, before, report, tenant.id, self._grow)
        shape = await _fit(connection, roles, tenant, view, wanted)
        if shape is None:
            outcome = ReportOutcome("refused", f"a database has {reporting_choice.MAX_VIEWS:,} reporting views at most")
            await self._move(connection, roles, tenant, report, before, None)
            await put_definition(connection, tenant, report, revision, None, outcome)
            return outcome
        if view is None:
            view = await self._insert(connection, report, shape, tenant)
        elif shape is not view.shape:
            view = await update_view(connection, view, shape, report.digest)
        await self._move(connection, roles, tenant, report, before, view)
        reason = "; ".join(filter(None, (report.reason, *describe_omitted(report.shape, shape))))
        outcome = ReportOutcome("ready", reason, view.name)
        facets = {facet.slot: list(facet.path) for facet in report.facets} if indexed else {}
        await put_definition(connection, tenant, report, revision, view.id, outcome, facets)
        await _share_view(connection, tenant, report.resource, view, facets)
        who = [tenant.id, *await consumers_of(connection, tenant, report.resource)]
        refused = await make(connection, roles, report.resource, view, who)
        if tenant.id in refused:
            await add_reason(connection, tenant, report.resource, f"not in the tenant's schema: {refused[tenant.id]}")
        await note_empty(connection, report.resource)
        return outcome

    async def _move(
        self,
        connection: Connection,
        roles: Roles,
        tenant: Tenant,
        report: Report,
        before: ReportView | None,
        view: ReportView | None,
    ) -> None:
        """Drops a view from the tenant's own schema, and from those of tenants that use its definition, when the
        definition moves to another view, or to none."""
        if before is not None and (view is None or view.id != before.id):
            who = [tenant.id, *await consumers_of(connection, tenant, report.resource)]
            await unmake(connection, roles, report.resource, before, who)

    async def mark_indexed(self, tenant: Tenant, resource: str, facets: Sequence[Facet]) -> None:
        """Records that all objects of a definition carry these facets: views whose tenants all do can use them."""
        async with self._pool.connection() as connection, connection.transaction():
            await begin(connection)
            value = {facet.slot: list(facet.path) for facet in facets}
            await connection.execute(
                "UPDATE report_definitions d SET facets = %s FROM api_bindings b WHERE b.provider_id = %s"
                " AND b.resource = %s AND b.until IS NULL AND d.tenant_id = b.tenant_id AND d.resource = b.resource",
                (Jsonb(value), tenant.id, resource),
            )
            row = await one_row(
                connection,
                "UPDATE report_definitions SET facets = %s WHERE tenant_id = %s AND"
                " resource = %s AND facets <> %s RETURNING view_id",
                (Jsonb(value), tenant.id, resource, Jsonb(value)),
            )
            if row is None or row[0] is None:
                return
            view = next(v for v in await views_of(connection, resource, tenant.id) if v.id == row[0])
            await make(connection, self._roles or await roles_of(connection), resource, view, [tenant.id])

    async def forget(self, tenant: Tenant, resource: str) -> None:
        """Records a deletion. The view stays, for its history, until it has been empty for the retention time."""
        async with self._pool.connection() as connection, connection.transaction():
            await begin(connection)
            await connection.execute(
                "UPDATE report_definitions SET state = 'deleted', reason = '', at = now()"
                " WHERE tenant_id = %s AND resource = %s",
                (tenant.id, resource),
            )
            await note_empty(connection, resource)

    async def facets_live(self, tenant: Tenant, resource: str) -> dict[str, list[str]] | None:
        """Returns what `mark_indexed` recorded for a definition; None if there is none."""
        async with self._pool.connection() as connection:
            row = await one_row(
                connection,
                "SELECT facets FROM report_definitions WHERE tenant_id = %s AND resource = %s AND state = 'ready'",
                (tenant.id, resource),
            )
            return None if row is None else row[0]

    async def enforce_limits(
        self, *, transaction_seconds: int = TRANSACTION_SECONDS, held_back: int = HELD_BACK
    ) -> None:
        """Terminates what report logins do for longer than they may."""
        await self._pool.execute(ENFORCE, {"transaction_seconds": transaction_seconds, "held_back": held_back})

    async def repair_logins(self) -> list[Drift]:
        """Reverts what report logins have changed about themselves, and returns it."""
        now = time.monotonic()
        unseen = now - self._passwords_set >= UNSEEN_SECONDS
        async with self._pool.connection() as connection:
            drift = await repair(connection, self._roles or await roles_of(connection), unseen=unseen)
        if unseen:
            self._passwords_set = now
        return drift

    async def drop_expired(self, retention: datetime.timedelta) -> list[str]:
        """Drops the views that have had no definition for the retention time, and returns their names."""
        async with self._pool.connection() as connection, connection.transaction():
            await begin(connection)
            roles = self._roles or await roles_of(connection)
            await note_all_empty(connection)
            dropped = await drop_empty(connection, roles, retention)
            for tenant_id, resource, view in await expired_views(connection, retention):
                await unmake(connection, roles, resource, view, [tenant_id])
                await connection.execute(
                    "DELETE FROM report_definitions WHERE tenant_id = %s AND resource = %s", (tenant_id, resource)
                )
            if dropped:
                await retry_refused(connection)
            return dropped

    async def name_schema(self, tenant: Tenant) -> str:
        """Creates the schema named in the tenant's row, and drops the previous one; returns why it could not, else
        ""."""
        async with self._pool.connection() as connection, connection.transaction():
            await begin(connection)
            return await name_schema(connection, self._roles or await roles_of(connection), tenant)

    async def _insert(self, connection: Connection, report: Report, shape: Shape, tenant: Tenant) -> ReportView:
        name = self._name(report.plural, report.group)
        rivals = rival_names(name)
        taken = not set(rivals).isdisjoint(kind.name for kind in self._built_in())
        if taken or await one_row(connection, "SELECT 1 FROM report_views WHERE name = ANY (%s)", (rivals,)):
            name = self._mark(name, f"{report.resource} {report.digest}")
            number = 0
            while await one_row(connection, "SELECT 1 FROM report_views WHERE name = %s", (name,)):
                number += 1
                name = self._mark(name, f"{report.resource} {report.digest} {number}")
        row = await one_row(
            connection,
            "INSERT INTO report_views (resource, name, digests, shape, relations, last_tenant_id)"
            " VALUES (%s, %s, %s, %s, %s, %s) RETURNING id",
            (report.resource, name, [report.digest], Jsonb(stored_shape(name, shape)), shape.relations, tenant.id),
        )
        assert row is not None
        return ReportView(row[0], name, (report.digest,), shape, tenant.id, 0)


async def _is_due(connection: Connection, roles: Roles) -> bool:
    # Views of a newer release, which is about to replace this one, are left alone.
    return await is_of_others(connection, roles) or await version_made_by(connection) < SQL_VERSION


async def _make_all(connection: Connection, roles: Roles, across: bool, built_in: Sequence[BuiltInViews]) -> None:
    if await is_of_others(connection, roles):
        await drop_schemas(connection)
    for which in (False, True)[: 1 + across]:
        await make_schema(connection, roles, which, built_in)
        await make_built_in(connection, roles, which, built_in)
    await retry_refused(connection)
    await remake(connection, roles)
    await run(connection, f"COMMENT ON SCHEMA {identifier(OWN_SCHEMA)} IS {literal(version_text())}")


async def _fit(
    connection: Connection, roles: Roles, tenant: Tenant, view: ReportView | None, wanted: Shape
) -> Shape | None:
    """Returns as much of the wanted shape as there is room for; None if there is none for a new view."""
    had = None if view is None else view.shape
    if wanted is had:
        return wanted
    copies = await copies_of(connection, tenant, view)
    shape = fit_shape(wanted, had, await _room(connection), copies)
    if had is None and shape != wanted:
        await drop_empty(connection, roles, datetime.timedelta(0))
        shape = fit_shape(wanted, had, await _room(connection), copies)
    return shape


async def _share_view(
    connection: Connection, provider: Tenant, resource: str, view: ReportView, facets: dict[str, list[str]]
) -> None:
    """Gives the view to the tenants that have bound the definition."""
    await connection.execute(
        "UPDATE report_definitions d SET facets = %s, view_id = %s FROM api_bindings b WHERE b.provider_id = %s"
        " AND b.resource = %s AND b.until IS NULL AND d.tenant_id = b.tenant_id AND d.resource = b.resource"
        " AND d.reason = 'bound'",
        (Jsonb(facets), view.id, provider.id, resource),
    )


async def _room(connection: Connection) -> int:
    return reporting_choice.MAX_VIEWS - await count_relations(connection)


def unavailable(error: StoreError) -> ReportingUnavailable:
    return ReportingUnavailable(f"{error}; docs/sql.md says what the role of the server needs")
