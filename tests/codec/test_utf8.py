"""Long texts are decoded in pieces, with the same result as at once."""

from __future__ import annotations

import json
import random

import pytest

from registry.codec.json_decode import decode_json
from registry.codec.json_pieces import decode_utf8
from registry.codec.model import JsonSyntaxError

PIECE = 1 << 16


@pytest.mark.parametrize("unit", ["a", "é", "漢", "😀"])
@pytest.mark.parametrize("shift", range(5))
def test_characters_at_the_end_of_a_piece_are_whole(unit: str, shift: int) -> None:
    text = "x" * shift + "é" + unit * PIECE
    assert decode_utf8(text.encode()) == text


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"\xe6", b"\xf0\x9f"])
def test_bytes_that_are_not_utf8_are_kept_as_at_once(bad: bytes, shift: int) -> None:
    data = b"x" * shift + bad * PIECE + b"\xe6\xbc"
    assert decode_utf8(data, "surrogateescape") == data.decode("utf-8", "surrogateescape")


def test_strict_errors_are_raised() -> None:
    with pytest.raises(UnicodeDecodeError):
        decode_utf8(b"\xc3\xa9" * PIECE + b"\xc3")


@pytest.mark.parametrize("seed", range(20))
def test_escapes_at_the_end_of_a_piece_of_the_scanner_are_whole(seed: int) -> None:
    """The exact scanner, which the duplicate key leaves the body to, matches long strings in pieces."""
    chosen = random.Random(seed)
    text = json.dumps("".join(chosen.choice('ab\x01"\\é😀') for _ in range(20_000)))
    decoded = decode_json(f'{{"a": 1, "a": {text}}}'.encode())
    assert decoded.value == {"a": json.loads(text)}
    with pytest.raises(JsonSyntaxError, match=r"invalid character '\\x02' in string"):
        decode_json(f'{{"a": 1, "a": {text[:-1]}\x02"}}'.encode())
