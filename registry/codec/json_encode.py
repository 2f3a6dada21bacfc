"""Encodes plain values as compact JSON, keys in the given order.

A whole float below 1e21 is written as an integer (`1.0` as `1`), as Go does: a stored 1.0 is decoded as the integer 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

from registry.codec.go_text import whole_number
from registry.codec.utf8 import decode_utf8

# Where a whole float may have been written, below 1e16 and from there on. Each begins with a literal, for which `re`
# looks twenty times as fast as for an alternative of both.
_WHOLE_FLOAT = re.compile(rb"\.0(?:[,}\]]|\Z)")
_LARGE_FLOAT = re.compile(rb"e\+(?:1[6-9]|20)(?:[,}\]]|\Z)")
# json.dumps would create an encoder for each call.
_encode = json.JSONEncoder(ensure_ascii=False).encode
_POINT = ord(".")
_PLUS = ord("+")


def encode_json(value: Any) -> bytes:
    """`{"a": [1.0, "é"]}` gives `{"a":[1,"é"]}` in UTF-8. The value must be of decode_json's types."""
    try:
        data = orjson.dumps(value)
    except TypeError:  # more than 254 levels
        return "".join(_pieces(value)).encode()
    if _may_have_whole_float(data):
        value = _with_integers(value)
        try:
            return orjson.dumps(value)
        except TypeError:  # an integer beyond 64 bits
            return "".join(_pieces(value)).encode()
    return data


def encode_json_in_parts(value: Any, levels: int = 3) -> bytes:
    """As `encode_json`, for documents of megabytes: an entry of the outer three levels at a time, so that other threads
    run in between. Keys must be strings."""
    if not levels or not isinstance(value, dict):
        return encode_json(value)
    entries = (encode_json(key) + b":" + encode_json_in_parts(one, levels - 1) for key, one in value.items())
    return b"{" + b",".join(entries) + b"}"


def encode_json_text(value: Any) -> str:
    return decode_utf8(encode_json(value))


def encode_canonical(value: Any) -> str:
    """With keys sorted by their bytes, as Go writes maps: equal objects have equal texts."""
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        if _may_have_whole_float(data):
            data = orjson.dumps(_with_integers(value), option=orjson.OPT_SORT_KEYS)
    except TypeError:  # more than 254 levels, or an integer beyond 64 bits
        return encode_json_text(value)
    return decode_utf8(data)


def _may_have_whole_float(data: bytes) -> bool:
    """Whether a whole float below 1e21 may have been written. A string may look like one, so this is only a hint."""
    # Single bytes first, which most texts lack.
    if _POINT in data and _WHOLE_FLOAT.search(data) is not None:
        return True
    return _PLUS in data and _LARGE_FLOAT.search(data) is not None


def _with_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    return _integer_if_whole(value) if isinstance(value, float) else value


def _integer_if_whole(value: float) -> int | float:
    return whole_number(value) if value.is_integer() and abs(value) < 1e21 else value


def _pieces(value: Any) -> Iterator[str]:
    """Encodes a value of any depth without recursion, on a stack of open containers."""
    stack: list[tuple[Iterator[Any], str]] = [(iter((("", value),)), "")]
    while stack:
        members, closing = stack[-1]
        for prefix, member in members:
            yield prefix
            if isinstance(member, dict) and member:
                yield "{"
                stack.append((_object_members(member), "}"))
                break
            if isinstance(member, list) and member:
                yield "["
                stack.append((_array_members(member), "]"))
                break
            yield _scalar(member)
        else:
            stack.pop()
            yield closing


def _object_members(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    separator = ""
    for key, member in value.items():
        yield f"{separator}{_encode(key)}:", member
        separator = ","


def _array_members(value: list[Any]) -> Iterator[tuple[str, Any]]:
    separator = ""
    for member in value:
        yield separator, member
        separator = ","


def _scalar(value: Any) -> str:
    if isinstance(value, float):
        value = _integer_if_whole(value)
    return _encode(value)
