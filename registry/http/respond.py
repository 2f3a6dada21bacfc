"""From what a verb answers to the bytes that the client asked for.

JSON of an object or a list is the stored text, passed on; every other form is made from the decoded objects. Lists are
streamed: no more than a chunk is held. Watches are in stream.py.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import orjson
from starlette.types import Scope, Send

from registry import logs
from registry.api.answers import DocumentAnswer, ListAnswer, ObjectAnswer
from registry.api.errors import StatusError, bad_request, not_acceptable, plain_internal
from registry.api.jsonpath import Visits
from registry.api.options import Query
from registry.api.served import Object, Served
from registry.api.strategy import Context
from registry.api.table import (
    TABLE_VISITS,
    IncludeObjectError,
    Table,
    check_include_object,
    partial_object_metadata,
)
from registry.codec import proto
from registry.codec.json_encode import encode_json
from registry.codec.stored import decode_stored
from registry.codec.yaml_encode import encode_yaml
from registry.http.negotiation import JSON, PARTIAL, PARTIAL_LIST, PROTOBUF, TABLE, YAML, Representation
from registry.http.warnings import warning_headers
from registry.slices import Slices

# Smaller answers are not worth compressing (apiserver writers.go, defaultGzipThresholdBytes).
GZIP_THRESHOLD_BYTES = 128 * 1024
# The fastest level, as kube-apiserver: clients are near, and processors dear.
_GZIP_LEVEL = 1
# What is encrypted and handed over at a time; more would keep others waiting.
_PART_BYTES = 64 * 1024
_FIXED = [(b"cache-control", b"no-cache, private")]
Headers = list[tuple[bytes, bytes]]


def headers_for(media_type: str, warnings: Sequence[str]) -> Headers:
    """The header fields that every answer has. The audit id names the request in logs."""
    headers = [(b"audit-id", logs.audit_id().encode()), *_FIXED, (b"content-type", media_type.encode())]
    return headers + warning_headers(warnings) if warnings else headers


async def send_body(send: Send, scope: Scope, code: int, headers: Headers, body: bytes) -> int:
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
    return code


async def send_status(send: Send, scope: Scope, error: StatusError, representation: Representation,
                      warnings: Sequence[str]) -> int:
    """A failure. A Table cannot be had of it, only its encoding is the client's choice."""
    headers = headers_for(representation.media_type, warnings)
    if error.retry_after_seconds:
        headers.append((b"retry-after", str(error.retry_after_seconds).encode()))
    status = error.status()
    body = proto.encode_proto(status) if representation.encoding == PROTOBUF else document(status, representation)
    return await send_body(send, scope, error.code, headers, body)


async def send_page_not_found(send: Send, scope: Scope, warnings: Sequence[str]) -> int:
    return await send_body(send, scope, 404, headers_for("text/plain", warnings), b"404 page not found\n")


def document(value: Mapping[str, Any], representation: Representation) -> bytes:
    """A decoded document in JSON (with the newline that Go's encoder leaves) or YAML."""
    if representation.encoding == YAML:
        return encode_yaml(value)
    if representation.pretty:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2)
    return encode_json(value) + b"\n"


class Form:
    """How objects are to look: the representation, and what a Table needs to know. `custom`: of custom resources."""

    def __init__(self, representation: Representation, table: Table | None, include: str, *, custom: bool) -> None:
        self.representation = representation
        self.table = table
        self.include = include
        self._custom = custom
        self.is_plain = representation.transform == "" and representation.encoding == JSON and not representation.pretty
        self.cache_key = (representation, include)

    def of_object(self, obj: Object, now: float, *, headers: bool = True) -> Mapping[str, Any]:
        """One object in its form; a Table of one row."""
        match self.representation.transform:
            case "":
                return obj
            case kind if kind == TABLE:
                assert self.table is not None
                row = self.table.row(obj, now, self.include, self.representation.version)
                metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
                return self.table.document([row], metadata, self.representation.version, headers)
            case kind if kind == PARTIAL:
                return partial_object_metadata(obj, self.representation.version)
            case _ if self._custom:
                raise plain_internal("content is not a list")
            case _:
                raise not_acceptable(f"you requested {PARTIAL_LIST}, but the requested object is not a list "
                                     f"({go_type(obj['apiVersion'], obj['kind'])})")


