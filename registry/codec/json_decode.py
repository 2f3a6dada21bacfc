"""Decodes JSON as Kubernetes does.

There are three decoders, from fast to exact; each handles what it can guarantee and leaves the rest to the next:

1. orjson, if encoding its result gives the same bytes except for blanks: then there are no duplicate keys. This holds
   for most of what clients send, compact or indented.
2. The C scanner of the standard library with a hook that compares the number of keys, for other spellings of numbers
   and characters (`1.50`, `\\u003c`).
3. json_scan, our own: slow, but it reports errors and duplicate keys, replaces invalid Unicode, and supports deeper
   nesting than C scanners.

Integers beyond int64 become floats; a literal with a point or an exponent is a float even if whole.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import orjson

from registry.codec.json_encode import encode_json
from registry.codec.json_pieces import decode_in_pieces, decode_utf8
from registry.codec.json_scan import TOO_COSTLY, scan
from registry.codec.json_size import has_more_containers, has_more_keys
from registry.codec.model import (
    MAX_CONTAINERS,
    MAX_DEPTH,
    MAX_KEYS,
    Decoded,
    JsonSyntaxError,
    NumberLiteral,
    Repeated,
    TooManyValues,
)

_INT64_LETTERS = 20  # of -9223372036854775808
# Digits become "0", all other bytes a blank: a run of 19 digits is an integer that may exceed int64.
_DIGITS = bytes(0x30 if 0x30 <= code <= 0x39 else 0x20 for code in range(256))
_LONG_INTEGER = b"0" * 19
_BACKSLASH = ord("\\")
_BLANKS = b" \t\r\n"
# From the beginning of a run of blanks only, each of which is read once: 40,000 line breaks took four seconds.
_BREAK_BEFORE_COLON = re.compile(rb"(?<![ \r\n]) *+[\r\n][ \r\n]*+:")
_MAY_ESCAPE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# An escape in a string; the group is half of a surrogate pair, for which Go reads U+FFFD.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")
# Control characters, line breaks of YAML (U+0085, U+2028, U+2029), and noncharacters.
_UNUSUAL = re.compile(rb"\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]")


def decode_json(data: bytes, max_depth: int = MAX_DEPTH, max_keys: int = MAX_KEYS) -> Decoded:
    """The value of `data`: `{"a": 1, "a": 2}` gives `{"a": 2}` and the duplicate `duplicate field "a"`.

    Raises JsonSyntaxError with encoding/json's text, or JsonNumberError. The value may have more than about 900 levels
    (`max_depth` is the limit): callers that recurse must support that or pass a lower limit.

    Raises TooManyValues for more than MAX_CONTAINERS objects and lists, or `max_keys` keys, unless the syntax is known
    to be wrong.
    """
    try:
        _require_few_values(data, max_keys)
    except TooManyValues:
        _require_syntax(data, max_depth)
        raise
    value = _canonical(data)
    if value is _NOT_READ:
        value = _decode_with_hook(data, max_depth)
    if value is _NOT_READ:
        return scan(data, max_depth)
    return Decoded(value)


def _require_few_values(data: bytes, max_keys: int) -> None:
    """Raises TooManyValues."""
    if has_more_containers(data, MAX_CONTAINERS):
        raise TooManyValues(MAX_CONTAINERS)
    if has_more_keys(data, max_keys):
        raise TooManyValues(max_keys, "keys")


def _require_syntax(data: bytes, max_depth: int) -> None:
    """Raises JsonSyntaxError as far as the scanner comes within its own limit, while other threads run."""
    try:
        scan(data, max_depth)
    except JsonSyntaxError as error:
        if str(error) != TOO_COSTLY:
            raise


def decode_verbatim_json(data: bytes) -> Any:
    """The value of JSON that has been decoded before, with a Repeated for each object with duplicate keys and a
    NumberLiteral for each number that is no int64. None if C scanners do not accept it."""
    try:
        return decode_in_pieces(data, _decode_verbatim, keeps_repeated=True)
    except (ValueError, RecursionError):
        return None


def _decode_verbatim(data: bytes) -> Any:
    text = decode_utf8(data)
    if _MAY_ESCAPE_SURROGATE.search(text):
        text = _ESCAPE.sub(_without_half_surrogate, text)
    return _VERBATIM_DECODER.decode(text)


def _without_half_surrogate(escape: re.Match[str]) -> str:
    return r"\ufffd" if escape[1] else escape[0]


def has_float(value: Any) -> bool:
    """Whether a number is no int64."""
    return next(floats(value), None) is not None


def floats(value: Any) -> Iterator[float]:
    """The numbers that are no int64. Does not recurse."""
    level = [value]
    while level:
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, float):
                yield item
        level = below


def decode_canonical_json(data: bytes) -> Decoded | None:
    """The value if `data` is JSON as our encoder writes it except for blanks (no duplicates, no whole floats) and also
    valid YAML with the same value; else None. Raises TooManyValues."""
    if not _is_yaml(data):
        return None
    _require_few_values(data, MAX_KEYS)
    value = _canonical(data)
    if value is _NOT_READ or encode_json(value).translate(None, _BLANKS) != data.translate(None, _BLANKS):
        return None
    return Decoded(value)


def _is_yaml(data: bytes) -> bool:
    """Whether YAML accepts this JSON: it allows no tabs between tokens, no line break between a key and its colon, and
    fewer characters."""
    if b"\t" in data or b"\x7f" in data or not (data.isascii() or _UNUSUAL.search(data) is None):
        return False
    return (b"\n" not in data and b"\r" not in data) or _BREAK_BEFORE_COLON.search(data) is None


class _NotRead:
    """The result of a decoder that leaves the bytes to the next one."""


_NOT_READ = _NotRead()


def _canonical(data: bytes) -> Any:
    try:
        value = decode_in_pieces(data, orjson.loads)
        encoded = orjson.dumps(value)  # rejects more than 254 levels
    except (ValueError, TypeError):
        return _NOT_READ
    # Removing blanks, even those within strings, removes no key: both have the same number of keys.
    if encoded != data and encoded != data[:-1] and encoded.translate(None, _BLANKS) != data.translate(None, _BLANKS):
        return _NOT_READ
    return _NOT_READ if _has_long_integer(data) else value


def _has_long_integer(data: bytes) -> bool:
    return _LONG_INTEGER in data.translate(_DIGITS)


def _decode_with_hook(data: bytes, max_depth: int) -> Any:
    decoder = _LONG_DECODER if _has_long_integer(data) else _DECODER
    # The C scanner's depth limit is Python's recursion limit, which other code may have raised.
    may_be_deep = data.count(b"{") + data.count(b"[") > max_depth
    try:
        value = decode_in_pieces(data, lambda piece: decoder.decode(decode_utf8(piece)))
        if may_be_deep or (_BACKSLASH in data and (b"\\ud" in data or b"\\uD" in data)):
            orjson.dumps(value)  # rejects lone surrogates and more than 254 levels
    except (ValueError, TypeError, RecursionError):
        return _NOT_READ
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is given twice")
    return value


def _repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else Repeated(pairs)


def _float(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise ValueError("beyond float64")
    return value


def _integer(literal: str) -> int | float:
    number = int(literal)
    return number if -(1 << 63) <= number < 1 << 63 else _float(literal)


def _verbatim_integer(literal: str) -> int | NumberLiteral:
    if len(literal) > _INT64_LETTERS:  # Python converts no text of more than 4,300 digits
        return NumberLiteral(literal)
    number = int(literal)
    return number if -(1 << 63) <= number < 1 << 63 else NumberLiteral(literal)


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
# If some integer may exceed int64 (or a string contains as many digits), each one is checked.
_LONG_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
_VERBATIM_DECODER = json.JSONDecoder(
    object_pairs_hook=_repeated, parse_int=_verbatim_integer, parse_float=NumberLiteral, parse_constant=_constant
)
