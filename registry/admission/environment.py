"""The CEL environment of policies and match conditions: variables, result types, evaluation.

`compile_expression(text, scope, BOOL)` returns an Expression; its `error` says why it is unusable, in the API's words.
An Activation holds the inputs of one request and evaluates expressions: `activation.value(expression)`.

Evaluation is bounded as in kube-apiserver: 1,000,000 for an expression, and a budget for all of one policy. It first
runs without exact costs, and again with them where it may have exceeded a limit (registry/cel/interpreter/code.py).
As the number of policies, bindings and parameters is not bounded, the time of all evaluations of a request is bounded,
too, by its budget (registry/budget.py).

Follows apiserver pkg/admission/plugin/cel/{compile,composition,activation,condition}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from registry.admission.authorizer import Authorizer, Decisions, request_check
from registry.admission.dynamic import to_value
from registry.admission.messages import MESSAGES, mutation_functions
from registry.budget import Budget, BudgetExceeded
from registry.cel.checker.checker import Checked, check
from registry.cel.common import types
from registry.cel.common.types import Type, list_of, map_of, struct
from registry.cel.common.values import (
    EVALUATION_ELEMENTS,
    MAP,
    MISSING,
    CostExceeded,
    EvalError,
    MapValue,
    Value,
    evaluation_budget,
    register_type,
)
from registry.cel.ext.table import PER_CALL_LIMIT
from registry.cel.interpreter.code import COST
from registry.cel.interpreter.compile import Program, compile_program
from registry.cel.interpreter.constants import program_error
from registry.cel.rules.literals import literal_issues
from registry.cel.syntax.errors import display
from registry.cel.syntax.parser import Parsed, parse

Json = Any

# The joint cost limits of the expressions of one policy (celconfig.RuntimeCELCostBudget), and of match conditions.
POLICY_BUDGET: Final = 10_000_000
CONDITIONS_BUDGET: Final = 2_500_000

_CONDITIONS: Final = "conditions"  # the purpose of their activation

OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_LIMIT_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"

_STRINGS = list_of(types.STRING)
_STRING_MAP = map_of(types.STRING, types.STRING)


def _texts(name: str, *fields: str) -> Type:
    return struct(name, dict.fromkeys(fields, types.STRING))


_KIND = _texts("kubernetes.GroupVersionKind", "group", "version", "kind")
_RESOURCE = _texts("kubernetes.GroupVersionResource", "group", "version", "resource")
_USER = struct(
    "kubernetes.UserInfo",
    {"username": types.STRING, "uid": types.STRING, "groups": _STRINGS, "extra": map_of(types.STRING, _STRINGS)},
)
REQUEST: Final = struct(
    "kubernetes.AdmissionRequest",
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": types.STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": types.STRING,
        "name": types.STRING,
        "namespace": types.STRING,
        "operation": types.STRING,
        "userInfo": _USER,
        "dryRun": types.BOOL,
        "options": types.DYN,
    },
)
_CONDITION: Final = struct(
    "kubernetes.NamespaceCondition",
    {
        "status": types.STRING,
        "type": types.STRING,
        "lastTransitionTime": types.TIMESTAMP,
        "message": types.STRING,
        "reason": types.STRING,
    },
)
NAMESPACE: Final = struct(
    "kubernetes.Namespace",
    {
        "metadata": struct(
            "kubernetes.NamespaceMetadata",
            {
                "name": types.STRING,
                "generateName": types.STRING,
                "namespace": types.STRING,
                "labels": _STRING_MAP,
                "annotations": _STRING_MAP,
                "UID": types.STRING,
                "creationTimestamp": types.TIMESTAMP,
                "deletionGracePeriodSeconds": types.INT,
                "deletionTimestamp": types.TIMESTAMP,
                "generation": types.INT,
                "resourceVersion": types.STRING,
                "finalizers": _STRINGS,
            },
        ),
        "spec": struct("kubernetes.NamespaceSpec", {"finalizers": _STRINGS}),
        "status": struct("kubernetes.NamespaceStatus", {"conditions": list_of(_CONDITION), "phase": types.STRING}),
    },
)
AUTHORIZER: Final = struct(Authorizer.type.name)
RESOURCE_CHECK: Final = struct("kubernetes.authorization.ResourceCheck")

# The variables of a frame, in order; an expression is checked with those of its scope only.
NAMES: Final = (
    "object",
    "oldObject",
    "request",
    "namespaceObject",
    "params",
    "authorizer",
    "authorizer.requestResource",
    "variables",
)
_VIEWS: Final = dict.fromkeys(NAMES)


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables that an expression can use. `variables` are the preceding ones, None where none are supported."""

    params: bool = False
    authorizer: bool = True
    patches: bool = False
    variables: Mapping[str, Type] | None = None
    object: Type = types.DYN
    params_type: Type = types.DYN

    def names(self) -> dict[str, Type]:
        names = {"object": self.object, "oldObject": self.object, "request": REQUEST, "namespaceObject": NAMESPACE}
        if self.params:
            names["params"] = self.params_type
        if self.authorizer:
            names["authorizer"] = AUTHORIZER
            names["authorizer.requestResource"] = RESOURCE_CHECK
        if self.variables is not None:
            names["variables"] = struct("kubernetes.variables", self.variables)
        return names


