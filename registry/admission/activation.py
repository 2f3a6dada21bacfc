"""Evaluates the expressions of policies and match conditions: `activation.value(expression)`.

An Activation holds the inputs of one request. Evaluation is bounded as in kube-apiserver: 1,000,000 for an expression,
and a budget for all of one policy. It first runs without exact costs, and again with them where it may have exceeded a
limit (registry/cel/interpreter/code.py). As the number of policies, bindings and parameters is not bounded, the time of
all evaluations of a request is bounded, too, by its budget (registry/budget.py).

Follows apiserver pkg/admission/plugin/cel/{activation,composition,condition}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from registry.admission.authorizer import CelAuthorizer, Decisions, request_check
from registry.admission.dynamic import to_value
from registry.admission.environment import PolicyExpression
from registry.budget import Budget, BudgetExceeded
from registry.cel.common.values import (
    EVALUATION_ELEMENTS,
    MAP,
    MISSING,
    CostExceeded,
    EvalError,
    MapValue,
    Value,
    evaluation_budget,
    no_such_overload,
    register_type,
)
from registry.cel.ext.table import PER_CALL_LIMIT
from registry.cel.interpreter.code import COST
from registry.cel.rules.rules import LIMIT_EXCEEDED

Json = Any

# The joint cost limits of the expressions of one policy (celconfig.RuntimeCELCostBudget), and of match conditions.
POLICY_BUDGET: Final = 10_000_000
CONDITIONS_BUDGET: Final = 2_500_000

_CONDITIONS: Final = "conditions"  # the purpose of their activation

T = TypeVar("T")


class OutOfBudget(Exception):
    """The expressions of a policy have exceeded their joint cost limit."""


class Paused(Exception):
    """Other requests should run first. Evaluated results are kept: evaluating again continues from there."""


class EvaluationRounds:
    """Evaluations of one request, in rounds between which other requests run.

    `is_over`: whether the time slice of the request has expired.
    """

    __slots__ = ("_budget", "_fresh", "_is_over")

    def __init__(self, is_over: Callable[[], bool] = lambda: False) -> None:
        self._is_over = is_over
        self._fresh = False
        self._budget = Budget()  # of the present round

    def run(self, make: Callable[[], T]) -> T:
        """Returns the result of `make`, charging its time to the request. At least one expression is evaluated."""
        self._fresh = False
        with Budget(EVALUATION_ELEMENTS, is_measured=True) as self._budget:
            return make()

    def enter(self) -> None:
        """Called before an evaluation: raises OutOfBudget, or Paused when another has run in this round."""
        if self._budget.seconds <= 0:
            raise OutOfBudget
        if self._fresh and self._is_over():
            raise Paused
        self._fresh = True


class Failed(Exception):
    """An expression has no value. The text is the API's: `expression 'e' resulted in error: no such key: x`."""


class _Variables(MapValue):
    """The variable `variables`: each is evaluated on first access and cached, including errors."""

    __slots__ = ("_activation", "_known", "_results")

    def __init__(self, activation: Activation, known: Mapping[str, PolicyExpression]) -> None:
        self._activation = activation
        self._known = known
        self._results: dict[str, Value | EvalError] = {}

    def __len__(self) -> int:
        return len(self._known)

    def all_keys(self) -> list[Value]:
        return list(self._known)

    def find(self, key: Value) -> Value:
        expression = self._known.get(key) if type(key) is str else None
        if expression is None:
            return MISSING
        if key not in self._results:
            try:
                self._results[key] = self._activation.variable(expression)
            except EvalError as error:
                self._results[key] = EvalError(f'composited variable "{key}" fails to evaluate: {error}')
        value = self._results[key]
        if isinstance(value, EvalError):
            raise EvalError(str(value))
        return value

    def has(self, key: Value) -> bool:
        return self.find(key) is not MISSING  # an error is one of has(), too

    def equals(self, other: Value) -> bool:
        if type(other) is not _Variables:
            raise no_such_overload()
        return other is self


register_type(_Variables, MAP)


