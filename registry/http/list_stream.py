"""Encodes lists and sends them in pieces: no more than a chunk of objects is decoded at a time.

JSON is the stored text of the objects, unchanged; every other form is made from the decoded objects, item by item.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from sys import getsizeof
from typing import Any

import orjson
from starlette.types import Scope, Send

from registry.api.answers import ListAnswer
from registry.api.errors import too_large
from registry.api.served import Object
from registry.api.tables.table import TABLE_VISITS, partial_object_metadata
from registry.budget import Budget
from registry.codec.cbor import array_head, encode_item
from registry.codec.indentation import is_mostly_indentation
from registry.codec.json_encode import encode_json
from registry.codec.protobuf.envelope import encode_list, encode_list_item
from registry.codec.stored import decode_stored
from registry.codec.yaml_encode import encode_yaml
from registry.flowcontrol.byte_shares import HELD_TIMES, HeldAnswer
from registry.flowcontrol.evaluation import LARGE_BYTES, evaluate
from registry.flowcontrol.time_slice import TimeSlice
from registry.http.forms import PRETTY, Form, encode_document, layout_of
from registry.http.negotiation import CBOR, JSON, PARTIAL_LIST, PROTOBUF, YAML
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

# Small items of a list are sent together. Not less than the threshold: a single smaller piece is the whole list.
PIECE_BYTES = GZIP_THRESHOLD_BYTES
# The limit of a list in protobuf or CBOR.
HELD_LIST_BYTES = 64 << 20


def list_pieces(answer: ListAnswer, form: Form) -> AsyncGenerator[bytes, None]:
    """Yields the pieces of a list, of any size; at least one."""
    if form.is_plain:
        return _plain_list(answer)
    if form.representation.encoding == PROTOBUF:
        return _proto_list(answer, form)
    if form.representation.encoding == CBOR:
        return _cbor_list(answer, form)
    return _list_by_item(answer, form)


async def _plain_list(answer: ListAnswer) -> AsyncGenerator[bytes, None]:
    """`{"apiVersion":"g/v1","items":[...],"kind":"WidgetList","metadata":{...}}`, many small items at a time."""
    served = answer.served
    yield f'{{"apiVersion":"{served.api_version}","items":['.encode()
    former: tuple[str, ...] = ()
    # Items of built-in kinds omit apiVersion and kind.
    head = f'{{"apiVersion":"{served.api_version}","kind":"{served.kind.name}",' if served.definition.builtin else ""
    async for texts in answer.chunks:
        if head:
            texts = ["{" + text.removeprefix(head) if text.startswith(head) else text for text in texts]
        for some in _batches(texts):
            yield ",".join((*former, *some)).encode()
            former = ("",)  # so that the next begins with a comma
    kind = served.definition.names.list_kind
    yield f'],"kind":"{kind}","metadata":{encode_json(list_metadata(answer)).decode()}}}\n'.encode()


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yields as many texts at a time as make a piece."""
    start, size = 0, 0
    for place, text in enumerate(texts, 1):
        size += len(text)
        if size >= PIECE_BYTES:
            yield texts[start:place]
            start, size = place, 0
    if start < len(texts):
        yield texts[start:]


# A placeholder for the items in a document that is encoded without them. No client's text comes after it.
_ITEMS = "-- the items --"


async def _list_by_item(answer: ListAnswer, form: Form) -> AsyncGenerator[bytes, None]:
    """Yields the other forms of a list, item by item: no more than one object is decoded at a time."""
    item_bytes, separator, mark = _ITEM_FORMS[layout_of(form.representation)]
    ending: bytes | None = None  # empty where the items come last, as in a Table in YAML
    async for items in _encoded_items(answer, form, item_bytes):
        if ending is not None:
            yield separator
        else:
            beginning, _, ending = _list_document(answer, form, [_ITEMS]).rpartition(mark)
            yield beginning
        yield separator.join(items)
        del items
    yield _list_document(answer, form, []) if ending is None else ending


async def _encoded_items(
    answer: ListAnswer, form: Form, item_bytes: Callable[[Any], bytes]
) -> AsyncGenerator[list[bytes], None]:
    """Yields the encoded items of a list: as many at a time as fit into the time slice and a piece."""
    now, is_builtin = time.time(), answer.served.definition.builtin
    slices, budget = TimeSlice.current(), Budget(TABLE_VISITS)

    def encode(texts: Sequence[str]) -> list[bytes]:
        """Encodes the first items, at least one; a large one alone, as it is then evaluated by its size."""
        items: list[bytes] = []
        size = 0
        for text in texts:
            if items and len(text) > LARGE_BYTES:
                break
            items.append(item_bytes(_item(decode_stored(text), form, now, budget, is_builtin=is_builtin)))
            size += len(items[-1])
            if size >= PIECE_BYTES or slices.expired():
                break
        return items

    async for texts in answer.chunks:
        while texts:
            items = await evaluate(partial(encode, texts), len(texts[0]), repeatable=True)
            texts = texts[len(items) :]
            yield items
            del items
            if slices.expired():
                await slices.yield_for_client()