def form_of(representation: Representation, table: Table, query: Query, *, custom: bool) -> Form:
    """Raises 400 for a bad includeObject."""
    include = ""
    if representation.transform == TABLE:
        given = query.get("includeObject")
        try:
            include = check_include_object(given[0] if given else "")
        except IncludeObjectError as error:
            raise bad_request(str(error)) from error
    return Form(representation, table if representation.transform == TABLE else None, include, custom=custom)


def list_form_of(representation: Representation, served: Served, query: Query) -> Form:
    """Raises 400 for a bad includeObject, 406 for the form of an object asked of a list."""
    custom = not served.definition.strategy
    if representation.transform == PARTIAL:
        list_kind = served.definition.names.list_kind
        found = "*unstructured.UnstructuredList" if custom else go_type(served.api_version, list_kind)
        raise not_acceptable(f"you requested {PARTIAL}, but the requested object is a list ({found})")
    return form_of(representation, served.table, query, custom=custom)


def go_type(api_version: str, kind: str) -> str:
    """The type that stands for a built-in kind in kube-apiserver's messages: `*core.ConfigMap`, `*rbac.Role`."""
    group = api_version.rpartition("/")[0].partition(".")[0]
    return f"*{'core' if group in ('', 'events') else group}.{kind}"


async def respond_object(send: Send, scope: Scope, answer: ObjectAnswer, form: Form, context: Context) -> int:
    representation = form.representation
    if form.is_plain:
        body = answer.text.encode() + b"\n"
    else:
        shown = form.of_object(answer.object, time.time())
        body = proto.encode_proto(shown) if representation.encoding == PROTOBUF else document(shown, representation)
    headers = headers_for(representation.media_type, context.warnings)
    return await send_body(send, scope, answer.code, headers, body)


async def respond_document(send: Send, scope: Scope, answer: DocumentAnswer, representation: Representation,
                           context: Context, query: Query) -> int:
    shown: Mapping[str, Any] = answer.body
    if answer.table is not None:
        shown = form_of(representation, answer.table, query, custom=False).of_object(answer.body, time.time())
    headers = headers_for(representation.media_type, context.warnings)
    body = proto.encode_proto(shown) if representation.encoding == PROTOBUF else document(shown, representation)
    return await send_body(send, scope, answer.code, headers, body)


async def respond_list(send: Send, scope: Scope, answer: ListAnswer, form: Form, context: Context,
                       accept_encoding: bytes) -> int:
    """A list in pieces; a short one in one piece with its length."""
    headers = headers_for(form.representation.media_type, context.warnings)
    if form.is_plain:
        return await _stream(send, scope, headers, _plain_list(answer), accept_encoding)
    body = await _whole_list(answer, form)
    return await _stream(send, scope, headers, _one(body), accept_encoding)


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body


def list_metadata(answer: ListAnswer) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    # Lists of custom resources tell an empty token, too (unstructured data has no omitempty).
    if answer.continue_ or not answer.served.definition.strategy:
        metadata["continue"] = answer.continue_
    if answer.remaining:
        metadata["remainingItemCount"] = answer.remaining
    metadata["resourceVersion"] = str(answer.revision)
    return metadata


async def _plain_list(answer: ListAnswer) -> AsyncIterator[bytes]:
    """`{"apiVersion":"g/v1","items":[...],"kind":"WidgetList","metadata":{...}}` in pieces of about a chunk."""
    served = answer.served
    beginning = f'{{"apiVersion":"{served.api_version}","items":['
    separator = ""
    # Items of the server's own kinds do not repeat what they are.
    head = f'{{"apiVersion":"{served.api_version}","kind":"{served.kind.name}",' if served.definition.strategy else ""
    async for texts in answer.chunks:
        if texts:
            if head:
                texts = ["{" + text.removeprefix(head) if text.startswith(head) else text for text in texts]
            yield (beginning + separator + ",".join(texts)).encode()
            beginning, separator = "", ","
    kind = served.definition.names.list_kind
    ending = f'],"kind":"{kind}","metadata":{encode_json(list_metadata(answer)).decode()}}}\n'
    yield (beginning + ending).encode()


