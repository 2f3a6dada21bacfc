"""The tokens of CEL.

`tokenize("a >= 1u")` yields three parallel lists: kinds `["ID", ">=", "UINT", "EOF"]`, texts and offsets. They are
lists rather than objects, because the parser looks at kinds only, most of the time. Punctuation and the words `true`,
`false`, `null` and `in` are their own kinds; blanks and comments are left out. Where some of the text is no token,
`tokenize` answers None and diagnosis.py says why.

Follows the lexer rules of cel-go parser/gen/CEL.g4.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

# No user text becomes a pattern here, and no alternative can match a text in two ways, so `re` is safe.
_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"""
_STRING = (
    r'[rR]"{3}[\s\S]*?"{3}|'
    r"[rR]'{3}[\s\S]*?'{3}|"
    rf'"{{3}}(?:{_ESCAPE}|[^\\])*?"{{3}}|'
    rf"'{{3}}(?:{_ESCAPE}|[^\\])*?'{{3}}|"
    r'[rR]"[^"\n\r]*"|'
    r"[rR]'[^'\n\r]*'|"
    rf'"(?:{_ESCAPE}|[^\\"\n\r])*"|'
    rf"'(?:{_ESCAPE}|[^\\'\n\r])*'"
)
_TOKEN: Final = re.compile(
    r"(?P<SKIP>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<BYTES>[bB](?:{_STRING}))"
    rf"|(?P<STRING>{_STRING})"
    r"|(?P<ID>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<UINT>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])"
    r"|(?P<INT>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<ESC>`[A-Za-z0-9_.\-/ ]+`)"
    r"|(?P<OP>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])"
)
_WORDS: Final = frozenset(("true", "false", "null", "in"))


class Tokens(NamedTuple):
    """Three lists of one length; the last token is EOF with the text `<EOF>`."""

    kinds: list[str]
    texts: list[str]
    offsets: list[int]


def tokenize(text: str) -> Tokens | None:
    """The tokens of `text`, or None when some of it is no token."""
    tokens = Tokens([], [], [])
    position = _scan(text, 0, tokens)
    if position < len(text):
        return None
    finish(tokens, len(text))
    return tokens


def scan_on(text: str, position: int, tokens: Tokens) -> int:
    """Appends the tokens from `position` on; the offset of the first character that begins none, or the length."""
    return _scan(text, position, tokens)


def finish(tokens: Tokens, offset: int) -> None:
    tokens.kinds.append("EOF")
    tokens.texts.append("<EOF>")
    tokens.offsets.append(offset)


def _scan(text: str, position: int, tokens: Tokens) -> int:
    kinds, texts, offsets = tokens
    match = _TOKEN.match
    end = len(text)
    while position < end:
        found = match(text, position)
        if found is None:
            return position
        kind = found.lastgroup
        if kind != "SKIP":
            token = found.group()
            if kind == "OP" or (kind == "ID" and token in _WORDS):
                kind = token
            kinds.append(kind or "")
            texts.append(token)
            offsets.append(position)
        position = found.end()
    return end