class CompileError(NamedTuple):
    """`internal` distinguishes an error of the program from one of the text."""

    detail: str
    internal: bool = False


@dataclass(slots=True, eq=False)
class PolicyExpression:
    text: str
    checked: Checked | None
    error: CompileError | None
    _program: Program | None = None

    @property
    def type(self) -> Type:
        """The type of its value; dyn where it does not compile."""
        return types.DYN if self.checked is None or self.error is not None else self.checked.result

    def program(self) -> Program:
        if self._program is None:
            assert self.checked is not None
            self._program = compile_program(self.checked, _VIEWS)
        return self._program


def compile_expression(text: str, scope: Scope, *wanted: Type) -> PolicyExpression:
    """`wanted` are the allowed result types; without any, all are allowed."""
    try:
        return _compile(text, scope, wanted)
    except RecursionError:
        return PolicyExpression(
            text, None, CompileError("compilation failed: ERROR: <input>:-1:0: max recursion depth exceeded")
        )


def _compile(text: str, scope: Scope, wanted: tuple[Type, ...]) -> PolicyExpression:
    checked, issues = check_text(text, scope)
    if issues:
        return PolicyExpression(text, checked, CompileError(f"compilation failed: {issues}"))
    result_type = checked.result
    if wanted and not any(result_type.same(of) for of in wanted):
        if len(wanted) == 1:
            reason = f"must evaluate to {_type_name(wanted[0])} but got {_type_name(result_type)}"
        else:
            reason = f"must evaluate to one of [{' '.join(map(_type_name, wanted))}] but got {_type_name(result_type)}"
        return PolicyExpression(text, checked, CompileError(reason))
    fault = program_error(checked)
    if fault is not None:
        return PolicyExpression(text, checked, CompileError(f"program instantiation failed: {fault}", True))
    return PolicyExpression(text, checked, None)


def _type_name(of: Type) -> str:
    """The run-time name of a type: `list(string)`, `null_type`."""
    return f"{of.runtime_name}({', '.join(map(_type_name, of.parameters))})" if of.parameters else of.runtime_name


def check_text(text: str, scope: Scope) -> tuple[Checked, str]:
    """The checked tree, and its errors with source excerpts."""
    checked = check(
        _parse(text),
        scope.names(),
        functions=mutation_functions() if scope.patches else None,
        messages=MESSAGES if scope.patches else None,
    )
    issues = checked.issues or literal_issues(checked)
    return checked, display(checked.parsed.source, issues) if issues else ""


_cached_parse = lru_cache(maxsize=512)(parse)


def _parse(text: str) -> Parsed:
    return _cached_parse(text) if len(text) <= 2000 else parse(text)


# --- evaluation


T = TypeVar("T")


class OutOfBudget(Exception):
    """The expressions of a policy have exceeded their joint cost limit."""


class Paused(Exception):
    """Other requests should run first. Evaluated results are kept: evaluating again continues from there."""


class Rounds:
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

    def equals(self, other: Value) -> bool:
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
    rounds: Rounds = field(default_factory=Rounds)
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
            Authorizer(inputs.decisions),
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
        return EvalError(_LIMIT_EXCEEDED), PER_CALL_LIMIT


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
            results.append(failed)
    return results
