"""The values of literals: numbers in range, strings without quotes and escapes.

Follows cel-go parser/unescape.go and the literal visitors of parser/parser.go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

from registry.cel.common.values import INT_MAX, INT_MIN, UINT_MAX
from registry.cel.syntax.ast import NodeKind

_MAX_DIGITS: Final = 400  # more are zeros or out of range; the limit of int() is far higher
_NEWLINES: Final = re.compile("\r\n?")
_ESCAPES: Final = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([\s\S]))")
_SIMPLE: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}


class LiteralError(Exception):
    """A literal that cel-go's lexer accepts has no value; the text is cel-go's."""


def parse_int(text: str) -> int:
    """`-0x1F` is -31. Raises LiteralError outside of int64."""
    value = _integer(text)
    if value is None or not INT_MIN <= value <= INT_MAX:
        raise LiteralError("invalid int literal")
    return value


def parse_uint(text: str) -> int:
    """`0x1Fu` is 31. Raises LiteralError outside of uint64."""
    value = _integer(text[:-1])
    if value is None or value > UINT_MAX:
        raise LiteralError("invalid uint literal")
    return value


def parse_double(text: str) -> float:
    """`-1.5e3` is -1500.0. Raises LiteralError on overflow, as for 1e400."""
    value = float(text)
    if math.isinf(value):
        raise LiteralError("invalid double literal")
    return value


def unquote(text: str) -> str:
    r"""The value of a string token: `'a\n'` is a and a line feed; `r'a\n'` is three characters."""
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body
    return _ESCAPES.sub(_character, body)


def unquote_bytes(text: str) -> bytes:
    r"""The value of a bytes token, in UTF-8; `\xff` and `\377` are one byte each, `\u00ff` is rejected."""
    body, raw = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    pieces = []
    position = 0
    for escape in _ESCAPES.finditer(body):
        pieces.append(body[position : escape.start()].encode("utf-8", "surrogatepass"))
        pieces.append(_byte(escape))
        position = escape.end()
    pieces.append(body[position:].encode("utf-8", "surrogatepass"))
    return b"".join(pieces)


def _integer(text: str) -> int | None:
    if len(text) > _MAX_DIGITS:
        return None
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    return sign * (int(digits[2:], 16) if digits.startswith("0x") else int(digits))


def _body(token: str) -> tuple[str, bool]:
    """The text between the quotes, with line ends normalized to line feeds; and whether the string is raw."""
    raw = token[0] in "rR"
    quotes = 1 if raw else 0
    width = 3 if len(token) >= quotes + 6 and token[quotes : quotes + 3] in ('"""', "'''") else 1
    body = token[quotes + width : len(token) - width]
    return (_NEWLINES.sub("\n", body) if "\r" in body else body), raw


def _character(escape: re.Match[str]) -> str:
    code = _code(escape)
    if code is None:
        return _simple(escape)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise LiteralError("invalid unicode code point")
    return chr(code)


def _byte(escape: re.Match[str]) -> bytes:
    if escape.group(2) or escape.group(3):
        raise LiteralError("unable to unescape string")
    code = _code(escape)
    return _simple(escape).encode() if code is None else bytes((code,))


def _code(escape: re.Match[str]) -> int | None:
    digits = escape.group(1) or escape.group(2) or escape.group(3)
    if digits:
        return int(digits, 16)
    return int(escape.group(4), 8) if escape.group(4) else None


def _simple(escape: re.Match[str]) -> str:
    value = _SIMPLE.get(escape.group(5))
    if value is None:
        raise LiteralError("unable to unescape string")
    return value


# By the kind of their token: the kind of their node, and how its value is read.
READERS: dict[str, tuple[NodeKind, Callable[[str], bool | int | float | str | bytes | None]]] = {
    "INT": (NodeKind.INT, parse_int),
    "UINT": (NodeKind.UINT, parse_uint),
    "FLOAT": (NodeKind.DOUBLE, parse_double),
    "STRING": (NodeKind.STRING, unquote),
    "BYTES": (NodeKind.BYTES, unquote_bytes),
    "true": (NodeKind.BOOL, lambda _: True),
    "false": (NodeKind.BOOL, lambda _: False),
    "null": (NodeKind.NULL, lambda _: None),
}
