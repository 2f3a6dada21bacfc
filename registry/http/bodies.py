"""Reads request bodies within their limit, and decodes long ones outside of the event loop.

Decoding takes some 20 ns a byte for ordinary bodies, but up to 5 µs for bodies crafted to be slow: a few of those must
not block all other requests.

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
from registry.codec.model import Decoded, DecodeError, TooManyValues
from registry.codec.protobuf.envelope import decode_object as decode_protobuf
from registry.codec.yaml_decode import decode_yaml
from registry.flowcontrol.evaluation import aside, evaluate
from registry.flowcontrol.time_slice import ClientGone

# kube-apiserver's MaxRequestBodyBytes; etcd's own limit is the reason there, clients rely on it.
BODY_LIMIT_BYTES = 3 * 1024 * 1024

# Shorter bodies block the event loop for less than 30 ms at worst, and most of them for less than the switch to a
# thread and back (some 100 µs). YAML is always slow; CBOR and protobuf are converted value by value. In YAML with
# aliases each byte may stand for hundreds of values.
LONG_JSON_BYTES = 16 * 1024
LONG_YAML_BYTES = 16 * 1024
_LONG_ALIASED_BYTES = 512


async def read_body(scope: Scope, receive: Receive, limit_bytes: int = BODY_LIMIT_BYTES) -> bytes:
    """Reads the whole body. Raises 413 as soon as it is known to exceed the limit."""
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
    """Returns the result of `work` on `data`, which has no other effects: in a thread if it may take long."""
    return await (aside(work) if _is_long(data, media_type) else evaluate(work, repeatable=True))


def _is_long(data: bytes, media_type: str) -> bool:
    if media_type.endswith("json"):
        return len(data) > LONG_JSON_BYTES
    return len(data) > LONG_YAML_BYTES or (
        len(data) > _LONG_ALIASED_BYTES and media_type.endswith("yaml") and b"*" in data
    )


async def body_of(data: bytes, media_type: str) -> Body:
    """Returns a body to be decoded; a long one is decoded now."""
    if not _is_long(data, media_type):
        return Body(data, media_type)
    outcome = await aside_if_long(data, media_type, lambda: _outcome(_decoder(media_type), data))
    return Body(data, media_type, PredecodedBody(outcome))


def _decoder(media_type: str) -> Callable[[bytes], Decoded]:
    if media_type == "protobuf":
        return lambda data: Decoded(decode_protobuf(data))
    if media_type.endswith("cbor"):
        return decode_cbor
    return decode_yaml if media_type.endswith("yaml") else decode_json


def _outcome(decode: Callable[[bytes], Decoded], data: bytes) -> Decoded | DecodeError | TooManyValues:
    """Decodes. An error is kept until the body is read: the request may have other errors before that.

    What had been decoded is freed here rather than on the event loop: a million values take some 30 ms.
    """
    try:
        return decode(data)
    except (DecodeError, TooManyValues) as error:
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
