"""Characters, strings, numbers and JSON as Go prints them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from registry.codec.model import Repeated
from registry.codec.sorting import sorted_keys

GO_ESCAPES = {"\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def go_quote(text: str) -> str:
    """strconv.Quote: `say "hi"` becomes `"say \\"hi\\""`."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join('\\"' if c == '"' else _escape(c) for c in text) + '"'


def quote_time(text: str) -> str:
    """A text as the errors of Go's package time quote it: bytes that are not ASCII or below a space as `\\xc3\\xa9`."""
    return '"' + _UNUSUAL.sub(_as_bytes, text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


_UNUSUAL = re.compile(r"[^\x20-\x7f]")


def _as_bytes(character: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character[0].encode("utf-8", "surrogateescape"))


def go_quote_all(texts: Iterable[str]) -> str:
    """A slice as fmt's `%q` prints it: `["a" "b"]`."""
    return f"[{' '.join(map(go_quote, texts))}]"


def quote_rune(character: str) -> str:
    """strconv.QuoteRune: `'x'`, `'\\n'`, `'\\ufeff'`; a byte that surrogateescape kept is `'\\xff'`."""
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


_GO_TYPES = (
    (dict, "map[string]interface {}"),
    (list, "[]interface {}"),
    (str, "string"),
    (bool, "bool"),
    (int, "int64"),
    (float, "float64"),
)


def go_type(value: object) -> str:
    """The Go type that a JSON value is decoded to: `map[string]interface {}`."""
    return next((go for json_type, go in _GO_TYPES if isinstance(value, json_type)), "<nil>")


_TYPE_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'


def type_meta_error(value: Any) -> str | None:
    """What runtime/serializer/json says of a document in which it looks for the kind; None where it can. null can."""
    problem: str | None = None
    if value is not None and not isinstance(value, dict):
        problem = f"{json_type(value)} into Go value of type {_TYPE_META}"
    for name, member in _members(value):
        field = _TYPE_FIELDS.get(name.casefold())
        if field is not None and not isinstance(member, str | None):
            problem = problem or f"{json_type(member)} into Go struct field .{field} of type string"
    return problem and f"couldn't get version/kind; json parse error: json: cannot unmarshal {problem}"


def _members(value: Any) -> Iterable[tuple[str, Any]]:
    """The members of an object, if it is one, with those that are given several times."""
    if isinstance(value, Repeated):
        return value.pairs
    return value.items() if isinstance(value, dict) else ()


_TYPE_FIELDS = {"apiversion": "apiVersion", "kind": "kind"}


def type_meta(value: Mapping[str, Any], *, is_sorted: bool = False) -> dict[str, str]:
    """The kind and apiVersion of a document without a type_meta_error, as encoding/json reads them: in any case, and of
    several the last. `is_sorted` says that the document was YAML, whose members Go sorts."""
    members: dict[str, str] = {}
    for name in sorted_keys(value) if is_sorted else value:
        field = _TYPE_FIELDS.get(name.casefold())
        if field is not None and value[name] is not None:
            members[field] = value[name]
    return members


def not_registered(kind: str, api_version: str, scheme: str) -> str:
    """What a runtime.Scheme says of a kind that it does not know."""
    group, _, version = api_version.rpartition("/")
    where = f"version {_quote_some(api_version)}"
    if version == "__internal":
        where = f"the internal version of group {_quote_some(group)}"
    return f'no kind {_quote_some(kind)} is registered for {where} in scheme "{scheme}"'


def cannot_be_handled_as(wanted: str, kind: str, api_version: str, why: str) -> str:
    """The error of a body of `kind` that is not decoded as the kind `wanted`."""
    return f"{kind} in version {_quote_some(api_version.rpartition('/')[2])} cannot be handled as a {wanted}: {why}"


def _quote_some(text: str) -> str:
    return go_quote(text) if len(text) <= _MAX_QUOTED else f"{go_quote(text[:_MAX_QUOTED])}..."


# The letters of a name that an error quotes, as registry/schema/field.py has it.
_MAX_QUOTED = 10_000


def _escape(character: str) -> str:
    if character in GO_ESCAPES:
        return GO_ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # a byte that surrogateescape kept
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_g(value: float) -> str:
    """A float as fmt's `%v` and strconv.FormatFloat(value, 'g', -1, 64) print it: `0.5`, `1e-05`, `1e+06`."""
    return _printed(value, 1e-4, 1e6, "02d")


def go_number(value: float) -> str:
    """A decoded number as `%v` prints it. Beyond 64 bits it is a float in Go, though here an integer if it is whole."""
    return str(value) if isinstance(value, int) and -1 << 63 <= value < 1 << 63 else go_g(float(value))


def go_float(value: float) -> str:
    """A float as encoding/json writes it: 1 for 1.0, 0.000001, 1e-7, 1e+21."""
    return _printed(value, 1e-6, 1e21, "d")


def go_f(value: float) -> str:
    """strconv.FormatFloat(value, 'f', -1, 64): no exponent."""
    return _printed(value, 0, math.inf, "")


def _printed(value: float, least: float, beyond: float, exponent_format: str) -> str:
    """Prints the shortest digits: with an exponent below `least` and from `beyond` on."""
    if value - value != 0:  # not a number, or infinite
        return "NaN" if value != value else "+Inf" if value > 0 else "-Inf"
    is_plain = value == 0 or least <= abs(value) < beyond
    if is_plain and "e" not in (text := repr(value)):
        return text.removesuffix(".0")
    sign, digits, exponent = _decimal(value)
    if is_plain:
        return sign + _positional(digits, exponent)
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'-' if exponent < 1 else '+'}{format(abs(exponent - 1), exponent_format)}"


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


