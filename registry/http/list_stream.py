"""Sends lists in pieces; list_encoding.py makes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from sys import getsizeof

from starlette.types import Scope, Send

from registry.api.answers import ListAnswer
from registry.flowcontrol.byte_shares import HELD_TIMES, HeldAnswer
from registry.flowcontrol.time_slice import TimeSlice
from registry.http.forms import Form
from registry.http.list_encoding import PIECE_BYTES, list_pieces
from registry.http.responses import (
    GZIP_HEADERS,
    GZIP_THRESHOLD_BYTES,
    PART_BYTES,
    Gzip,
    Headers,
    accepts_gzip,
    headers_for,
    send_body,
    send_part,
)
from registry.store.bounds import CHUNK_ROWS

# The number of objects on all pages of a list together, if requested.
TOTAL_COUNT = b"x-total-count"


async def respond_list(
    send: Send, scope: Scope, answer: ListAnswer, form: Form, warnings: Sequence[str], accept_encoding: bytes
) -> None:
    """Sends a list in pieces; a short one in one piece with its length."""
    headers = headers_for(form.representation.media_type, warnings)
    if answer.total is not None:
        headers.append((TOTAL_COUNT, str(answer.total).encode()))
    answer.chunks = _account(answer.chunks)
    async with aclosing(_join(list_pieces(answer, form))) as joined:
        await _stream(send, scope, headers, joined, accept_encoding)


async def _account(chunks: AsyncIterator[Sequence[str]]) -> AsyncIterator[Sequence[str]]:
    """Yields the same chunks, accounted for while they are held. Raises TooManyRequests if there is no room for one."""
    held = HeldAnswer.current()
    async for texts in chunks:
        if held is not None:
            await held.hold_part(HELD_TIMES * sum(map(getsizeof, texts)), may_grow=len(texts) >= CHUNK_ROWS)
        yield texts
    if held is not None:
        held.end_parts()


async def _stream(
    send: Send, scope: Scope, headers: Headers, pieces: AsyncIterator[bytes], accept_encoding: bytes
) -> None:
    """Sends pieces; compressed if the client accepts gzip and there is more than one, which means that it is long."""
    piece: bytes | None = await anext(pieces)
    assert piece is not None
    if len(piece) < GZIP_THRESHOLD_BYTES:
        await send_body(send, scope, 200, headers, piece)
        return
    packer = Gzip() if accepts_gzip(accept_encoding) else None
    slices = TimeSlice.current()
    if packer is not None:
        headers += GZIP_HEADERS
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if scope["method"] == "HEAD":
        await send({"type": "http.response.body", "body": b""})
        return
    while piece is not None:
        await _send_piece(send, piece if packer is None else await packer.compress(piece), slices)
        piece = None  # not held while the next one is made
        piece = await anext(pieces, None)
    await send({"type": "http.response.body", "body": packer.finish() if packer else b""})


async def _send_piece(send: Send, piece: bytes, slices: TimeSlice) -> None:
    parts = memoryview(piece)  # copied once, when they are enclosed
    for start in range(0, len(piece), PART_BYTES):
        await send_part(send, parts[start : start + PART_BYTES])
        if slices.expired():
            await slices.yield_now()


async def _join(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Joins pieces to at least PIECE_BYTES, except for the last; yields at least one."""
    parts: list[bytes] = []
    size = 0
    async with aclosing(pieces):
        async for piece in pieces:
            parts.append(piece)
            size += len(piece)
            if size >= PIECE_BYTES:
                whole = piece if len(parts) == 1 else b"".join(parts)
                parts, size = [], 0
                del piece
                yield whole
                del whole
    if parts:
        yield b"".join(parts)
