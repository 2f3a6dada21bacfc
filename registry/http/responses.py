"""Sends answers: statuses, single objects and documents. Lists are in list_stream.py, watches in watch_stream.py.

Long answers are compressed, if the client accepts gzip. That takes some 15 µs per kilobyte, so it runs in a thread,
scheduled fairly by tenant; zlib releases the interpreter meanwhile. The fastest level, as in kube-apiserver: clients
are near, and processors dear. Follows apiserver pkg/endpoints/handlers/responsewriters/writers.go
(negotiateContentEncoding, deferredResponseWriter).

Warning headers (RFC 7234, code 299) are bounded as kube-apiserver bounds them: texts with control characters are
dropped; once the texts together exceed 4096 characters, all are cut to 256, and they are collected until their sum
passes 4096 again. Follows apiserver pkg/endpoints/filters/warning.go and apimachinery pkg/util/net/http.go.
"""

from __future__ import annotations

import logging
import re
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

from starlette.types import Scope, Send

from registry import logs
from registry.api.answers import DocumentAnswer, ObjectAnswer
from registry.api.errors import StatusError
from registry.api.options import Query
from registry.budget import BudgetExceeded
from registry.flowcontrol.byte_shares import HeldAnswer
from registry.flowcontrol.evaluation import aside, evaluate
from registry.flowcontrol.fair_queue import TooManyRequests
from registry.flowcontrol.time_slice import ClientGone, TimeSlice
from registry.flowcontrol.watchdog import EvaluationStopped
from registry.http.forms import Form, encode_document, encode_list, form_of
from registry.http.negotiation import Representation
from registry.store.errors import StoreError

# Smaller answers are not worth compressing (writers.go, defaultGzipThresholdBytes).
GZIP_THRESHOLD_BYTES: Final = 128 * 1024
GZIP_HEADERS: Final = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))
_LEVEL: Final = 1
_GZIP: Final = 16 + zlib.MAX_WBITS


def accepts_gzip(accept_encoding: bytes) -> bool:
    """Whether `gzip` is accepted. As in kube-apiserver, it is not with a parameter: `gzip;q=0`."""
    return b"gzip" in accept_encoding and any(token.strip() == b"gzip" for token in accept_encoding.split(b","))


class Gzip:
    """A compressed stream: the client joins the results of `compress` for each piece, and of `finish`."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)

    async def compress(self, piece: bytes) -> bytes:
        """Compresses a piece. Raises TooManyRequests if too much work of the tenant waits for a thread."""
        return await aside(partial(self._packer.compress, piece))

    def finish(self) -> bytes:
        return self._packer.flush()


logger = logging.getLogger("registry.requests")

# What encloses a chunk of an answer (RFC 9112, section 7.1), and a little more. With it a part fills its TLS records:
# a record of a few bytes takes a system call as well, and was a fifth of them.
CHUNK_BYTES = 16
# The size of the parts that are encrypted and handed over; larger ones would delay other requests.
PART_BYTES = 64 * 1024 - CHUNK_BYTES
# Longer bodies are sent in parts of this size, so that they do not wait, uncounted, in the connection's buffer.
LARGE_BYTES = 256 * 1024
FIXED = [(b"cache-control", b"no-cache, private")]
Headers = list[tuple[bytes, bytes]]

_TOTAL_CHARACTERS = 4096
_CUT_CHARACTERS = 256
# Texts that are empty, repeated or refused are looked at, too.
_LOOKED_AT = 10_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


_FORESEEN = (StatusError, TooManyRequests, BudgetExceeded, EvaluationStopped, StoreError)


class PageNotFound(Exception):
    """The plain `404 page not found` for a path without a route."""


def headers_for(media_type: str, warnings: Sequence[str]) -> Headers:
    """Returns the headers of every answer. The audit id identifies the request in logs."""
    headers = [(b"audit-id", logs.audit_id().encode()), *FIXED, (b"content-type", media_type.encode())]
    return headers + warning_headers(warnings) if warnings else headers


def hold(count: int) -> None:
    """Sets how many bytes of its answer the request holds from now on. Raises TooManyRequests."""
    answer = HeldAnswer.current()
    if answer is not None:
        answer.hold(count)


async def _hold_body(count: int) -> None:
    """Does the same for a body that has been made, when there is room. Raises TooManyRequests."""
    answer = HeldAnswer.current()
    if answer is not None:
        await answer.hold_body(count)


async def compress(body: bytes, headers: Headers, accept_encoding: bytes) -> bytes:
    """Returns a long body compressed, and adds the headers that say so, if the client accepts it."""
    if len(body) <= GZIP_THRESHOLD_BYTES or not accepts_gzip(accept_encoding):
        return body
    await _hold_body(2 * len(body))  # including what it was made from
    headers += GZIP_HEADERS
    packer = Gzip()
    return await packer.compress(body) + packer.finish()


async def send_body(send: Send, scope: Scope, code: int, headers: Headers, body: bytes) -> None:
    is_large = len(body) > LARGE_BYTES
    if is_large:
        await _hold_body(2 * len(body))  # including what it was made from
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": code, "headers": headers})
    if is_large and scope["method"] != "HEAD":
        slices = TimeSlice.current()
        for start in range(0, len(body) - LARGE_BYTES, LARGE_BYTES):
            await send_part(send, body[start : start + LARGE_BYTES])
            if slices.expired():  # encryption, in many answers at once
                await slices.yield_now()
        body = body[-((len(body) - 1) % LARGE_BYTES + 1) :]
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def break_off(error: Exception, place: str, abort: Callable[[], None] | None) -> None:
    """Closes the connection: part of an answer has been sent, so a failure cannot be reported in any other way."""
    if isinstance(error, _FORESEEN):
        logger.warning("response aborted: %s: %r", place, error)
    else:
        logger.error("response aborted: %s", place, exc_info=error)
    if abort is None:
        raise error  # another server than ours, which handles it
    abort()


async def send_part(send: Send, part: bytes | memoryview) -> None:
    """Sends a part of an answer that is not complete: waits until the client has read what came before."""
    answer = HeldAnswer.current()
    if answer is None or not answer.held_bytes:
        await send({"type": "http.response.body", "body": part, "more_body": True})
        return
    answer.waits_since = time.monotonic()
    await send({"type": "http.response.body", "body": part, "more_body": True})
    answer.waits_since = None


async def send_status(
    send: Send, scope: Scope, error: StatusError, representation: Representation, warnings: Sequence[str]
) -> None:
    """Sends a failure. The client only chooses its encoding, as there is no Table of it."""
    headers = headers_for(representation.media_type, warnings)
    if error.retry_after_seconds:
        headers.append((b"retry-after", str(error.retry_after_seconds).encode()))
    try:
        body = await _encode_status(error, representation)
    except ClientGone:
        return
    await send_body(send, scope, error.code, headers, body)


async def _encode_status(error: StatusError, representation: Representation) -> bytes:
    """Encodes a failure; a thousand long causes beside the event loop, since they may take 0.2 s. Raises ClientGone."""
    encode = partial(encode_document, error.status(), representation)
    causes = (error.details or {}).get("causes") or ()
    texts = (cause.get(name) for cause in causes for name in ("message", "field"))
    size = sum([len(text) for text in texts if text])
    if size <= LARGE_BYTES:
        return encode()
    try:
        return await evaluate(encode, size, repeatable=True)
    except (EvaluationStopped, TooManyRequests):  # too much of the tenant's waits: without the causes it is short
        return encode_document({**error.status(), "details": {}}, representation)


async def send_text(send: Send, scope: Scope, code: int, text: str, warnings: Sequence[str] = ()) -> None:
    """Sends an error as Go's http.Error does: in plain text, with a newline."""
    await send_body(send, scope, code, headers_for("text/plain; charset=utf-8", warnings), f"{text}\n".encode())


