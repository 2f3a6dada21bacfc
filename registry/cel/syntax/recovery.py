"""Reading a broken text as ANTLR's runtime does: what does not fit is left out, thought up or skipped, and reported.

A Reader has the tokens, what may follow each rule that is being read, and the state of the recovery. The rules of the
grammar are in diagnosis.py: generators that yield the rules they need together with what may follow them; `Reader.run`
drives them, so nesting needs no stack of Python's. An error that a rule catches is `Reader.recover`'s.

Follows antlr4 v4.13 error_strategy.go, and the limits that cel-go parser/parser.go sets it at v0.26.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final, TypeAlias

from registry.cel.syntax.errors import NO_OFFSET, Issue
from registry.cel.syntax.lexer import Tokens, finish, scan_on

_MAX_DEPTH: Final = 250  # of each rule
_MAX_REPORTS: Final = 100  # errorReportingLimit
_MAX_RECOVERIES: Final = 30  # errorRecoveryLimit
_MAX_SKIPPED: Final = 256  # errorRecoveryTokenLookaheadLimit


# --- tokens that do not exist

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"""
_PARTIAL = r"(?:\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?)?"
# How far a token could go on from its first character until nothing fits any more.
_BEGUN: Final = re.compile(
    rf"'(?:{_ESCAPE}|[^\\'\n\r])*{_PARTIAL}" rf'|"(?:{_ESCAPE}|[^\\"\n\r])*{_PARTIAL}' r"|`[A-Za-z0-9_.\-/ ]*|[=&|]"
)


def _tokens(text: str) -> tuple[Tokens, list[tuple[int, int]]]:
    """The tokens of `text`, and the spans that are left out because they are none."""
    tokens = Tokens([], [], [])
    skipped = []
    position = scan_on(text, 0, tokens)
    while position < len(text):
        begun = _BEGUN.match(text, position)
        end = min((begun.end() if begun else position) + 1, len(text))
        skipped.append((position, end))
        position = scan_on(text, end, tokens)
    finish(tokens, len(text))
    return tokens, skipped


# --- sets of tokens, in the order of their numbers in the grammar

_ORDER: Final = (
    "EOF",
    "==",
    "!=",
    "in",
    "<",
    "<=",
    ">=",
    ">",
    "&&",
    "||",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ".",
    ",",
    "-",
    "!",
    "?",
    ":",
    "+",
    "*",
    "/",
    "%",
    "true",
    "false",
    "null",
    "FLOAT",
    "INT",
    "UINT",
    "STRING",
    "BYTES",
    "ID",
    "ESC",
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


# --- reading and mending


class GiveUp(Exception):
    """The reference stops reading here; what there is to say has been said."""


class Mismatch(Exception):
    """The token does not fit; `expected` is what would, where `state` of the rule is."""

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
    """The tokens, the place, and the state of the recovery.

    `follows` has, for each rule that is being read, what may come after it in the rule that asked for it. `recovering`
    is true from an error to the next token that fits; nothing is reported meanwhile.
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
        """Reads a rule and all that it asks for. An exception that a rule does not catch ends the reading."""
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
        """Reports what was no token before the current one; the reference finds it just then."""
        here = self.offsets[self.position]
        while self.reported_skips < len(self.skipped) and self.skipped[self.reported_skips][0] < here:
            start, end = self.skipped[self.reported_skips]
            self.reported_skips += 1
            self.report(Issue(start, f"Syntax error: token recognition error at: '{self.text[start:end]}'"))

    def complain(self, message: str, position: int | None = None) -> None:
        offset = self.offsets[self.position if position is None else position]
        self.report(Issue(offset, f"Syntax error: {message}"))

    def stop(self, message: str) -> GiveUp:
        """An error of the whole text that ends the reading."""
        self.issues.append(Issue(NO_OFFSET, message))
        return GiveUp()

    def enter(self, rule: str, levels: int = 1) -> None:
        depth = self.depths[rule] = self.depths.get(rule, 0) + levels
        if depth > _MAX_DEPTH:
            raise self.stop(f"expression recursion limit exceeded: {_MAX_DEPTH}")

    def leave(self, rule: str, levels: int = 1) -> None:
        self.depths[rule] -= levels

    def expected_kinds(self, here: Kinds) -> Kinds:
        """`here`, and where the rule can end, what may follow it."""
        found = here - ONLY_END
        level = len(self.follows) - 1
        while END in here and level >= 0:
            here = self.follows[level]
            found |= here - ONLY_END
            level -= 1
        return found | kinds("EOF") if END in here else found

    def consume(self) -> None:
        if self.kind != "EOF":
            self.position += 1
            if self.skipped:
                self.report_skipped()

    def match(self, kind: str, after: Kinds, state: str) -> None:
        """Reads a token. If it is not there, perhaps the one too many can go, or the one missing can be thought up;
        `after` is what may come behind it."""
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
        """Checks that the rule can go on, before it decides how."""
        if self.recovering or self.kind in here or END in here:
            return
        if not self.delete_token(here):
            raise Mismatch(state, here)

    def sync_loop(self, here: Kinds) -> None:
        """The same at the end of a round of a loop: skips until it, or something around it, can go on."""
        if self.recovering or self.kind in here:
            return
        self.report_unwanted(here)
        self.skip_to(self.expected_kinds(here) | self.recovery_set(), None)

    def delete_token(self, here: Kinds) -> bool:
        """Leaves out the current token if the next one fits."""
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
        """Reports a fault, and goes on to where some rule that is being read can be continued."""
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
        """The text from one token to another, without what is no token."""
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
