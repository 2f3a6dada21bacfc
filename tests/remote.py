"""A server in another process as an ASGI application: tests ask it as they ask the application in their own."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

import httpx
from starlette.types import Receive, Scope, Send

from tests.running import RunningServer


class Remote:
    """Passes requests on to a server without TLS."""

    def __init__(self, server: RunningServer) -> None:
        self._http = httpx.AsyncClient(
            base_url=server.url, limits=httpx.Limits(max_connections=None), timeout=120, trust_env=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
        has_body = any(name == b"content-length" for name, _ in headers)
        content = (await receive())["body"] if has_body else None
        url = f"{scope['raw_path'].decode()}?{scope['query_string'].decode()}"
        async with self._http.stream(scope["method"], url, headers=headers, content=content) as answer:
            found = [(name.lower(), value) for name, value in answer.headers.raw]
            await send({"type": "http.response.start", "status": answer.status_code, "headers": found})
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            sending = asyncio.create_task(_send_body(answer, send))
            gone = asyncio.create_task(_until_gone(receive))
            try:
                await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
            finally:
                for task in (sending, gone):
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await task


async def _send_body(answer: httpx.Response, send: Send) -> None:
    async for piece in answer.aiter_bytes():
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
