"""Decodes JSON that this server has encoded: without duplicates and errors."""

from __future__ import annotations

import json
from typing import Any, Final

from registry.codec.json_pieces import PIECE_BYTES, loads
from registry.codec.json_scan import scan

# Stops at the end of a value.
_first_value: Final = json.JSONDecoder().raw_decode


def decode_metadata(body: str) -> dict[str, Any]:
    """The metadata of the body of an object: {"name": "a"} of `"name":"a"},"spec":{}}`. The rest, which may be
    megabytes, is not decoded."""
    try:
        # A longer one is decoded in pieces.
        value: dict[str, Any] = _first_value("{" + body[: 4 * PIECE_BYTES])[0]
    except (ValueError, RecursionError):
        value = decode_stored('{"metadata":{' + body)["metadata"]
    return value


def decode_stored(text: str) -> dict[str, Any]:
    """The object of a stored text. orjson decodes as deep as it encodes; json_encode wrote anything deeper."""
    try:
        value: dict[str, Any] = loads(text)
    except ValueError:
        value = scan(text.encode()).value
    return value