async def _whole_list(answer: ListAnswer, form: Form) -> bytes:
    """The other forms of a list. What is decoded of each object is let go once its row or metadata is made.

    Rows and metadata in plain JSON are encoded one by one: the whole at the end would take long and nobody else a turn.
    """
    representation, now = form.representation, time.time()
    is_builtin = bool(answer.served.definition.strategy)
    by_item = representation.transform != "" and representation.encoding == JSON and not representation.pretty
    items: list[Any] = []
    slices, visits = Slices.current(), Visits(TABLE_VISITS)
    async for texts in answer.chunks:
        for text in texts:
            item = _item(decode_stored(text), form, now, visits, is_builtin=is_builtin)
            items.append(encode_json(item) if by_item else item)
            if slices.over():
                await slices.rest_for_client()
    if by_item and items:
        whole = _list_document(answer, form, [0])
        # The items stand last in both forms.
        return whole.removesuffix(b"[0]}\n") + b"[" + b",".join(items) + b"]}\n"
    return _list_document(answer, form, items)


def _list_document(answer: ListAnswer, form: Form, items: Sequence[Any]) -> bytes:
    representation = form.representation
    metadata = list_metadata(answer)
    version = representation.version
    if form.table is not None:
        if not answer.continue_:
            metadata.pop("continue", None)
        return document(form.table.document(items, metadata, version), representation)
    if representation.transform == PARTIAL_LIST:
        shown = {"kind": PARTIAL_LIST, "apiVersion": f"meta.k8s.io/{version}", "metadata": metadata,
                 "items": items or None}
        return proto.encode_proto(shown) if representation.encoding == PROTOBUF else document(shown, representation)
    served = answer.served
    return document({"apiVersion": served.api_version, "items": items, "kind": served.definition.names.list_kind,
                     "metadata": metadata}, representation)


def _item(obj: Object, form: Form, now: float, visits: Visits, *, is_builtin: bool) -> Any:
    if form.table is not None:
        return form.table.row(obj, now, form.include, form.representation.version, visits)
    if form.representation.transform == PARTIAL_LIST:
        return partial_object_metadata(obj, form.representation.version)
    if is_builtin:
        del obj["apiVersion"], obj["kind"]
    return obj


async def _stream(send: Send, scope: Scope, headers: Headers, pieces: AsyncIterator[bytes],
                  accept_encoding: bytes) -> int:
    """Sends pieces; compressed where the client takes gzip and the first of them is long."""
    first = await anext(pieces)
    second = await anext(pieces, None)
    if second is None and len(first) < GZIP_THRESHOLD_BYTES:
        return await send_body(send, scope, 200, headers, first)
    gzip = b"gzip" in accept_encoding and len(first) + len(second or b"") >= GZIP_THRESHOLD_BYTES
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 31) if gzip else None
    slices = Slices.current()
    if packer is not None:
        headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if scope["method"] == "HEAD":
        await send({"type": "http.response.body", "body": b""})
        return 200
    for piece in (first, second):
        if piece is not None:
            await _send_piece(send, piece, packer, slices)
    async for piece in pieces:
        await _send_piece(send, piece, packer, slices)
    await send({"type": "http.response.body", "body": packer.flush() if packer else b""})
    return 200


async def _send_piece(send: Send, piece: bytes, packer: Any, slices: Slices) -> None:
    for start in range(0, len(piece), _PART_BYTES):
        part = piece if len(piece) <= _PART_BYTES else piece[start:start + _PART_BYTES]
        if packer is not None:
            part = packer.compress(part)
        if part:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        if slices.over():
            await slices.rest()