class GoText(str):
    """A bad value that is printed verbatim, for example the JSON of a Go struct."""

    __slots__ = ()


def go_json(value: object, limit: int | None = None, *, is_sorted: bool = True) -> str:
    """`value` as Go's json.Marshal writes it: sorted keys, no blanks, `<`, `>` and `&` escaped; of any depth.

    Unless `is_sorted`, keys have the order of their dict, as in a Go struct and in JSON that Go passes on.
    Stops once there are more characters than `limit`; of a longer value only the beginning is correct.
    """
    parts: list[str] = []
    pending: list[object] = [value]
    length = 0
    while pending:
        if limit is not None and parts:
            length += len(parts[-1])
            if length > limit:
                break
        item = pending.pop()
        if isinstance(item, GoText):
            parts.append(item)
        elif isinstance(item, str):
            parts.append(_json_text(item))
        elif isinstance(item, bool) or item is None:
            parts.append("null" if item is None else "true" if item else "false")
        elif isinstance(item, int):
            parts.append(str(item))
        elif isinstance(item, float):
            parts.append(go_float(item))
        elif isinstance(item, dict):
            parts.append("{")
            pending.append(_END_OBJECT)
            names = list(islice(item, limit))
            for place, name in enumerate(sorted(names, reverse=True) if is_sorted else names[::-1], start=1):
                pending += (item[name], GoText(f"{',' if place < len(item) else ''}{_json_text(name)}:"))
        elif isinstance(item, list | tuple):
            parts.append("[")
            pending.append(_END_ARRAY)
            for place in range(min(len(item), limit or len(item)) - 1, -1, -1):
                pending.append(item[place])
                if place:
                    pending.append(_COMMA)
        else:
            raise TypeError(f"not JSON: {item!r}")
    return "".join(parts)


_COMMA, _END_OBJECT, _END_ARRAY = GoText(","), GoText("}"), GoText("]")
_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def _json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).translate(_HTML)


def go_syntax(value: Any) -> str:
    """`%#v` of a value decoded from YAML: `"a"`, `1`, `true`, `[]interface {}{"a"}`."""
    if isinstance(value, str):
        return go_quote(value)
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return go_g(value)
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(go_syntax(v) for v in value) + "}"
    if isinstance(value, dict):
        return (
            "map[interface {}]interface {}{"
            + ", ".join(f"{go_syntax(k)}:{go_syntax(v)}" for k, v in value.items())
            + "}"
        )
    return str(value)