def _pretty_item(item: Any) -> bytes:
    """Indents an item as in a list: `{\n  "": [\n    <item>\n  ]\n}` without what is around it."""
    plain = encode_json(item)
    if is_mostly_indentation(item, len(plain)):
        return plain
    try:
        return orjson.dumps({"": [item]}, option=orjson.OPT_INDENT_2)[14:-6]
    except TypeError:  # more than 254 levels, or an integer beyond 64 bits
        return plain


def _yaml_item(item: Any) -> bytes:
    plain = encode_json(item)
    if is_mostly_indentation(item, len(plain)):
        return b"- " + plain + b"\n"
    return encode_yaml({"i": [item]}).removeprefix(b"i:\n")


# The encoding of an item, the separator, and the encoded placeholder.
_ITEM_FORMS: dict[str, tuple[Callable[[Any], bytes], bytes, bytes]] = {
    JSON: (encode_json, b",", encode_json(_ITEMS)),
    PRETTY: (_pretty_item, b",\n    ", encode_json(_ITEMS)),
    YAML: (_yaml_item, b"", _yaml_item(_ITEMS)),
}


async def _proto_list(answer: ListAnswer, form: Form) -> AsyncGenerator[bytes, None]:
    head = _list_head(answer, form)
    items, size = await _all_items(answer, form, partial(encode_list_item, head))
    beginning, ending = encode_list(head, size)
    yield beginning
    while items:
        yield items.pop()
    yield ending


async def _cbor_list(answer: ListAnswer, form: Form) -> AsyncGenerator[bytes, None]:
    head = {"apiVersion": answer.served.api_version, "kind": answer.served.kind.name}
    items, _ = await _all_items(answer, form, partial(encode_item, head=head))
    if not items:
        yield _list_document(answer, form, [])
        return
    beginning, _, ending = _list_document(answer, form, [_ITEMS]).rpartition(array_head(1) + encode_item(_ITEMS))
    yield beginning + array_head(len(items))
    while items:
        yield items.pop()
    yield ending


async def _all_items(answer: ListAnswer, form: Form, item_bytes: Callable[[Any], bytes]) -> tuple[list[bytes], int]:
    """Returns the items, last first, and their total size, for formats that state the length before the items."""
    items: list[bytes] = []
    size = 0
    async for some in _encoded_items(answer, form, item_bytes):
        items += some
        size += sum(map(len, some))
        if size > HELD_LIST_BYTES:
            raise too_large(f"the list has more than {HELD_LIST_BYTES >> 20} MiB: ask for pages of it, or JSON")
    items.reverse()
    return items, size


def _list_document(answer: ListAnswer, form: Form, items: Sequence[Any]) -> bytes:
    representation = form.representation
    if form.table is not None:
        metadata = _typed_list_metadata(answer)
        return encode_document(form.table.document(items, metadata, representation.version), representation)
    listed = items or None if representation.transform == PARTIAL_LIST else items
    return encode_document({**_list_head(answer, form), "items": listed}, representation)


def _list_head(answer: ListAnswer, form: Form) -> dict[str, Any]:
    """Returns a list without its items."""
    if form.representation.transform == PARTIAL_LIST:
        kind, api_version = PARTIAL_LIST, f"meta.k8s.io/{form.representation.version}"
        metadata = _typed_list_metadata(answer)
    else:
        kind, api_version = answer.served.definition.names.list_kind, answer.served.api_version
        metadata = list_metadata(answer)
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata}


def list_metadata(answer: ListAnswer) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    # Lists of custom resources include an empty token, too (unstructured data has no omitempty).
    if answer.continue_ or not answer.served.definition.builtin:
        metadata["continue"] = answer.continue_
    if answer.remaining:
        metadata["remainingItemCount"] = answer.remaining
    metadata["resourceVersion"] = str(answer.revision)
    return metadata


def _typed_list_metadata(answer: ListAnswer) -> dict[str, Any]:
    """Returns list metadata for Tables and lists of metadata, whose Go types omit empty fields."""
    return {name: value for name, value in list_metadata(answer).items() if value != ""}


def _item(obj: Object, form: Form, now: float, budget: Budget, *, is_builtin: bool) -> Any:
    if form.table is not None:
        return form.table.row(obj, now, form.include, form.representation.version, budget)
    if form.representation.transform == PARTIAL_LIST:
        return form.project(partial_object_metadata(obj, form.representation.version))
    if is_builtin and form.representation.encoding != PROTOBUF:
        del obj["apiVersion"], obj["kind"]
    return form.project(obj)


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
