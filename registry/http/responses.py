"""Encodes the answers of verbs in the form that the client requested.

JSON of an object or a list is the stored text, unchanged; every other form is made from the decoded objects. Lists are
streamed: no more than a chunk is held. Watches are in watch_stream.py.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from sys import getsizeof
from typing import Any

import orjson
from starlette.types import Scope, Send

from registry import logs
from registry.api.answers import DocumentAnswer, ListAnswer, ObjectAnswer
from registry.api.errors import StatusError, bad_request, not_acceptable, plain_internal, too_large
from registry.api.options import Query
from registry.api.served import Object, Served
from registry.api.strategies.base import Context
from registry.api.tables.table import (
    TABLE_VISITS,
    IncludeObjectError,
    Table,
    check_include_object,
    partial_object_metadata,
)
from registry.budget import Budget
from registry.codec.cbor import array_head, encode_cbor, encode_item
from registry.codec.indentation import is_mostly_indentation
from registry.codec.json_encode import encode_json
from registry.codec.protobuf.envelope import encode_list, encode_list_item, encode_object
from registry.codec.stored import decode_stored
from registry.codec.yaml_encode import encode_yaml
from registry.emulation import emulated
from registry.flowcontrol.byte_shares import HeldAnswer
from registry.flowcontrol.evaluation import evaluate
from registry.flowcontrol.time_slice import TimeSlice
from registry.http.compression import GZIP_HEADERS, GZIP_THRESHOLD_BYTES, Gzip, accepts_gzip
from registry.http.negotiation import CBOR, JSON, PARTIAL, PARTIAL_LIST, PROTOBUF, TABLE, YAML, Representation, pretty
from registry.http.projection import keep
from registry.http.warnings import warning_headers

# Small items of a list are sent together. Not less than the threshold: a single smaller piece is the whole list.
PIECE_BYTES = GZIP_THRESHOLD_BYTES
# The limit of a list in protobuf or CBOR.
HELD_LIST_BYTES = 64 << 20
# The size of the parts that are encrypted and handed over; larger ones would delay other requests.
PART_BYTES = 64 * 1024
# Longer bodies are sent in parts of this size, so that they do not wait, uncounted, in the connection's buffer.
LARGE_BYTES = 256 * 1024
# How often the texts of a list or a watch are held: as rows, as texts, and as bytes, once joined and once in parts.
HELD_TIMES = 4
# The number of objects on all pages of a list together, if requested.
TOTAL_COUNT = b"x-total-count"
_FIXED = [(b"cache-control", b"no-cache, private")]
Headers = list[tuple[bytes, bytes]]


class PageNotFound(Exception):
    """The plain `404 page not found` for a path without a route."""


def headers_for(media_type: str, warnings: Sequence[str]) -> Headers:
    """Returns the headers of every answer. The audit id identifies the request in logs."""
    headers = [(b"audit-id", logs.audit_id().encode()), *_FIXED, (b"content-type", media_type.encode())]
    return headers + warning_headers(warnings) if warnings else headers


def hold(count: int) -> None:
    """Sets how many bytes of its answer the request holds from now on. Raises TooManyRequests."""
    answer = HeldAnswer.current()
    if answer is not None:
        answer.hold(count)


async def send_body(send: Send, scope: Scope, code: int, headers: Headers, body: bytes) -> None:
    is_large = len(body) > LARGE_BYTES
    if is_large:
        hold(2 * len(body))  # including what it was made from
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": code, "headers": headers})
    if is_large and scope["method"] != "HEAD":
        for start in range(0, len(body) - LARGE_BYTES, LARGE_BYTES):
            await send_part(send, body[start : start + LARGE_BYTES])
        body = body[-((len(body) - 1) % LARGE_BYTES + 1) :]
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def send_part(send: Send, part: bytes) -> None:
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
    status = error.status()
    await send_body(send, scope, error.code, headers, document(status, representation))


async def send_page_not_found(send: Send, scope: Scope, warnings: Sequence[str]) -> None:
    await send_body(send, scope, 404, headers_for("text/plain", warnings), b"404 page not found\n")


def prettify(found: Representation, query: Query, headers: Mapping[bytes, bytes]) -> Representation:
    """Returns the representation, indented if the client requests it or is interactive."""
    if found.encoding != JSON or found.pretty:
        return found
    given = query.get("pretty")
    agent = headers.get(b"user-agent", b"").decode("latin-1")
    return replace(found, pretty=True) if pretty(given[0] if given else "", agent) else found


def document(value: Mapping[str, Any], representation: Representation) -> bytes:
    """Encodes a document in JSON (with the newline of Go's encoder), YAML, protobuf or CBOR.

    A document so deeply nested that most of it would be indentation is sent as plain JSON, which is also YAML.
    """
    if representation.encoding == PROTOBUF:
        return encode_object(value)
    if representation.encoding == CBOR:
        return encode_cbor(value)
    plain = encode_json(value) + b"\n"
    layout = _layout(representation)
    if layout == JSON or is_mostly_indentation(value, len(plain)):
        return plain
    if layout == YAML:
        return encode_yaml(value)
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except TypeError:  # more than 254 levels, or an integer beyond 64 bits
        return plain


class Form:
    """The form of objects: the representation, and the parameters of a Table. `custom`: of custom resources."""

    def __init__(self, representation: Representation, table: Table | None, include: str, *, custom: bool) -> None:
        self.representation = representation
        self.table = table
        self.include = include
        self._custom = custom
        # A parameter that servers before 1.37 ignore.
        self._drops_owners = representation.drops_owners and emulated().is_1_37
        self.is_plain = (
            representation.transform == ""
            and representation.encoding == JSON
            and not representation.pretty
            and not self._drops_owners
            and not representation.keeps
        )
        self.cache_key = (representation, include, table.key if table is not None else None)

    def of_object(self, obj: Object, now: float, *, headers: bool = True) -> Mapping[str, Any]:
        """Returns an object in this form; for a Table, one with a single row."""
        match self.representation.transform:
            case "":
                return self.as_asked(obj)
            case kind if kind == TABLE:
                assert self.table is not None
                row = self.table.row(obj, now, self.include, self.representation.version)
                metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
                return self.table.document([row], metadata, self.representation.version, headers)
            case kind if kind == PARTIAL:
                return self.as_asked(partial_object_metadata(obj, self.representation.version))
            case _ if self._custom:
                raise plain_internal("content is not a list")
            case _:
                raise not_acceptable(
                    f"you requested {PARTIAL_LIST}, but the requested object is not a list "
                    f"({go_type(obj['apiVersion'], obj['kind'])})"
                )

    def as_asked(self, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns `obj` without the fields that the client does not want."""
        if self.representation.keeps:
            return keep(obj, self.representation.keeps)
        if not self._drops_owners or "managedFields" not in (obj.get("metadata") or ()):
            return obj
        return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}}


