"""Common parts of the protobuf forms of OpenAPI v2 and v3: encoding fields by their JSON names, and any values.

Follows gnostic openapiv2 and openapiv3 (in both, messages have specification extensions for names with x-).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from registry.codec.wire import encode_delimited, tag, varint
from registry.codec.yaml_encode import encode_yaml

Json = Mapping[str, Any]
# Encodes a value as the field of this number.
Encoder = Callable[[int, Any], bytes]
# The fields of a message, by their names in JSON.
Fields = Mapping[str, tuple[int, Encoder]]


def fields(*groups: str, **others: tuple[int, Encoder]) -> Fields:
    """`fields("text: name=1 in=2", "flag: required=4", schema=(5, encode))`: fields by type, and others."""
    table = dict(others)
    for group in groups:
        type_, _, members = group.partition(": ")
        for name, _, number in (member.rpartition("=") for member in members.split()):
            table[name] = int(number), _ENCODERS[type_]
    return table


def encode_message(fields: Fields, value: Json, extensions: int = 0) -> bytes:
    """Encodes a message with the fields that are present; those whose names start with x- go into `extensions`."""
    parts = []
    for name, v in value.items():
        field = fields.get(name)
        if field is not None:
            parts.append(field[1](field[0], v))
        elif extensions and name.startswith("x-"):
            parts.append(encode_delimited(extensions, encode_text(1, name) + encode_any(2, v)))
    return b"".join(parts)


def encode_text(number: int, value: str) -> bytes:
    return encode_delimited(number, value.encode("utf-8", "surrogatepass"))


def encode_texts(number: int, value: list[str]) -> bytes:
    return b"".join(encode_text(number, v) for v in value)


def encode_flag(number: int, value: bool) -> bytes:
    return tag(number, 0) + varint(1 if value else 0)


def encode_integer(number: int, value: int) -> bytes:
    return tag(number, 0) + varint(value)


def encode_double(number: int, value: float) -> bytes:
    return tag(number, 1) + struct.pack("<d", value)


def encode_any(number: int, value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False)
    yaml = _short_yaml_of(text) if len(text) <= _SHORT else encode_yaml(value)
    return encode_delimited(number, encode_delimited(2, yaml))


# The operations of a group share their extensions; this length bounds the size of the cache.
_SHORT: Final = 1000


@lru_cache(1024)
def _short_yaml_of(text: str) -> bytes:
    return encode_yaml(json.loads(text))


def encode_anys(number: int, value: list[Any]) -> bytes:
    return b"".join(encode_any(number, v) for v in value)


def encode_named(number: int, name: str, value: bytes) -> bytes:
    return encode_delimited(number, encode_text(1, name) + encode_delimited(2, value))


def _encode_docs(number: int, value: Json) -> bytes:
    return encode_delimited(number, encode_message(_DOCS, value))


_ENCODERS: Final[Mapping[str, Encoder]] = {
    "any": encode_any,
    "anys": encode_anys,
    "docs": _encode_docs,
    "double": encode_double,
    "flag": encode_flag,
    "integer": encode_integer,
    "text": encode_text,
    "texts": encode_texts,
}
_DOCS: Final = fields("text: description=1 url=2")