@dataclass(slots=True)
class Inputs:
    """The inputs of a request to the expressions of a policy, as JSON."""

    object: Json
    old_object: Json
    request: Mapping[str, Json]
    namespace: Json
    params: Json = None
    decisions: Decisions = field(default_factory=Decisions)
    rounds: EvaluationRounds = field(default_factory=EvaluationRounds)
    _activations: dict[str, Activation] = field(default_factory=dict, init=False)

    def activation(self, purpose: str, variables: Mapping[str, PolicyExpression] | None) -> Activation:
        """Returns the same activation for the same purpose each time that evaluation is restarted."""
        activation = self._activations.get(purpose)
        if activation is None:
            activation = self._activations[purpose] = Activation(self, variables)
        return activation

    def condition_activation(self, variables: Mapping[str, PolicyExpression] | None) -> Activation:
        """Returns the activation of match conditions.

        As in kube-apiserver, their `namespaceObject` is null, and `request.resource` is the requested one, also if an
        equivalent one matches (apiserver pkg/admission/plugin/webhook/matchconditions/matcher.go).
        """
        activation = self._activations.get(_CONDITIONS)
        if activation is None:
            request = {**self.request, "resource": self.request["requestResource"]}
            inputs = replace(self, request=request, namespace=None)
            activation = self._activations[_CONDITIONS] = Activation(inputs, variables, CONDITIONS_BUDGET)
        return activation


class Activation:
    """The evaluation of one policy for one request and one set of parameters; caches results."""

    def __init__(
        self, inputs: Inputs, variables: Mapping[str, PolicyExpression] | None = None, budget: int = POLICY_BUDGET
    ) -> None:
        self.budget = budget
        self._composed = 0  # cost of variables not yet charged to an expression
        self._known = variables
        self._inputs = inputs
        self._values = self._bound()
        self._evaluated: dict[PolicyExpression, Value | Failed | OutOfBudget] = {}

    def _bound(self) -> tuple[Value, ...]:
        inputs = self._inputs
        request = dict(inputs.request)
        return (
            to_value(inputs.object),
            to_value(inputs.old_object),
            to_value(request),
            to_value(inputs.namespace),
            to_value(inputs.params),
            CelAuthorizer(inputs.decisions),
            request_check(inputs.decisions, request),
            _Variables(self, self._known or {}),
        )

    def value(self, expression: PolicyExpression) -> Value:
        """Raises Failed, OutOfBudget, Paused, or Undecided (authorizer.py)."""
        if expression.error is not None:
            raise Failed(f"compilation error: {expression.error.detail}")
        if expression not in self._evaluated:
            try:
                self._evaluated[expression] = self._evaluate(expression)
            except OutOfBudget as error:
                self._evaluated[expression] = error.with_traceback(None)
        result = self._evaluated[expression]
        if isinstance(result, Failed | OutOfBudget):
            raise type(result)(*result.args)  # A traceback of what is kept would refer to this object.
        return result

    def _evaluate(self, expression: PolicyExpression) -> Value | Failed:
        self._inputs.rounds.enter()
        with evaluation_budget():
            value, cost = self._run(expression)
        cost += self._composed
        self._composed = 0
        if cost > self.budget:
            raise OutOfBudget
        self.budget -= cost
        if isinstance(value, EvalError):
            return Failed(f"expression '{expression.text}' resulted in error: {value}")
        return value

    def variable(self, expression: PolicyExpression) -> Value:
        """The value of a variable; its cost is charged to the expression that reads it, whether it has a value or
        not."""
        if expression.error is not None:
            raise EvalError(f"compilation error: {expression.error.detail}")
        self._inputs.rounds.enter()
        value, cost = self._run(expression)
        self._composed += cost
        if self._composed > self.budget:
            raise OutOfBudget
        if isinstance(value, EvalError):
            raise EvalError(*value.args)
        return value

    def _run(self, expression: PolicyExpression) -> tuple[Value | EvalError, int]:
        """The value, or the error, and the cost: an upper bound, or the exact cost where the bound exceeds a
        limit."""
        program = expression.program()
        for exact in (False, True):
            used = program.exact() if exact else program
            frame = used.frame(*self._values)
            try:
                value = used.run(frame)
            except CostExceeded:
                continue
            except BudgetExceeded:
                break
            except RecursionError:
                value = EvalError("the value is nested too deeply")
            except EvalError as error:
                value = error.with_traceback(None)
            cost: int = frame[COST]
            if cost <= PER_CALL_LIMIT and (exact or cost <= self.budget):
                return value, cost
        return EvalError(LIMIT_EXCEEDED), PER_CALL_LIMIT


def values(activation: Activation, expressions: Sequence[PolicyExpression | None]) -> list[Value | Failed | None]:
    """The value or the error of each expression. Raises OutOfBudget, Paused and Undecided."""
    results: list[Value | Failed | None] = []
    for expression in expressions:
        if expression is None:
            results.append(None)
            continue
        try:
            results.append(activation.value(expression))
        except Failed as failed:
            results.append(failed.with_traceback(None))  # which refers to this frame
    return results
