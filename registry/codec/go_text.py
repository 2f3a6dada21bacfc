"""Characters, strings and numbers as Go prints them."""

from __future__ import annotations

from typing import Any

_ESCAPES = {"\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def quote(text: str) -> str:
    """strconv.Quote: `say "hi"` becomes `"say \\"hi\\""`."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join('\\"' if c == '"' else _escape(c) for c in text) + '"'


def quote_rune(character: str) -> str:
    """strconv.QuoteRune: `'x'`, `'\\n'`, `'\\ufeff'`; a byte that surrogateescape kept is `'\\xff'`."""
    if "\udc80" <= character <= "\udcff":
        return f"'\\x{ord(character) - 0xDC00:02x}'"
    return "'\\''" if character == "'" else f"'{_escape(character)}'"


def json_type(value: object) -> str:
    """The name that encoding/json has for the type of a decoded value, in an UnmarshalTypeError."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "null"


_TYPE_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'


def type_meta_error(value: Any) -> str | None:
    """What runtime/serializer/json says of a document in which it looks for the kind; None where it can. null can."""
    problem: str | None = None
    if value is not None and not isinstance(value, dict):
        problem = f"{json_type(value)} into Go value of type {_TYPE_META}"
    for name in ("apiVersion", "kind") if isinstance(value, dict) else ():
        if not isinstance(value.get(name), str | None):
            problem = problem or f"{json_type(value[name])} into Go struct field .{name} of type string"
    return problem and f"couldn't get version/kind; json parse error: json: cannot unmarshal {problem}"


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def format_float(value: float) -> str:
    """strconv.FormatFloat(value, 'g', -1, 64): `0.5`, `1e-05`, `1e+06`, `1.5e+300`."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = _decimal(value)
    if -4 <= exponent - 1 < 6:
        return sign + _positional(digits, exponent)
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'-' if exponent < 1 else '+'}{abs(exponent - 1):02d}"


def whole_number(value: float) -> int:
    """The integer that encoding/json writes for a whole float below 1e21: the shortest digits, then noughts.

    `2.0**63` is written 9223372036854776000, which is not its exact value.
    """
    exact = int(value)
    if -(1 << 53) <= exact <= 1 << 53:
        return exact
    sign, digits, exponent = _decimal(value)
    return int(sign + _positional(digits, exponent))


def _decimal(value: float) -> tuple[str, str, int]:
    """The shortest digits of a finite float and where the point stands: 0.05 is ("", "5", -1), 12.5 ("", "125", 2)."""
    mantissa, _, power = repr(value).partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = whole + fraction
    exponent = len(whole) + int(power or 0) - (len(digits) - len(digits.lstrip("0")))
    digits = digits.strip("0")
    return (sign, digits, exponent) if digits else (sign, "0", 1)


def _positional(digits: str, exponent: int) -> str:
    if exponent <= 0:
        return "0." + "0" * -exponent + digits
    if exponent >= len(digits):
        return digits + "0" * (exponent - len(digits))
    return f"{digits[:exponent]}.{digits[exponent:]}"


def go_syntax(value: Any) -> str:
    """`%#v` of a value decoded from YAML: `"a"`, `1`, `true`, `[]interface {}{"a"}`."""
    if isinstance(value, str):
        return quote(value)
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_float(value)
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(go_syntax(v) for v in value) + "}"
    if isinstance(value, dict):
        return (
            "map[interface {}]interface {}{"
            + ", ".join(f"{go_syntax(k)}:{go_syntax(v)}" for k, v in value.items())
            + "}"
        )
    return str(value)
