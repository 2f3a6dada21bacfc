"""Reading a request body, within its limit, and decoding a long one aside of the event loop.

Decoding takes some 20 ns a byte where a body is as clients write it, but up to 5 µs where it is written to be slow:
a few such bodies must not keep everybody else waiting.

Follows apiserver pkg/endpoints/handlers/rest.go (limitedReadBody).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from starlette.types import Receive, Scope

from registry.api.errors import too_large
from registry.api.request import Body, PredecodedBody
from registry.codec.cbor import decode_cbor
from registry.codec.json_decode import decode_json
from registry.codec.model import Decoded, DecodeError
from registry.codec.protobuf.envelope import decode_object as decode_protobuf
from registry.codec.yaml_decode import decode_yaml
from registry.flowcontrol.evaluation import aside
from registry.flowcontrol.time_slice import ClientGone

# kube-apiserver's MaxRequestBodyBytes; etcd's own limit is the reason there, clients rely on it.
BODY_LIMIT_BYTES = 3 * 1024 * 1024

# What is shorter takes the event loop less than about a tenth of a second at its worst, and most bodies less than the
# way to a thread and back (some 100 µs). YAML is slow in any case; CBOR and protobuf are converted value by value.
LONG_JSON_BYTES = 64 * 1024
LONG_YAML_BYTES = 16 * 1024


async def read_body(scope: Scope, receive: Receive, limit_bytes: int = BODY_LIMIT_BYTES) -> bytes:
    """The whole body; 413 as soon as it is known to be longer than the limit."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > limit_bytes:
            raise _too_large(limit_bytes)
    first = await receive()
    if first["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = first.get("body", b"")
    if not first.get("more_body", False):
        if len(body) > limit_bytes:
            raise _too_large(limit_bytes)
        return body
    pieces, length = [body], len(body)
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece: bytes = message.get("body", b"")
        length += len(piece)
        if length > limit_bytes:
            raise _too_large(limit_bytes)
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


def _too_large(limit_bytes: int) -> Exception:
    return too_large(f"limit is {limit_bytes}")


Result = TypeVar("Result")


async def aside_if_long(data: bytes, media_type: str, work: Callable[[], Result]) -> Result:
    """The result of `work` on `data`; in a thread where that may take long."""
    if len(data) <= (LONG_JSON_BYTES if media_type.endswith("json") else LONG_YAML_BYTES):
        return work()
    return await aside(work)


async def body_of(data: bytes, media_type: str) -> Body:
    """A body that is to be decoded; where it is long, it is already."""
    if len(data) <= LONG_YAML_BYTES:
        return Body(data, media_type)
    outcome = await aside_if_long(data, media_type, lambda: _outcome(_decoder(media_type), data))
    return Body(data, media_type, PredecodedBody(outcome))


def _decoder(media_type: str) -> Callable[[bytes], Decoded]:
    if media_type == "protobuf":
        return lambda data: Decoded(decode_protobuf(data))
    if media_type.endswith("cbor"):
        return decode_cbor
    return decode_yaml if media_type.endswith("yaml") else decode_json


def _outcome(decode: Callable[[bytes], Decoded], data: bytes) -> Decoded | DecodeError:
    """An error is kept for when the body is read: other things may be wrong with the request before that."""
    try:
        return decode(data)
    except DecodeError as error:
        return error
