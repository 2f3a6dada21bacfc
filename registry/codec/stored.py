"""Decodes JSON that this server has encoded: without duplicates and errors."""

from __future__ import annotations

from typing import Any

import orjson

from registry.codec.json_scan import scan


def decode_stored(text: str) -> dict[str, Any]:
    """The object of a stored text. orjson decodes as deep as it encodes; json_encode wrote anything deeper."""
    try:
        value: dict[str, Any] = orjson.loads(text)
    except ValueError:
        value = scan(text.encode()).value
    return value
