"""Parses an invalid text as ANTLR's runtime does: deletes unexpected tokens, inserts missing ones, reports both.

A Reader has the tokens, the follow sets of the active rules, and the state of the recovery. The rules of the grammar
are in diagnosis.py: generators that yield the rules they invoke together with their follow sets; `Reader.run` drives
them, so nesting takes none of Python's stack. A rule that catches an error calls `Reader.recover`.

Follows antlr4 v4.13 error_strategy.go, and the limits that cel-go parser/parser.go sets at v0.26.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final, TypeAlias

from registry.cel.syntax.errors import NO_OFFSET, Issue
from registry.cel.syntax.lexer import ESCAPE, TokenStream, finish, scan_on

_MAX_DEPTH: Final = 250  # of each rule
_MAX_REPORTS: Final = 100  # errorReportingLimit
_MAX_RECOVERIES: Final = 30  # errorRecoveryLimit
_MAX_SKIPPED: Final = 256  # errorRecoveryTokenLookaheadLimit


# --- text that is not a token

_PARTIAL = r"(?:\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?)?"
# The longest prefix of a token from its first character on.
_BEGUN: Final = re.compile(
    rf"'(?:{ESCAPE}|[^\\'\n\r])*{_PARTIAL}" rf'|"(?:{ESCAPE}|[^\\"\n\r])*{_PARTIAL}' r"|`[A-Za-z0-9_.\-/ ]*|[=&|]"
)


def _tokens(text: str) -> tuple[TokenStream, list[tuple[int, int]]]:
    """The tokens of `text`, and the spans skipped because they are not tokens."""
    tokens = TokenStream([], [], [])
    skipped = []
    position = scan_on(text, 0, tokens)
    while position < len(text):
        match = _BEGUN.match(text, position)
        end = min((match.end() if match else position) + 1, len(text))
        skipped.append((position, end))
        position = scan_on(text, end, tokens)
    finish(tokens, len(text))
    return tokens, skipped


# --- sets of tokens, in the order of their numbers in the grammar

_ORDER: Final = tuple(
    """
    EOF == != in < <= >= > && || [ ] { } ( ) . , - ! ? : + * / % true false null FLOAT INT UINT STRING BYTES ID
    ESC
    """.split()
)
_NAMES: Final = {
    "EOF": "<EOF>",
    "FLOAT": "NUM_FLOAT",
    "INT": "NUM_INT",
    "UINT": "NUM_UINT",
    "STRING": "STRING",
    "BYTES": "BYTES",
    "ID": "IDENTIFIER",
    "ESC": "ESC_IDENTIFIER",
}
END: Final = "end of the rule"  # ANTLR's epsilon

Kinds: TypeAlias = frozenset[str]


def kinds(*listed: str) -> Kinds:
    return frozenset(listed)


ONLY_END: Final = kinds(END)


def _token_names(expected: Kinds) -> str:
    names = [_NAMES.get(kind, f"'{kind}'") for kind in _ORDER if kind in expected]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


def _quote(text: str) -> str:
    return "'" + text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r") + "'"


# --- parsing and recovery


class GiveUp(Exception):
    """Parsing stops here, as in cel-go; all issues have been reported."""


class Mismatch(Exception):
    """The token does not match; `expected` is the set of tokens that would, in `state` of the rule."""

    def __init__(self, state: str, expected: Kinds) -> None:
        self.state = state
        self.expected_kinds = expected


class NoAlternative(Exception):
    """No alternative of a rule begins with the tokens from `start` to `end`."""

    def __init__(self, state: str, start: int, end: int) -> None:
        self.state = state
        self.start = start
        self.end = end


Rule: TypeAlias = "Generator[tuple[Rule, Kinds], None, None]"


class Reader:
    """The tokens, the position, and the state of the recovery.

    `follows` has the follow set of each active rule, as given by the rule that invoked it. `recovering` is True from an
    error to the next token that matches; no errors are reported in between.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.issues: list[Issue] = []
        self.reports = 0
        (self.kinds, self.texts, self.offsets), self.skipped = _tokens(text)
        self.reported_skips = 0
        self.position = 0
        self.follows: list[Kinds] = []
        self.depths: dict[str, int] = {}
        self.recovering = False
        self.recoveries = 0
        self.failed_at = -1
        self.failed_states: set[str] = set()

    @property
    def kind(self) -> str:
        return self.kinds[self.position]

    def ahead(self, count: int) -> str:
        return self.kinds[min(self.position + count, len(self.kinds) - 1)]

    def run(self, start: Rule) -> None:
        """Runs a rule and all rules that it invokes. An exception that a rule does not catch ends the parsing."""
        self.report_skipped()
        stack = [start]
        while stack:
            try:
                rule, follow = next(stack[-1])
            except StopIteration:
                stack.pop()
                if self.follows:
                    self.follows.pop()
                continue
            self.follows.append(follow)
            stack.append(rule)

    def report(self, issue: Issue) -> None:
        if self.reports == _MAX_REPORTS:
            self.issues.append(Issue(issue.offset, f"Syntax error: More than {_MAX_REPORTS} syntax errors"))
            raise GiveUp
        self.reports += 1
        self.issues.append(issue)

    def report_skipped(self) -> None:
        """Reports skipped text before the current token, which is where ANTLR's lexer finds it."""
        here = self.offsets[self.position]
        while self.reported_skips < len(self.skipped) and self.skipped[self.reported_skips][0] < here:
            start, end = self.skipped[self.reported_skips]
            self.reported_skips += 1
            self.report(Issue(start, f"Syntax error: token recognition error at: '{self.text[start:end]}'"))

    def complain(self, message: str, position: int | None = None) -> None:
        offset = self.offsets[self.position if position is None else position]
        self.report(Issue(offset, f"Syntax error: {message}"))

    def stop(self, message: str) -> GiveUp:
        """Adds an error of the whole text, and returns the exception that ends the parsing."""
        self.issues.append(Issue(NO_OFFSET, message))
        return GiveUp()

    def enter(self, rule: str, levels: int = 1) -> None:
        depth = self.depths[rule] = self.depths.get(rule, 0) + levels
        if depth > _MAX_DEPTH:
            raise self.stop(f"expression recursion limit exceeded: {_MAX_DEPTH}")

    def leave(self, rule: str, levels: int = 1) -> None:
        self.depths[rule] -= levels

    def expected_kinds(self, here: Kinds) -> Kinds:
        """`here`, and if the rule can end there, the tokens that may follow it."""
        expected = here - ONLY_END
        level = len(self.follows) - 1
        while END in here and level >= 0:
            here = self.follows[level]
            expected |= here - ONLY_END
            level -= 1
        return expected | kinds("EOF") if END in here else expected

    def consume(self) -> None:
        if self.kind != "EOF":
            self.position += 1
            if self.skipped:
                self.report_skipped()

    def match(self, kind: str, after: Kinds, state: str) -> None:
        """Consumes a token of this kind. On another token, deletes or inserts a single token if that helps; `after` are
        the kinds that may follow. Raises Mismatch."""
        if self.kind == kind:
            self.report_match()
            self.consume()
            return
        self.count_recovery()
        wanted = kinds(kind)
        if self.delete_token(wanted):
            self.consume()
            return
        if self.kind in self.expected_kinds(after):
            if not self.recovering:
                self.recovering = True
                self.complain(f"missing {_token_names(wanted)} at {self.current()}")
            return
        raise Mismatch(state, wanted)

    def report_match(self) -> None:
        self.recovering = False
        self.failed_states = set()
        self.failed_at = -1

    def sync(self, here: Kinds, state: str) -> None:
        """Checks that the rule can continue with this token, before an alternative is chosen."""
        if self.recovering or self.kind in here or END in here:
            return
        if not self.delete_token(here):
            raise Mismatch(state, here)

    def sync_loop(self, here: Kinds) -> None:
        """The same at the end of a loop's round: skips to a token where the loop or an enclosing rule can continue."""
        if self.recovering or self.kind in here:
            return
        self.report_unwanted(here)
        self.skip_to(self.expected_kinds(here) | self.recovery_set(), None)

    def delete_token(self, here: Kinds) -> bool:
        """Deletes the current token if the next one is expected."""
        if self.ahead(1) not in self.expected_kinds(here):
            return False
        self.report_unwanted(here)
        self.consume()
        self.report_match()
        return True

    def report_unwanted(self, here: Kinds) -> None:
        if not self.recovering:
            self.recovering = True
            self.complain(f"extraneous input {self.current()} expecting {_token_names(self.expected_kinds(here))}")

    def current(self) -> str:
        return _quote(self.texts[self.position])

    def recover(self, fault: Mismatch | NoAlternative) -> None:
        """Reports an error and skips to a token at which some active rule can continue."""
        if not self.recovering:
            self.recovering = True
            if isinstance(fault, Mismatch):
                self.complain(
                    f"mismatched input {self.current()} expecting "
                    f"{_token_names(self.expected_kinds(fault.expected_kinds))}"
                )
            else:
                self.complain(self.no_alternative(fault), fault.end)
        self.count_recovery()
        skipped = [0]
        if self.failed_at == self.position and fault.state in self.failed_states:
            self.skip(skipped)
        self.failed_at = self.position
        self.failed_states.add(fault.state)
        self.skip_to(self.recovery_set(), skipped)

    def no_alternative(self, fault: NoAlternative) -> str:
        text = self.between(fault.start, fault.end)
        if len(text) > 1 and text[1:] in ("true", "false", "null") and text[0] != "\n":
            return f"mismatched input '{text[1:]}' expecting IDENTIFIER"
        return f"no viable alternative at input {_quote(text)}"

    def between(self, start: int, end: int) -> str:
        """The text from one token to another, without skipped text."""
        if self.kinds[start] == "EOF":
            return "<EOF>"
        stop = self.offsets[end] + (0 if self.kinds[end] == "EOF" else len(self.texts[end]))
        pieces, position = [], self.offsets[start]
        for bad_start, bad_end in self.skipped:
            if position <= bad_start < stop:
                pieces.append(self.text[position:bad_start])
                position = bad_end
        pieces.append(self.text[position:stop])
        return "".join(pieces)

    def count_recovery(self) -> None:
        if self.recoveries == _MAX_RECOVERIES:
            self.complain(f"error recovery attempt limit exceeded: {_MAX_RECOVERIES}")
            raise GiveUp
        self.recoveries += 1

    def recovery_set(self) -> Kinds:
        return frozenset().union(*set(self.follows)) - ONLY_END

    def skip_to(self, until: Kinds, skipped: list[int] | None) -> None:
        while self.kind != "EOF" and self.kind not in until:
            self.skip(skipped)

    def skip(self, skipped: list[int] | None) -> None:
        if skipped is not None:
            if skipped[0] >= _MAX_SKIPPED:
                raise self.stop(f"error recovery token lookahead limit exceeded: {_MAX_SKIPPED}")
            skipped[0] += 1
        self.consume()
