"""Encodes values as bytes that sort like the values, so that one sorted table serves every kind of field.

    entry = id of the index (8 bytes) + one component per field

A component is PRESENT and the value, or ABSENT, which sorts after every value; none is a prefix of another.
Bytes compare as CEL compares: strings by code points (UTF-8 preserves their order), times and durations as moments,
numbers as doubles. An entry that would be too long for a B-tree is OVERFLOW: such objects are read and compared one by
one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from registry.cel.common.times import Duration, Timestamp
from registry.cel.common.values import EvalError
from registry.query.fields import FieldKind, Path, QueryField, elements_at, values_at
from registry.query.text import indexed_words

PRESENT: Final = b"\x01"
# A word of a full text, which is not a component: the store keeps such entries as the lexemes of a tsvector.
WORD: Final = b"\x02"
ABSENT: Final = b"\xfe"
OVERFLOW: Final = b"\xff"

# A B-tree row has at most 2,704 bytes; the key of an object takes up to 317 of them.
MAX_ENTRY: Final = 1024
# The most elements of an array that are indexed.
MAX_ELEMENTS: Final = 64

_BIAS: Final = 1 << 95
_INVERTED: Final = bytes(255 - i for i in range(256))


def component(field: QueryField, value: Any) -> bytes:
    """Encodes a JSON value. One that the schema does not allow (of an object of an earlier schema) is absent."""
    if value is None:
        return ABSENT
    try:
        return encode(field.kind, field.view.convert(value))
    except (EvalError, OverflowError):
        return ABSENT


def encode(kind: FieldKind, value: Any) -> bytes:
    match kind:
        case FieldKind.STRING:
            return PRESENT + _text(value)
        case FieldKind.INTEGER:
            return PRESENT + _integer(value)
        case FieldKind.NUMBER:
            return PRESENT + _double(value)
        case FieldKind.BOOLEAN:
            return PRESENT + (b"\x01" if value else b"\x00")
        case FieldKind.TIME | FieldKind.DURATION:
            assert isinstance(value, Timestamp | Duration)
            return PRESENT + _integer(value.nanoseconds)
        case FieldKind.BYTES:
            return PRESENT + _escape(value)
        case FieldKind.INT_OR_STRING:
            return PRESENT + (b"\x06" + _text(value) if isinstance(value, str) else b"\x05" + _integer(value))


def prefix_range(prefix: str) -> tuple[bytes, bytes]:
    """Returns the range of the components of all strings with a prefix: [first, after the last)."""
    start = PRESENT + prefix.encode("utf-8", "surrogatepass").replace(b"\x00", b"\x00\xff")
    return start, successor(start)


def successor(start: bytes) -> bytes:
    """Returns the first bytes after all that begin with `start`, whose first byte is not 0xff."""
    stem = start.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1])


def behind(component: bytes) -> bytes:
    """Returns the bytes after the component and all entries that it begins, before every greater component."""
    return component + b"\xff"


def invert(component: bytes) -> bytes:
    """Returns a component that sorts in reverse, except for ABSENT, which stays last."""
    # The terminator sorts a text after those that it is a prefix of, even if they continue with U+0000.
    return component if component == ABSENT else PRESENT + component[1:].translate(_INVERTED) + b"\x80"


def revert(component: bytes) -> bytes:
    """Returns the component that `invert` was applied to."""
    return component if component == ABSENT else PRESENT + component[1:-1].translate(_INVERTED)


def inverted_range(start: bytes, end: bytes) -> tuple[bytes, bytes]:
    """Returns the range of `invert(c)` for all components c in [start, end), which sorts in reverse."""
    first = successor(_inverted_beginning(end)) if end < successor(PRESENT) else PRESENT
    return first, successor(_inverted_beginning(start))


def _inverted_beginning(start: bytes) -> bytes:
    return PRESENT + start[1:].translate(_INVERTED)


def component_of(field: QueryField, obj: Any) -> bytes:
    """Encodes the field of an object."""
    values = values_at(obj, field.path)
    return component(field, values[0]) if values else ABSENT


def entries_of(index_id: bytes, fields: Sequence[QueryField], descending: Sequence[bool], obj: Any) -> list[bytes]:
    """Returns an object's entries in an index: one, or one per element if a field is an array (none if it is empty)."""
    array = next((i for i, field in enumerate(fields) if field.is_array), None)
    parts = [b"" if field.is_array else component_of(field, obj) for field in fields]
    parts = [invert(part) if turned and part else part for part, turned in zip(parts, descending, strict=True)]
    if array is None:
        entries = [index_id + b"".join(parts)]
    else:
        elements = {component(fields[array], value) for value in elements_at(obj, fields[array].path)}
        # An element of a type other than the schema's makes some evaluations fail, so these objects are evaluated.
        if len(elements) > MAX_ELEMENTS or ABSENT in elements:
            return [index_id + OVERFLOW]
        entries = [index_id + b"".join([*parts[:array], one, *parts[array + 1 :]]) for one in sorted(elements)]
    return [index_id + OVERFLOW] if any(len(entry) > MAX_ENTRY for entry in entries) else entries


def text_entries_of(index_id: bytes, fields: Sequence[Path], obj: Any) -> list[bytes]:
    """Returns an object's entries in a full-text index: one per word."""
    words = indexed_words(obj, fields)
    return [index_id + OVERFLOW] if words is None else [index_id + WORD + word.encode() for word in words]


def _text(value: str) -> bytes:
    return _escape(value.encode("utf-8", "surrogatepass"))


def _escape(value: bytes) -> bytes:
    return value.replace(b"\x00", b"\x00\xff") + b"\x00"


def _integer(value: int) -> bytes:
    return (value + _BIAS).to_bytes(12, "big")


def integer_of(body: bytes) -> int:
    """Returns the integer, or the nanoseconds, of a component without its first byte."""
    return int.from_bytes(body, "big") - _BIAS


def _double(value: float) -> bytes:
    bits: int = struct.unpack(">Q", struct.pack(">d", value + 0.0))[0]
    return struct.pack(">Q", bits ^ 0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else bits | 1 << 63)
