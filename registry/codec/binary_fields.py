"""Fields of Go's type []byte: a text in base64 in JSON, a byte string with tag 22 in CBOR. A client written in Go would
take a byte string without the tag for the bytes themselves.

    tag_bytes({"k": "YWJj"}, binary_members("v1/Secret")["data"])    # {"k": CBORTag(22, b"abc")}

The fields are members in the messages of protobuf, which are those of the built-in kinds.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import cbor2

from registry.codec.protobuf.messages import fields_of

Json = Any
# True for a field of bytes, otherwise the members of a message that lead to some.
Binary = Mapping[str, Any]

_LATER_BASE64: Final = 22
# JSON that protobuf carries as bytes.
_RAW: Final = frozenset(("raw", "Raw"))


@cache
def binary_members(key: str, within: frozenset[str] = frozenset()) -> Binary:
    """The members of a message that are bytes, or lead to some; `within` are the messages that contain this one."""
    members: dict[str, Any] = {}
    if key in within:
        return members
    for name, type_ in fields_of(key):
        if type_ == "bytes":
            if name not in _RAW:
                members[name] = True
        elif "/" in type_ and (inner := binary_members(type_, within | {key})):
            members[name] = inner
    return members


def tag_bytes(value: Json, binary: Binary | bool) -> Json:
    """Returns a copy in which the bytes of `binary` have their tag; the value itself if there are none."""
    if not binary or value is None:
        return value
    if isinstance(value, list):
        return [tag_bytes(item, binary) for item in value]
    if isinstance(value, str) and binary is True:
        return cbor2.CBORTag(_LATER_BASE64, base64.b64decode(value))
    if not isinstance(value, Mapping):
        return value
    if binary is True:  # a map of texts to bytes
        return {name: tag_bytes(item, True) for name, item in value.items()}
    return {name: tag_bytes(item, binary.get(name, False)) for name, item in value.items()}
