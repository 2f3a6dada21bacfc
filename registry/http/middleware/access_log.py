"""One line for each answer, where the settings ask for it: who did what to which resource, and how it went.

    info registry.access: PATCH /apis/example.com/v1/namespaces/default/widgets/a 200 method=PATCH code=200
    milliseconds=3.1 user=admin tenant=default verb=patch group=example.com resource=widgets userAgent=kubectl
    client=127.0.0.1 request=0b57...

A watch has its line when it ends. What clients send is shown with its control characters escaped: no line is forged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.types import Scope

from registry.api.strategies.base import Context
from registry.http.request_info import Target

logger = logging.getLogger("registry.access")

# Of what a client chooses freely no more than this is logged.
_SHOWN_CHARACTERS = 1024


def log_answer(
    scope: Scope,
    target: Target,
    verb: str,
    context: Context | None,
    headers: Mapping[bytes, bytes],
    code: int,
    seconds: float,
) -> None:
    """`context` is None where the request was refused before it was known who asks for what tenant."""
    query = scope["query_string"].decode("latin-1")
    client = scope.get("client")
    fields: dict[str, object] = {
        "method": scope["method"],
        "path": loggable(scope["path"]),
        "query": loggable(query),
        "code": code,
        "milliseconds": round(seconds * 1000, 1),
        "user": loggable(context.user.name) if context else "",
        "tenant": context.tenant.name if context else "",
        "verb": verb,
        "group": loggable(target.group),
        "resource": loggable(target.resource),
        "userAgent": loggable(headers.get(b"user-agent", b"").decode("latin-1")),
        "client": client[0] if client else "",
    }
    message = f"{fields['method']} {fields['path']} {code}"
    logger.info(message, extra={"fields": {name: value for name, value in fields.items() if value != ""}})


def loggable(text: str) -> str:
    """Text from a client as a log may hold it."""
    return ascii(text[:_SHOWN_CHARACTERS])[1:-1]
