"""Counts the values of a JSON text before it is decoded, and the characters of a value before it is encoded.

Decoding takes memory and time by the number of values: `[[],[],[]]` takes 3 bytes a list as text and 60 in Python. A
value may contain another one many times at no cost, while its text has as many copies.
"""

from __future__ import annotations

import re
from typing import Any, Final

from registry.budget import spend

# A string to its end or the end of the text; possessive, so that there is no backtracking.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_OPENING = (b"[", b"{")
_MARKS = (b",", b":", *_OPENING)
# What a value costs in JSON, whatever it is, in elements of an evaluation; each character of a text costs one. With the
# budget of an evaluation of CEL: 250,000 values or 10 MB.
VALUE_UNITS: Final = 40
# What an object or a list counts for, so that few of them are allowed, which take little in a text.
_CONTAINER_CHARACTERS: Final = 16


def has_more_values(data: bytes, limit: int) -> bool:
    """Whether `data` has more than `limit` values and keys: `{"a": [1, "b,c"]}` has 5, including its object and list.

    Exact for JSON, except that an empty object or list counts as two; other bytes (YAML in block style) may have more.
    """
    return _has_more(data, _MARKS, limit - 1)


def has_more_containers(data: bytes, limit: int) -> bool:
    """Whether `data`, which is JSON, has more than `limit` objects and lists: `{"a": [1, "b,c"]}` has 2."""
    return _has_more(data, _OPENING, limit)


def has_more_keys(data: bytes, limit: int) -> bool:
    """Whether the objects of `data`, which is JSON, have more than `limit` keys together."""
    return _has_more(data, (b":",), limit)


def _has_more(data: bytes, marks: tuple[bytes, ...], limit: int) -> bool:
    """Whether there are more than `limit` of `marks` outside of strings. Other threads run between two strings."""
    if len(data) <= limit:
        return False
    if sum(data.count(mark) for mark in marks) <= limit:
        return False
    count = start = 0
    for match in _STRING.finditer(data):
        if match.start() > start + 1 or data[start : start + 1] in marks:
            count += sum(data.count(mark, start, match.start()) for mark in marks)
            if count > limit:
                return True
        start = match.end()
    return count + sum(data.count(mark, start) for mark in marks) > limit


def is_longer(value: Any, limit: int) -> bool:
    """Whether the JSON of `value` has more than `limit` characters, if each object and list has 16.

    Quotes, escapes and the digits of numbers are not counted.
    """
    parts = [value]
    while parts and limit >= 0:
        part = parts.pop()
        kind = type(part)
        if kind is str:
            limit -= len(part)
        elif kind is dict:
            limit -= _CONTAINER_CHARACTERS + sum(map(len, part)) + 2 * len(part)
            parts += part.values()
        elif kind is list:
            limit -= _CONTAINER_CHARACTERS + len(part)
            parts += part
        else:
            limit -= 1
    return limit < 0


def charge_json(value: Any) -> None:
    """Charges the JSON of `value` to the budget, as often as it contains each part. Raises BudgetExceeded."""
    parts = [value]
    while parts:
        part = parts.pop()
        kind = type(part)
        spend(VALUE_UNITS + len(part) if kind is str else VALUE_UNITS)
        if kind is dict:
            spend(sum(map(len, part)))
            parts += part.values()
        elif kind is list:
            parts += part
