"""`'%s is %d'.format([a, b])`: the clauses %s %d %f %e %b %x %X %o and %%.

%f and %e print as Go's message printer does for American English: digits are grouped by thousands, exponents are
powers of ten, infinity is ∞. Inside lists and maps, %s prints CEL literals.

Follows cel-go ext/formatting.go (the library's version 2) and golang.org/x/text/message.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final

from registry.budget import spend
from registry.cel.common.times import Duration, Timestamp
from registry.cel.common.values import EvalError, MapValue, TypeValue, Uint, Value, elements, is_list, type_of
from registry.cel.ext.conversions import plain_text
from registry.cel.ext.strings import CHARACTERS
from registry.cel.ext.table import member, mismatch, traversal
from registry.codec.go_text import go_quote

# A precision is a number of printed digits: no double has as many as this.
_MAX_PRECISION: Final = 1000


@member("format", 2, cost=traversal())
def format_text(template: Value, arguments: Value) -> str:
    """`template` with its clauses replaced by the arguments, in order."""
    if type(template) is not str or not is_list(arguments):
        raise mismatch("format", template, arguments)
    values = elements(arguments)
    parts: list[str] = []
    position = used = 0
    while True:
        percent = template.find("%", position)
        if percent < 0:
            parts.append(template[position:])
            return "".join(parts)
        parts.append(template[position:percent])
        if template.startswith("%%", percent):
            parts.append("%")
            position = percent + 2
            continue
        if used >= len(values):
            raise EvalError(f"index {used} out of range")
        if percent + 1 >= len(template):
            raise EvalError("unexpected end of string")
        position, clause = _clause(template, percent + 1)
        parts.append(_digits(_format(clause, values[used])))
        used += 1


def _format(clause: Callable[[Value], str], value: Value) -> str:
    try:
        return clause(value)
    except EvalError as error:
        raise EvalError(f"error during formatting: {error}") from None


def _clause(template: str, position: int) -> tuple[int, Callable[[Value], str]]:
    """Parses the clause after a percent sign; returns its formatter and the position after it."""
    precision = -1
    if template[position] == ".":
        end = position + 1
        while end < len(template) and template[end] in "0123456789":
            end += 1
        if end >= len(template):
            raise _parse_error("error while parsing precision: could not find end of precision specifier")
        digits = template[position + 1 : end]
        if not digits or len(digits) > 9:
            complaint = "invalid syntax" if not digits else "value out of range"
            raise _parse_error(
                "error while parsing precision: error while converting precision to integer: "
                f'strconv.Atoi: parsing "{digits}": {complaint}'
            )
        precision, position = min(int(digits), _MAX_PRECISION), end
    letter = template[position]
    if letter == "f":
        return position + 1, lambda value: _format_fixed(value, precision)
    if letter == "e":
        return position + 1, lambda value: _scientific(value, precision)
    clause = _CLAUSES.get(letter)
    if clause is None:
        letters = letter if letter.isascii() else chr(letter.encode("utf-8", "replace")[0])
        raise _parse_error(f'unrecognized formatting clause "{letters}"')
    return position + 1, clause


def _parse_error(text: str) -> EvalError:
    return EvalError(f"could not parse formatting clause: {text}")


def _type_error(text: str, value: Value) -> EvalError:
    return EvalError(f"{text}, was given {type_of(value).name}")


def _digits(text: str) -> str:
    spend(len(text) // CHARACTERS + 1)
    return text


# --- %s


def _string(value: Value) -> str:
    kind = type(value)
    if kind is str:
        return str(value)
    if is_list(value):
        return f"[{', '.join(_digits(_literal(item)) for item in elements(value))}]"
    if isinstance(value, MapValue):
        return _map(value)
    if value is None:
        return "null"
    plain = plain_text(value)
    if plain is not None:
        return plain
    if kind is bytes:
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise EvalError(
                'could not convert argument "invalid UTF-8 in bytes, cannot convert to string" to string'
            ) from None
    if kind is Timestamp or kind is Duration:
        return str(value.text())
    if kind is TypeValue:
        return str(value.name)
    raise _type_error(
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
        "durations, and timestamps",
        value,
    )


def _literal(value: Value) -> str:
    """A value inside a list or a map, as a CEL literal."""
    kind = type(value)
    if kind is str:
        return go_quote(value)
    if kind is bytes:
        return "b" + go_quote(_string(value))
    if kind is float:
        if math.isfinite(value):
            return f"{value:.6f}"
        return '"NaN"' if value != value else '"+Inf"' if value > 0 else '"-Inf"'
    if kind is Timestamp:
        return f'timestamp("{value.text()}")'
    if kind is Duration:
        return f'duration("{value.text()}")'
    if value is None or kind in _SHOWN or is_list(value) or isinstance(value, MapValue):
        return _string(value)
    raise EvalError(f"no formatting function for {type_of(value).name}")


_SHOWN: Final[set[type]] = {bool, int, Uint, TypeValue}


def _map(value: MapValue) -> str:
    entries = []
    for key in value.all_keys():
        if type(key) not in (str, bool, int, Uint):
            raise EvalError(f"no formatting function for map key of type {type_of(key).name}")
        entries.append((_literal(key), _digits(_literal(value.find(key)))))
    entries.sort(key=lambda entry: entry[0])
    return "{" + ", ".join(f"{key}:{text}" for key, text in entries) + "}"


# --- numbers


def _decimal(value: Value) -> str:
    if type(value) is int or type(value) is Uint:
        return int.__repr__(value)
    raise _type_error("decimal clause can only be used on integers", value)


def _double(value: Value, complaint: str) -> float:
    if type(value) is float:
        return float(value)
    if type(value) is str and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    raise _type_error(complaint, value)


def _infinite(number: float) -> str:
    return "NaN" if number != number else "∞" if number > 0 else "-∞"


def _format_fixed(value: Value, precision: int) -> str:
    number = _double(value, "fixed-point clause can only be used on doubles")
    if not math.isfinite(number):
        return _infinite(number)
    return f"{number:,.{6 if precision < 0 else precision}f}"


_SUPERSCRIPTS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _scientific(value: Value, width: int) -> str:
    """The library passes its precision on as a width, so there are always six digits after the point."""
    number = _double(value, "scientific clause can only be used on doubles")
    if not math.isfinite(number):
        text = _infinite(number)
    else:
        rounded = Context(prec=7, rounding=ROUND_HALF_EVEN).create_decimal(Decimal(number))
        mantissa, _, exponent = f"{rounded:.6e}".partition("e")
        power = int(exponent)
        digits = f"{'-' if power < 0 else ''}{abs(power):02}".translate(_SUPERSCRIPTS)
        text = f"{mantissa}×10{digits}"
    return text.rjust(width if width >= 0 else 6)


def _format_base(letter: str, complaint: str) -> Callable[[Value], str]:
    def clause(value: Value) -> str:
        kind = type(value)
        if kind is int or kind is Uint:
            return format(int(value), letter)
        if kind is bool and letter == "b":
            return "1" if value else "0"
        if kind is str and letter in "xX":
            return _hex(value.encode("utf-8", "replace"), letter)
        if kind is bytes and letter in "xX":
            return _hex(value, letter)
        raise _type_error(complaint, value)

    return clause


def _hex(data: bytes, letter: str) -> str:
    return data.hex().upper() if letter == "X" else data.hex()


_HEX: Final = "only integers, byte buffers, and strings can be formatted as hex"
_CLAUSES: Final[dict[str, Callable[[Value], str]]] = {
    "s": _string,
    "d": _decimal,
    "b": _format_base("b", "only integers and bools can be formatted as binary"),
    "o": _format_base("o", "octal clause can only be used on integers"),
    "x": _format_base("x", _HEX),
    "X": _format_base("X", _HEX),
}
