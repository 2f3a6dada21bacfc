"""Errors of an expression, printed with a picture that shows the position.

Follows cel-go common/error.go and common/errors.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from registry.cel.syntax.ast import Source

NO_OFFSET: Final = -1  # an issue of the whole text
_MAX_ISSUES: Final = 100
_MAX_SNIPPET: Final = 16384  # in bytes; a longer line is not printed


class Issue(NamedTuple):
    """One error; `offset` is in code points, or NO_OFFSET."""

    offset: int
    message: str


def display(source: Source, issues: Iterable[Issue]) -> str:
    """The first hundred issues ordered by offset, joined by line feeds:

    ERROR: <input>:1:6: undefined field 'x'
     | self.x > 1
     | .....^
    """
    all_issues = list(issues)
    ordered = sorted(all_issues[:_MAX_ISSUES], key=lambda issue: issue.offset)
    texts = [_picture(source, issue) for issue in ordered]
    if len(all_issues) > _MAX_ISSUES:
        texts.append(f"{len(all_issues) - _MAX_ISSUES} more errors were truncated")
    return "\n".join(texts)


def _picture(source: Source, issue: Issue) -> str:
    if issue.offset == NO_OFFSET:
        return f"ERROR: <input>:-1:0: {issue.message}"
    line, column = source.location(issue.offset)
    text = f"ERROR: <input>:{line}:{column + 1}: {issue.message}"
    snippet = source.line(line)
    if snippet is None or len(snippet.encode("utf-8", "surrogatepass")) > _MAX_SNIPPET:
        return text
    snippet = snippet.replace("\t", " ")
    dots = "".join("." if c < "\x80" else "．" for c in snippet[:column])
    caret = "＾" if column < len(snippet) and snippet[column] >= "\x80" else "^"
    return f"{text}\n | {snippet}\n | {dots}{caret}"
