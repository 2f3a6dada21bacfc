"""Compiles one expression of a rule, from its text to a checked tree with its cost.

`compile_expression("self.replicas > 0", declared, RULE)` parses the text, checks the types with `self` and `oldSelf` of
the declared type, checks literals, and estimates the cost. `error` has kube-apiserver's text.

Follows compileRule of apiextensions-apiserver pkg/apiserver/schema/cel/compilation.go at v0.36.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from registry.cel.checker.checked import Checked
from registry.cel.checker.checker import check
from registry.cel.checker.cost import estimate
from registry.cel.checker.schema_types import ROOT_NAME, Declared
from registry.cel.common import types
from registry.cel.common.types import Type
from registry.cel.interpreter.constants import program_error
from registry.cel.rules.literals import literal_issues
from registry.cel.syntax import ast
from registry.cel.syntax.errors import NO_OFFSET, Issue, display
from registry.cel.syntax.parser import Parsed, parse

SELF: Final = "self"
OLD_SELF: Final = "oldSelf"

_MAX_CACHED_TEXT: Final = 2000  # longer texts are rare, and would fill the memory


@dataclass(frozen=True, slots=True, eq=False)
class RuleExpression:
    """An expression; `error` is "" if it compiles, and only then is `cost` meaningful.

    `cost` is the most that one evaluation costs, 2**64-1 if unbounded.
    """

    text: str
    declared: Declared
    checked: Checked
    error: str
    cost: int = 0
    uses_old_self: bool = False

    @property
    def size(self) -> int:
        """The work of compiling: the number of nodes of the tree, or an estimate from the text."""
        return max(self.checked.parsed.size, len(self.text) // 2)


class ExpressionKind(NamedTuple):
    """The use of an expression: the type it must have, and the prefixes of its errors."""

    type: Type
    wrong_type: str
    compilation: str
    program: str


RULE: Final = ExpressionKind(
    types.BOOL, "cel expression must evaluate to a bool", "compilation failed", "program instantiation failed"
)
MESSAGE: Final = ExpressionKind(
    types.STRING,
    "messageExpression must evaluate to a string",
    "messageExpression compilation failed",
    "messageExpression instantiation failed",
)


def compile_expression(
    text: str, declared: Declared, kind: ExpressionKind, *, optional_old_self: bool = False
) -> RuleExpression:
    """Compiles the text of a rule or messageExpression at a schema node with the declared type."""
    parsed = parse_rule(text)
    try:
        return _compile(parsed, declared, kind, optional_old_self)
    except RecursionError:  # The tree is within bounds, but the caller has used up most of Python's stack.
        issue = Issue(NO_OFFSET, "max recursion depth exceeded")
        error = f"{kind.compilation}: {display(parsed.source, (issue,))}"
        return RuleExpression(text, declared, Checked(parsed, (issue,), {}, {}, {}), error)


def _compile(parsed: Parsed, declared: Declared, kind: ExpressionKind, optional_old_self: bool) -> RuleExpression:
    text = parsed.source.text
    old = types.optional_of(declared.type) if optional_old_self else declared.type
    checked = check(parsed, {SELF: declared.type, OLD_SELF: old})
    issues = checked.issues or literal_issues(checked)
    if issues:
        if declared.name != ROOT_NAME:  # kube-apiserver names types from the node of the rule.
            issues = [Issue(issue.offset, issue.message.replace(declared.name, ROOT_NAME)) for issue in issues]
        pictures = display(checked.parsed.source, issues)
        return RuleExpression(text, declared, checked, f"{kind.compilation}: {pictures}")
    if checked.result is not kind.type:
        return RuleExpression(text, declared, checked, kind.wrong_type)
    uses_old_self = _uses(checked, OLD_SELF)
    fault = program_error(checked)
    if fault is not None:
        return RuleExpression(text, declared, checked, f"{kind.program}: {fault}", uses_old_self=uses_old_self)
    return RuleExpression(text, declared, checked, "", estimate(checked, declared), uses_old_self)


def _uses(checked: Checked, name: str) -> bool:
    return name in checked.parsed.source.text and any(
        isinstance(node, ast.Ident) and node.name.removeprefix(".") == name for node in checked.nodes()
    )


def parse_rule(text: str) -> Parsed:
    """The parsed text of a rule or of a policy's expression, which may be parsed several times."""
    return _cached_parse(text) if len(text) <= _MAX_CACHED_TEXT else parse(text)


@lru_cache(maxsize=2048)
def _cached_parse(text: str) -> Parsed:
    return parse(text)
