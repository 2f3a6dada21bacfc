"""JSON that this server wrote itself: no duplicates to tell of, no errors to word."""

from __future__ import annotations

from typing import Any

import orjson

from registry.codec.json_scan import scan


def decode_stored(text: str) -> dict[str, Any]:
    """The object of a stored text. orjson reads as deep as it writes; deeper ones were written by json_encode."""
    try:
        value: dict[str, Any] = orjson.loads(text)
    except ValueError:
        value = scan(text.encode()).value
    return value
