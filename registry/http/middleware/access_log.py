"""The access log, if enabled: one line for each answer, with user, resource and result.

    info registry.access: PATCH /apis/example.com/v1/namespaces/default/widgets/a 200 method=PATCH code=200
    milliseconds=3.1 user=admin tenant=default verb=patch group=example.com resource=widgets userAgent=kubectl
    client=127.0.0.1 request=0b57...

A watch is logged when it ends. Control characters in what clients send are escaped, so that no line can be forged.
"""

from __future__ import annotations

import logging

from starlette.types import Scope

from registry.http.request_state import RequestState
from registry.logs import loggable

logger = logging.getLogger("registry.access")


def log_answer(scope: Scope, state: RequestState, seconds: float) -> None:
    """Logs an answer. Omits user and tenant if the request was refused before they were known."""
    info, context, client = state.info, state.context, scope.get("client")
    fields: dict[str, object] = {
        "method": scope["method"],
        "path": loggable(scope["path"]),
        "query": loggable(scope["query_string"].decode("latin-1")),
        "code": state.code,
        "milliseconds": round(seconds * 1000, 1),
        "user": loggable(context.user.name) if context else "",
        "tenant": context.tenant.name if context else "",
        "verb": info.verb,
        "group": loggable(info.group),
        "resource": loggable(info.resource),
        "userAgent": loggable(state.header(b"user-agent")),
        "client": client[0] if client else "",
    }
    message = f"{fields['method']} {fields['path']} {state.code}"
    logger.info(message, extra={"fields": {name: value for name, value in fields.items() if value != ""}})
