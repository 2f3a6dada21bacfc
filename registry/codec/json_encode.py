"""Encodes plain values as compact JSON, keys in the given order.

A whole float below 1e21 is written as an integer (`1.0` as `1`), as Go does: a stored 1.0 is decoded as the integer 1.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

from registry.codec.go_text import whole_number
from registry.codec.json_pieces import decode_utf8
from registry.codec.sorting import sorted_keys

# Where a whole float may have been written, below 1e16 and from there on. Each begins with a literal, for which `re`
# looks twenty times as fast as for an alternative of both.
_WHOLE_FLOAT = re.compile(rb"\.0(?:[,}\]]|\Z)")
_LARGE_FLOAT = re.compile(rb"e\+(?:1[6-9]|20)(?:[,}\]]|\Z)")
# json.dumps would create an encoder for each call.
_encode = json.JSONEncoder(ensure_ascii=False).encode
# What is encoded at once: some three milliseconds.
MEMBERS_AT_ONCE: Final = 20_000
_CONTAINERS = (dict, list)
_LOOP_THREAD: Final = threading.main_thread().ident
_POINT = ord(".")
_PLUS = ord("+")


def encode_json(value: Any) -> bytes:
    """`{"a": [1.0, "é"]}` gives `{"a":[1,"é"]}` in UTF-8. The value must be of decode_json's types."""
    try:
        data = _dumps(value)
    except TypeError:  # more than 254 levels
        return "".join(_pieces(value)).encode()
    if _may_have_whole_float(data):
        value = _with_integers(value)
        try:
            return _dumps(value)
        except TypeError:  # an integer beyond 64 bits
            return "".join(_pieces(value)).encode()
    return data


def encode_json_text(value: Any) -> str:
    return decode_utf8(encode_json(value))


def encode_canonical(value: Any) -> str:
    """With keys sorted by their bytes, as Go writes maps: equal objects have equal texts."""
    try:
        data = _dumps(value, orjson.OPT_SORT_KEYS)
        if _may_have_whole_float(data):
            data = _dumps(_with_integers(value), orjson.OPT_SORT_KEYS)
    except TypeError:  # more than 254 levels, or an integer beyond 64 bits
        return encode_json_text(value)
    return decode_utf8(data)


def _dumps(value: Any, option: int = 0) -> bytes:
    """As orjson.dumps, which holds the interpreter's lock to its end: 30 ms for 150,000 keys. What is large is encoded
    beside the event loop, in another thread, and there in pieces, so that the loop runs in between."""
    if threading.get_ident() == _LOOP_THREAD or count_members(value, MEMBERS_AT_ONCE) < MEMBERS_AT_ONCE:
        return orjson.dumps(value, option=option)
    return dumps_in_pieces(value, option, MEMBERS_AT_ONCE)


def dumps_in_pieces(value: Any, option: int, at_once: int, levels: int = 200) -> bytes:
    """As orjson.dumps, which is given no more than about `at_once` members at a time, except below 200 levels."""
    if not levels or count_members(value, at_once) < at_once:
        return orjson.dumps(value, option=option)
    is_object = isinstance(value, dict)
    keys: Iterable[Any] = range(len(value))
    if is_object:
        keys = sorted_keys(value) if option & orjson.OPT_SORT_KEYS else value
    pieces: list[bytes] = []
    gathered: dict[Any, Any] = {}
    count = 0

    def encode_gathered() -> None:
        nonlocal count
        if gathered:
            part = gathered if is_object else list(gathered.values())
            pieces.append(orjson.dumps(part, option=option)[1:-1])
            gathered.clear()
            count = 0

    for key in keys:
        member = value[key]
        weight = 1 + count_members(member, at_once) if member and member.__class__ in _CONTAINERS else 1
        if count + weight > at_once:
            encode_gathered()
        if weight <= at_once:
            gathered[key] = member
            count += weight
        else:
            text = dumps_in_pieces(member, option, at_once, levels - 1)
            pieces.append(orjson.dumps(key) + b":" + text if is_object else text)
    encode_gathered()
    return b",".join(pieces).join((b"{", b"}") if is_object else (b"[", b"]"))


def count_members(value: Any, limit: int) -> int:
    """How many members the objects and lists in `value` have, or `limit` if there are more."""
    count = 0
    containers = [value] if isinstance(value, dict | list) else []
    while containers:
        container = containers.pop()
        count += len(container)
        if count >= limit:
            return limit
        members = container.values() if isinstance(container, dict) else container
        containers += [member for member in members if member.__class__ in _CONTAINERS and member]
    return count


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
