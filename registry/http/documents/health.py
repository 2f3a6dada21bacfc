"""Health checks: the process is alive, and it is ready when it reaches its database.

Follows apiserver pkg/server/healthz/healthz.go.
"""

from __future__ import annotations

from typing import Final

from starlette.types import Receive, Scope, Send

from registry.http.documents.answers import TEXT, send_document
from registry.store.errors import StoreError
from registry.store.store import Store

READY_PATHS: Final = ("/readyz", "/healthz")
LIVE_PATHS: Final = ("/livez", "/livez/ping", "/readyz/ping", "/healthz/ping")


async def live(scope: Scope, receive: Receive, send: Send) -> None:
    await send_document(send, scope, 200, TEXT, b"ok")


class ReadyEndpoint:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._store.ping()
        except StoreError:
            body = b"[-]database failed: reason withheld\nreadyz check failed\n"
            await send_document(send, scope, 500, TEXT, body)
        else:
            await live(scope, receive, send)
