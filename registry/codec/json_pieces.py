"""Decodes large JSON and long texts in pieces, between which other threads run.

    decode_in_pieces(b'{"a": [1, 2, 3]}', orjson.loads)    # {"a": [1, 2, 3]}

A decoder in C holds the interpreter's lock to its end: an object of 150,000 keys takes it 30 ms, in which the event
loop waits although the work is done beside it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from registry.codec.model import Repeated

# A piece takes a decoder a millisecond or two, as does text that is not ASCII. Only a long string makes a longer one.
PIECE_BYTES: Final = 64 << 10
# A text with fewer values is decoded at once, in about five milliseconds.
_FEW_VALUES: Final = 20_000
# orjson's limit.
_MAX_DEPTH: Final = 1024

# What is matched at once: strings, other text between brackets, and containers that hold only these or such containers.
# Possessive, so that nothing is matched twice, and of limited number, since matching holds the lock, too.
_SCALARS = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^"\[\]{}]{1,1000}+'
_FLAT = rb"[\[{](?:" + _SCALARS + rb"){0,40}+[\]}]"
_TOKEN = rb"(?:" + _SCALARS + rb"|" + _FLAT + rb"|[\[{](?:" + _SCALARS + rb"|" + _FLAT + rb"){0,40}+[\]}])"
_TOKENS = re.compile(_TOKEN + rb"{0,100}+", re.DOTALL)
_ONE_TOKEN = re.compile(_TOKEN + rb"?+", re.DOTALL)
# Limited, too: it is looked for again and again in a long text without one.
_NEXT_COMMA = re.compile(rb'[^"\[\]{},]{0,1000}+,')
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BLANKS = b" \t\r\n"
_LIST, _OBJECT = (b"[", b"]"), (b"{", b"}")
_PLACE = b"null"

Decode = Callable[[bytes], Any]


def decode_in_pieces(data: bytes, decode: Decode, keeps_repeated: bool = False) -> Any:
    """`decode(data)`, in pieces if that would take long. Raises ValueError, as `decode` does, for what is not JSON and,
    unless `keeps_repeated`, for an object in several pieces that has a key twice; else this is a Repeated."""
    if len(data) < 4 * PIECE_BYTES or data.count(b",") < _FEW_VALUES:
        return decode(data)
    return divide(data, decode, keeps_repeated, PIECE_BYTES)


def loads(text: str) -> Any:
    """What orjson.loads gives. Raises ValueError."""
    return orjson.loads(text) if len(text) < 4 * PIECE_BYTES else decode_in_pieces(text.encode(), orjson.loads)


def divide(data: bytes, decode: Decode, keeps_repeated: bool, piece_bytes: int) -> Any:
    """Decodes containers of more than `piece_bytes` by cutting them at some of their commas.

    The text is accepted exactly if it is JSON: each byte is read by `decode`, in a piece that has the brackets of its
    container, except the commas and brackets between pieces, which are checked here.
    """
    position = len(data) - len(data.lstrip(_BLANKS))
    if data[position : position + 1] not in (b"{", b"["):
        return decode(data)
    above: list[_Container] = []
    current = _Container(data, position, decode, keeps_repeated)
    position += 1
    while True:
        is_long = position - current.start >= piece_bytes
        if is_long and (comma := _NEXT_COMMA.match(data, position)):
            current.cut(comma.end() - 1)
            position = comma.end()
            continue
        tokens = (_ONE_TOKEN if is_long else _TOKENS).match(data, position)
        assert tokens is not None
        if tokens.end() > position:
            position = tokens.end()
        elif data[position : position + 1] in (b"{", b"["):
            if len(above) == _MAX_DEPTH:
                raise ValueError("too deep")
            above.append(current)
            current = _Container(data, position, decode, keeps_repeated)
            position += 1
        elif data[position : position + 1] in (b"}", b"]"):
            position += 1
            if not above:
                if data[position:].strip(_BLANKS):
                    raise ValueError("there is something after the value")
                return current.end(position)
            ended, current = current, above.pop()
            if ended.is_cut or position - ended.opened >= piece_bytes:
                current.insert(ended.opened, ended.end(position), position)
        else:
            raise ValueError("unexpected end")


class _Container:
    """An object or list that is being read. `start` is where the text begins that has not been decoded."""

    def __init__(self, data: bytes, opened: int, decode: Decode, keeps_repeated: bool) -> None:
        self.opened = opened
        self.start = opened + 1
        self._data = data
        self._decode = decode
        self._keeps_repeated = keeps_repeated
        self._brackets = _OBJECT if data.startswith(b"{", opened) else _LIST
        self._pieces: list[Any] = []
        self._follows_value = False

    @property
    def is_cut(self) -> bool:
        return bool(self._pieces)

    def cut(self, comma: int) -> None:
        """Decodes what is before the comma."""
        if (text := self._text(comma)) is not None:
            self._add(text)
        self.start, self._follows_value = comma + 1, False

    def insert(self, opened: int, value: Any, end: int) -> None:
        """Puts in the value of the container from `opened` to `end`, and decodes what is before it."""
        if (text := self._text(opened)) is None:
            raise ValueError("there is no comma between two values")
        piece = self._add(text + _PLACE)
        if isinstance(piece, list):
            piece[-1] = value
        else:
            *_, key_text = _STRING.findall(text)
            key = self._decode(key_text.join(_LIST))[0]
            piece[key] = value
            if isinstance(piece, Repeated):
                piece.pairs[-1] = key, value
        self.start, self._follows_value = end, True

    def end(self, end: int) -> Any:
        """The value of the container, whose closing bracket is before `end`."""
        if self._data[end - 1 : end] != self._brackets[1]:
            raise ValueError("the brackets differ")
        if not self._pieces:
            return self._decode(self._data[self.opened : end])
        if (text := self._text(end - 1)) is not None:
            self._add(text)
        return self._joined()

    def _text(self, end: int) -> bytes | None:
        """What has not been decoded before `end`, without the comma after an inserted value; None if nothing follows
        that value."""
        text = self._data[self.start : end].strip(_BLANKS)
        if not self._follows_value:
            return text
        if not text:
            return None
        if not text.startswith(b","):
            raise ValueError("there is no comma after a value")
        return text[1:]

    def _add(self, text: bytes) -> Any:
        piece = self._decode(text.join(self._brackets))
        if not piece:
            raise ValueError("there is nothing beside a comma")
        self._pieces.append(piece)
        return piece

    def _joined(self) -> Any:
        joined = self._joined_list() if isinstance(self._pieces[0], list) else self._joined_object()
        while self._pieces:  # one after the other: all at once would take long, too
            self._pieces.pop()
        return joined

    def _joined_list(self) -> list[Any]:
        return [item for piece in self._pieces for item in piece]

    def _joined_object(self) -> dict[str, Any]:
        value: dict[str, Any] = {}
        count = 0
        for piece in self._pieces:
            value.update(piece)
            count += len(piece.pairs if isinstance(piece, Repeated) else piece)
        if count == len(value):
            return value
        if not self._keeps_repeated:
            raise ValueError("a key is given twice")
        pieces = (piece.pairs if isinstance(piece, Repeated) else piece.items() for piece in self._pieces)
        return Repeated([pair for pairs in pieces for pair in pairs])


def decode_utf8(data: bytes, errors: str = "strict") -> str:
    """The same as `data.decode("utf-8", errors)`, in pieces."""
    if len(data) <= PIECE_BYTES or data.isascii():
        return data.decode("utf-8", errors)
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    pieces = [decoder.decode(data[at : at + PIECE_BYTES]) for at in range(0, len(data), PIECE_BYTES)]
    return "".join([*pieces, decoder.decode(b"", final=True)])
