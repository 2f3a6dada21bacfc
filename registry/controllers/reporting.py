"""Keeps SQL reports in step with definitions: their views right after each write, and the documents of objects.

The process that wrote the definition creates its views; what a crashed process has left is found by the leader, by the
revision of each tenant's definitions. Objects get their documents as they are written; older ones, or those with other
indexed fields, are rewritten a page at a time.

The view `reports.definitions` shows the outcome for each definition. A definition without views has a condition
`Reported` that says why, and one that requests it by an annotation (registry/reporting/marking.py) always has it;
others do not: their status is kube-apiserver's.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from functools import cache, partial
from typing import Final, Self

from prometheus_client import Counter

from registry.api.bound_definitions import DEFINITION_HEAD, DEFINITIONS
from registry.api.clock import timestamp
from registry.api.request import Backend
from registry.api.served import Object
from registry.builtin import definitions
from registry.codec.stored import decode_stored
from registry.controllers.controller_client import ControllerClient
from registry.controllers.work import Work, work_queue
from registry.definitions.conditions import find, is_true, with_condition
from registry.flowcontrol.evaluation import evaluate, shared_aside
from registry.reporting.evolution import grow
from registry.reporting.facets import Documents
from registry.reporting.fields import shape_of
from registry.reporting.names import LONGEST_VIEW, view_name
from registry.reporting.report import documents_of, report_of
from registry.store.connection import Pool
from registry.store.errors import StoreError
from registry.store.reporting.documents import Document, put_documents, stale_documents
from registry.store.reporting.model import BUILT_IN, BuiltInViews, Report, ReportOutcome
from registry.store.reporting.quoting import with_digest
from registry.store.reporting.views import Reporting, ReportingUnavailable
from registry.store.types import ObjectKey, ResourceName, Tenant, TenantId
from registry.tasks import running

logger = logging.getLogger(__name__)

LOGIN_DRIFTS: Final = Counter(
    "registry_report_login_drifts", "Changes that SQL logins had made to themselves, and that were put back.", ["what"]
)

# A new definition is written three times in a row, and others with it. Views take PostgreSQL and the server as long as
# the definitions themselves: they are created after this long without a write of a definition of the tenant, or so long
# after the first of a burst. After many definitions their clients ask whether each is served: views wait longer then.
_QUIET_SECONDS: Final = 0.25
_QUIET_SECONDS_EACH: Final = 0.005
_MAX_DEBOUNCE_SECONDS: Final = 10.0
# Definitions handled concurrently, half of them of one tenant: their schemas are read interleaved, their views created
# one by one.
_WORKERS = 4
_MAX_RETRY_SECONDS = 30.0
# A session of a login may keep a view from being changed for this long, or several that overlap. After that, the change
# waits so long for each, which then ends.
_PATIENCE_SECONDS = 60.0
_BLOCKING_SECONDS: Final = 0.25
# How often the leader looks for unfinished work.
SWEEP_SECONDS: Final = 10.0
# Tenants and objects handled per batch.
_TENANTS = 50
PAGE_ROWS: Final = 200
# After a page of documents: reports must not slow the server down.
_PAUSE_SECONDS = 0.02
# The retry interval without the privilege to create roles.
_UNAVAILABLE_SECONDS = 300.0


class ReportingController:
    """Creates views for definitions between entering and leaving. It subscribes to the same writes as other
    controllers."""

    def __init__(self, backend: Backend, *, sweep_seconds: float = SWEEP_SECONDS) -> None:
        self._backend = backend
        self._sweep_seconds = sweep_seconds
        self._reporting = reporting_of(backend.store.reporting_pool)
        self._queue = work_queue(
            "reporting", self._reconcile, backend, workers=_WORKERS, max_retry_seconds=_MAX_RETRY_SECONDS
        )
        self._entered = AsyncExitStack()
        self._ready = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._entered.enter_async_context(self._queue)
        self._entered.enter_context(self._backend.events.subscription(self.enqueue))
        await self._entered.enter_async_context(running(self._sweep(), "reporting sweep"))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._entered.aclose()

    def enqueue(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        if resource == DEFINITIONS:
            work = Work(tenant, DEFINITIONS, key)
            self._queue.debounce_flow(work, _QUIET_SECONDS, _MAX_DEBOUNCE_SECONDS, each=_QUIET_SECONDS_EACH)

    async def _reconcile(self, work: Work) -> None:
        await self._ready.wait()
        client = ControllerClient(self._backend, work.tenant)
        if self._queue.age(work) < _PATIENCE_SECONDS:
            await reconcile(client, self._reporting, work.key)
            return
        async with running(self._end_blockers(), "sessions that keep views from being changed"):
            await reconcile(client, self._reporting, work.key)

    async def _end_blockers(self) -> None:
        while True:
            await asyncio.sleep(_BLOCKING_SECONDS)
            try:
                await self._backend.store.end_blockers_of_reports()
            except StoreError as error:
                logger.debug("sessions that keep views from being changed were not ended: %s", error)

    async def _sweep(self) -> None:
        """Prepares the database, then handles, as the leader, what has changed unnoticed."""
        leader = self._backend.store.leader("reporting", seconds=3 * self._sweep_seconds)
        try:
            while True:
                pause = self._sweep_seconds
                try:
                    if not self._ready.is_set():
                        await self._reporting.prepare()
                        self._ready.set()
                    if await leader.acquire():
                        await self._take_over()
                except ReportingUnavailable as error:
                    logger.warning("there are no reporting views: %s", error)
                    pause = _UNAVAILABLE_SECONDS
                except StoreError as error:
                    self._backend.store.database.log_failure(logger, "the sweep for reporting views failed: %s", error)
                except Exception:
                    logger.exception("the sweep for reporting views failed")
                await asyncio.sleep(pause)
        finally:
            await leader.release()

    async def _take_over(self) -> None:
        await self._reporting.enforce_limits()
        for drift in await self._reporting.repair_logins():
            LOGIN_DRIFTS.labels(drift.what).inc()
            logger.warning("the SQL login %s had changed its own %s: restored what it was granted", *drift)
        await self._reporting.forget_gone()
        last = TenantId(0)
        while tenants := await self._reporting.outdated_tenants(last, _TENANTS):
            for tenant in tenants:
                try:
                    await self._catch_up(tenant)
                except StoreError as error:
                    self._backend.store.database.log_failure(logger, f"the views of {tenant.name} are late: %s", error)
            last = tenants[-1].id
        await self._reporting.follow_bindings()
        await self._reporting.drop_expired(self._backend.store.retention)

    async def _catch_up(self, tenant: Tenant) -> None:
        """Enqueues the definitions that are due, unless they wait until a burst is over. The tenant is up to date once
        a sweep finds none."""
        due = await self._reporting.due_definitions(tenant, DEFINITIONS)
        for key in due:
            work = Work(tenant, DEFINITIONS, key)
            if work not in self._queue:
                self._queue.enqueue(work)
        refusal = await self._reporting.name_schema(tenant)
        if refusal:
            logger.warning("the tenant %s has no schema of its own: %s", tenant.name, refusal)
        if not due:
            await self._reporting.mark_done(tenant, tenant.guards.definitions)


def reporting_of(pool: Pool) -> Reporting:
    """Returns Reporting with the rules of registry/reporting."""
    return Reporting(pool, grow, view_name, lambda name, whole: with_digest(name, whole, LONGEST_VIEW), built_in_views)


@cache
def built_in_views() -> tuple[BuiltInViews, ...]:
    """Returns the views of namespaces and of the kinds of RBAC: who may do what, where, and since when."""
    views = []
    for one in definitions():
        if (name := view_name(one.names.plural, one.group)) in BUILT_IN:
            schema = one.versions[one.storage_version].schema().structural
            shape, _ = shape_of(schema, namespaced=one.namespaced)
            views.append(BuiltInViews(one.name, name, shape))
    return tuple(views)


async def reconcile(client: ControllerClient, reporting: Reporting, key: ObjectKey) -> None:
    """Does all that is due for one definition: views, documents, indexed fields, the condition."""
    tenant = client.tenant
    row, _ = await client.backend.store.load(tenant, DEFINITIONS, key)
    if row is None:
        await reporting.forget(tenant, key)
        return
    crd = await shared_aside(lambda: decode_stored(f'{DEFINITION_HEAD}{row.revision}",{row.body}'))
    if not is_true(crd, "Established"):
        return
    report = await shared_aside(lambda: report_of(crd))
    if not report.enabled:
        await reporting.apply_report(tenant, report, row.revision, indexed=False)
        await _rewrite(client, reporting, report, crd)
        await _update_condition(client, key, report, ReportOutcome("off", "views are switched off"), crd)
        return
    wanted = {facet.slot: list(facet.path) for facet in report.facets}
    live = await reporting.facets_live(tenant, report.resource)
    if live is None or live == wanted:
        # A new definition, or one with the same indexed fields: its objects first, most of which need nothing.
        await _rewrite(client, reporting, report, crd)
        outcome = await reporting.apply_report(tenant, report, row.revision, indexed=True)
    else:
        outcome = await reporting.apply_report(tenant, report, row.revision, indexed=False)
        await _rewrite(client, reporting, report, crd)
        await reporting.mark_indexed(tenant, report.resource, report.facets)
    await _update_condition(client, key, report, outcome, crd)


async def _rewrite(client: ControllerClient, reporting: Reporting, report: Report, crd: Object) -> None:
    """Gives all objects of a definition documents of the report's layout, or removes them: the tenant's own, and those
    of tenants that use its definition."""
    documents = await shared_aside(lambda: documents_of(crd)) if report.enabled else None
    for tenant in (client.tenant, *await reporting.bound(client.tenant, report.resource)):
        await _rewrite_of(tenant, client.backend.store.reporting_pool, report, documents)


async def _rewrite_of(tenant: Tenant, pool: Pool, report: Report, documents: Documents | None) -> None:
    """Works in the order of the keys, so that it ends; objects written meanwhile are up to date."""
    layout = report.layout if documents is not None else ""
    after = ""
    while rows := await stale_documents(pool, tenant, report.resource, layout, after, PAGE_ROWS):
        rewritten: list[Document] = []
        for key, revision, body in rows:
            if documents is None or not body.startswith('"'):
                rewritten.append((key, revision, None))
            else:
                rewritten.append((key, revision, await evaluate(partial(documents.of_body, body), len(body))))
        await put_documents(pool, tenant, report.resource, rewritten)
        after = rows[-1][0]
        await asyncio.sleep(_PAUSE_SECONDS)


async def _update_condition(
    client: ControllerClient, key: ObjectKey, report: Report, outcome: ReportOutcome, crd: Object
) -> None:
    """Writes the condition if it is requested, or needed because there are no views; else removes it."""
    tells = report.wants_condition or outcome.state == "refused"
    present = find(crd, "Reported") is not None
    if tells or present:
        await client.change_definition_status(key, lambda old: _with_condition(old, outcome if tells else None))


def _with_condition(old: Object, outcome: ReportOutcome | None) -> Object:
    """Returns the status of a definition with a condition `Reported`, or without one."""
    status: Object = old.get("status") or {}
    if outcome is None:
        conditions = [c for c in status.get("conditions") or () if c["type"] != "Reported"]
        return {**status, "conditions": conditions}
    value = "True" if outcome.state == "ready" else "False"
    message = ": ".join(filter(None, (outcome.view and f"reports.{outcome.view}", outcome.reason)))
    return with_condition(status, "Reported", value, outcome.state.capitalize(), message, timestamp())
