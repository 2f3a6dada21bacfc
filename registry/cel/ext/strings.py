"""The strings extension, version 2: charAt, indexOf, join, replace, split, substring and others.

Positions count code points. `format` is in formatting.py.

Follows cel-go ext/strings.go.
"""

from __future__ import annotations

import math

from registry.budget import spend
from registry.cel.common.values import (
    INT_MAX,
    EvalError,
    ListValue,
    Value,
    elements,
    is_equal,
    no_such_overload,
    size_of,
)
from registry.cel.ext.table import (
    STRING_FACTOR,
    Cost,
    elements_of,
    function,
    list_traversal,
    member,
    mismatch,
    traversal,
)
from registry.codec.go_text import GO_ESCAPES

CHARACTERS = 10  # characters of a text that can be built in the time of comparing one element

# The blanks of strings.TrimSpace: Unicode's White_Space property.
_BLANKS = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


@member("charAt", 2, of=(str, int))
def char_at(text: str, position: int) -> str:
    """One character; the empty string at the end."""
    _check_position(position, len(text))
    return text[position : position + 1]


def _check_position(position: int, length: int) -> None:
    if not 0 <= position <= length:
        raise EvalError(f"index out of range: {position}")


@member("indexOf", 2, 3, cost=list_traversal)
def index_of(value: Value, part: Value, offset: Value = 0) -> int:
    """The position of `part` in a text, or of an element in a list; -1 if absent."""
    if type(value) is list or isinstance(value, ListValue):
        spend(len(value))
        return next((i for i, item in enumerate(elements(value)) if is_equal(item, part)), -1)
    if type(value) is not str or type(part) is not str or type(offset) is not int:
        raise mismatch("indexOf", value, part)
    if part == "":
        return offset  # as it is, even if it is out of range
    if offset < 0:
        raise EvalError(f"index out of range: {offset}")
    _count_search(value, part)
    return value.find(part, offset)


def _count_search(text: str, part: str) -> None:
    """Charges for Python's search, which compares `part` at each position in short texts, and in long ones if short."""
    length = len(text)
    spend(length * min(len(part), length if length < 2500 else 100 if length < 30_000 else 10) // 1000)


@member("lastIndexOf", 2, 3, cost=list_traversal)
def last_index_of(value: Value, part: Value, offset: Value = None) -> int:
    """The position of the last occurrence of `part` not after `offset`; -1 if absent."""
    if type(value) is list or isinstance(value, ListValue):
        items = elements(value)
        spend(len(items))
        return next((i for i in range(len(items) - 1, -1, -1) if is_equal(items[i], part)), -1)
    if type(value) is not str or type(part) is not str:
        raise mismatch("lastIndexOf", value, part)
    if offset is None:
        return _last(value, part)
    if type(offset) is not int:
        raise no_such_overload()
    if part == "":
        return offset
    if offset < 0:
        raise EvalError(f"index out of range: {offset}")
    if offset >= len(value):
        return -1
    return _last(value[: offset + len(part)], part)


def _last(text: str, part: str) -> int:
    """`text.rfind(part)` by a search in the reversed text: rfind takes the product of both lengths, find is linear."""
    _count_search(text, part)
    position = text[::-1].find(part[::-1])
    return -1 if position < 0 else len(text) - position - len(part)


@member("lowerAscii", 1, of=(str,), cost=traversal())
def lower_ascii(text: str) -> str:
    return text.translate(_LOWER)


@member("upperAscii", 1, of=(str,), cost=traversal())
def upper_ascii(text: str) -> str:
    return text.translate(_UPPER)


@member("replace", 3, 4, cost=traversal(2))
def replace(text: Value, old: Value, new: Value, count: Value = -1) -> str:
    """If `old` is empty, `new` is inserted before each character and at the end."""
    if type(text) is not str or type(old) is not str or type(new) is not str or type(count) is not int:
        raise mismatch("replace", text, old, new)
    if count < 0 or count > INT_MAX:
        count = -1
    _count_search(text, old)
    count_all = text.count(old)
    spend(count_all * len(new) // CHARACTERS if count < 0 else min(count_all, count) * len(new) // CHARACTERS)
    return text.replace(old, new, count)


@member("split", 2, 3, cost=traversal(2))
def split(text: Value, separator: Value, count: Value = -1) -> list[str]:
    """An empty separator splits into characters; `count` limits the number of parts, 0 gives none."""
    if type(text) is not str or type(separator) is not str or type(count) is not int:
        raise mismatch("split", text, separator)
    if count == 0:
        return []
    if separator:
        _count_search(text, separator)
        return text.split(separator, count - 1 if 0 < count <= len(text) + 1 else -1)
    if 0 < count < len(text):
        return [*text[: count - 1], text[count - 1 :]]
    return list(text)


@member("substring", 2, 3, cost=traversal())
def substring(text: Value, start: Value, end: Value = None) -> str:
    if type(text) is not str or type(start) is not int:
        raise mismatch("substring", text, start)
    if end is None:
        _check_position(start, len(text))
        return text[start:]
    if type(end) is not int:
        raise no_such_overload()
    if start > end:
        raise EvalError(f"invalid substring range. start: {start}, end: {end}")
    _check_position(start, len(text))
    _check_position(end, len(text))
    return text[start:end]


@member("trim", 1, of=(str,), cost=traversal())
def trim_space(text: str) -> str:
    """strings.TrimSpace"""
    return text.strip(_BLANKS)


def _join_cost(arguments: tuple[Value, ...], result: Value) -> int:
    return math.ceil(size_of(result) * 2 * STRING_FACTOR)


@member("join", 1, 2, cost=_join_cost)
def join(parts: Value, *separators: Value) -> str:
    items, separator = elements_of("join", parts, *separators), separators[0] if separators else ""
    if type(separator) is not str:
        raise no_such_overload()
    for item in items:
        if type(item) is not str:
            raise EvalError(f"join: invalid input: {item}")
    spend((sum(map(len, items)) + len(separator) * len(items)) // CHARACTERS)
    return separator.join(items)


_QUOTED = str.maketrans({**GO_ESCAPES, '"': '\\"'})
_quote_cost: Cost = traversal()


@function("strings.quote", 1, of=(str,), cost=_quote_cost)
def quote(text: str) -> str:
    """The text as a CEL literal in double quotes."""
    return f'"{text.translate(_QUOTED)}"'
