"""The console, if enabled: before all middlewares that need to know the user.

Browsers that request the root are redirected to it. Other clients get kube-apiserver's answer.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry.console.app import PREFIX, Console, redirect_to_console
from registry.flowcontrol.byte_shares import ABORT, Answers
from registry.flowcontrol.rounds import Rounds
from registry.http.request_state import STATE, RequestState
from registry.http.responses import hold, send_part

# Files are read by anyone, so no more of one is handed over than its client reads.
_PART_BYTES: Final = 16 * 1024
# What the connection holds of a long one: its buffers, before and after encryption.
_HELD_BYTES: Final = 128 * 1024
# Parts that are encrypted in one iteration of the event loop: no tenant's queue schedules these requests.
_PARTS_IN_A_ROW: Final = 2


class ConsoleMiddleware:
    def __init__(self, app: ASGIApp, console: Console, answers: Answers) -> None:
        self._app = app
        self._console = console
        self._answers = answers
        self._rounds = Rounds(_PARTS_IN_A_ROW)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        state: RequestState = scope[STATE]
        info = state.info
        if info.is_api or info.tenant:
            await self._app(scope, receive, send)
        elif info.path == PREFIX or info.path.startswith(f"{PREFIX}/"):
            # An issuer redirects browsers back with a code in the query, which must not be logged.
            scope["query_string"] = b""
            # Unread files have a share of their own: a flood of them takes no room from other answers.
            held = self._answers.begin(PREFIX, scope.get(ABORT))
            try:
                await self._console(scope, receive, partial(self._send_in_parts, send))
            finally:
                held.end()
        elif info.path == "/" and info.verb == "get" and "text/html" in state.header(b"accept"):
            await redirect_to_console()(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _send_in_parts(self, send: Send, message: Message) -> None:
        """Passes a message on; a long body in parts. Raises TooManyRequests if too many long ones are unread."""
        if message["type"] == "http.response.start":
            length = dict(message["headers"]).get(b"content-length", b"0")
            hold(min(int(length), _HELD_BYTES))
            await send(message)
            return
        body, start = message.get("body", b""), 0
        while len(body) - start > _PART_BYTES:
            await send_part(send, body[start : start + _PART_BYTES])
            start += _PART_BYTES
            await asyncio.sleep(0)
            await self._rounds.turn()
        await send({**message, "body": body[start:]})
