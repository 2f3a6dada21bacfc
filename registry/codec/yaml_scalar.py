"""Resolves unquoted YAML scalars: YAML 1.1 as in Go's yaml.v2.

Differs from YAML 1.1 in PyYAML: `y` and `n` are booleans, 0o17 is an octal, timestamps and sexagesimals are strings,
`=` is a string. A whole float becomes an integer, since Go passes the value on as JSON (`1e3` as `1000`).

Follows goyaml.v2/resolve.go of sigs.k8s.io/yaml.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import re

from registry.codec.go_text import whole_number
from registry.codec.model import YamlError
from registry.codec.text_cache import cache_short

_PREFIX = "tag:yaml.org,2002:"
_STR, _BINARY, _INT, _FLOAT, _BOOL, _NULL, _TIMESTAMP = (
    _PREFIX + name for name in ("str", "binary", "int", "float", "bool", "null", "timestamp")
)
MERGE = _PREFIX + "merge"

_NAN = float("nan")
_INFINITY = float("inf")

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), _NAN),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), _INFINITY),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -_INFINITY),
}
# Only a scalar that begins like this can be anything but a string.
_HINTS = frozenset("+-0123456789yYnNtTfFoO~.")
_NUMERIC = frozenset("+-0123456789.")

_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))\Z")
_DECIMAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_POINT_FIRST = re.compile(r"\.[0-9]+(?:[eE][-+]?[0-9]+)?\Z")
_TIMESTAMP_FORM = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:(?P<mark>[Tt ])([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,][0-9]+)?(?P<zone>Z|[-+][0-9]{2}:[0-9]{2})?)?\Z"
)
# More digits make no difference; Python takes quadratic time for very long integers.
_MAX_INTEGER_DIGITS = 400


# Words repeat.
@cache_short(40, 4096)
def resolve_plain(text: str) -> Scalar:
    """`yes` is True, `010` is 8, `1_000` is 1000, `1.5` is 1.5, `2020-01-02` is a string. May be infinite or NaN."""
    if text and text[0] not in _HINTS:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC:
        return text
    if text[0] == ".":
        return _finite(text) if _POINT_FIRST.match(text) else text
    digits = text.replace("_", "")
    match = _INTEGER.match(digits)
    if match is not None and len(digits) <= _MAX_INTEGER_DIGITS:
        number = _integer(match)
        if -(1 << 63) <= number < 1 << 63:
            return number
        if 0 < number < 1 << 64:
            return float(number)
    # Beyond 64 bits only decimal digits are a number, and those of an octal one are taken for decimal.
    if _DECIMAL.match(digits):
        finite = _finite(digits)
        return text if isinstance(finite, str) else finite
    return text


def resolve_tagged(tag: str, text: str, plain: bool) -> Scalar:
    """A scalar with a tag: `!!str 1` is "1", `!!float 1` is 1.0, an unknown tag gives a string."""
    if tag == _BINARY:
        return _binary(text)
    if tag == _STR or tag not in (_INT, _FLOAT, _BOOL, _NULL, _TIMESTAMP):
        return text
    if tag == _TIMESTAMP and is_timestamp(text):
        return text
    value = resolve_plain(text)
    resolved = _tag_of(value)
    if resolved == tag or (tag == _FLOAT and resolved == _INT):
        return value
    raise YamlError(
        f"yaml: cannot decode !!{resolved.removeprefix(_PREFIX)} `{text}` as a !!{tag.removeprefix(_PREFIX)}"
    )


def is_timestamp(text: str) -> bool:
    """Whether yaml.v2 parses the text as a time (and so quotes it if it is a string)."""
    match = _TIMESTAMP_FORM.match(text)
    if match is None or (match["mark"] is not None and (match["mark"] == " ") != (match["zone"] is None)):
        return False
    try:
        datetime.date(int(match[1]) or 4, int(match[2]), int(match[3]))  # the year 0 is a leap year
        datetime.time(int(match[5] or 0), int(match[6] or 0), int(match[7] or 0))
    except ValueError:
        return False
    return True


def as_json(value: float) -> int | float:
    """The number after Go's conversion through JSON: 1e3 is the integer 1000, 2.5 is unchanged. Raises YamlError."""
    if value != value or value in (_INFINITY, -_INFINITY):
        name = "NaN" if value != value else "+Inf" if value > 0 else "-Inf"
        raise YamlError(f"json: unsupported value: {name}")
    return whole_number(value) if value.is_integer() and abs(value) < 1 << 63 else value


def _finite(text: str) -> float | str:
    number = float(text)
    return text if number in (_INFINITY, -_INFINITY) else number


def _integer(match: re.Match[str]) -> int:
    sign, hexadecimal, binary, octal, decimal = match.groups()
    if hexadecimal:
        number = int(hexadecimal, 16)
    elif binary:
        number = int(binary, 2)
    elif octal:
        number = int(octal, 8)
    else:
        number = int(decimal)
    return -number if sign == "-" else number


def _binary(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError) as error:
        raise YamlError("yaml: !!binary value contains invalid base64 data") from error


def _tag_of(value: Scalar) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return _BOOL
    if isinstance(value, int):
        return _INT
    return _FLOAT if isinstance(value, float) else _STR
