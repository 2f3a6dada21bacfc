"""Quantities of resources in their canonical form: `1500m`, `1Gi`, `3`.

    canonical_quantity("0.5")      # "500m"
    canonical_quantity("1024Mi")   # "1Gi"

The grammar is that of registry/cel; this module formats quantities. Follows apimachinery
pkg/api/resource/{quantity,amount,suffix}.go (CanonicalizeBytes).
"""

from __future__ import annotations

import re

from registry.cel.common.values import EvalError
from registry.cel.ext.quantity import Quantity, parse_quantity

_ENDING = re.compile(r"[eEinumkKMGTP][-+0-9a-zA-Z]*\Z")
_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_EXPONENTS = {suffix: exponent for exponent, suffix in _DECIMAL.items()}
_MILLI = -3
# Numbers with more digits, for each suffix of _BINARY, are parsed as decimals of any size.
_FAST_DIGITS = 18
_FAST_BINARY = tuple(15 - int(10 * step * 3 / 10) - 1 for step in range(len(_BINARY)))
# Binary quantities between these are written in decimal.
_SMALL = Quantity(1024, 0, small=True)


class QuantityError(ValueError):
    """The text is not a quantity; the message is apimachinery's."""


def quantity(text: str) -> Quantity:
    try:
        return parse_quantity(text)
    except EvalError as error:
        raise QuantityError(str(error)) from error


def canonical_quantity(text: str, *, in_milli: bool = False) -> str:
    """The canonical form of a quantity; with `in_milli` rounded up to a thousandth, as the amounts of resources are.

    A text that kube-apiserver takes for canonical stays as it is, such as `1.5e1`. Raises QuantityError.
    """
    if text.isascii() and text.isdigit() and len(text) < 4 and (text[0] != "0" or text == "0"):
        return text
    value = quantity(text)
    if value.digits == 0:
        return "0"
    ending = _ENDING.search(text)
    suffix = ending.group() if ending else ""
    is_rounded = in_milli and value.scale < _MILLI and value.digits % 10 ** (_MILLI - value.scale)
    if is_rounded:
        value = _round_up(value)
    elif _is_reused(text, suffix, in_milli):
        return text
    if suffix.endswith("i"):
        canonical = _binary(value)
        if canonical is not None:
            return canonical
    return _decimal(value, exponents=suffix[:1] in ("e", "E") and suffix not in ("E", "Ei"))


def _round_up(value: Quantity) -> Quantity:
    step = 10 ** (_MILLI - value.scale)
    thousandths = -(-abs(value.digits) // step)
    return Quantity(thousandths if value.digits > 0 else -thousandths, _MILLI, value.small)


def _is_reused(text: str, suffix: str, in_milli: bool) -> bool:
    """Whether apimachinery keeps the text instead of formatting the value (ParseQuantity: "reuse the string")."""
    whole, _, decimals = text[: len(text) - len(suffix)].lstrip("+-").partition(".")
    digits = (whole.lstrip("0") or "0") + decimals
    if len(digits) > _FAST_DIGITS:
        return False
    if suffix.endswith("i"):
        return not decimals and int(digits) % 8 != 0 and len(digits) <= _FAST_BINARY[_BINARY.index(suffix)]
    exponent = _EXPONENTS[suffix] if suffix in _EXPONENTS else int(suffix[1:])
    scale = exponent - len(decimals)
    least = _MILLI if in_milli else -9
    return scale >= least and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _binary(value: Quantity) -> str | None:
    """The form with a binary suffix; None if that would lose precision or be misleading."""
    if Quantity(abs(value.digits), value.scale, value.small).compare(_SMALL) < 0:
        return None
    number, scale = value.digits, value.scale
    while scale < 0 and number % 10 == 0:
        number, scale = number // 10, scale + 1
    if scale < 0:
        return None
    number *= 10**scale
    step = 0
    while number % 1024 == 0 and step < len(_BINARY) - 1:
        number, step = number // 1024, step + 1
    return f"{number}{_BINARY[step]}"


def _decimal(value: Quantity, *, exponents: bool) -> str:
    number, exponent = value.digits, value.scale
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    while exponent % 3:
        number, exponent = number * 10, exponent - 1
    if exponent > 18 and not exponents:
        number, exponent = number * 10 ** (exponent - 18), 18
    if exponents:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL[max(exponent, -9)]}"


def is_whole(value: Quantity) -> bool:
    """Whether the value is an integer."""
    return value.scale >= 0 or value.digits % 10**-value.scale == 0
