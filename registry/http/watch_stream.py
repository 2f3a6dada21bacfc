"""Watches as a stream of lines: {"type": "ADDED", "object": {...}}, one for each event; or as messages of a WebSocket.

The task of its request sends a watch, and is cancelled when the client disconnects or the server stops. A client that
does not read blocks it at the transport's limit; the events that queue up meanwhile are bounded by the subscription.
The bytes of an event are encoded once for each form, and shared by all watches in the cache of the change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from starlette.types import Receive, Scope, Send

from registry.api.answers import Event, WatchAnswer
from registry.api.verbs.event_filter import EVENT_FORMS
from registry.codec.cbor import encode_event
from registry.codec.json_encode import encode_json
from registry.codec.protobuf.envelope import encode_watch_event
from registry.codec.stored import decode_stored
from registry.flowcontrol.allocator import note_event
from registry.flowcontrol.byte_shares import ABORT
from registry.flowcontrol.evaluation import LARGE_BYTES, evaluate
from registry.flowcontrol.interruption import WHEN_GONE, Interruption, WhenGone
from registry.flowcontrol.time_slice import ClientGone, TimeSlice
from registry.http import metrics
from registry.http.forms import Form
from registry.http.negotiation import CBOR, CBOR_SEQUENCE, JSON, PARTIAL_LIST, PROTOBUF, TABLE
from registry.http.request_state import CLIENT_CLOSED_REQUEST, STATE, RequestState
from registry.http.responses import CHUNK_BYTES, break_off, headers_for, send_part
from registry.http.serving.stopping import Stopping
from registry.http.serving.tunnel import TunnelClosed
from registry.http.websocket import WebSocket, accept, binary_message, text_message
from registry.logs import loggable
from registry.tasks import cancel

# What is encrypted at a time: a TLS record. For each connection OpenSSL keeps a buffer as large as the largest such
# part, and a watch keeps its connection for long.
PART_BYTES = 16 * 1024 - CHUNK_BYTES


async def begin_watch(
    scope: Scope,
    receive: Receive,
    send: Send,
    answer: WatchAnswer,
    form: Form,
    warnings: Sequence[str],
    stopping: Stopping,
) -> Callable[[], Awaitable[None]] | None:
    """Sends the head. Returns what sends the rest until the watch times out, the client disconnects or the server
    stops: a coroutine function that keeps nothing of the request. None if that is all, as for HEAD."""
    media_type = form.representation.media_type
    if form.representation.encoding == PROTOBUF:
        media_type += ";stream=watch"
    elif form.representation.encoding == CBOR:
        media_type = CBOR_SEQUENCE
    state: RequestState = scope[STATE]
    headers = headers_for(media_type, warnings)
    socket = await accept(scope, send, state.headers, headers, has_token=bool(state.authorization))
    if socket is None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return None
        # An empty piece makes the server send the headers now: clients wait for them.
        await send({"type": "http.response.body", "body": b"", "more_body": True})
    when_gone: WhenGone | None = scope.get(WHEN_GONE)
    read: Callable[[], Coroutine[Any, Any, None]] | None = None
    if socket is not None:
        read = socket.wait_for_end
    elif when_gone is None or _has_body(state.headers):
        read = partial(_wait_for_disconnect, receive)
    send = state.send or send
    return partial(_send_watch, state, send, answer, form, socket, when_gone, read, scope.get(ABORT), stopping)


def _has_body(headers: Mapping[bytes, bytes]) -> bool:
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_watch(
    state: RequestState,
    send: Send,
    answer: WatchAnswer,
    form: Form,
    socket: WebSocket | None,
    when_gone: WhenGone | None,
    read: Callable[[], Coroutine[Any, Any, None]] | None,
    abort: Callable[[], None] | None,
    stopping: Stopping,
) -> None:
    """Sends the events. A single coroutine, of which there may be thousands. `when_gone` has a function called when the
    client disconnects; `read` returns when it does, and reads what the client sends until then."""
    state.headers = {name: value for name, value in state.headers.items() if name == b"user-agent"}  # for the log
    ending = Interruption()
    end = ending.request  # one object for all that refer to it
    reading: asyncio.Task[None] | None = None
    writer, events, resource = _EventWriter(form, socket), answer.events, answer.served.resource
    counter = metrics.watch_events(resource.group, resource.name)
    metrics.WATCHES.count += 1
    try:
        try:
            with ending:
                stopping.call(end)
                if when_gone is not None:
                    when_gone(end)
                if read is not None:
                    reading = asyncio.create_task(read())
                    reading.add_done_callback(partial(_end, ending))
                async for batch in events:
                    if form.representation.transform == PARTIAL_LIST and batch[0].type != "ERROR":
                        break  # no event is a list: kube-apiserver ends the watch here
                    await writer.send(send, batch)
                    counter.inc(len(batch))
                    del batch  # the next may take long
                    note_event()
        except (ClientGone, TunnelClosed):
            pass  # a client ends its watch by disconnecting, and nothing has failed
        finally:
            await events.aclose()
            stopping.forget(end)
            metrics.WATCHES.count -= 1
            await cancel(reading)
        if socket is not None and not socket.is_within_message:
            await socket.close()
        await send({"type": "http.response.body", "body": b""})
    except asyncio.CancelledError:
        state.code = CLIENT_CLOSED_REQUEST
        raise
    except Exception as error:
        break_off(error, f"watch {loggable(state.info.path)}", abort)


def _end(ending: Interruption, _: asyncio.Task[None]) -> None:
    ending.request()


class _EventWriter:
    """Encodes and sends events. Only the first event of a watch has the column definitions of a Table."""

    __slots__ = ("_form", "_headers", "_message_of", "_socket")

    def __init__(self, form: Form, socket: WebSocket | None = None) -> None:
        self._form = form
        self._socket = socket
        # Makes a message of a WebSocket of each line.
        self._message_of: Callable[[bytes], bytes] | None = None
        if socket is not None:
            self._message_of = text_message if form.representation.encoding == JSON else binary_message
        self._headers = form.representation.transform == TABLE

    async def send(self, send: Send, events: Sequence[Event]) -> None:
        socket = self._socket
        if socket is None:
            await self._send_lines(send, events)
            return
        async with socket.writing:
            socket.is_within_message = True
            await self._send_lines(socket.send, events)
            socket.is_within_message = False

    async def _send_lines(self, send: Send, events: Sequence[Event]) -> None:
        """Sends the lines of events: short ones joined, a long one in parts.

        So no more than one part waits for the client, in addition to what is shared with others.
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
                joined, size = b"".join(parts), 0
                parts.clear()
                await send_part(send, joined)
                del joined
            if len(line) > PART_BYTES:
                for start in range(0, len(line), PART_BYTES):
                    await send_part(send, line[start : start + PART_BYTES])
            else:
                parts.append(line)
                size += len(line)
        if parts:
            await send_part(send, b"".join(parts))

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
