"""Explains rules to the author of a definition: their estimated costs, and the result of each evaluation.

The walks are those of check.py and rules.py, extended to record each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from registry.budget import Budget, BudgetExceeded
from registry.cel.checker.schema_types import Declared
from registry.cel.common.values import EVALUATION_ELEMENTS
from registry.cel.rules.check import SchemaNode, Walk
from registry.cel.rules.expressions import RULE, compile_expression
from registry.cel.rules.nodes import CompiledRule, Node, node_of
from registry.cel.rules.rules import OBJECT_BUDGET, Run, Stopped
from registry.schema.field import FieldError
from registry.schema.model import Structural, ValidationRule, from_json
from registry.schema.ratcheting import Correlation

Json = Any

# Processor time: no other request waits for it here.
_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """`cost` is the most that one evaluation costs; an object has at most `cardinality` evaluations."""

    path: str
    rule: ValidationRule
    declared: Declared
    cost: int
    cardinality: int
    errors: tuple[FieldError, ...]


@dataclass(slots=True)
class _RecordingWalk(Walk):
    checked: list[CheckedRule] = field(default_factory=list)

    def rule(
        self, rule: ValidationRule, declared: Declared, cardinality: int, path: str, uncorrelatable: str | None
    ) -> None:
        known = len(self.errors)
        Walk.rule(self, rule, declared, cardinality, path, uncorrelatable)
        compiled = compile_expression(rule.rule, declared, RULE, optional_old_self=bool(rule.optional_old_self))
        checked = CheckedRule(path, rule, declared, compiled.cost, cardinality, tuple(self.errors[known:]))
        self.checked.append(checked)


def inspect_schema(schema: Mapping[str, Any], path: str) -> tuple[list[CheckedRule], int]:
    """The rules of a structural schema in the order of checking, and their total estimated cost."""
    walk = _RecordingWalk((), False)
    root = from_json(schema)
    walk.compile(SchemaNode(root, None, None, bool(root.validations), 1), path, None)
    return walk.checked, walk.total_cost


@dataclass(frozen=True, slots=True)
class RuleEvaluation:
    """One evaluation of a rule on `value` at `path`, which replaces `old`. The rule holds if there are no `errors`."""

    path: str
    rule: CompiledRule
    value: Json
    old: Json
    node: Node
    cost: int
    errors: tuple[FieldError, ...]


class _RecordingRun(Run):
    __slots__ = ("evaluations",)

    def __init__(self) -> None:
        super().__init__(exact=True)
        self.evaluations: list[RuleEvaluation] = []

    def rule(
        self, node: Node, rule: CompiledRule, path: str, obj: Json, old: Json, belongs: Correlation | None
    ) -> None:
        budget, known = self.budget, len(self.errors)
        try:
            super().rule(node, rule, path, obj, old, belongs)
        finally:
            errors = tuple(self.errors[known:])
            self.evaluations.append(RuleEvaluation(path, rule, obj, old, node, budget - self.budget, errors))


def inspect_object(root: Structural, obj: Json, old: Json) -> tuple[list[RuleEvaluation], int]:
    """Every evaluation of a rule on an object that replaces `old`, with its exact cost, and the total cost.

    The object must have been pruned, defaulted and validated. There is no ratcheting: every failed rule is an error.
    """
    node = node_of(root, None, "", resource=True)
    run = _RecordingRun()
    if node is not None:
        try:
            with Budget(EVALUATION_ELEMENTS, _SECONDS):
                run.node(node, "", obj, old, None, None)
        except (BudgetExceeded, Stopped):
            pass
    return run.evaluations, OBJECT_BUDGET - run.budget
