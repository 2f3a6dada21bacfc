"""Errors of regular expressions, with the texts of Go's regexp package.

RE2 and Go's regexp/syntax have the same author: they reject the same patterns and quote the same part of the pattern,
in different words. The exceptions are handled here: RE2 accepts `\\C`, counts beyond an int and any nesting, and has
another error for lookbehind.

Follows Go's src/regexp/syntax/parse.go.
"""

from __future__ import annotations

import re

from registry.codec.text_cache import cache_short
from registry.schema.patterns import PatternError, program_size

# A pattern is matched against each value of a field; the longest of the real definitions at hand has 221 letters.
MAX_PATTERN_LENGTH = 10_000

# Go's maxHeight.
MAX_NESTING = 1000

# The beginnings of RE2's error texts, and Go's texts for them.
_WORDS = {
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class range": "invalid character class range",
    "invalid character class": "invalid character class",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid UTF-8": "invalid UTF-8",
    "invalid named capture group": "invalid named capture",
}

_REPEAT = re.compile(r"\{(\d+)(?:,(\d*))?\}")


class Patterns:
    """The patterns of one schema, with a budget: a pattern of ten characters can take 70 ms and megabytes to compile.

    All patterns of the largest real definitions have some 30,000 instructions; 100,000 take about 20 ms.
    """

    MAX_INSTRUCTIONS = 2_000_000

    def __init__(self) -> None:
        self._instructions = 0

    def error(self, pattern: str) -> str | None:
        """Go's error for an invalid pattern: ``error parsing regexp: missing closing ]: `[a` ``.

        None for a valid pattern. Once the budget is spent, nothing more is compiled.
        """
        if len(pattern) > MAX_PATTERN_LENGTH:
            return f"error parsing regexp: expression too large: it has more than {MAX_PATTERN_LENGTH} characters"
        if self._instructions > self.MAX_INSTRUCTIONS:
            return "error parsing regexp: expression too large: all patterns of the schema together are"
        error, instructions = _compile(pattern)
        self._instructions += instructions
        return error


def regexp_error(pattern: str) -> str | None:
    """The same for a single pattern."""
    return Patterns().error(pattern)


# The charge for a pattern that exceeds its memory limit, and for each class such as `\pL`, which takes 0.16 ms to parse
# by itself.
_TOO_LARGE = 350_000
_UNICODE_CLASS = 1_000


# Longer patterns are rare, and not cached: a few thousand of them, with the errors that quote them, are megabytes.
@cache_short(500, 4096)
def _compile(pattern: str) -> tuple[str | None, int]:
    """The error, and the size of the program."""
    classes = _UNICODE_CLASS * (pattern.count("\\p") + pattern.count("\\P"))
    try:
        return _scan(pattern), program_size(pattern) + classes
    except PatternError as error:
        text = str(error)
        return _translate(pattern, text), classes + (_TOO_LARGE if text.startswith("pattern too large") else 0)
    except UnicodeEncodeError:  # a lone surrogate
        return _error("invalid UTF-8", pattern), 0


def _translate(pattern: str, text: str) -> str:
    if text.startswith("pattern too large"):
        return _error("expression too large", pattern)
    words, _, part = text.partition(": ")
    if part in ("(?<=", "(?<!"):
        # Go parses every `(?<` as the beginning of a named group.
        begin = pattern.index(part)
        end = pattern.find(">", begin)
        return _error("invalid named capture", pattern[begin : end + 1] if end >= 0 else pattern[begin:])
    if words == "unexpected )":
        part = pattern
    return _error(_WORDS.get(words, words), part)


def _error(words: str, part: str) -> str:
    return f"error parsing regexp: {words}: `{part}`"


def _scan(pattern: str) -> str | None:
    """What Go rejects and RE2 accepts, outside of character classes and quoted text."""
    position, depth, end = 0, 0, len(pattern)
    while position < end:
        character = pattern[position]
        if character == "\\":
            following = pattern[position + 1 : position + 2]
            if following == "C":
                return _error("invalid escape sequence", "\\C")
            if following == "Q":
                stop = pattern.find("\\E", position + 2)
                position = end if stop < 0 else stop + 2
                continue
            position += 2
            continue
        if character == "[":
            position = _class_end(pattern, position)
            continue
        if character == "(":
            depth += 1
            if depth > MAX_NESTING:
                return _error("expression nests too deeply", pattern)
        elif character == ")":
            depth -= 1
        elif character == "{":
            repeat = _REPEAT.match(pattern, position)
            if (
                repeat
                and any(len(n) < 2 or n[0] != "0" for n in repeat.groups() if n)
                and any(len(n) > 8 for n in repeat.groups() if n)
            ):
                return _error("invalid repeat count", repeat[0])
        position += 1
    return None


def _class_end(pattern: str, begin: int) -> int:
    position = begin + 1
    if pattern[position : position + 1] == "^":
        position += 1
    if pattern[position : position + 1] == "]":
        position += 1
    while position < len(pattern) and pattern[position] != "]":
        if pattern[position] == "\\":
            position += 1
        elif pattern.startswith("[:", position) and ":]" in pattern[position:]:
            position = pattern.index(":]", position) + 1
        position += 1
    return position + 1
