"""Findings made small: fewer requests before the one that fails, then less in it.

A candidate is kept when the same finding, by its sign, comes up again in a new tenant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.calls import Call
from tests.fuzz.trees import at, paths_of, with_node, without

Fails = Callable[[list[Call]], bool]


def minimised(calls: list[Call], fails: Fails, tries: int = 250) -> list[Call] | None:
    """None when it does not come up again."""
    left = [tries]

    def test(candidate: list[Call]) -> bool:
        left[0] -= 1
        return left[0] > 0 and fails(candidate)

    if test(calls[-1:]):
        found = calls[-1:]
    elif test(calls):
        found = _fewer(calls, test)
    else:
        return None
    for place in range(len(found) - 1, -1, -1):
        found = _smaller(found, place, test)
    return found


def _fewer(calls: list[Call], test: Fails) -> list[Call]:
    """Halves, then quarters and so on are left out; the last request stays."""
    size = len(calls) // 2
    while size:
        start = 0
        while start < len(calls) - 1:
            candidate = calls[:start] + calls[min(start + size, len(calls) - 1) :]
            if len(candidate) < len(calls) and test(candidate):
                calls = candidate
            else:
                start += size
        size //= 2
    return calls


def _smaller(calls: list[Call], place: int, test: Fails) -> list[Call]:
    progress = True
    while progress:
        progress = False
        for candidate in _reductions(calls[place]):
            tried = [*calls[:place], candidate, *calls[place + 1 :]]
            if test(tried):
                calls, progress = tried, True
                break
    return calls


def _reductions(call: Call) -> Iterator[Call]:
    """Requests with less in them, the boldest first."""
    for i in range(len(call.query)):
        yield replace(call, query=call.query[:i] + call.query[i + 1 :])
    for i, (name, _) in enumerate(call.headers):
        if name != "content-type":
            yield replace(call, headers=call.headers[:i] + call.headers[i + 1 :])
    if call.raw is not None:
        try:
            yield replace(call, raw=None, body=json.loads(call.raw))
        except (ValueError, RecursionError):
            pass
        size = len(call.raw)
        for part in (2, 4, 8):
            for start in range(0, size, max(1, size // part)):
                yield replace(call, raw=call.raw[:start] + call.raw[start + max(1, size // part) :])
        return
    paths = sorted(paths_of(call.body, 2000)[1:], key=len)
    for path in paths:
        yield replace(call, body=without(call.body, path))
    for path in paths:
        node = at(call.body, path)
        if isinstance(node, str) and len(node) > 20:
            yield replace(call, body=with_node(call.body, path, node[: len(node) // 2]))
