"""Regular expressions: find, findAll, and the compiler of patterns that `matches` shares.

Expressions are RE2's, so that matching takes time linear in the text.

Follows apiserver pkg/cel/library/regex.go and Go's regexp/syntax.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import re2

from registry.cel.libraries.table import member, search
from registry.cel.values import EvalError, Value, no_such_overload
from registry.schema.patterns import compile_pattern
from registry.schema.regexp_errors import MAX_PATTERN_LENGTH, regexp_error

# Patterns may come out of objects, many for one rule. Compiling one takes time and memory up to this limit, which the
# cost of a call knows nothing of: `((a{100}){100})` is as short as it is large. Go takes larger ones.
_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 512 << 10
_MAX_KEPT: Final = 64


def matcher(pattern: str) -> Callable[[str], bool]:
    """For a pattern that is written in an expression: whether it is found in a text. Raises EvalError in Go's words."""
    error = regexp_error(pattern)
    if error is not None:
        raise EvalError(error)
    return compile_pattern(pattern)


@lru_cache(maxsize=_MAX_KEPT)
def finder(pattern: str) -> Any:
    """Any pattern, compiled. Raises EvalError in Go's words."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise EvalError(f"error parsing regexp: expression too large: it has more than {MAX_PATTERN_LENGTH} characters")
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        text = error.args[0] if error.args else b""
        if b"too large" in text:
            raise EvalError(f"error parsing regexp: expression too large: `{pattern}`") from None
        raise EvalError(regexp_error(pattern) or "error parsing regexp") from None


def _finder(pattern: str) -> Any:
    try:
        return finder(pattern)
    except EvalError as error:
        raise EvalError(f"Illegal regex: {error}") from None


@member("find", 2, cost=search)
def find(text: Value, pattern: Value) -> str:
    """The first match, or an empty string."""
    if type(text) is not str or type(pattern) is not str:
        raise no_such_overload()
    match = _finder(pattern).search(text)
    return str(match.group()) if match else ""


@member("findAll", 2, 3, cost=search)
def find_all(text: Value, pattern: Value, limit: Value = -1) -> list[str]:
    """The matches from left to right, `limit` at most unless it is negative; an empty one never after another."""
    if type(text) is not str or type(pattern) is not str or type(limit) is not int:
        raise no_such_overload()
    expression = _finder(pattern)
    found: list[str] = []
    position, last_end = 0, -1
    while position <= len(text) and (limit < 0 or len(found) < limit):
        match = expression.search(text, position)
        if match is None:
            break
        start, end = match.span()
        if end > start or start != last_end:
            found.append(text[start:end])
        last_end = end
        position = end if end > start else end + 1
    return found
