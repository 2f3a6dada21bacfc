"""Quantities: quantity(), isQuantity() and their members.

A quantity is a decimal number. Kubernetes keeps most of them as an int64 with a decimal scale and the others as big
decimals; asInteger() is only defined for the former: `small` says which it is.

Follows apiserver pkg/cel/library/quantity.go and apimachinery pkg/api/resource/{quantity,amount,suffix}.go.
"""

from __future__ import annotations

import re
from typing import Final

from registry.cel.common.values import INT_MAX, INT_MIN, EvalError, Opaque, TypeValue, Value
from registry.cel.ext.table import can_parse, function, member, mismatch, traversal
from registry.codec.text_cache import cache_short

QUANTITY: Final = TypeValue("kubernetes.Quantity")

_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NUMERIC: Final = "unable to parse numeric part of quantity"
_SUFFIX: Final = "unable to parse quantity's suffix"

# Possessive: backtracking over three adjacent runs of digits would try all ways to divide them.
_TEXT: Final = re.compile(r"([+-]?)(0*+)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

# No quantity needs a larger exponent; Go's decimals would use up the memory.
_MAX_EXPONENT: Final = 4096
_MAX_DIGITS: Final = 18  # that many decimal digits fit into an int64
_LEAST_SCALE: Final = -9  # nothing is smaller than a nano


class Quantity(Opaque):
    """`digits` times ten to the power of `scale`."""

    __slots__ = ("digits", "scale", "small")

    type = QUANTITY
    has_text = False

    def __init__(self, digits: int, scale: int, small: bool) -> None:
        self.digits = digits
        self.scale = scale
        self.small = small

    def is_same(self, other: Quantity) -> bool:
        return self.compare(other) == 0

    def compare(self, other: Quantity) -> int:
        left, right, _ = align(self, other)
        return (left > right) - (left < right)


def align(left: Quantity, right: Quantity) -> tuple[int, int, int]:
    """The digits of both at the smaller of their scales, and that scale."""
    scale = min(left.scale, right.scale)
    return left.digits * 10 ** (left.scale - scale), right.digits * 10 ** (right.scale - scale), scale


@cache_short(200, 2048)
def parse_quantity(text: str) -> Quantity:
    """Parses a quantity. Raises EvalError with apimachinery's text."""
    match = _TEXT.fullmatch(text) if 0 < len(text) <= _MAX_EXPONENT else None
    if match is None:
        raise EvalError(_FORMAT)
    zeros, whole, fraction, suffix = match[2], match[3], match[4] or "", match[5]
    base, exponent = _scale(suffix)
    sign = -1 if match[1] == "-" else 1
    digits = int((whole or "0") + fraction)
    if base == 2:
        value = _binary(sign, digits, len(fraction), len(whole or "0"), exponent)
    else:
        value = _decimal(sign, digits, exponent - len(fraction), len(whole or "0") + len(fraction))
    if not value.small and not (zeros or whole or fraction):
        raise EvalError(_NUMERIC)  # what fits into an int64 needs no digits: `m` and `.` are zero
    return value


def _scale(suffix: str) -> tuple[int, int]:
    """The base and exponent of a suffix: (10, 3) for k, (2, 10) for Ki, (10, 5) for e5."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix]
    if suffix in _BINARY:
        return 2, _BINARY[suffix]
    if suffix[:1] in ("e", "E") and re.fullmatch(r"[+-]?[0-9]{1,9}", suffix[1:], re.ASCII):
        exponent = int(suffix[1:])
        if abs(exponent) > _MAX_EXPONENT:
            raise EvalError(_SUFFIX)
        return 10, exponent
    raise EvalError(_SUFFIX)


def _binary(sign: int, digits: int, places: int, length: int, exponent: int) -> Quantity:
    value = digits << exponent
    if places == 0 and 15 - length - int(exponent * 3 / 10) - 1 >= 0 and value <= INT_MAX:
        return Quantity(sign * value, 0, small=True)
    result = _round(1, value, -places)
    if result.compare(_LARGEST) > 0:
        result = Quantity(_LARGEST.digits, 0, small=False)
    return Quantity(sign * result.digits, result.scale, small=False)


_LARGEST: Final = Quantity(INT_MAX, 0, small=False)


def _decimal(sign: int, digits: int, scale: int, length: int) -> Quantity:
    if length <= _MAX_DIGITS and scale >= _LEAST_SCALE:
        return Quantity(sign * digits, scale, small=True)
    return _round(sign, digits, scale)


def _round(sign: int, digits: int, scale: int) -> Quantity:
    """Rounds up to the next nano. The digits are nanos then, as in Kubernetes, which approximate floats depend on."""
    if not digits:
        return Quantity(0, scale, small=False)
    if scale < _LEAST_SCALE:
        digits = -(-digits // 10 ** (_LEAST_SCALE - scale))
    else:
        digits *= 10 ** (scale - _LEAST_SCALE)
    return Quantity(sign * digits, _LEAST_SCALE, small=False)


# --- functions


@function("quantity", 1, of=(str,), cost=traversal())
def quantity(value: str) -> Quantity:
    return parse_quantity(value)


@function("isQuantity", 1, of=(str,), cost=traversal())
def is_quantity(value: str) -> bool:
    return can_parse(parse_quantity, value)


@function("sign", 1, of=(Quantity,))
def sign(value: Quantity) -> int:
    digits = value.digits
    return (digits > 0) - (digits < 0)


def _integer(value: Quantity) -> int | None:
    if not value.small or value.scale < 0:
        return None
    number = value.digits * 10**value.scale if value.scale <= _MAX_DIGITS or not value.digits else INT_MAX + 1
    return number if INT_MIN <= number <= INT_MAX else None


@member("isInteger", 1, of=(Quantity,))
def is_integer(value: Quantity) -> bool:
    return _integer(value) is not None


@member("asInteger", 1, of=(Quantity,))
def as_integer(value: Quantity) -> int:
    number = _integer(value)
    if number is None:
        raise EvalError("cannot convert value to integer")
    return number


@member("asApproximateFloat", 1, of=(Quantity,))
def as_approximate_float(value: Quantity) -> float:
    if abs(value.digits) >= 1 << 1000:
        return _infinity(value.digits)
    if value.scale == 0:
        return float(value.digits)
    if value.digits == 0 or value.scale < -323:
        return 0.0
    if value.scale > 308:
        return _infinity(value.digits)
    return float(value.digits) * float(f"1e{value.scale}")


def _infinity(digits: int) -> float:
    return float("inf") if digits > 0 else float("-inf")


@member("add", 2, of=(Quantity,))
def add(left: Quantity, right: Value) -> Quantity:
    return _sum(left, _operand(left, right, "add"), 1)


@member("sub", 2, of=(Quantity,))
def subtract(left: Quantity, right: Value) -> Quantity:
    return _sum(left, _operand(left, right, "sub"), -1)


def _operand(left: Quantity, right: Value, name: str) -> Quantity:
    if type(right) is int:
        return Quantity(right, 0, small=True)
    if type(right) is not Quantity:
        raise mismatch(name, left, right)
    return right


def _sum(left: Quantity, right: Quantity, factor: int) -> Quantity:
    small = left.small and right.small
    if small and right.digits == 0:
        return left
    if small and left.digits == 0:
        return Quantity(factor * right.digits, right.scale, small=True)
    a, b, scale = align(left, right)
    total = a + factor * b
    return Quantity(total, scale, small and all(INT_MIN <= n <= INT_MAX for n in (a, b, total)))
