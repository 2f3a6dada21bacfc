"""Decodes long texts in pieces: other threads, the event loop among them, run between these."""

from __future__ import annotations

import codecs
from typing import Final

# What is not ASCII takes C code a millisecond for this much, and several if it is not UTF-8.
_PIECE_BYTES: Final = 1 << 16


def decode_utf8(data: bytes, errors: str = "strict") -> str:
    """The same as `data.decode("utf-8", errors)`."""
    if len(data) <= _PIECE_BYTES or data.isascii():
        return data.decode("utf-8", errors)
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    pieces = [decoder.decode(data[at : at + _PIECE_BYTES]) for at in range(0, len(data), _PIECE_BYTES)]
    return "".join([*pieces, decoder.decode(b"", final=True)])
