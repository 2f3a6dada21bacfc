"""Array parameters in PostgreSQL's binary format.

psycopg's own list dumper inspects each element to find the type of the array, and quotes bodies with a regular
expression when it writes text; here the type is known. `TextArray(["a", None])` is a `text[]`, `BigintArray([1, None])`
a `bigint[]`. The format is that of `array_recv` in PostgreSQL's src/backend/utils/adt/arrayfuncs.c.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any, Final

from psycopg import AsyncConnection, Connection
from psycopg.adapt import Dumper
from psycopg.pq import Format

_TEXT_OID: Final = 25
_TEXT_ARRAY_OID: Final = 1009
_BIGINT_OID: Final = 20
_BIGINT_ARRAY_OID: Final = 1016

_header = Struct("!iiIii")  # dimensions, has nulls, element type, length, lower bound
_length = Struct("!i").pack
_bigint = Struct("!iq").pack  # length (8), value
_NULL: Final = _length(-1)
# The items of a text that are joined at once, in tenths of a millisecond.
_ITEMS_AT_ONCE: Final = 2_000


class TextArray:
    __slots__ = ("items",)

    def __init__(self, items: Sequence[str | None]) -> None:
        self.items = items

    def encode(self) -> bytes:
        parts = [_header.pack(1, 1, _TEXT_OID, len(self.items), 1)]
        for item in self.items:
            if item is None:
                parts.append(_NULL)
            else:
                encoded = item.encode()
                parts.append(_length(len(encoded)))
                parts.append(encoded)
        return b"".join(parts)


class BigintArray:
    __slots__ = ("items",)

    def __init__(self, items: Sequence[int | None]) -> None:
        self.items = items

    def encode(self) -> bytes:
        parts = [_header.pack(1, 1, _BIGINT_OID, len(self.items), 1)]
        parts += [_NULL if item is None else _bigint(8, item) for item in self.items]
        return b"".join(parts)


class RecordArray:
    """Values of a composite type, each encoded by `record`; `oid` is the type's OID in this database."""

    __slots__ = ("oid", "records")

    def __init__(self, oid: int, records: Sequence[bytes]) -> None:
        self.oid = oid
        self.records = records

    def encode(self) -> bytes:
        parts = [_header.pack(1, 0, self.oid, len(self.records), 1)]
        for record in self.records:
            parts.append(_length(len(record)))
            parts.append(record)
        return b"".join(parts)


class _ArrayDumper(Dumper):
    """Leaves the array's own type to the statement if it has no `oid`, as of a composite type: the statement casts."""

    format = Format.BINARY

    def dump(self, obj: TextArray | BigintArray | RecordArray) -> bytes:
        return obj.encode()


class TextArrayDumper(_ArrayDumper):
    oid = _TEXT_ARRAY_OID


class BigintArrayDumper(_ArrayDumper):
    oid = _BIGINT_ARRAY_OID


_integer_field = Struct("!Iiq").pack  # type, length (8), value
_field = Struct("!Ii").pack  # type, length
_NULL_INTEGER: Final = _field(_BIGINT_OID, -1)
_NULL_TEXT: Final = _field(_TEXT_OID, -1)


def record(integers: Sequence[int | None], texts: Sequence[str | None]) -> bytes:
    """Encodes a value of a composite type whose attributes are bigints followed by texts, as `record_recv` reads it."""
    parts = [_length(len(integers) + len(texts))]
    parts += [_NULL_INTEGER if item is None else _integer_field(_BIGINT_OID, 8, item) for item in integers]
    for text in texts:
        if text is None:
            parts.append(_NULL_TEXT)
        else:
            encoded = text.encode()
            parts.append(_field(_TEXT_OID, len(encoded)))
            parts.append(encoded)
    return b"".join(parts)


def register(connection: AsyncConnection[Any] | Connection[Any]) -> None:
    connection.adapters.register_dumper(TextArray, TextArrayDumper)
    connection.adapters.register_dumper(BigintArray, BigintArrayDumper)
    connection.adapters.register_dumper(RecordArray, _ArrayDumper)


def literal(items: Iterable[str]) -> str:
    r"""Returns the text form of an array of texts: `['a', 'b"c']` gives `{"a","b\"c"}`. For arrays nested in an
    array."""
    return "{" + ",".join([f'"{_escape(item)}"' for item in items]) + "}"


def prefixed_literal(prefix: str, items: Sequence[str]) -> str:
    """Returns the `literal` of items that all begin with `prefix`."""
    if not items or '"' in prefix or "\\" in prefix:
        return literal([prefix + item for item in items])
    between = '","' + prefix
    parts = []
    for start in range(0, len(items), _ITEMS_AT_ONCE):
        some = items[start : start + _ITEMS_AT_ONCE]
        part = between.join(some)
        if part.count('"') != 2 * (len(some) - 1) or "\\" in part:  # an item has a character that needs an escape
            return literal([prefix + item for item in items])
        parts.append(part)
    return '{"' + prefix + between.join(parts) + '"}'


def number_literal(items: Iterable[int]) -> str:
    """Returns the text form of an array of integers."""
    return "{" + ",".join(map(str, items)) + "}"


def bytes_literal(items: Iterable[bytes]) -> str:
    r"""Returns the text form of a `bytea[]`: `[b"\x01"]` gives `{"\\x01"}`."""
    return "{" + ",".join([f'"\\\\x{item.hex()}"' for item in items]) + "}"


def _escape(item: str) -> str:
    if '"' in item or "\\" in item:
        return item.replace("\\", "\\\\").replace('"', '\\"')
    return item
