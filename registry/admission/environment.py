"""The expressions of policies and match conditions: what names they see, what type they must have, how they run.

`compile_expression(text, scope, BOOL)` gives an Expression; `error` says why it is unusable, in the words of the API.
An Activation holds what one request gives to them and runs them: `activation.value(expression)`.

Evaluation is bounded as kube-apiserver bounds it: 1,000,000 for an expression, and a budget for all of one policy. It
runs without exact counts first, and again with them where it may have cost too much (registry/cel/interpreter/code.py).
As there is no bound for the number of policies, bindings and parameters, the time of all evaluations of a request is
bounded, too (Effort).

Follows apiserver pkg/admission/plugin/cel/{compile,composition,activation,condition}.go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from registry.admission.authorizer import Authorizer, Decisions, request_check
from registry.admission.dynamic import to_value
from registry.admission.messages import MESSAGES, MUTATION_FUNCTIONS
from registry.cel.checker.checker import Checked, check
from registry.cel.checker.declarations import FUNCTIONS
from registry.cel.common import types
from registry.cel.common.types import Type, list_of, map_of, struct
from registry.cel.common.values import (
    MAP,
    MISSING,
    WORK,
    CostExceeded,
    EvalError,
    MapValue,
    Value,
    WorkExceeded,
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

# What the expressions of one policy may cost together (celconfig.RuntimeCELCostBudget), and match conditions.
POLICY_BUDGET: Final = 10_000_000
CONDITIONS_BUDGET: Final = 2_500_000

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
        "status": struct("kubernetes.NamespaceStatus", {"phase": types.STRING}),
    },
)
AUTHORIZER: Final = struct(Authorizer.type.name)
RESOURCE_CHECK: Final = struct("kubernetes.authorization.ResourceCheck")

# The variables of a frame, in their order; an expression is checked with those of its scope only.
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
    """What an expression sees. `variables` are those before it, None where there are none at all."""

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
    """`internal` tells what is wrong with the program from what is wrong with the text."""

    detail: str
    internal: bool = False


@dataclass(slots=True, eq=False)
class Expression:
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


def compile_expression(text: str, scope: Scope, *wanted: Type) -> Expression:
    """`wanted` are the types that it may have; without any it may have each."""
    try:
        return _compile(text, scope, wanted)
    except RecursionError:
        return Expression(
            text, None, CompileError("compilation failed: ERROR: <input>:-1:0: max recursion depth exceeded")
        )


def _compile(text: str, scope: Scope, wanted: tuple[Type, ...]) -> Expression:
    checked, issues = check_text(text, scope)
    if issues:
        return Expression(text, checked, CompileError(f"compilation failed: {issues}"))
    found = checked.result
    if wanted and not any(found.same(of) for of in wanted):
        if len(wanted) == 1:
            reason = f"must evaluate to {_type_name(wanted[0])} but got {_type_name(found)}"
        else:
            reason = f"must evaluate to one of [{' '.join(map(_type_name, wanted))}] but got {_type_name(found)}"
        return Expression(text, checked, CompileError(reason))
    fault = program_error(checked)
    if fault is not None:
        return Expression(text, checked, CompileError(f"program instantiation failed: {fault}", True))
    return Expression(text, checked, None)


def _type_name(of: Type) -> str:
    """A type by its name at run time: `list(string)`, `null_type`."""
    return f"{of.runtime_name}({', '.join(map(_type_name, of.parameters))})" if of.parameters else of.runtime_name


def check_text(text: str, scope: Scope) -> tuple[Checked, str]:
    """The checked tree, and pictures of what is wrong with it."""
    checked = check(
        _parse(text),
        scope.names(),
        functions=MUTATION_FUNCTIONS if scope.patches else FUNCTIONS,
        messages=MESSAGES if scope.patches else None,
    )
    issues = checked.issues or literal_issues(checked)
    return checked, display(checked.parsed.source, issues) if issues else ""


_cached_parse = lru_cache(maxsize=512)(parse)


def _parse(text: str) -> Parsed:
    return _cached_parse(text) if len(text) <= 2000 else parse(text)


# --- evaluating


class OutOfBudget(Exception):
    """The expressions of a policy have cost more than they may together."""


class Paused(Exception):
    """Others are to have their turn. What has been evaluated is kept: evaluating again goes on from there."""


class Effort:
    """The processor time that evaluations of one request have taken, and whether to pause before the next one.

    `is_over` says that the request has held the process for long enough.
    """

    SECONDS: Final = 5.0

    __slots__ = ("_began", "_fresh", "_is_over", "spent")

    def __init__(self, is_over: Callable[[], bool] = lambda: False) -> None:
        self._is_over = is_over
        self._fresh = False
        self._began = 0.0
        self.spent = 0.0

    def begin(self) -> None:
        self._fresh = False
        self._began = time.thread_time()

    def end(self) -> None:
        self.spent += time.thread_time() - self._began

    def enter(self) -> None:
        """Before an evaluation: raises OutOfBudget, or Paused where one has been made since `begin`."""
        if self.spent > self.SECONDS:
            raise OutOfBudget
        if self._fresh and self._is_over():
            raise Paused
        self._fresh = True


class Failed(Exception):
    """One expression has no value. The text is that of the API: `expression 'e' resulted in error: no such key: x`."""


class _Variables(MapValue):
    """`variables`: each is evaluated when it is first asked for, and remembered, failures as well."""

    __slots__ = ("_activation", "_found", "_known")

    def __init__(self, activation: Activation, known: Mapping[str, Expression]) -> None:
        self._activation = activation
        self._known = known
        self._found: dict[str, Value | EvalError] = {}

    def __len__(self) -> int:
        return len(self._known)

    def all_keys(self) -> list[Value]:
        return list(self._known)

    def find(self, key: Value) -> Value:
        expression = self._known.get(key) if type(key) is str else None
        if expression is None:
            return MISSING
        if key not in self._found:
            try:
                self._found[key] = self._activation.variable(expression)
            except EvalError as error:
                self._found[key] = EvalError(f'composited variable "{key}" fails to evaluate: {error}')
        found = self._found[key]
        if isinstance(found, EvalError):
            raise EvalError(str(found))
        return found

    def equals(self, other: Value) -> bool:
        return other is self


register_type(_Variables, MAP)


@dataclass(slots=True)
class Inputs:
    """What a request gives to the expressions of a policy, as JSON."""

    object: Json
    old_object: Json
    request: Mapping[str, Json]
    namespace: Json
    params: Json = None
    decisions: Decisions = field(default_factory=Decisions)
    effort: Effort = field(default_factory=Effort)
    _activations: dict[str, Activation] = field(default_factory=dict, init=False)

    def activation(
        self, purpose: str, variables: Mapping[str, Expression] | None, budget: int = POLICY_BUDGET
    ) -> Activation:
        """The same one for the same purpose, however often evaluation is begun again."""
        found = self._activations.get(purpose)
        if found is None:
            found = self._activations[purpose] = Activation(self, variables, budget)
        return found


class Activation:
    """One policy on one request with one set of parameters; remembers what it has evaluated."""

    def __init__(
        self, inputs: Inputs, variables: Mapping[str, Expression] | None = None, budget: int = POLICY_BUDGET
    ) -> None:
        self.budget = budget
        self._composed = 0  # what variables have cost since it was last counted
        self._known = variables
        self._inputs = inputs
        self._values = self._bound()
        self._evaluated: dict[Expression, Value | Failed | OutOfBudget] = {}

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

    def value(self, expression: Expression) -> Value:
        """Raises Failed, OutOfBudget, Paused, or Undecided (authorizer.py)."""
        if expression.error is not None:
            raise Failed(f"compilation error: {expression.error.detail}")
        if expression not in self._evaluated:
            try:
                self._evaluated[expression] = self._evaluate(expression)
            except OutOfBudget as error:
                self._evaluated[expression] = error
        found = self._evaluated[expression]
        if isinstance(found, Failed | OutOfBudget):
            raise found
        return found

    def _evaluate(self, expression: Expression) -> Value | Failed:
        self._inputs.effort.enter()
        WORK.begin()
        value, cost = self._run(expression)
        cost += self._composed
        self._composed = 0
        if cost > self.budget:
            raise OutOfBudget
        self.budget -= cost
        if isinstance(value, EvalError):
            return Failed(f"expression '{expression.text}' resulted in error: {value}")
        return value

    def variable(self, expression: Expression) -> Value:
        """The value of a variable; its cost counts together with that of the expression that asks for it, whether it
        has a value or not."""
        if expression.error is not None:
            raise EvalError(f"compilation error: {expression.error.detail}")
        self._inputs.effort.enter()
        value, cost = self._run(expression)
        self._composed += cost
        if self._composed > self.budget:
            raise OutOfBudget
        if isinstance(value, EvalError):
            raise value
        return value

    def _run(self, expression: Expression) -> tuple[Value | EvalError, int]:
        """The value or why there is none, and what it cost: a bound of it, or where that is over a limit, what it did
        cost."""
        program = expression.program()
        for exact in (False, True):
            used = program.exact() if exact else program
            frame = used.frame(*self._values)
            try:
                value = used.run(frame)
            except WorkExceeded:
                break
            except CostExceeded:
                continue
            except RecursionError:
                value = EvalError("the value is nested too deeply")
            except EvalError as error:
                value = error
            cost: int = frame[COST]
            if cost <= PER_CALL_LIMIT and (exact or cost <= self.budget):
                return value, cost
        return EvalError(_LIMIT_EXCEEDED), PER_CALL_LIMIT


def values(activation: Activation, expressions: Sequence[Expression | None]) -> list[Value | Failed | None]:
    """The value of each, or what is wrong with it. Raises OutOfBudget, Paused and Undecided."""
    found: list[Value | Failed | None] = []
    for expression in expressions:
        if expression is None:
            found.append(None)
            continue
        try:
            found.append(activation.value(expression))
        except Failed as failed:
            found.append(failed)
    return found
