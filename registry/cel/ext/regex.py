"""Regular expressions: matches, find and findAll.

Expressions are RE2's, so matching takes time linear in the text. Work that CEL's costs do not reflect is charged to the
budget, and rejected as if it exceeded the cost limit.

Follows apiserver pkg/cel/library/regex.go and Go's regexp/syntax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from registry.budget import spend
from registry.cel.common.values import EvalError, Value, no_such_overload
from registry.cel.ext.table import function, member, search
from registry.schema.patterns import compile_pattern, find_all, is_cached, program_size
from registry.schema.regexp_errors import regexp_error

# Patterns may be values of the object, many for one rule. The cost of a call does not include compiling them, and
# `((a{100}){100})` is short but large. This is charged for rejecting a pattern that is too large.
_TOO_LARGE: Final = 350_000

# Returning one of many matches takes some 4 µs.
_MATCH: Final = 20


def matcher(pattern: str) -> Callable[[str], bool]:
    """A function that returns whether a constant pattern matches in a text. Raises EvalError with Go's text."""
    error = regexp_error(pattern)
    if error is not None:
        raise EvalError(error)
    return compile_pattern(pattern)


def _prepare(pattern: str, *, matching: bool) -> None:
    """Charges the work of compiling a pattern, unless it is cached. Raises EvalError with Go's text."""
    if is_cached(pattern, matching=matching):
        return
    error = regexp_error(pattern)
    if error is not None:
        if "expression too large" in error:
            spend(_TOO_LARGE)
        raise EvalError(error)
    spend(program_size(pattern))


@member("matches", 2, cost=search)
@function("matches", 2)
def matches(text: Value, pattern: Value) -> bool:
    """Whether `pattern`, in RE2's syntax, matches anywhere in `text`."""
    if type(text) is not str or type(pattern) is not str:
        raise no_such_overload()
    _prepare(pattern, matching=True)
    return compile_pattern(pattern)(text)


def _iter_matches(text: str, pattern: str) -> Iterator[str]:
    try:
        _prepare(pattern, matching=False)
    except EvalError as error:
        raise EvalError(f"Illegal regex: {error}") from None
    for match in find_all(pattern, text):
        spend(_MATCH)
        yield match


@member("find", 2, cost=search)
def find(text: Value, pattern: Value) -> str:
    """The first match, or an empty string."""
    if type(text) is not str or type(pattern) is not str:
        raise no_such_overload()
    return next(_iter_matches(text, pattern), "")


@member("findAll", 2, 3, cost=search)
def find_all_matches(text: Value, pattern: Value, limit: Value = -1) -> list[str]:
    """The matches from left to right, at most `limit` unless negative; an empty one never directly after another."""
    if type(text) is not str or type(pattern) is not str or type(limit) is not int:
        raise no_such_overload()
    return list(islice(_iter_matches(text, pattern), limit if 0 <= limit < len(text) + 1 else None))
