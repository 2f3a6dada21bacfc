"""The state of one request: created by the first middleware, filled in by the others in their order.

It is in the ASGI scope under one key. A middleware reads the fields of those before it, which
registry/http/handler_chain.py lists, and never those of a later one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.types import Send

from registry import logs
from registry.api.catalog import TenantCatalog
from registry.api.served import Served
from registry.api.strategies.base import Context
from registry.audit.trail import Trail
from registry.authentication.user import ANONYMOUS, User
from registry.authentication.websocket_protocol import authorization_of
from registry.authorization.attributes import Attributes
from registry.authorization.tenants import WildcardTarget
from registry.flowcontrol.byte_shares import Upload
from registry.flowcontrol.fair_queue import EXEMPT, Seat
from registry.http.request_info import RequestInfo
from registry.store.types import DomainId, Guards, Tenant, TenantId, TenantName

# The key of the ASGI scope: `state: RequestState = scope[STATE]`.
STATE: Final = "registry.request"

# The code of an answer whose client has disconnected.
CLIENT_CLOSED_REQUEST: Final = 499

# The tenant of requests for the process itself (/livez, /metrics): they need no tenant, and no database.
NO_TENANT: Final = Tenant(TenantId(0), TenantName(""), DomainId(0), Guards(0, 0))


async def _nothing() -> None:
    pass


@dataclass(slots=True)
class RequestState:
    """`headers` has each name once (see middleware/request_info.py); `started` is of time.perf_counter."""

    info: RequestInfo
    headers: Mapping[bytes, bytes]
    # Request info: attributes for authorization, the request in log lines, and the warnings of the answer.
    attributes: Attributes
    logged: logs.ServedRequest
    started: float
    warnings: list[str]
    # Audit: None if the request is not audited.
    trail: Trail | None = None
    # Instrumentation: the code, and whether it was sent; what sends the rest of an answer that has begun. Errors: the
    # code is 499 if the client disconnected.
    code: int = 500
    has_begun: bool = False
    send: Send | None = None
    # Deadline: by the clock of the event loop; None before that middleware.
    deadline: float | None = None
    # Fairness: the tenant that the request names, by its path or its host, or "".
    named_tenant: str = ""
    seat: Seat = EXEMPT
    # Authentication: the user of the credential, and the one that is served. Tenancy and impersonation replace the
    # latter.
    authenticated: User = ANONYMOUS
    user: User = ANONYMOUS
    # Tenancy: the tenant whose rules apply, and the tenants that /clusters/* stands for.
    tenant: Tenant = NO_TENANT
    wildcard: WildcardTarget | None = None
    # Authorization: None before a request is authorized.
    context: Context | None = None
    # Tenant limits: the memory held for the body.
    upload: Upload | None = None
    # The endpoint of resources: the resource in the tenant's catalog.
    served: Served | None = None
    # The endpoint of resources: the catalog that `served` is of, if the answer is the text of one stored object.
    plain_get: TenantCatalog | None = None
    # The endpoint of resources: sends the rest of a watch that has begun, once the middlewares have returned, whose
    # frames would take 2 kB of each. Those that count until it has ended add what is to be done then.
    stream: Callable[[], Awaitable[None]] | None = None
    when_streamed: tuple[Callable[[RequestState], None], ...] = ()

    def take_stream(self) -> Awaitable[None]:
        """Returns the rest of a watch, to be awaited. Middlewares whose work ends with it await it themselves."""
        stream, self.stream = self.stream, None
        return _nothing() if stream is None else stream()

    @property
    def authorized(self) -> Context:
        """The context of a request that has been authorized."""
        assert self.context is not None, "endpoints stand behind authorization"
        return self.context

    @property
    def authorization(self) -> str:
        """The Authorization header, or what a WebSocket has in its place. Raises Unauthenticated."""
        return self.header(b"authorization") or authorization_of(self.headers)

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")
