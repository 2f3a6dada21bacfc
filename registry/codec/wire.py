"""Fields in protobuf's wire format, for messages that are sent while their contents are still being made.

See "Encoding" in the documentation of Protocol Buffers.
"""

from __future__ import annotations


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
