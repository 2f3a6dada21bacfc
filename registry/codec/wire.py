"""Fields in protobuf's wire format, for messages that are sent before they are complete.

See "Encoding" in the documentation of Protocol Buffers.
"""

from __future__ import annotations


def varint(number: int) -> bytes:
    """A 64-bit integer; a negative one takes ten bytes."""
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
    """A length-delimited field: a string, or an embedded message."""
    return tag(number, 2) + varint(len(data)) + data