def form_of(representation: Representation, table: Table, query: Query, *, custom: bool) -> Form:
    """Returns the form of an answer. Raises 400 for a bad includeObject."""
    include = ""
    if representation.transform == TABLE:
        given = query.get("includeObject")
        try:
            include = check_include_object(given[0] if given else "")
        except IncludeObjectError as error:
            raise bad_request(str(error)) from error
    return Form(representation, table if representation.transform == TABLE else None, include, custom=custom)


def list_form_of(representation: Representation, served: Served, query: Query) -> Form:
    """Returns the form of a list. Raises 400 for a bad includeObject, 406 for the form of a single object."""
    custom = not served.definition.builtin
    if representation.transform == PARTIAL:
        list_kind = served.definition.names.list_kind
        found = "*unstructured.UnstructuredList" if custom else go_type(served.api_version, list_kind)
        raise not_acceptable(f"you requested {PARTIAL}, but the requested object is a list ({found})")
    return form_of(representation, served.table, query, custom=custom)


def go_type(api_version: str, kind: str) -> str:
    """Returns the Go type of a built-in kind in kube-apiserver's messages: `*core.ConfigMap`, `*rbac.Role`."""
    group = api_version.rpartition("/")[0].partition(".")[0]
    return f"*{'core' if group in ('', 'events') else group}.{kind}"


async def respond_object(
    send: Send, scope: Scope, answer: ObjectAnswer, form: Form, context: Context, accept_encoding: bytes
) -> None:
    representation = form.representation
    if form.is_plain:
        body = answer.text.encode() + b"\n"
    else:

        def encode() -> bytes:
            return document(form.of_object(answer.object, time.time()), representation)

        body = await evaluate(encode, repeatable=True)
    headers = headers_for(representation.media_type, context.warnings)
    if len(body) > GZIP_THRESHOLD_BYTES and accepts_gzip(accept_encoding):
        hold(2 * len(body))  # including what it was made from
        headers += GZIP_HEADERS
        packer = Gzip()
        body = await packer.compress(body) + packer.finish()
    await send_body(send, scope, answer.code, headers, body)


async def respond_document(
    send: Send, scope: Scope, answer: DocumentAnswer, representation: Representation, context: Context, query: Query
) -> None:
    shown: Mapping[str, Any] = answer.body
    if answer.table is not None:
        shown = form_of(representation, answer.table, query, custom=False).of_object(answer.body, time.time())
    headers = headers_for(representation.media_type, context.warnings)
    await send_body(send, scope, answer.code, headers, document(shown, representation))


async def respond_list(
    send: Send, scope: Scope, answer: ListAnswer, form: Form, context: Context, accept_encoding: bytes
) -> None:
    """Sends a list in pieces; a short one in one piece with its length."""
    headers = headers_for(form.representation.media_type, context.warnings)
    if answer.total is not None:
        headers.append((TOTAL_COUNT, str(answer.total).encode()))
    answer.chunks = _held(answer.chunks)
    if form.is_plain:
        pieces = _plain_list(answer)
    elif form.representation.encoding == PROTOBUF:
        pieces = _proto_list(answer, form)
    elif form.representation.encoding == CBOR:
        pieces = _cbor_list(answer, form)
    else:
        pieces = _formed_list(answer, form)
    async with aclosing(_joined(pieces)) as joined:
        await _stream(send, scope, headers, joined, accept_encoding)


