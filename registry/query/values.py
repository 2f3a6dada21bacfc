"""Values of fields as aggregates see them: read from objects or from entries of an index, and written as JSON.

Both ways lead through the component that an index has of the field (encoding.py), so an answer does not depend on the
plan. A value that is absent, null, or not of the type of its column is None. Values of one column compare as the
orders of lists do:

    string str    integer int    number float    boolean bool    timestamp, duration int (nanoseconds)    bytes bytes
    int-or-string (0, int) or (1, str)    quantity Fraction
"""

from __future__ import annotations

import base64
import enum
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from registry.cel.common.times import Timestamp
from registry.cel.common.values import EvalError
from registry.cel.ext.clock import to_duration, to_timestamp
from registry.cel.ext.quantity import parse_quantity
from registry.query.encoding import ABSENT, PRESENT, component_of, integer_of, revert
from registry.query.fields import FieldKind, QueryField
from registry.query.indexes import Index
from registry.schema.goduration import duration_text
from registry.schema.model import Structural

Value = str | int | float | bytes | Fraction | tuple[int, int | str]


class ValueType(enum.Enum):
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    DURATION = "duration"
    BYTES = "bytes"
    INT_OR_STRING = "int-or-string"
    QUANTITY = "quantity"


class ReadingError(ValueError):
    """The text says why a field cannot be read as a type, for the client."""


class BinaryQuantity(Fraction):
    """A quantity written with a binary suffix, such as Gi; equal to any other of the same amount."""