async def send_page_not_found(send: Send, scope: Scope, warnings: Sequence[str]) -> None:
    await send_text(send, scope, 404, "404 page not found", warnings)


async def respond_object(
    send: Send, scope: Scope, answer: ObjectAnswer, form: Form, warnings: Sequence[str], accept_encoding: bytes
) -> None:
    representation = form.representation

    def encode() -> bytes:
        if form.is_plain:
            return answer.text.encode() + b"\n"
        return encode_document(form.of_object(answer.object, time.time()), representation)

    if form.is_plain and 0 < answer.size <= LARGE_BYTES:
        body = encode()
    else:
        body = await evaluate(encode, answer.size, repeatable=True)
    headers = headers_for(representation.media_type, warnings)
    body = await compress(body, headers, accept_encoding)
    await send_body(send, scope, answer.code, headers, body)


async def respond_document(
    send: Send,
    scope: Scope,
    answer: DocumentAnswer,
    representation: Representation,
    warnings: Sequence[str],
    query: Query,
) -> None:
    def encode() -> bytes:
        body: Mapping[str, Any] = answer.body
        if answer.table is not None:
            body = form_of(representation, answer.table, query, custom=False).of_object(answer.body, time.time())
        if answer.items is None:
            return encode_document(body, representation)
        return encode_list(body, answer.items, representation)

    headers = headers_for(representation.media_type, warnings)
    encoded = await evaluate(encode, sum(map(len, answer.items or ())), repeatable=True)
    await send_body(send, scope, answer.code, headers, encoded)


def warning_headers(texts: Sequence[str]) -> list[tuple[bytes, bytes]]:
    return [(b"warning", _header(text)) for text in bound_warnings(texts)]


def bound_warnings(texts: Iterable[str]) -> list[str]:
    """Returns each text once, in order, within the limits."""
    bounded: dict[str, None] = {}
    written, longest = 0, _TOTAL_CHARACTERS + 1
    # Webhooks answer with hundreds of thousands, or with megabytes: no more is looked at than what may be shown.
    for text in islice(texts, _LOOKED_AT):
        if written >= _TOTAL_CHARACTERS:
            break
        text = text[:longest]
        if not text or text in bounded or _CONTROL.search(text):
            continue
        bounded[text] = None
        written += len(text)
        if written > _TOTAL_CHARACTERS and longest > _CUT_CHARACTERS:
            longest = _CUT_CHARACTERS
            bounded = dict.fromkeys(t[:longest] for t in bounded)
            written = sum(map(len, bounded))
    return list(bounded)


def _header(text: str) -> bytes:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'.encode()
