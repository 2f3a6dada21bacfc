"""Watches as a stream of lines: {"type": "ADDED", "object": {...}}, one for each event; or as messages of a WebSocket.

The task of its request sends a watch, and is cancelled when the client disconnects or the server stops. A client that
does not read blocks it at the transport's limit; the events that queue up meanwhile are bounded by the subscription.
The bytes of an event are encoded once for each form, and shared by all watches in the cache of the change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from functools import partial
from typing import Any

from starlette.types import Receive, Scope, Send

from registry.api.answers import Event, WatchAnswer
from registry.api.event_forms import EVENT_FORMS
from registry.codec.cbor import encode_event
from registry.codec.json_encode import encode_json
from registry.codec.protobuf.envelope import encode_watch_event
from registry.codec.stored import decode_stored
from registry.flowcontrol.evaluation import LARGE_BYTES, evaluate
from registry.flowcontrol.interruption import WHEN_GONE, Interruption, WhenGone
from registry.flowcontrol.time_slice import ClientGone, TimeSlice
from registry.http import metrics
from registry.http.forms import Form
from registry.http.negotiation import CBOR, CBOR_SEQUENCE, JSON, PARTIAL_LIST, PROTOBUF, TABLE
from registry.http.request_state import STATE, RequestState
from registry.http.responses import CHUNK_BYTES, headers_for, send_part
from registry.http.serving.stopping import Stopping
from registry.http.serving.tunnel import TunnelClosed
from registry.http.websocket import WebSocket, accept, binary_message, text_message
from registry.tasks import cancel

# What is encrypted at a time: a TLS record. For each connection OpenSSL keeps a buffer as large as the largest such
# part, and a watch keeps its connection for long.
PART_BYTES = 16 * 1024 - CHUNK_BYTES


async def respond_watch(
    scope: Scope,
    receive: Receive,
    send: Send,
    answer: WatchAnswer,
    form: Form,
    warnings: Sequence[str],
    stopping: Stopping,
) -> None:
    """Sends the watch until it times out, the client disconnects or the server stops."""
    media_type = form.representation.media_type
    if form.representation.encoding == PROTOBUF:
        media_type += ";stream=watch"
    elif form.representation.encoding == CBOR:
        media_type = CBOR_SEQUENCE
    headers = headers_for(media_type, warnings)
    state: RequestState = scope[STATE]
    socket = await accept(scope, send, state.headers, headers, has_token=bool(state.authorization))
    if socket is None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        # An empty piece makes the server send the headers now: clients wait for them.
        await send({"type": "http.response.body", "body": b"", "more_body": True})
    reading: asyncio.Task[None] | None = None
    metrics.WATCHES.count += 1
    try:
        with Interruption() as ending:
            stopping.call(ending.request)
            reading = _reading(scope, receive, socket, ending)
            await _send_events(send, answer, form, socket)
    except (ClientGone, TunnelClosed):
        pass  # a client ends its watch by disconnecting, and nothing has failed
    finally:
        stopping.forget(ending.request)
        metrics.WATCHES.count -= 1
        await cancel(reading)
    if socket is not None and not socket.is_within_message:
        await socket.close()
    await send({"type": "http.response.body", "body": b""})


def _reading(
    scope: Scope, receive: Receive, socket: WebSocket | None, ending: Interruption
) -> asyncio.Task[None] | None:
    """Has the watch end when its client disconnects. Returns a task that reads what the client sends, if it may."""
    when_gone: WhenGone | None = scope.get(WHEN_GONE)
    headers = scope[STATE].headers
    if when_gone is not None:
        when_gone(ending.request)
        if socket is None and headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers:
            return None
    reading = asyncio.create_task(_wait_for_disconnect(receive) if socket is None else socket.wait_for_end())
    reading.add_done_callback(lambda _: ending.request())
    return reading


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_events(send: Send, answer: WatchAnswer, form: Form, socket: WebSocket | None = None) -> None:
    writing: AbstractAsyncContextManager[None] = nullcontext()
    if socket is None:
        writer = _EventWriter(form)
    else:
        send, writing = socket.send, socket.writing
        is_text = form.representation.encoding == JSON
        writer = _EventWriter(form, text_message if is_text else binary_message)
    resource = answer.served.resource
    counter = metrics.watch_events(resource.group, resource.name)
    async with aclosing(answer.events) as events:
        while (batch := await anext(events, None)) is not None:
            if form.representation.transform == PARTIAL_LIST and batch[0].type != "ERROR":
                return  # no event is a list: kube-apiserver ends the watch here
            async with aclosing(writer.pieces(batch)) as pieces, writing:
                async for piece in pieces:
                    if socket is not None:
                        socket.is_within_message = True
                    await send_part(send, piece)
                    del piece
            if socket is not None:
                socket.is_within_message = False
            counter.inc(len(batch))
            del batch, pieces  # the next may take long


class _EventWriter:
    """Encodes events. Only the first event of a watch has the column definitions of a Table.

    `message_of` makes a message of a WebSocket of each line.
    """

    def __init__(self, form: Form, message_of: Callable[[bytes], bytes] | None = None) -> None:
        self._form = form
        self._message_of = message_of
        self._headers = form.representation.transform == TABLE

    async def pieces(self, events: Sequence[Event]) -> AsyncGenerator[bytes, None]:
        """Yields the lines of events: short ones joined, a long one in parts.

        So no more than one piece waits for the client, in addition to what is shared with others.
        """
        parts: list[bytes] = []
        size = 0
        slices = TimeSlice.current()
        for event in events:
            line = plain_line(event) if self._form.is_plain else await self._line(event)
            if self._message_of is not None:
                line = self._message_of(line)
            if slices.expired():
                await slices.yield_now()
            if parts and size + len(line) > PART_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
            if len(line) > PART_BYTES:
                for start in range(0, len(line), PART_BYTES):
                    yield line[start : start + PART_BYTES]
            else:
                parts.append(line)
                size += len(line)
        if parts:
            yield b"".join(parts)

    async def _line(self, event: Event) -> bytes:
        if event.type == "ERROR":  # a Status, in every form
            return self._encode_event("ERROR", decode_stored(event.text))
        headers, self._headers = self._headers, False
        key = (event.type, event.text_key, self._form.cache_key)
        if event.cache is not None and not headers:
            known: bytes | None = event.cache.get(key)
            if known is not None:
                return known
        encode = partial(self._encode, event, headers=headers)
        size = len(event.text)
        line = encode() if size <= LARGE_BYTES else await evaluate(encode, size, repeatable=True)
        # The age in a Table grows, but not while a change is sent to its watches.
        if event.cache is not None and not headers:
            EVENT_FORMS.keep(event.cache, key, line)
        return line

    def _encode(self, event: Event, *, headers: bool) -> bytes:
        obj = self._form.of_object(decode_stored(event.text), time.time(), headers=headers)
        return self._encode_event(event.type, obj)

    def _encode_event(self, type_: str, obj: Mapping[str, Any]) -> bytes:
        match self._form.representation.encoding:
            case encoding if encoding == PROTOBUF:
                return encode_watch_event(type_, obj)
            case encoding if encoding == CBOR:
                return encode_event(type_, obj)
            case _:
                return encode_json({"type": type_, "object": obj}) + b"\n"


def plain_line(event: Event) -> bytes:
    """Returns the line of an event whose object is served unchanged."""
    if event.cache is None:
        return f'{{"type":"{event.type}","object":{event.text}}}\n'.encode()
    key = (event.type, event.text_key)
    line: bytes | None = event.cache.get(key)
    if line is None:
        line = f'{{"type":"{event.type}","object":{event.text}}}\n'.encode()
        EVENT_FORMS.keep(event.cache, key, line)
    return line