async def _held(chunks: AsyncIterator[Sequence[str]]) -> AsyncIterator[Sequence[str]]:
    """Yields the same chunks, accounted for while they are held. Raises TooManyRequests if there is no room for one."""
    async for texts in chunks:
        hold(HELD_TIMES * sum(map(getsizeof, texts)))
        yield texts


async def _joined(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
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


def list_metadata(answer: ListAnswer) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    # Lists of custom resources include an empty token, too (unstructured data has no omitempty).
    if answer.continue_ or not answer.served.definition.builtin:
        metadata["continue"] = answer.continue_
    if answer.remaining:
        metadata["remainingItemCount"] = answer.remaining
    metadata["resourceVersion"] = str(answer.revision)
    return metadata


async def _plain_list(answer: ListAnswer) -> AsyncGenerator[bytes, None]:
    """`{"apiVersion":"g/v1","items":[...],"kind":"WidgetList","metadata":{...}}`, many small items at a time."""
    served = answer.served
    yield f'{{"apiVersion":"{served.api_version}","items":['.encode()
    separator = ""
    # Items of built-in kinds omit apiVersion and kind.
    head = f'{{"apiVersion":"{served.api_version}","kind":"{served.kind.name}",' if served.definition.builtin else ""
    async for texts in answer.chunks:
        if head:
            texts = ["{" + text.removeprefix(head) if text.startswith(head) else text for text in texts]
        for some in _batches(texts):
            yield (separator + ",".join(some)).encode()
            separator = ","
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


async def _formed_list(answer: ListAnswer, form: Form) -> AsyncGenerator[bytes, None]:
    """Yields the other forms of a list, item by item: no more than one object is decoded at a time."""
    item_bytes, separator, mark = _ITEM_FORMS[_layout(form.representation)]
    ending = b""
    async for items in _encoded_items(answer, form, item_bytes):
        if ending:
            yield separator
        else:
            beginning, _, ending = _list_document(answer, form, [_ITEMS]).rpartition(mark)
            yield beginning
        yield separator.join(items)
        del items
    yield ending or _list_document(answer, form, [])


async def _encoded_items(
    answer: ListAnswer, form: Form, item_bytes: Callable[[Any], bytes]
) -> AsyncGenerator[list[bytes], None]:
    """Yields the encoded items of a list: as many at a time as fit into the time slice and a piece."""
    now, is_builtin = time.time(), answer.served.definition.builtin
    slices, budget = TimeSlice.current(), Budget(TABLE_VISITS)

    def encode(texts: Sequence[str]) -> list[bytes]:
        """Encodes the first items, at least one."""
        items: list[bytes] = []
        size = 0
        for text in texts:
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


def _layout(representation: Representation) -> str:
    if representation.encoding == YAML:
        return YAML
    return "pretty" if representation.pretty else JSON


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
    "pretty": (_pretty_item, b",\n    ", encode_json(_ITEMS)),
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
    items, _ = await _all_items(answer, form, encode_item)
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
        return document(form.table.document(items, metadata, representation.version), representation)
    shown: Sequence[Any] | None = items
    if representation.transform == PARTIAL_LIST:
        shown = items or None
    return document({**_list_head(answer, form), "items": shown}, representation)


def _list_head(answer: ListAnswer, form: Form) -> dict[str, Any]:
    """Returns a list without its items."""
    if form.representation.transform == PARTIAL_LIST:
        kind, api_version = PARTIAL_LIST, f"meta.k8s.io/{form.representation.version}"
        metadata = _typed_list_metadata(answer)
    else:
        kind, api_version = answer.served.definition.names.list_kind, answer.served.api_version
        metadata = list_metadata(answer)
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata}


def _typed_list_metadata(answer: ListAnswer) -> dict[str, Any]:
    """Returns list metadata for Tables and lists of metadata, whose Go types omit empty fields."""
    return {name: value for name, value in list_metadata(answer).items() if value != ""}


def _item(obj: Object, form: Form, now: float, budget: Budget, *, is_builtin: bool) -> Any:
    if form.table is not None:
        return form.table.row(obj, now, form.include, form.representation.version, budget)
    if form.representation.transform == PARTIAL_LIST:
        return form.as_asked(partial_object_metadata(obj, form.representation.version))
    if is_builtin and form.representation.encoding != PROTOBUF:
        del obj["apiVersion"], obj["kind"]
    return form.as_asked(obj)


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
    for start in range(0, len(piece), PART_BYTES):
        await send_part(send, piece if len(piece) <= PART_BYTES else piece[start : start + PART_BYTES])
        if slices.expired():
            await slices.yield_now()
