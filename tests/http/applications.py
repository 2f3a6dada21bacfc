"""ASGI applications for tests of worker processes: one that cannot start, one that names its process, one that hangs."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from registry.http.serving.stopping import Stopping
from registry.settings.declarations import Settings


def broken(_settings: Settings) -> Starlette:
    async def fail() -> None:
        raise RuntimeError("nothing works today")

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await fail()
        yield

    return application(lifespan=lifespan)


def telling(_settings: Settings) -> Starlette:
    """`/` returns the process id; `/stopping` responds when the process receives the signal to stop."""

    async def pid(_request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(os.getpid()))

    async def stopping(request: Request) -> PlainTextResponse:
        event: asyncio.Event = request.app.state.stopping
        await event.wait()
        return PlainTextResponse("stopping")

    return application(routes=[Route("/", pid), Route("/stopping", stopping)])


def holding(_settings: Settings) -> Starlette:
    """A request to `/` blocks the event loop forever."""

    async def hold(_request: Request) -> PlainTextResponse:
        while True:
            pass

    return application(routes=[Route("/", hold)])


def application(**parts: Any) -> Starlette:
    """Has what the server expects of an application (registry/http/app.py)."""
    app = Starlette(**parts)
    app.state.stopping = Stopping()
    return app
