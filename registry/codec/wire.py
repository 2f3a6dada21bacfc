"""Protobuf's wire format: tags, varints and length-delimited fields.

See "Encoding" in the documentation of Protocol Buffers.
"""

from __future__ import annotations

from collections.abc import Iterator

from registry.codec.model import ProtoError

_CUT = "unexpected EOF"
_FIXED = {1: 8, 5: 4}


def varint(number: int) -> bytes:
    """An integer of 64 bits; a negative one takes ten bytes."""
    number &= (1 << 64) - 1
    pieces = bytearray()
    while number > 0x7F:
        pieces.append(number & 0x7F | 0x80)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


def tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


def encode_delimited(number: int, data: bytes) -> bytes:
    """A field of bytes: a string, or a message within a message."""
    return tag(number, 2) + varint(len(data)) + data


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of a message's fields, in order; fixed-width ones are bytes. Raises ProtoError."""
    position = 0
    while position < len(data):
        key, position = _varint_at(data, position)
        number, wire_type = key >> 3, key & 7
        if number == 0:
            raise ProtoError("proto: illegal tag 0")
        if wire_type == 0:
            value, position = _varint_at(data, position)
            yield number, value
            continue
        if wire_type == 2:
            length, position = _varint_at(data, position)
        elif wire_type in _FIXED:
            length = _FIXED[wire_type]
        else:
            raise ProtoError(f"proto: illegal wireType {wire_type}")
        if length > len(data) - position:
            raise ProtoError(_CUT)
        yield number, data[position : position + length]
        position += length


def _varint_at(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for i in range(10):
        if position + i >= len(data):
            raise ProtoError(_CUT)
        byte = data[position + i]
        number |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return number & ((1 << 64) - 1), position + i + 1
    raise ProtoError("proto: integer overflow")
