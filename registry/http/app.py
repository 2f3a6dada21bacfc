"""The Starlette application of a serving process: its lifespan creates the objects, the handler chain serves requests.

Provides what registry/http/serving/server.py expects of an application: `app.state.stopping` is an event that ends
watches.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.types import ASGIApp, Lifespan, Message, Receive, Scope, Send

from registry.http.composition import serving
from registry.http.serving.stopping import Stopping
from registry.settings import Settings
from registry.store.errors import StoreError


def create_app(settings: Settings) -> Starlette:
    """Creates the application of one serving process. The database is opened when the application starts."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with serving(settings, app.state.stopping) as served_by:
            assert isinstance(app, Application)
            app.handler, app.state.backend = served_by
            yield

    return Application(lifespan)


class Application(Starlette):
    """`handler` answers requests between startup and shutdown."""

    handler: ASGIApp

    def __init__(self, lifespan: Lifespan[Starlette]) -> None:
        super().__init__(lifespan=lifespan)
        self.state.stopping = Stopping()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Bypasses Starlette's own middlewares and routes: the handler chain has both."""
        if scope["type"] == "http":
            await self.handler(scope, receive, send)
        else:
            await super().__call__(scope, receive, _without_traceback(send))


def _without_traceback(send: Send) -> Send:
    """Replaces Starlette's traceback of a failed start, which is of no use if the database is unavailable."""

    async def send_reason(message: Message) -> None:
        if message["type"] == "lifespan.startup.failed" and isinstance(error := sys.exception(), StoreError):
            message = {**message, "message": f"the database: {error}"}
        await send(message)

    return send_reason
