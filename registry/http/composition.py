"""The composition root: constructs the objects of a serving process from its settings, each complete, in one place.

If two need each other (controllers write through the backend, which reports its writes to controllers), an object
between them is constructed first: registry/api/dependents.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import secrets
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Final, NamedTuple

import anyio._backends._asyncio  # noqa: F401 - at the first call of a webhook it would be imported on the event loop
from starlette.types import ASGIApp

from registry import builtin, tracing
from registry.aggregation.backends import Backends
from registry.aggregation.front_proxy import SECRET_BYTES, FrontProxy
from registry.api.api_services import service_finder
from registry.api.catalogs import Catalogs
from registry.api.conversions import SharedConversions
from registry.api.dependents import WriteEvents
from registry.api.extraction import with_indexes
from registry.api.request import Backend
from registry.api.strategies import strategy_for
from registry.api.tenant_bootstrap import bootstrap
from registry.audit.log import audit_log
from registry.authentication.authenticator import AdministratorToken, Anonymous, Authentication, Authenticator
from registry.authentication.oidc.external_issuers import ExternalIssuerTokens
from registry.authentication.tokens.bearer import BearerTokens
from registry.authentication.tokens.keys import SigningKeys
from registry.authentication.tokens.service_accounts import AccountTokens
from registry.authorization.authorizer import Authorizer
from registry.authorization.tenants import SYSTEM, TenantDirectory
from registry.caches import MEMORY
from registry.controllers.activity import ActivityPublisher
from registry.controllers.api_services.monitor import Monitor
from registry.controllers.indexing import IndexingController
from registry.controllers.manager import ControllerManager
from registry.controllers.namespace_defaults import Trust
from registry.controllers.reporting import ReportingController
from registry.controllers.storage_migration.runner import MigrationSettings
from registry.controllers.tenants import TENANTS
from registry.conversion.converter import Converter
from registry.emulation import emulate
from registry.flowcontrol.allocator import return_free_memory, return_freed_memory
from registry.flowcontrol.byte_shares import MIB
from registry.flowcontrol.evaluation import Evaluations
from registry.flowcontrol.fair_queue import FairQueue
from registry.flowcontrol.watchdog import Watchdog
from registry.gauges import expose_gauge
from registry.http import metrics
from registry.http.documents import health
from registry.http.encryption import encryption_of
from registry.http.handler_chain import handler_chain
from registry.http.middleware.aggregation import Aggregation
from registry.http.negotiation import serve_cbor
from registry.http.serving.server import root_certificates
from registry.http.serving.stopping import Stopping
from registry.settings.declarations import Settings, SettingsError
from registry.store.store import Store
from registry.tasks import running
from registry.webhooks.client import WebhookClient
from registry.webhooks.egress import EgressPolicy
from registry.webhooks.services import Services, parse_services

# The interval after which evaluating threads yield the interpreter to the event loop, instead of 5 ms.
SWITCH_SECONDS: Final = 0.0002


class Serving(NamedTuple):
    """`handler` answers requests, with the state in `backend`."""

    handler: ASGIApp
    backend: Backend


@contextlib.asynccontextmanager
async def serving(settings: Settings, stopping: Stopping) -> AsyncIterator[Serving]:
    """Within the block the database is open and the controllers run."""
    emulate(settings.emulate_version)
    serve_cbor(settings.cbor)
    MEMORY.limit_bytes = settings.cache_limit_megabytes * MIB
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(tracing.exporting(os.environ))
        converter = await stack.enter_async_context(contextlib.aclosing(_converter(settings)))
        queue = FairQueue()
        store = await stack.enter_async_context(_store(settings, queue))
        evaluations = Evaluations(settings.evaluation_limit_milliseconds / 1000, queue.is_shared)
        stack.callback(evaluations.close)
        backend = _backend(settings, store, converter, evaluations)
        tenants = TenantDirectory(store)
        proxy = FrontProxy(*await store.keys.secret("front-proxy", secrets.token_bytes(SECRET_BYTES)))
        trust = Trust(root_certificates(settings), _client_ca(settings), proxy)
        aggregation = await stack.enter_async_context(_aggregation(backend, converter.client, proxy))
        cleaner = aggregation.monitor.cleaner
        await stack.enter_async_context(
            ControllerManager(backend, trust=trust, cleaner=cleaner, migration=_migration(settings))
        )
        await stack.enter_async_context(IndexingController(backend))
        await stack.enter_async_context(ActivityPublisher(backend))
        if settings.sql_views:
            await stack.enter_async_context(ReportingController(backend))
        await bootstrap(backend, tenants)
        backend.store.follow_tenants(SYSTEM, TENANTS)
        audit = await stack.enter_async_context(audit_log(settings))
        stack.enter_context(expose_gauge(partial(health.measure_outcomes, health.problems(backend))))
        handler = handler_chain(settings, backend, tenants, audit, aggregation, queue, stopping)
        stack.enter_context(_run_watchdog(settings))
        return_freed_memory()
        await stack.enter_async_context(running(return_free_memory(queue.is_shared), "heap trimming"))
        yield Serving(handler, backend)


def _converter(settings: Settings) -> Converter:
    services = Services(parse_services(settings.webhook_services), settings.webhook_service_template)
    return Converter(WebhookClient(EgressPolicy(settings.allow_egress_to), services))


@contextlib.asynccontextmanager
async def _aggregation(backend: Backend, client: WebhookClient, proxy: FrontProxy) -> AsyncIterator[Aggregation]:
    backends = Backends(client.https, client.services, proxy, service_finder(backend.store))
    with contextlib.closing(backends):
        async with Monitor(backend, backends) as monitor:
            yield Aggregation(backends, monitor)


@contextlib.asynccontextmanager
async def _store(settings: Settings, queue: FairQueue) -> AsyncIterator[Store]:
    assert settings.database_url is not None, "the command line has started or been given a database"
    store = await Store.open(
        settings.database_url,
        listen_dsn=settings.listen_database_url,
        encryption=encryption_of(settings, os.environ),
        retention=datetime.timedelta(days=settings.history_days),
        wake_reader=queue.wake,
    )
    try:
        await store.require_readable()
        yield store
    finally:
        await store.close()


def _backend(settings: Settings, store: Store, converter: Converter, evaluations: Evaluations) -> Backend:
    definitions = builtin.served_definitions(v1beta1=settings.serve_apiextensions_v1beta1)
    try:
        definitions = with_indexes(definitions, settings.builtin_indexes)
    except ValueError as problem:
        raise SettingsError(str(problem)) from problem
    authentication, tokens = _credentials(settings, store)
    return Backend(
        store,
        Catalogs(store, definitions, strategy_for, when_gone=metrics.forget),
        Authorizer(store),
        authentication,
        tokens,
        WriteEvents(),
        SharedConversions(converter),
        converter.client,
        reports=settings.sql_views,
        clusterpedia_labels=settings.clusterpedia_labels,
        evaluations=evaluations,
    )


@contextlib.contextmanager
def _run_watchdog(settings: Settings) -> Iterator[None]:
    """Runs the watchdog over evaluations for clients, on this thread and on others."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    watchdog = Watchdog(asyncio.get_running_loop(), settings.evaluation_limit_milliseconds / 1000)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()
        sys.setswitchinterval(before)


def _client_ca(settings: Settings) -> str:
    return "" if settings.client_ca_file is None else settings.client_ca_file.read_text(errors="replace")


def _migration(settings: Settings) -> MigrationSettings:
    return MigrationSettings(
        settings.migrate_storage == "auto", settings.migrate_storage_after_seconds, settings.migrate_storage_rate
    )


def _credentials(settings: Settings, store: Store) -> tuple[Authentication, AccountTokens]:
    """Returns what authenticates users, and what issues service account tokens. Raises BadConfiguration."""
    issuer = settings.service_account_issuer
    accounts = AccountTokens(store, SigningKeys(store), issuer)
    administrator, bearers = AdministratorToken(settings.admin_token_hash()), BearerTokens(store)
    authenticators: tuple[Authenticator, ...] = (administrator, bearers, accounts)
    by_setting = Anonymous(settings.anonymous_auth)
    if settings.authentication_config is None:
        return Authentication(authenticators, lambda: by_setting), accounts
    outside = ExternalIssuerTokens(settings.authentication_config, issuer, EgressPolicy(settings.allow_egress_to))
    return Authentication((*authenticators, outside), lambda: outside.anonymous or by_setting), accounts
