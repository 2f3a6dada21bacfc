"""Whether a write changes anything.

A write that changes nothing is not stored: no revision, no event. Python's `==` takes True for 1 and 1.0 for 1, so
equal objects are compared once more by their text; that is only paid where nothing seems to have changed.
"""

from __future__ import annotations

from typing import Any

from registry.codec.json_encode import encode_json_text


def equal(new: dict[str, Any], old: dict[str, Any]) -> bool:
    return new == old and _text(new) == _text(old)


def _text(value: object) -> str:
    return encode_json_text(_canonical(value))


def _canonical(value: object) -> object:
    """With keys in order and whole floats as integers, which is how both are served."""
    if isinstance(value, dict):
        return {k: _canonical(value[k]) for k in sorted(value)}
    if isinstance(value, list):
        return [_canonical(v) for v in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value
