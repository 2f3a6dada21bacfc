"""Whole objects in protobuf: an Unknown after four magic bytes has apiVersion, kind and the encoded message.

    decode_object(data)             # {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    encode_object(obj)              # of any kind that has a message
    encode_watch_event("ADDED", obj)

Follows apimachinery pkg/runtime/serializer/protobuf/protobuf.go and pkg/util/framer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.message import DecodeError as LibraryError

from registry.codec.model import DecodeError, ProtoError
from registry.codec.protobuf.convert import fill, read
from registry.codec.protobuf.messages import kind_key, message_class
from registry.codec.protobuf.pieces import merge
from registry.codec.wire import encode_delimited, tag, varint

Json = Any

_MAGIC: Final = b"k8s\x00"
_CORRUPT: Final = "proto: cannot parse invalid wire-format data"
# The end of an Unknown: empty content encoding and content type, which Go writes nevertheless.
_ENDING: Final = encode_delimited(3, b"") + encode_delimited(4, b"")


class MessageError(ProtoError):
    """The envelope is valid, but its message cannot be decoded; `types` has kind and apiVersion."""

    def __init__(self, text: str, types: dict[str, Json]) -> None:
        super().__init__(text)
        self.types = types


class UnknownKind(MessageError):
    """There is no message for the kind in the envelope."""


def decode_object(data: bytes, api_version: str = "", kind: str = "") -> dict[str, Json]:
    """The JSON of a body. Without a kind of its own it is decoded as the kind of the arguments.

    Raises ProtoError, and its subclass MessageError if the envelope is valid; TooManyValues.
    """
    if not data:
        raise ProtoError("empty data")
    if not data.startswith(_MAGIC):
        raise ProtoError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    if len(data) == len(_MAGIC):
        raise ProtoError("empty body")
    try:
        envelope = _parse("runtime/Unknown", data[len(_MAGIC) :])
    except LibraryError as error:
        raise ProtoError(_CORRUPT) from error
    types = {name: text for name, text in read(envelope.f1).items() if text}
    version, kind = types.get("apiVersion") or api_version, types.get("kind") or kind
    key = kind_key(version, kind)
    if key is None:
        raise UnknownKind(f'no kind "{kind}" is registered for version "{version}"', types)
    try:
        return types | read(_parse(key, envelope.f2))
    except LibraryError as error:
        raise MessageError("proto: nested too deeply" if "MaxDepth" in str(error) else _CORRUPT, types) from error
    except UnicodeDecodeError as error:
        raise MessageError("proto: a key is not UTF-8", types) from error
    except DecodeError as error:
        raise MessageError(str(error), types) from error


def _parse(key: str, data: bytes) -> Any:
    message = message_class(key)()
    merge(message, data)
    return message


def encode_object(obj: Mapping[str, Json]) -> bytes:
    return _MAGIC + _head(obj) + encode_delimited(2, encode_message(obj)) + _ENDING


def encode_message(obj: Mapping[str, Json]) -> bytes:
    """An object as an item of a list, without envelope."""
    key = kind_key(obj.get("apiVersion", ""), obj["kind"])
    assert key is not None, f"{obj['kind']} has no message"
    message = message_class(key)()
    fill(message, obj)
    return message.SerializeToString(deterministic=True)


def encode_list(head: Mapping[str, Json], items_bytes: int) -> tuple[bytes, bytes]:
    """The bytes before and after the items of a list, which have `items_bytes` in total. `head` has no items."""
    metadata = encode_message(head)
    length = varint(len(metadata) + items_bytes)
    return _MAGIC + _head(head) + tag(2, 2) + length + metadata, _ENDING


def encode_list_item(head: Mapping[str, Json], obj: Mapping[str, Json]) -> bytes:
    return encode_delimited(_items_number(head), encode_message(obj))


def _items_number(head: Mapping[str, Json]) -> int:
    """The field number of a list's items: 2, except for PartialObjectMetadataList in v1beta1."""
    key = kind_key(head["apiVersion"], head["kind"])
    assert key is not None
    return next(field.number for field in message_class(key).DESCRIPTOR.fields if field.json_name == "items")


def encode_watch_event(type_: str, obj: Mapping[str, Json]) -> bytes:
    """One frame of a watch: four bytes of length, then the event, whose object has its own envelope."""
    event = encode_delimited(1, type_.encode()) + encode_delimited(2, encode_delimited(1, encode_object(obj)))
    return len(event).to_bytes(4, "big") + event


def _head(obj: Mapping[str, Json]) -> bytes:
    texts = encode_delimited(1, obj.get("apiVersion", "v1").encode()) + encode_delimited(2, obj["kind"].encode())
    return encode_delimited(1, texts)
