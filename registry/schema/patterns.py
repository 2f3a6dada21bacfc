"""Users' regular expressions in Go's syntax and semantics, matched by RE2 in bounded time and memory.

The only module that imports re2. Go's regexp package and RE2 share syntax and semantics (`\\d`, `\\w`, `\\s` and `\\b`
are ASCII, `$` does not match before a final newline, no lookaround, no backreferences).

Memory: compiled expressions are kept in one cache of the process, which charges each with the most memory that RE2 may
use for it, programs and automata included. The least recently used are evicted, and compiled again when needed.

Time: RE2 is linear in the text, but the factor is not small. An ordinary expression costs 1 to 4 ns per byte, whatever
its size. `[ab]*a[ab]{900}c` reaches a new state of the automaton with each byte, and creating a state costs up to 20 ns
per instruction of the program. A call into RE2 cannot be interrupted, so no call exceeds MAX_CALL_WORK, program size
times bytes, until shorter prefixes of the text have shown that the expression is cheap on it. An expression that is not
is rejected: MatchingExceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import thread_time_ns
from typing import Any, Final, TypeAlias

import re2

from registry.budget import Budget
from registry.caches import LruCache

# A program of 8 MB is far beyond what a schema needs; it bounds the memory of a hostile pattern.
MAX_PROGRAM_BYTES: Final = 8 << 20

# All compiled expressions of the process together: some 600 of the usual size.
MAX_CACHE_BYTES: Final = 64 << 20

# Program size times bytes that one call may add to what is known to be cheap: 50 ms at 20 ns, the most expensive case
# known (`\b` within repetitions, in sets).
MAX_CALL_WORK: Final = 2_500_000

# Calls below this take 0.4 ms at worst, nearly all a microsecond: reading the clock would add half as much.
_CHEAP_WORK: Final = 20_000

# The overhead of a call that matches early. Not charged: a text has no more matches than characters.
_FREE_NANOSECONDS: Final = 5_000

# How many results of an expression are kept, for texts of up to so many characters, and the most that one takes.
_KNOWN_TEXTS: Final = 64
_KNOWN_CHARACTERS: Final = 40
_KNOWN_BYTES: Final = 320

# A set of one pattern answers yes or no in 0.9 µs; search() takes 2 to 6 µs, since it creates a match object.
# With larger programs search() is better: it leaves the automaton where that does not pay.
_SET_MAX_INSTRUCTIONS: Final = 2000

# Bounded here, not by the module's own cache of 128 programs, which has no limit in bytes.
_Expression: TypeAlias = Any
_Search = Callable[..., Any]


class PatternError(ValueError):
    """The pattern does not compile; the text is RE2's."""


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A function that returns whether `pattern` matches anywhere in a text; it raises MatchingExceeded.

    Raises PatternError where the pattern is invalid.
    """
    key = (pattern, True)
    find_cached = CACHE.get
    _find_or_make(key, _matcher)

    def matches(text: str) -> bool:
        matcher = find_cached(key) or _find_or_make(key, _matcher)
        known = matcher.known
        result = known.get(text)
        if result is not None:
            return result
        data = text.encode(errors="replace")
        if len(data) * matcher.instructions > _CHEAP_WORK:
            return _search(matcher, data, Budget.current() or Budget()) is not None
        result = bool(matcher.search(data))
        if len(text) <= _KNOWN_CHARACTERS:
            if len(known) >= _KNOWN_TEXTS:
                known.clear()
            known[text] = result
        return result

    return matches


def find_all(pattern: str, text: str) -> Iterator[str]:
    """The matches from left to right as Go finds them: an empty one never directly after another match.

    Raises PatternError, MatchingExceeded.
    """
    matcher = _find_or_make((pattern, False), _finder)
    data = text.encode(errors="replace")
    budget = Budget.current() or Budget()
    position, last_end = 0, -1
    while position <= len(data):
        match = _search(matcher, data, budget, position)
        if match is None:
            return
        start, end = match.span()
        if end > start or start != last_end:
            yield data[start:end].decode(errors="replace")
        last_end = end
        position = end if end > start else _next_character(data, end)


def _next_character(data: bytes, position: int) -> int:
    position += 1
    while position < len(data) and data[position] & 0xC0 == 0x80:
        position += 1
    return position


def program_size(pattern: str) -> int:
    """The number of instructions of the program. Raises PatternError, or UnicodeEncodeError for a surrogate."""
    return int(_compile(pattern, MAX_PROGRAM_BYTES).programsize)


def is_cached(pattern: str, *, matching: bool) -> bool:
    """Whether the compiled pattern is cached, for boolean matching (`matching`) or for finding."""
    return (pattern, matching) in CACHE


# ---- searching


class _Compiled:
    """A compiled expression, and the most bytes that it may use.

    `known` are the results for some short texts: names and the like occur in object after object, and a look-up takes a
    tenth of the search.
    """

    __slots__ = ("byte_size", "instructions", "known", "search")

    def __init__(self, search: _Search, instructions: int, byte_size: int) -> None:
        self.search = search
        self.instructions = instructions
        self.byte_size = byte_size + _KNOWN_TEXTS * _KNOWN_BYTES
        self.known: dict[str, bool] = {}


def _search(compiled: _Compiled, data: bytes, budget: Budget, position: int = 0) -> Any:
    """The match of `compiled` in `data` from `position` on, or None.

    Searches increasing prefixes first where a single call might take too long. What has been searched once is in the
    automaton's cache, if it fits there: then each byte takes a nanosecond or two, and the sum is small.
    """
    search = compiled.search
    work = (len(data) - position) * compiled.instructions
    if work <= _CHEAP_WORK:
        return (search(data, position) if position else search(data)) or None
    budget.spend_on_matching(0)
    step = max(1, MAX_CALL_WORK // compiled.instructions)
    view = memoryview(data)
    for end in range(position + step, len(data), step):
        began = thread_time_ns()
        _ = search(view[:end], position) if position else search(view[:end])
        budget.spend_on_matching(thread_time_ns() - began)
    began = thread_time_ns()
    match = search(data, position) if position else search(data)
    budget.spend_on_matching(max(0, thread_time_ns() - began - _FREE_NANOSECONDS))
    return match or None


# ---- compiling


def _compile(pattern: str, max_bytes: int) -> _Expression:
    options = _options(max_bytes)
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        text = error.args[0] if error.args else ""
        raise PatternError(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)) from error
    finally:
        re2.purge()


def _options(max_bytes: int) -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # groups are not needed, and tracking them takes ten times as long
    options.max_mem = max_bytes
    return options


def _matcher(pattern: str) -> _Compiled:
    expression = _compile(pattern, MAX_PROGRAM_BYTES)
    instructions = expression.programsize
    if instructions > _SET_MAX_INSTRUCTIONS:
        return _found_by_search(pattern, expression)
    # Enough for the twenty states that RE2 requires, and a hundred more of the usual size.
    byte_size = (96 << 10) + 160 * instructions
    try:
        alternatives = re2.Set.SearchSet(_options(byte_size))
        alternatives.Add(pattern)
        alternatives.Compile()
    except re2.error:  # the automaton does not fit; such a set must not be used, since it never matches
        return _found_by_search(pattern, expression)
    return _Compiled(alternatives.Match, instructions, byte_size)


def _finder(pattern: str) -> _Compiled:
    return _found_by_search(pattern, _compile(pattern, MAX_PROGRAM_BYTES))


def _found_by_search(pattern: str, expression: _Expression) -> _Compiled:
    """Compiles with memory for two automata, since RE2 is slow on every text without them."""
    instructions = expression.programsize
    byte_size = min(MAX_PROGRAM_BYTES, (512 << 10) + 512 * instructions)
    try:
        expression = _compile(pattern, byte_size)
    except PatternError:
        byte_size = MAX_PROGRAM_BYTES
    return _Compiled(expression.search, instructions, byte_size)


# ---- cache

_Key = tuple[str, bool]  # a pattern, and whether it is for boolean matching


CACHE: Final[LruCache[_Key, _Compiled]] = LruCache(MAX_CACHE_BYTES, lambda compiled: compiled.byte_size)


def _find_or_make(key: _Key, make: Callable[[str], _Compiled]) -> _Compiled:
    return CACHE.get(key) or CACHE.put(key, make(key[0]))
