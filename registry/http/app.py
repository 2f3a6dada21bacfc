"""The Starlette application: what a process starts and ends around the requests that it serves.

Follows what registry/http/serving/server.py expects of an application: `app.state.stopping` is an event that ends
watches.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gc
import os
from collections.abc import AsyncIterator

from starlette.applications import Starlette

from registry import builtin
from registry.api.catalog import Catalogs
from registry.api.conversions import SharedConversions
from registry.api.request import Backend
from registry.api.strategies import strategy_for
from registry.api.tenant_bootstrap import bootstrap
from registry.authorization.tenants import Tenants
from registry.controllers.manager import ControllerManager
from registry.controllers.reporting import ReportingController
from registry.controllers.storage_migration.runner import MigrationSettings
from registry.conversion.converter import Converter
from registry.http import metrics
from registry.http.credentials import credentials
from registry.http.encryption import encryption_of
from registry.http.gateway import Gateway
from registry.http.middleware.audit import with_audit
from registry.http.serving.server import root_certificates
from registry.http.serving.uploads import MIB
from registry.settings import Settings
from registry.store.store import Store
from registry.webhooks.client import WebhookClient
from registry.webhooks.egress import EgressPolicy
from registry.webhooks.services import Services, parse_services


def _spare_the_collector() -> None:
    """What has been made until now stays; what requests make is nearly all freed by counting references.

    With the usual thresholds a tenth of a create's time goes into looking for cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def create_app(settings: Settings) -> Starlette:
    """The application of one serving process. The database is opened when the application starts."""
    gateway = Gateway()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        stopping: asyncio.Event = app.state.stopping
        assert settings.database_url is not None, "the command line has started or been given a database"
        services = Services(parse_services(settings.webhook_services), settings.webhook_service_template)
        converter = Converter(WebhookClient(EgressPolicy(settings.allow_egress_to), services))
        encryption = encryption_of(settings, os.environ)
        store = await Store.open(
            settings.database_url,
            listen_dsn=settings.listen_database_url,
            encryption=encryption,
            retention=datetime.timedelta(days=settings.history_days),
        )
        try:
            await store.require_readable()
            definitions = builtin.served(v1beta1=settings.serve_apiextensions_v1beta1)
            backend = Backend(store, Catalogs(store, definitions, strategy_for), webhooks=SharedConversions(converter))
            backend.catalogs.when_gone = metrics.forget
            authentication, backend.tokens = credentials(settings, store)
            backend.authentication = authentication
            tenants = Tenants(store)
            migration = MigrationSettings(
                settings.migrate_storage == "auto",
                settings.migrate_storage_after_seconds,
                settings.migrate_storage_rate,
            )
            manager = ControllerManager(backend, root_ca=root_certificates(settings), migration=migration)
            async with manager, contextlib.AsyncExitStack() as stack:
                if settings.sql_views:
                    backend.reports = True
                    await stack.enter_async_context(ReportingController(backend))
                await bootstrap(backend, tenants)
                app.router.default = await stack.enter_async_context(with_audit(gateway, settings))
                _spare_the_collector()
                gateway.start(
                    backend,
                    tenants,
                    authentication,
                    stopping,
                    jwks_uri=settings.service_account_jwks_uri,
                    host_pattern=settings.tenant_host_pattern,
                    access_log=settings.access_log,
                    upload_limit_bytes=settings.upload_limit_megabytes * MIB,
                )
                yield
        finally:
            await converter.aclose()
            await store.close()

    app = Starlette(lifespan=lifespan)
    # All paths are the gateway's: there is nothing for the router to match.
    app.router.default = gateway
    app.state.stopping = asyncio.Event()
    return app
