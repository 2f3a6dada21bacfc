"""Decoded JSON as values: strict equality and copying, for any depth of nesting.

Comparing is charged to the request's budget: one value may be compared to very many.

Python treats `1`, `1.0` and `True` as equal; Go's reflect.DeepEqual, by which Kubernetes compares objects, does not.
Objects may be nested 10,000 deep (below x-kubernetes-preserve-unknown-fields), so nothing here recurses.
"""

from __future__ import annotations

from typing import Any

from registry.budget import spend
from registry.codec.sorting import sorted_keys

Json = Any


def same(a: Json, b: Json) -> bool:
    """Whether two values are deeply equal, types included: `same(1, 1.0)` and `same(0, False)` are false."""
    pending = [(a, b)]
    while pending:
        left, right = pending.pop()
        if left is right:
            continue
        kind = left.__class__
        if kind is not right.__class__:
            return False
        if kind is dict:
            if len(left) != len(right):
                return False
            spend(len(left))
            for key, value in left.items():
                if key not in right:
                    return False
                pending.append((value, right[key]))
        elif kind is list:
            if len(left) != len(right):
                return False
            spend(len(left))
            pending.extend(zip(left, right, strict=True))
        elif left != right:
            return False
    return True


def deep_copy(value: Json) -> Json:
    """A copy of `value` that shares no dict and no list with it."""
    if value.__class__ is not dict and value.__class__ is not list:
        return value
    root: Json = value.copy()
    pending = [root]
    while pending:
        holder = pending.pop()
        entries = holder.items() if holder.__class__ is dict else enumerate(holder)
        for key, inner in entries:
            if inner.__class__ is dict or inner.__class__ is list:
                holder[key] = inner = inner.copy()  # replaces a value, so the iteration stays valid
                pending.append(inner)
    return root


def json_type(value: Json) -> str:
    """The type of a value as messages name it: `"integer"` for 1, `"number"` for 1.0."""
    return _TYPE_NAMES[value.__class__]


_TYPE_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def with_sorted_keys(value: Json) -> Json:
    """A copy of `value` in which the keys of each object are sorted, as encoding/json writes a map."""
    root = [value]
    pending: list[Json] = [root]
    while pending:
        holder = pending.pop()
        for key, inner in holder.items() if holder.__class__ is dict else enumerate(holder):
            if inner.__class__ is dict:
                holder[key] = inner = {name: inner[name] for name in sorted_keys(inner)}
            elif inner.__class__ is list:
                holder[key] = inner = inner.copy()
            else:
                continue
            pending.append(inner)
    return root[0]
