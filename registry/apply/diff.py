"""The difference of two JSON documents, as a merge patch (RFC 7386) or as a JSON patch (RFC 6902).

    merge_diff({"a": 1, "b": 2}, {"a": 1, "c": 3})   {"b": null, "c": 3}
    json_diff({"a": [1, 2]}, {"a": [1]})             [{"op": "remove", "path": "/a/1"}]

A merge patch is short and readable, but replaces lists as a whole and cannot express null; a JSON patch is exact.
Inputs are not changed; results share values with them. Works at any depth: there is no recursion, and each value is
visited a bounded number of times.
"""

from __future__ import annotations

from typing import Any

from registry.schema.model import Json
from registry.schema.values import same

# A list nested in this many lists is replaced as a whole: comparing each level again would take quadratic time.
_MOST_LISTS = 32


def merge_diff(old: dict[str, Json], new: dict[str, Json]) -> dict[str, Json]:
    """The merge patch from `old` to `new`; empty where they are equal."""
    result: dict[str, Json] = {}
    inner_patches: list[tuple[dict[str, Any], str]] = []
    stack: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [(old, new, result)]
    while stack:
        before, after, patch = stack.pop()
        for name, value in after.items():
            known = before.get(name, _ABSENT)
            if type(known) is dict and type(value) is dict:
                inner: dict[str, Json] = {}
                patch[name] = inner
                inner_patches.append((patch, name))
                stack.append((known, value, inner))
            elif known is _ABSENT or not same(known, value):
                patch[name] = value
        for name in before:
            if name not in after:
                patch[name] = None
    # Outer objects precede inner ones, so in reverse order: empty patches are removed.
    for patch, name in reversed(inner_patches):
        if not patch[name]:
            del patch[name]
    return result


def json_diff(old: Json, new: Json) -> list[dict[str, Json]]:
    """The JSON patch from `old` to `new`; its operations are ordered."""
    operations: list[dict[str, Json]] = []
    stack: list[tuple[str, int, Json, Json]] = [("", 0, old, new)]
    while stack:
        path, lists, before, after = stack.pop()
        if type(before) is dict and type(after) is dict:
            _members(path, lists, before, after, operations, stack)
        elif type(before) is list and type(after) is list and lists < _MOST_LISTS:
            _elements(path, lists + 1, before, after, operations, stack)
        elif not same(before, after):
            operations.append({"op": "replace", "path": path, "value": after})
    return operations


_ABSENT: Any = object()
_Work = list[tuple[str, int, Json, Json]]


def _members(
    path: str,
    lists: int,
    before: dict[str, Json],
    after: dict[str, Json],
    operations: list[dict[str, Json]],
    stack: _Work,
) -> None:
    for name in before:
        if name not in after:
            operations.append({"op": "remove", "path": _below(path, name)})
    for name, value in after.items():
        if name not in before:
            operations.append({"op": "add", "path": _below(path, name), "value": value})
        else:
            stack.append((_below(path, name), lists, before[name], value))


def _elements(
    path: str, lists: int, before: list[Json], after: list[Json], operations: list[dict[str, Json]], stack: _Work
) -> None:
    """Keeps the common prefix and suffix; between them elements are changed, then added or removed."""
    shorter = min(len(before), len(after))
    start = 0
    while start < shorter and same(before[start], after[start]):
        start += 1
    end = 0
    while end < shorter - start and same(before[-1 - end], after[-1 - end]):
        end += 1
    common = shorter - end
    for position in range(len(before) - end - 1, common - 1, -1):
        operations.append({"op": "remove", "path": f"{path}/{position}"})
    for position in range(common, len(after) - end):
        operations.append({"op": "add", "path": f"{path}/{position}", "value": after[position]})
    # The operations above do not shift these positions, which precede them.
    for position in range(start, common):
        stack.append((f"{path}/{position}", lists, before[position], after[position]))


def _below(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
