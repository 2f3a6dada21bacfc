"""Converts failures to a Status in an encoding that the client accepts.

An unexpected failure is logged with the request's audit id, and answered with a 500 that contains only this id. Once an
answer has begun, its connection is closed instead: a second head would be read as part of the body.

Follows apiserver pkg/endpoints/handlers/responsewriters/{status,errors}.go.
"""

from __future__ import annotations

import logging
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.api.errors import StatusError, from_store, internal_error, too_large, too_many_requests, unauthorized
from registry.authentication.authenticator import Unauthenticated
from registry.budget import BudgetExceeded
from registry.flowcontrol.byte_shares import ABORT
from registry.flowcontrol.fair_queue import TooManyRequests
from registry.flowcontrol.time_slice import ClientGone
from registry.flowcontrol.watchdog import EvaluationStopped
from registry.http.forms import prettify
from registry.http.negotiation import error_representation
from registry.http.request_state import CLIENT_CLOSED_REQUEST, STATE, RequestState
from registry.http.responses import PageNotFound, break_off, send_page_not_found, send_status
from registry.logs import RateLimited, loggable
from registry.store.errors import StoreError, TenantNotFound

logger = logging.getLogger("registry.requests")

# While PostgreSQL is unavailable, every request fails for the same reason.
_store_errors: Final = RateLimited(logger)
# Of a tenant's requests.
_exceeded: Final = RateLimited(logger)


class ErrorsMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        try:
            await self._app(scope, receive, send)
        except ClientGone:
            state.code = CLIENT_CLOSED_REQUEST
        except PageNotFound:
            await send_page_not_found(send, scope, state.warnings)
        except Exception as error:
            if state.has_begun:
                break_off(error, f"{scope['method']} {loggable(scope['path'])}", scope.get(ABORT))
                _drop_tracebacks(error)
                return
            status = _status_of(error, scope, state)
            _drop_tracebacks(error)
            cbor = state.served is not None and not _is_of_route(status)
            representation = error_representation(state.header(b"accept"), cbor=cbor)
            representation = prettify(representation, state.info.query, state.headers)
            await send_status(send, scope, status, representation, state.warnings)


def _is_of_route(status: StatusError) -> bool:
    """Whether upstream's router answers so, which like the filters before it has no CBOR: JSON is the default then."""
    return status.code == 405 or (status.code in (404, 406, 415) and status.details == {})


def _drop_tracebacks(error: Exception) -> None:
    """Frees what the frames hold, such as the body, also where a frame refers to the error.

    Otherwise it would be left to the garbage collector, which seldom looks at what has lived for a while.
    """
    left: list[BaseException] = [error]
    while left:
        one = left.pop()
        one.__traceback__ = None
        left += [e for e in (one.__cause__, one.__context__) if e is not None and e.__traceback__ is not None]


def _status_of(error: Exception, scope: Scope, state: RequestState) -> StatusError:
    match error:
        case StatusError():
            return error
        case Unauthenticated():
            return unauthorized()
        case TooManyRequests():
            return too_many_requests(str(error), error.retry_after_seconds)
        case BudgetExceeded():
            tenant = state.context.tenant.name if state.context else ""
            _exceeded.warn(tenant, "%s %s: %s", scope["method"], loggable(scope["path"]), error)
            return too_large(str(error))
        case EvaluationStopped():
            return StatusError(503, "ServiceUnavailable", str(error), {})
        case TenantNotFound():  # a mistyped name, like any 404
            return from_store(error)
        case StoreError():
            _store_errors.warn(type(error).__name__, "%s %s: %r", scope["method"], loggable(scope["path"]), error)
            return from_store(error)
        case _:
            logger.error("request failed: %s %s", scope["method"], loggable(scope["path"]), exc_info=error)
            return internal_error(f"an unexpected error occurred (request {state.logged.audit_id})")
