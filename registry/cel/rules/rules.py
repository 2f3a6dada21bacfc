"""Evaluates x-kubernetes-validations on objects.

`compile_rules(root)` returns the Rules of a schema, shared by all callers with the same schema; each expression is
compiled on first use. `Rules.validate(obj, old)` returns the errors in kube-apiserver's order: at each node its rules
in their order, then those below it.

The object must have been pruned, defaulted and validated. kube-apiserver skips all rules after some kinds of schema
errors; that decision is the caller's. Evaluation is bounded: a cost of 1,000,000 for an expression, 10,000,000 for an
object. Exact costs are only counted in a second evaluation, if the first may have exceeded a limit (see code.py). An
object may also take at most a second of processor time, which is enough for a cost of some 5,000,000 at the least.

Follows apiextensions-apiserver pkg/apiserver/schema/cel/validation.go, and KEP-4008 for ratcheting.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from registry.budget import Budget, BudgetExceeded, check_time
from registry.cel.common.values import EVALUATION_ELEMENTS, NONE, CostExceeded, EvalError, Optional, Value
from registry.cel.ext.strings import trim_space
from registry.cel.ext.table import PER_CALL_LIMIT
from registry.cel.interpreter.code import COST
from registry.cel.interpreter.compile import ABSENT
from registry.cel.rules.nodes import CompiledRule, Node, node_of
from registry.codec.go_text import go_quote
from registry.schema.field import OMIT_VALUE, FieldError, child, duplicate, forbidden, index, invalid, key, required
from registry.schema.model import Structural
from registry.schema.ratcheting import Correlation

Json = Any

# The limit on the cost of all rules of one object (celconfig.RuntimeCELCostBudget).
OBJECT_BUDGET: Final = 10_000_000

# The longest result of a messageExpression that is used (celconfig.MaxEvaluatedMessageExpressionSizeBytes).
MAX_MESSAGE_BYTES: Final = 5120

# Processor time limit for the rules of one object, and the cost between two checks of the clock.
_SECONDS: Final = 1.0
_COST_PER_LOOK: Final = 200_000

OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_MESSAGE_OUT_OF_BUDGET: Final = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
)
LIMIT_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"


@lru_cache(maxsize=2048)
def compile_rules(root: Structural) -> Rules:
    """The rules of a schema, cached by the identity of the Structural."""
    return Rules(root)


class Rules:
    """The rules of the schema of a resource. `has_rules` is False if validate() never returns an error.

    `resource` is False for a schema that is only part of one: its values have no kind and metadata of their own.
    """

    __slots__ = ("_root", "has_rules")

    def __init__(self, root: Structural, *, resource: bool = True) -> None:
        self._root = node_of(root, None, "", resource=resource)
        self.has_rules = self._root is not None

    def validate(
        self, obj: Json, old: Json = None, *, path: str = "", ratchet: bool = True, warnings: list[str] | None = None
    ) -> list[FieldError]:
        """The errors of the rules on `obj`, which replaces `old` (None on create).

        With `ratchet`, a failed rule that does not use oldSelf is not an error where nothing changed: its text is added
        to `warnings`. Errors at the root have the field `<nil>` if `path` is empty.
        """
        root = self._root
        if root is None or obj is None:
            return []
        correlation = Correlation(obj, old, root.schema) if ratchet and old is not None else None
        seconds = _SECONDS
        for exact in (False, True):
            run = Run(exact)
            try:
                with Budget(EVALUATION_ELEMENTS, seconds) as work:
                    run.node(root, path, obj, old, correlation, None)
            except BudgetExceeded:
                if not exact:
                    seconds = work.seconds
                    continue
                run.error(root, path, OUT_OF_BUDGET)
            except Stopped:
                pass
            if warnings is not None:
                warnings.extend(run.warnings)
            return run.errors
        raise AssertionError("an exact run counts to the end")


class Stopped(Exception):
    """No further rules are evaluated."""


class Run:
    """One walk over an object. When the budget is exhausted, an exact run stops and any other raises CostExceeded.

    `budget` is the remaining CEL cost."""

    __slots__ = ("_look", "budget", "errors", "exact", "warnings")

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.budget = OBJECT_BUDGET
        self._look = OBJECT_BUDGET - _COST_PER_LOOK  # the clock is checked when the budget falls below this
        self.errors: list[FieldError] = []
        self.warnings: list[str] = []

    def node(
        self, node: Node, path: str, obj: Json, old: Json, current: Correlation | None, nearest: Correlation | None
    ) -> None:
        """Evaluates the rules at `node` and below.

        `current` is the correlation of `obj` with the old object, None if it has none; `nearest` is then that of the
        innermost enclosing value that has one.
        """
        if obj is None:
            return
        if node.schema.validations:
            self.rules(node, path, obj, old, current if current is not None else nearest)
        if type(obj) is dict:
            self.children(node, path, obj, old, current, nearest)
        elif type(obj) is list and node.items is not None:
            self.items(node, node.items, path, obj, old, current, nearest)

    def children(
        self,
        node: Node,
        path: str,
        obj: dict[str, Json],
        old: Json,
        current: Correlation | None,
        nearest: Correlation | None,
    ) -> None:
        olds = old if type(old) is dict else {}
        values, properties = node.values, node.properties
        if values is not None:
            for name, value in obj.items():
                self.node(values, key(path, name), value, olds.get(name), *_below(current, nearest, name))
        elif properties:
            for name, below in properties.items():
                if name in obj:
                    self.node(below, child(path, name), obj[name], olds.get(name), *_below(current, nearest, name))

    def items(
        self,
        node: Node,
        items: Node,
        path: str,
        obj: list[Json],
        old: Json,
        current: Correlation | None,
        nearest: Correlation | None,
    ) -> None:
        olds = Correlation(obj, old, node.schema) if current is None and type(old) is list else current
        for position, item in enumerate(obj):
            belongs = olds.index(position) if olds is not None else None
            self.node(
                items,
                index(path, position),
                item,
                belongs.old if belongs is not None else None,
                belongs if current is not None else None,
                current if current is not None else nearest,
            )

    def rules(self, node: Node, path: str, obj: Json, old: Json, belongs: Correlation | None) -> None:
        """Evaluates all rules of one node."""
        rules = node.rules()
        expected = node.expected
        typed = expected is None or type(obj) is expected
        if not typed or (old is not None and expected is not None and type(old) is not expected):
            old = None
        if self.budget <= 0:
            self.stop(node, path, OUT_OF_BUDGET)
        if self.budget < self._look:
            self._check_time(node, path)
        for rule in rules:
            if rule.simple and typed and not self.exact:
                # Nearly all rules are simple and hold; those that do not hold are evaluated again below.
                program = rule.program
                frame = [program.cost, obj, None, *program.spare]
                try:
                    holds = program.run(frame) is True and frame[COST] <= PER_CALL_LIMIT
                except (EvalError, BudgetExceeded, RecursionError):
                    holds = False
                if holds and frame[COST] <= self.budget:
                    self.budget -= frame[COST]
                    continue
            if rule.error:
                self.error(node, path, rule.error)
            elif old is None and rule.uses_old and not rule.optional:
                continue
            elif not typed:
                self.error(node, path, f"{node.complaint(obj)} evaluating rule: {rule.label}")
            else:
                self.rule(node, rule, path, obj, old, belongs)

    def _check_time(self, node: Node, path: str) -> None:
        self._look = self.budget - _COST_PER_LOOK
        try:
            check_time()
        except BudgetExceeded:
            self.error(node, path, OUT_OF_BUDGET)
            raise Stopped from None

    def rule(
        self, node: Node, rule: CompiledRule, path: str, obj: Json, old: Json, belongs: Correlation | None
    ) -> None:
        program = rule.program.exact() if self.exact else rule.program
        old_self: Value = old
        if rule.optional and rule.uses_old:
            old_self = NONE if old is None else Optional(node.view().convert(old))
        frame = program.frame(obj, old_self)
        failure: EvalError | None = None
        value: Value = None
        try:
            value = program.run(frame)
        except EvalError as error:
            failure = error.with_traceback(None)
        except BudgetExceeded:
            frame[COST] = max(frame[COST], PER_CALL_LIMIT + 1)
        except RecursionError:
            failure = EvalError("the value is nested too deeply")
        cost = frame[COST]
        if cost > self.budget:
            self.stop(node, path, OUT_OF_BUDGET)
        if cost > PER_CALL_LIMIT:
            self.stop(
                node,
                path,
                f"'{LIMIT_EXCEEDED}': no further validation rules will be run due to call cost exceeds limit "
                f"for rule: {rule.label}",
            )
        self.budget -= cost
        if failure is not None:
            self.fail(node, path, str(failure), rule.label)
        elif value is not True:
            self.refuse(node, rule, path, obj, old, belongs)

    def fail(self, node: Node, path: str, text: str, label: str) -> None:
        if text.startswith("no such overload"):
            self.error(
                node,
                path,
                f"'{text}': call arguments did not match a supported operator, function or macro "
                f"signature for rule: {label}",
            )
        else:
            self.error(node, path, f"{text} evaluating rule: {label}")

    def refuse(
        self, node: Node, rule: CompiledRule, path: str, obj: Json, old: Json, belongs: Correlation | None
    ) -> None:
        """Reports a rule that is false: an error, or a warning where nothing changed."""
        where = child(path, rule.field_path) if rule.field_path else path or "<nil>"
        ratcheted = not rule.uses_old and belongs is not None and belongs.equal()
        detail = self.message(node, rule, where, obj, old, ratcheted) if rule.message is not None else rule.text
        value = OMIT_VALUE if node.schema.type in ("object", "array") else obj
        match rule.reason:
            case "FieldValueForbidden":
                error = forbidden(where, detail)
            case "FieldValueRequired":
                error = required(where, detail)
            case "FieldValueDuplicate":
                error = duplicate(where, value)
            case _:
                error = invalid(where, value, detail)
        self.report(error, ratcheted)

    def message(self, node: Node, rule: CompiledRule, where: str, obj: Json, old: Json, ratcheted: bool) -> str:
        """The result of messageExpression, or the message if the result cannot be used."""
        assert rule.message is not None
        program = rule.message.exact() if self.exact else rule.message
        # Without a rule that uses oldSelf, kube-apiserver does not bind it.
        is_bound = old is not None and any(other.uses_old for other in node.rules())
        frame = program.frame(obj, old if is_bound else ABSENT)
        value: Value = None
        try:
            value = program.run(frame)
        except (EvalError, RecursionError):
            pass
        except BudgetExceeded:
            if not self.exact:
                raise
            text = (
                _MESSAGE_OUT_OF_BUDGET
                if frame[COST] > self.budget
                else "no further validation rules will be run "
                f"due to call cost exceeds limit for messageExpression: {go_quote(rule.expression)}"
            )
            self.report(invalid(where, node.schema.type, text), ratcheted)
            raise Stopped from None
        cost = frame[COST]
        if cost > self.budget:
            if not self.exact:
                raise CostExceeded
            self.report(invalid(where, node.schema.type, _MESSAGE_OUT_OF_BUDGET), ratcheted)
            raise Stopped
        self.budget -= cost
        text = trim_space(value) if type(value) is str else ""
        fits = text and "\n" not in text and len(text.encode("utf-8", "replace")) <= MAX_MESSAGE_BYTES
        return text if fits else rule.text

    # --- errors and budget

    def error(self, node: Node, path: str, text: str) -> None:
        self.errors.append(invalid(path or "<nil>", node.schema.type, text))

    def report(self, error: FieldError, ratcheted: bool) -> None:
        if ratcheted:
            self.warnings.append(error.message())
        else:
            self.errors.append(error)

    def stop(self, node: Node, path: str, text: str) -> None:
        if not self.exact:
            raise CostExceeded
        self.error(node, path, text)
        raise Stopped


def _below(
    current: Correlation | None, nearest: Correlation | None, name: str
) -> tuple[Correlation | None, Correlation | None]:
    """The correlation of a property or map value, and that of the innermost enclosing value that has one."""
    if current is None:
        return None, nearest
    if nearest is None and name in ("apiVersion", "kind"):
        return None, None
    return current.key(name), current
