"""Go's scalar types in JSON: strings, booleans, integers, float64, bytes and any JSON."""

from __future__ import annotations

import base64
from typing import Any

from registry.codec import go_base64
from registry.codec.go_text import go_float, whole_number
from registry.codec.model import NumberLiteral
from registry.codec.structs.base import DecodingContext, GoType, Link, StructDecodeError

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)


class GoScalar(GoType):
    def __init__(self, go: str, json_type: type, zero: Any) -> None:
        self.go, self.json_type, self.zero = go, json_type, zero

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        return value if type(value) is self.json_type else context.mismatch(value, link, self.go)


class Integer(GoType):
    zero = 0

    def __init__(self, go: str, bounds: tuple[int, int]) -> None:
        self.go, self.bounds = go, bounds

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        if type(value) is int and self.bounds[0] <= value <= self.bounds[1]:
            return value
        if isinstance(value, NumberLiteral):
            return context.mismatch(value, link, self.go, f"number {value.text}")
        if type(value) is float:
            if context.is_reencoded:
                # Go has printed its fewest digits: -2**63 reads as -9223372036854776000.
                if value.is_integer() and self.bounds[0] <= (whole := whole_number(value)) <= self.bounds[1]:
                    return whole
                return context.mismatch(value, link, self.go, f"number {go_float(value)}")
            # YAML alone has integers of 64 bits without a sign, and any number beyond is a float.
            if not value.is_integer() or not 2**63 <= value < 2**64:
                return context.mismatch(value, link, self.go, f"number {go_float(value)}")
            value = int(value)
        printed = f"number {value}" if type(value) is int else ""
        return context.mismatch(value, link, self.go, printed)


class Number(GoType):
    """A float64. A whole number is kept as an int if exact, since Go writes it without a fraction."""

    go = "float64"
    zero = 0

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        if type(value) is int:
            return value if -(2**53) <= value <= 2**53 else _whole(float(value))
        if isinstance(value, float):
            return _whole(float(value))
        return context.mismatch(value, link, self.go)


class Bytes(GoType):
    """A []byte: base64 in JSON or, which Go accepts too, an array of numbers; kept as base64."""

    go = "[]uint8"
    by_reference = True

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        if type(value) is list:
            steps = enumerate(value)
            octets = [0 if v is None else _OCTET.decode(v, (link, i, None, False), context) or 0 for i, v in steps]
            return base64.b64encode(bytes(octets)).decode()
        if type(value) is not str:
            return context.mismatch(value, link, self.go)
        try:
            return base64.b64encode(go_base64.decode(value)).decode()
        except go_base64.Base64Error as error:
            context.fault = context.fault or StructDecodeError(str(error))
            return None


_OCTET = Integer("uint8", (0, 255))


class Raw(GoType):
    """Any JSON, such as a default."""

    go = "v1.JSON"
    by_reference = True

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        return plain_numbers(value)


class RawExtension(GoType):
    """Any JSON, unchanged."""

    by_reference = True

    def __init__(self, go: str = "runtime.RawExtension") -> None:
        self.go = go

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        return value


def plain_numbers(value: Any) -> Any:
    """Converts whole floats in JSON to integers: 2.0 is stored as 2."""
    if isinstance(value, float):
        return _whole(float(value))
    if isinstance(value, dict):
        return {k: plain_numbers(v) for k, v in value.items()}
    if type(value) is list:
        return [plain_numbers(v) for v in value]
    return value


def _whole(value: float) -> int | float:
    return whole_number(value) if value.is_integer() and -(2**63) <= value < 2**64 else value


STRING = GoScalar("string", str, "")
BOOL = GoScalar("bool", bool, False)
UID = GoScalar("types.UID", str, "")
INT_32 = Integer("int32", INT32)
INT_64 = Integer("int64", INT64)
FLOAT_64 = Number()
BYTES = Bytes()
RAW = Raw()
