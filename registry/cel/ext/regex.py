"""Regular expressions: matches, find and findAll.

Expressions are RE2's, so that matching takes time linear in the text; what is dearer than the costs of CEL can tell
is refused as if the costs did.

Follows apiserver pkg/cel/library/regex.go and Go's regexp/syntax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from registry.budget import spend
from registry.cel.common.values import EvalError, Value, no_such_overload
from registry.cel.ext.table import function, member, search
from registry.schema.patterns import compile_pattern, find_all, is_kept, program_size
from registry.schema.regexp_errors import regexp_error

# Patterns may come out of objects, many for one rule. The cost of a call knows nothing of compiling them, and
# `((a{100}){100})` is as short as it is large. Refusing one that is too large takes as long as this.
_TOO_LARGE: Final = 350_000

# Finding one of many matches takes some 4 µs.
_MATCH: Final = 20


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a pattern that is written in an expression is found in a text. Raises EvalError in Go's words."""
    error = regexp_error(pattern)
    if error is not None:
        raise EvalError(error)
    return compile_pattern(pattern)


def _prepare(pattern: str, *, matching: bool) -> None:
    """Counts the work of compiling a pattern, unless it is done. Raises EvalError in Go's words."""
    if is_kept(pattern, matching=matching):
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
    """Whether `pattern`, an expression of RE2, is found anywhere in `text`."""
    if type(text) is not str or type(pattern) is not str:
        raise no_such_overload("matches")
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
    """The matches from left to right, `limit` at most unless it is negative; an empty one never after another."""
    if type(text) is not str or type(pattern) is not str or type(limit) is not int:
        raise no_such_overload()
    return list(islice(_iter_matches(text, pattern), limit if 0 <= limit < len(text) + 1 else None))
