"""The handlers that a request passes on its way to an endpoint, outermost first:

    request info    parses method, path and query; creates the state of the request; sends watches once the others have
                    returned
    fast gets       stores a plan by which the connection answers further gets without the rest of the chain
    tracing         a span, if OTEL_EXPORTER_OTLP_ENDPOINT is set
    audit           records it, if an audit log is configured
    instrumentation metrics and the access log
    errors          failures become Status documents
    console         pages for browsers, if enabled
    deadline        ?timeout= is a duration, within which the request is answered; it ends when its client disconnects
    fairness        fair queuing across tenants
    authentication  the user
    tenancy         the tenant
    impersonation   the user that it is served as
    authorization   whether the user is allowed to
    tenant limits   rates, evaluation and bytes of the tenant
    aggregation     proxies what another server serves
    routes          the endpoints

Follows apiserver pkg/server/config.go (DefaultBuildHandlerChain), except that fairness comes before authentication:
the path names the tenant, and looking up a token is work that tenants share fairly, too.
"""

from __future__ import annotations

from starlette.types import ASGIApp

from registry import tracing
from registry.api.request import Backend
from registry.api.tenant_bootstrap import TenantBootstrapper
from registry.audit.log import AuditLog
from registry.authorization.tenants import TenantDirectory
from registry.console.app import Console
from registry.console.oidc import SignIn
from registry.flowcontrol.byte_shares import MIB, Answers, Uploads
from registry.flowcontrol.fair_queue import FairQueue
from registry.flowcontrol.rates import Rates
from registry.http.middleware.aggregation import Aggregation, AggregationMiddleware
from registry.http.middleware.audit import AuditMiddleware
from registry.http.middleware.authentication import AuthenticationMiddleware, KnownCredentials
from registry.http.middleware.authorization import AuthorizationMiddleware
from registry.http.middleware.console import ConsoleMiddleware
from registry.http.middleware.deadline import DeadlineMiddleware
from registry.http.middleware.errors import ErrorsMiddleware
from registry.http.middleware.fairness import FairnessMiddleware
from registry.http.middleware.fast_gets import FastGetsMiddleware
from registry.http.middleware.impersonation import ImpersonationMiddleware
from registry.http.middleware.instrumentation import InstrumentationMiddleware
from registry.http.middleware.request_info import RequestInfoMiddleware
from registry.http.middleware.tenancy import HostPattern, TenancyMiddleware
from registry.http.middleware.tenant_limits import TenantLimitsMiddleware
from registry.http.middleware.tracing import TracingMiddleware
from registry.http.routes import router
from registry.http.serving.stopping import Stopping
from registry.settings.declarations import Settings


def handler_chain(
    settings: Settings,
    backend: Backend,
    tenants: TenantDirectory,
    audit: AuditLog | None,
    aggregation: Aggregation,
    queue: FairQueue,
    stopping: Stopping,
) -> ASGIApp:
    """Returns the application that answers requests. `stopping` ends watches; without `audit` nothing is audited."""
    uploads = Uploads(settings.upload_limit_megabytes * MIB)
    answers = Answers(settings.answer_limit_megabytes * MIB)
    hosts = HostPattern(settings.tenant_host_pattern) if settings.tenant_host_pattern else None

    credentials = KnownCredentials()

    # Innermost first.
    app: ASGIApp = router(backend, aggregation.monitor, stopping, settings.service_account_jwks_uri)
    app = AggregationMiddleware(app, backend, aggregation, queue, stopping)
    app = TenantLimitsMiddleware(app, queue, Rates(), uploads, answers, backend.activity, TenantBootstrapper(backend))
    app = AuthorizationMiddleware(app, backend.authorizer, tenants)
    app = ImpersonationMiddleware(app, backend.authorizer, tenants)
    app = TenancyMiddleware(app, tenants, backend.store, hosts, backend.evaluations)
    app = AuthenticationMiddleware(app, backend.authentication, credentials)
    app = FairnessMiddleware(app, queue, credentials, hosts)
    app = DeadlineMiddleware(app)
    if settings.console:
        app = ConsoleMiddleware(app, Console(SignIn(settings)), answers)
    app = ErrorsMiddleware(app)
    app = InstrumentationMiddleware(app, access_log=settings.access_log)
    if audit is not None:
        app = AuditMiddleware(app, audit)
    if tracing.is_on():
        app = TracingMiddleware(app)
    if audit is None and not settings.access_log and not tracing.is_on():
        app = FastGetsMiddleware(app, backend, queue)
    return RequestInfoMiddleware(app)
