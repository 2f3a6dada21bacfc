"""The lexer of CEL.

`tokenize("a >= 1u")` returns three parallel lists: kinds `["ID", ">=", "UINT", "EOF"]`, texts and offsets. They are
lists rather than objects, because the parser mostly reads kinds only. Punctuation and the words `true`, `false`, `null`
and `in` are kinds of their own; blanks and comments are omitted. If part of the text is not a token, `tokenize` returns
None and diagnosis.py reports the error.

Follows the lexer rules of cel-go parser/gen/CEL.g4.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

# No user text becomes part of a pattern, and no text matches an alternative in two ways, so `re` is safe here.
ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"""
_STRING = (
    r'[rR]"{3}[\s\S]*?"{3}|'
    r"[rR]'{3}[\s\S]*?'{3}|"
    rf'"{{3}}(?:{ESCAPE}|[^\\])*?"{{3}}|'
    rf"'{{3}}(?:{ESCAPE}|[^\\])*?'{{3}}|"
    r'[rR]"[^"\n\r]*"|'
    r"[rR]'[^'\n\r]*'|"
    rf'"(?:{ESCAPE}|[^\\"\n\r])*"|'
    rf"'(?:{ESCAPE}|[^\\'\n\r])*'"
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


class TokenStream(NamedTuple):
    """Three lists of the same length; the last token is EOF with the text `<EOF>`."""

    kinds: list[str]
    texts: list[str]
    offsets: list[int]


def tokenize(text: str) -> TokenStream | None:
    """The tokens of `text`, or None if part of it is not a token."""
    tokens = TokenStream([], [], [])
    position = scan_on(text, 0, tokens)
    if position < len(text):
        return None
    finish(tokens, len(text))
    return tokens


def finish(tokens: TokenStream, offset: int) -> None:
    tokens.kinds.append("EOF")
    tokens.texts.append("<EOF>")
    tokens.offsets.append(offset)


def scan_on(text: str, position: int, tokens: TokenStream) -> int:
    """Appends the tokens from `position` on; returns the offset of the first character that starts none, or the end."""
    kinds, texts, offsets = tokens
    match = _TOKEN.match
    end = len(text)
    while position < end:
        lexeme = match(text, position)
        if lexeme is None:
            return position
        kind = lexeme.lastgroup
        if kind != "SKIP":
            token = lexeme.group()
            if kind == "OP" or (kind == "ID" and token in _WORDS):
                kind = token
            kinds.append(kind or "")
            texts.append(token)
            offsets.append(position)
        position = lexeme.end()
    return end