_OF_KIND: Final = {
    FieldKind.STRING: ValueType.STRING,
    FieldKind.INTEGER: ValueType.INTEGER,
    FieldKind.NUMBER: ValueType.NUMBER,
    FieldKind.BOOLEAN: ValueType.BOOLEAN,
    FieldKind.TIME: ValueType.TIMESTAMP,
    FieldKind.DURATION: ValueType.DURATION,
    FieldKind.BYTES: ValueType.BYTES,
    FieldKind.INT_OR_STRING: ValueType.INT_OR_STRING,
}
# The type names that a query may give a column, and for which fields.
_READ_AS: Final[Mapping[ValueType, tuple[FieldKind, ...]]] = {
    ValueType.QUANTITY: (FieldKind.STRING, FieldKind.INTEGER, FieldKind.INT_OR_STRING),
    ValueType.DURATION: (FieldKind.STRING,),
    ValueType.TIMESTAMP: (FieldKind.STRING,),
    ValueType.NUMBER: (FieldKind.INTEGER,),
}
# The pattern that controller-gen writes for resource.Quantity.
QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a field is read: as its own type, or as another one that the query names."""

    field: QueryField
    type: ValueType

    def of_object(self, obj: Mapping[str, Any]) -> Value | None:
        return self.of_component(component_of(self.field, obj))

    def of_component(self, component: bytes) -> Value | None:
        if component == ABSENT:
            return None
        value = decode(self.field.kind, component)
        return value if self.type is _OF_KIND[self.field.kind] else _read_as(self.type, value)


def reading(field: QueryField, schema: Structural, wanted: str) -> Reading:
    """Returns the reading. `wanted` is the name of a type, such as `Quantity`, or empty; `schema` that of the field.
    Raises ReadingError."""
    if not wanted:
        is_quantity = field.kind is FieldKind.INT_OR_STRING and schema.pattern == QUANTITY_PATTERN
        return Reading(field, ValueType.QUANTITY if is_quantity else _OF_KIND[field.kind])
    type_ = ValueType(wanted.lower())
    if type_ is not _OF_KIND[field.kind] and field.kind not in _READ_AS.get(type_, ()):
        raise ReadingError(f'"{field.text}" is of type {_OF_KIND[field.kind].value}, which cannot be read as {wanted}')
    return Reading(field, type_)


def _read_as(wanted: ValueType, value: Value) -> Value | None:
    text = value[1] if isinstance(value, tuple) else value
    if wanted is ValueType.NUMBER:
        assert isinstance(text, int)
        return float(text)
    if isinstance(text, int):
        return Fraction(text)
    assert isinstance(text, str)
    try:
        match wanted:
            case ValueType.QUANTITY:
                return _amount(text)
            case ValueType.DURATION:
                return to_duration(text).nanoseconds
            case _:
                return to_timestamp(text).nanoseconds
    except EvalError:
        return None


def _amount(text: str) -> Fraction:
    """Parses a quantity. Raises EvalError."""
    parsed = parse_quantity(text)
    kind = BinaryQuantity if text.endswith("i") else Fraction
    return kind(parsed.digits * 10 ** max(parsed.scale, 0), 10 ** max(-parsed.scale, 0))


# --- components


def decode(kind: FieldKind, component: bytes) -> Value:
    """Returns the value of a component that is present: what `encode` was given."""
    body = component[1:]
    match kind:
        case FieldKind.STRING:
            return _text(body)
        case FieldKind.INTEGER | FieldKind.TIME | FieldKind.DURATION:
            return integer_of(body)
        case FieldKind.NUMBER:
            return _double(body)
        case FieldKind.BOOLEAN:
            return body == b"\x01"
        case FieldKind.BYTES:
            return _unescape(body)
        case FieldKind.INT_OR_STRING:
            return (1, _text(body[1:])) if body[:1] == b"\x06" else (0, integer_of(body[1:]))


def split(entry: bytes, index: Index) -> list[bytes]:
    """Splits an entry of an index without arrays into components."""
    components: list[bytes] = []
    position = len(index.id)
    for field, turned in zip(index.fields, index.descending, strict=True):
        end = _end(field.kind, entry, position, turned=turned)
        part = entry[position:end]
        components.append(revert(part) if turned else part)
        position = end
    return components


_LENGTHS: Final = {
    FieldKind.INTEGER: 12,
    FieldKind.TIME: 12,
    FieldKind.DURATION: 12,
    FieldKind.NUMBER: 8,
    FieldKind.BOOLEAN: 1,
}


def _end(kind: FieldKind, entry: bytes, start: int, *, turned: bool) -> int:
    """Returns the end of a component. A reversed one has each byte inverted, and one more byte."""
    if entry[start : start + 1] != PRESENT:
        return start + 1
    zero, escape, integer = (b"\xff", b"\x00", 255 - 5) if turned else (b"\x00", b"\xff", 5)
    length = _LENGTHS.get(kind)
    if kind is FieldKind.INT_OR_STRING and entry[start + 1] == integer:
        length = 13
    if length is not None:
        return start + 1 + length + turned
    position = entry.index(zero, start + 1)
    while entry[position + 1 : position + 2] == escape:  # a NUL character of the text
        position = entry.index(zero, position + 2)
    return position + 1 + turned


def _text(body: bytes) -> str:
    return _unescape(body).decode("utf-8", "surrogatepass")


def _unescape(body: bytes) -> bytes:
    return body[:-1].replace(b"\x00\xff", b"\x00")


def _double(body: bytes) -> float:
    bits: int = struct.unpack(">Q", body)[0]
    bits ^= 1 << 63 if bits >> 63 else 0xFFFF_FFFF_FFFF_FFFF
    number: float = struct.unpack(">d", struct.pack(">Q", bits))[0]
    return number


# --- JSON


def to_json(of: ValueType, value: Value | None, *, binary: bool) -> Any:
    """Returns the JSON value. `binary`: quantities have binary suffixes where these are exact."""
    match of, value:
        case _, None:
            return None
        case ValueType.TIMESTAMP, int():
            return Timestamp(value).utc_text()
        case ValueType.DURATION, int():
            return duration_text(value)
        case ValueType.QUANTITY, Fraction():
            return quantity_text(value, binary=binary)
        case ValueType.BYTES, bytes():
            return base64.b64encode(value).decode()
        case ValueType.INT_OR_STRING, (_, found):
            return found
        case _:
            return value


def schema_of(of: ValueType) -> Structural:
    """Returns the schema of `to_json`'s output, by which conditions read rows."""
    match of:
        case ValueType.INT_OR_STRING:
            return Structural(int_or_string=True)
        case ValueType.INTEGER | ValueType.NUMBER | ValueType.BOOLEAN:
            return Structural(type=of.value)
        case _:
            return Structural(type="string", format=_FORMATS.get(of, ""))


_FORMATS: Final = {ValueType.TIMESTAMP: "date-time", ValueType.DURATION: "duration", ValueType.BYTES: "byte"}


_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")


def quantity_text(amount: Fraction, *, binary: bool) -> str:
    """Formats a quantity canonically: 1Gi, 1500m, 3. Fractions of a nano are rounded up, as in apimachinery."""
    if binary and amount.denominator == 1 and abs(amount) >= 1024:
        number, step = amount.numerator, 0
        while number % 1024 == 0 and step < len(_BINARY) - 1:
            number, step = number // 1024, step + 1
        return f"{number}{_BINARY[step]}"
    nanos = _away_from_zero(amount * 10**9)
    step = 0
    while nanos and nanos % 1000 == 0 and step < len(_DECIMAL) - 1:
        nanos, step = nanos // 1000, step + 1
    return f"{nanos}{_DECIMAL[step]}" if nanos else "0"


def _away_from_zero(value: Fraction) -> int:
    rounded = -(-abs(value.numerator) // value.denominator)
    return -rounded if value < 0 else rounded
