"""Base64 as Go's encoding/base64 accepts it, with the offsets of its errors (CorruptInputError).

    decode("YQ==")       # b"a"
    decode("YQ")         # Base64Error: illegal base64 data at input byte 0

Follows decodeQuantum of encoding/base64.
"""

from __future__ import annotations

import base64
import re

_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_ALPHABET, _ALPHABET_URL = _LETTERS + b"+/", _LETTERS + b"-_"
_PLACE = re.compile(rb"[^A-Za-z0-9+/\r\n]")
_PLACE_URL = re.compile(rb"[^A-Za-z0-9_\-\r\n]")
_NEWLINES = b"\r\n"


class Base64Error(ValueError):
    """`str()` is the message of Go."""


def decode(text: str, *, url: bool = False, padded: bool = True) -> bytes:
    """Decodes the standard or the URL-safe alphabet; line breaks are ignored. Raises Base64Error."""
    data = text.encode("utf-8", "replace")
    digits = data.translate(None, _NEWLINES)
    if not _is_valid(digits, url=url, padded=padded):
        place = _corrupt_at(data, url=url, padded=padded)
        if place is not None:
            raise Base64Error(f"illegal base64 data at input byte {place}")
    return base64.b64decode(digits + b"=" * (-len(digits) % 4), b"-_" if url else None)


def _is_valid(digits: bytes, *, url: bool, padded: bool) -> bool:
    """Returns True only if there is no error, in a tenth of the time that the search for its place takes."""
    unpadded = digits.rstrip(b"=")
    if unpadded.translate(None, _ALPHABET_URL if url else _ALPHABET):
        return False
    padding = len(digits) - len(unpadded)
    return padding < 3 and len(digits) % 4 == 0 if padded else not padding and len(digits) % 4 != 1


def _corrupt_at(data: bytes, *, url: bool, padded: bool) -> int | None:
    """Returns the offset of Go's error; None if there is none."""
    invalid = (_PLACE_URL if url else _PLACE).search(data)
    place = len(data) if invalid is None else invalid.start()
    # The characters of the unfinished group of four before it.
    in_quantum = (place - data.count(b"\r", 0, place) - data.count(b"\n", 0, place)) % 4
    if invalid is None:
        return place - in_quantum if in_quantum and (padded or in_quantum == 1) else None
    if not padded or data[place : place + 1] != b"=" or in_quantum < 2:
        return place
    place += 1
    if in_quantum == 2:
        place = _after_newlines(data, place)
        if place == len(data):
            return place
        if data[place : place + 1] != b"=":
            return place - 1
        place += 1
    place = _after_newlines(data, place)
    return place if place < len(data) else None


def _after_newlines(data: bytes, place: int) -> int:
    while place < len(data) and data[place] in _NEWLINES:
        place += 1
    return place
