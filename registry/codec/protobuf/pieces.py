"""Large messages are parsed in pieces: the library's parser cannot be interrupted, and other requests would wait.

    merge(message, data)        # as message.MergeFromString(data)

A message that is encoded in two parts is equal to the merged messages of both parts, so it may be divided between any
two of its fields; see "Encoding" in the documentation of Protocol Buffers, under "Last One Wins".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from registry.codec.model import MAX_CONTAINERS, TooManyValues
from registry.codec.protobuf.messages import type_of

# Some 2 ms for the smallest of messages.
PIECE_BYTES: Final = 64 << 10
# The most that an object of 3 MB has is some 400,000 entries of a map.
_MAX_FIELDS: Final = 500_000
# Of messages and of groups, one in another: the library's own limit.
_MAX_LEVELS: Final = 100
_VARINT, _DELIMITED, _GROUP, _END_OF_GROUP = 0, 2, 3, 4
_FIXED_BYTES: Final = {1: 8, 5: 4}


def merge(message: Message, data: bytes) -> None:
    """Adds the fields of an encoded message, as its method MergeFromString does, but without any groups.

    Raises DecodeError of the library, and TooManyValues for too many fields or messages in what is divided.
    """
    _merge(message, data, _Limits())


@dataclass(slots=True)
class _Limits:
    """What may still follow in what is divided."""

    fields: int = _MAX_FIELDS
    messages: int = MAX_CONTAINERS
    levels: int = _MAX_LEVELS

    def spend(self, is_message: bool) -> None:
        self.fields -= 1
        if self.fields < 0:
            raise TooManyValues(_MAX_FIELDS, "fields")
        self.messages -= is_message
        if self.messages < 0:
            raise TooManyValues(MAX_CONTAINERS)


def _merge(message: Message, data: bytes, limits: _Limits) -> None:
    if len(data) <= PIECE_BYTES:
        message.MergeFromString(data)
        return
    if limits.levels == 0:
        raise DecodeError("MaxDepth")
    limits.levels -= 1
    known, merged = _messages_in(message.DESCRIPTOR), 0
    for number, wire_type, start, content, end in _fields(data):
        inner = known.get(number) if wire_type == _DELIMITED else None
        limits.spend(inner is not None)
        if inner is not None:
            if end - content > PIECE_BYTES:
                message.MergeFromString(data[merged:start])
                _merge_field(message, inner, data[content:end], limits)
                merged = end
        elif wire_type == _GROUP:
            message.MergeFromString(data[merged:start])
            merged = end
        if end - merged > PIECE_BYTES:
            message.MergeFromString(data[merged:end])
            merged = end
    message.MergeFromString(data[merged:])
    limits.levels += 1


def _merge_field(message: Message, field: FieldDescriptor, data: bytes, limits: _Limits) -> None:
    value: Any = getattr(message, field.name)
    if _is_map(field):
        key, content, is_known = _entry(data)
        if not is_known:
            _merge(value.GetEntryClass()().value, content, limits)  # for its errors
            return
        name = key.decode()
        if name in value:
            del value[name]
        _merge(value[name], content, limits)
    elif field.is_repeated:
        _merge(value.add(), data, limits)
    else:
        value.SetInParent()
        _merge(value, data, limits)


def _entry(data: bytes) -> tuple[bytes, bytes, bool]:
    """The key and the encoded message of an entry of a map, and whether there is nothing else: the library takes any
    other entry for an unknown field."""
    key, contents, is_known = b"", [], True
    for number, wire_type, _, content, end in _fields(data):
        if number == 1 and wire_type == _DELIMITED:
            key = data[content:end]
        elif number == 2 and wire_type == _DELIMITED:
            contents.append(data[content:end])
        else:
            is_known = False
    return key, b"".join(contents), is_known


def _fields(data: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """The number and wire type of each field, where it starts, where its content does, and where it ends.

    A group is one field, with all that is in it. Raises DecodeError.
    """
    position, size = 0, len(data)
    groups: list[int] = []
    outermost = 0
    while position < size:
        start = position
        key = data[position]
        position += 1
        if key >= 0x80:
            key, position = _varint(data, start)
        number, wire_type, content = key >> 3, key & 7, position
        if wire_type == _VARINT:
            _, position = _varint(data, position)
        elif wire_type == _DELIMITED:
            length = data[position] if position < size else 0x80
            content = position + 1
            if length >= 0x80:
                length, content = _varint(data, position)
            position = content + length
        elif wire_type in _FIXED_BYTES:
            position += _FIXED_BYTES[wire_type]
        elif wire_type == _GROUP and len(groups) < _MAX_LEVELS:
            outermost = outermost if groups else start
            groups.append(number)
            continue
        elif wire_type == _END_OF_GROUP and groups and groups.pop() == number:
            start, wire_type = outermost, _GROUP
        else:
            raise DecodeError(f"field {number} has the wire type {wire_type}")
        if position > size or number == 0:
            raise DecodeError(f"field {number} is incomplete")
        if not groups:
            yield number, wire_type, start, content, position
    if groups:
        raise DecodeError(f"group {groups[-1]} has no end")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """An integer, and where it ends."""
    value = shift = 0
    for byte in data[position : position + 10]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise DecodeError("an integer has no end")


@cache
def _messages_in(descriptor: Descriptor) -> dict[int, FieldDescriptor]:
    """The fields that have messages, maps of messages included, by number."""
    return {field.number: field for field in descriptor.fields if _has_messages(field)}


def _has_messages(field: FieldDescriptor) -> bool:
    if field.type != FieldDescriptor.TYPE_MESSAGE:
        return False
    return not _is_map(field) or type_of(field).fields_by_name["value"].type == FieldDescriptor.TYPE_MESSAGE


def _is_map(field: FieldDescriptor) -> bool:
    return bool(type_of(field).GetOptions().map_entry)
