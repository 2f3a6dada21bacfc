"""Compiled policies and their evaluation.

A validating policy returns PolicyDecisions; a mutating one returns patched objects, one mutation after the other. Both
are pure: parameters, the namespace and the objects at the matched version are Inputs, and authorization checks are
answered from known decisions (authorizer.py).

Follows apiserver pkg/admission/plugin/policy/{validating/validator,mutating/dispatcher,mutating/patch/*}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from registry.admission.activation import Activation, Failed, Inputs, OutOfBudget, values
from registry.admission.environment import PolicyExpression, Scope, compile_expression
from registry.admission.messages import JSON_PATCHES, OBJECT, configuration, operations
from registry.admission.rules import Match
from registry.apply.configuration import apply_configuration
from registry.apply.errors import ApplyError, TypedError
from registry.apply.patches import json_patch
from registry.apply.types import MergeType as AppliedType
from registry.budget import BudgetExceeded
from registry.cel.common import types
from registry.cel.common.values import EvalError, Value, elements
from registry.cel.ext.strings import trim_space
from registry.cel.rules.rules import MAX_MESSAGE_BYTES, OUT_OF_BUDGET
from registry.schema.field import shorten

Json = Any
Object = dict[str, Any]
T = TypeVar("T")

_MAX_ANNOTATION_BYTES: Final = 10 * 1024


@dataclass(frozen=True, slots=True)
class Conditions:
    """matchConditions: all must be true. Errors only matter where none is false; then the failure policy applies."""

    expressions: tuple[PolicyExpression, ...]

    def hold(self, inputs: Inputs, variables: Mapping[str, PolicyExpression] | None = None) -> bool:
        """Raises Failed with the errors joined, Paused, and Undecided."""
        if not self.expressions:
            return True
        activation = inputs.condition_activation(variables)
        failures: list[str] = []
        try:
            results = values(activation, self.expressions)
        except OutOfBudget:
            raise Failed(OUT_OF_BUDGET) from None
        for value in results:
            if value is False:
                return False
            if isinstance(value, Failed) and str(value) not in failures:
                failures.append(str(value))
        if failures:
            raise Failed(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
        return True


def conditions_of(conditions: Sequence[Mapping[str, Any]] | None, scope: Scope) -> Conditions:
    return Conditions(
        tuple(compile_expression(trim_space(c.get("expression") or ""), scope, types.BOOL) for c in conditions or ())
    )


@dataclass(frozen=True, slots=True)
class ParamKind:
    api_version: str
    kind: str

    def __str__(self) -> str:
        """`g/v1, Kind=K`, as Go prints a GroupVersionKind; the core group is `/v1`."""
        version = self.api_version if "/" in self.api_version else f"/{self.api_version}"
        return f"{version}, Kind={self.kind}"


class _Policy:
    """The common parts of both kinds of policies."""

    def __init__(self, policy: Mapping[str, Any]) -> None:
        spec = policy.get("spec") or {}
        self.name: str = policy["metadata"]["name"]
        self.fails = (spec.get("failurePolicy") or "Fail") != "Ignore"
        self.match = Match(spec.get("matchConstraints") or {}, empty_matches=True)
        kind = spec.get("paramKind")
        self.param_kind = ParamKind(kind.get("apiVersion") or "", kind.get("kind") or "") if kind else None
        self.variables = compile_variables(spec.get("variables"), params=kind is not None)
        known = {name: e.type for name, e in self.variables.items()} if self.variables else None
        self.scope = Scope(params=kind is not None, variables=known)
        self.conditions = conditions_of(spec.get("matchConditions"), self.scope)


def compile_variables(variables: Sequence[Mapping[str, Any]] | None, *, params: bool) -> dict[str, PolicyExpression]:
    """Each variable sees the preceding ones; of two with the same name the last takes precedence."""
    compiled: dict[str, PolicyExpression] = {}
    for variable in variables or ():
        scope = Scope(params=params, variables={name: e.type for name, e in compiled.items()})
        compiled[variable.get("name") or ""] = compile_expression(variable.get("expression") or "", scope)
    return compiled


class PolicyBinding:
    """A binding of either kind; `actions` are those of a validating one."""

    def __init__(self, binding: Mapping[str, Any]) -> None:
        spec = binding.get("spec") or {}
        self.name: str = binding["metadata"]["name"]
        self.policy: str = spec.get("policyName") or ""
        self.actions: tuple[str, ...] = tuple(spec.get("validationActions") or ())
        resources = spec.get("matchResources")
        self.match = Match(resources) if resources else None
        self.param_ref: Mapping[str, Any] | None = spec.get("paramRef")


# --- validating policies


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """A failure: `reason` is that of the Status, empty for an error."""

    message: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """`decisions` are the failures in order; `annotations` go to the audit log; `broken` are errors in these."""

    decisions: tuple[tuple[int, PolicyDecision], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    broken: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Validation:
    text: str
    expression: PolicyExpression
    message: str
    message_expression: PolicyExpression | None
    reason: str


class ValidatingPolicy(_Policy):
    def __init__(self, policy: Mapping[str, Any]) -> None:
        super().__init__(policy)
        spec = policy.get("spec") or {}
        unauthorized = Scope(params=self.scope.params, authorizer=False, variables=self.scope.variables)
        self.validations = tuple(
            _Validation(
                trim_space(v.get("expression") or ""),
                compile_expression(v.get("expression") or "", self.scope, types.BOOL),
                trim_space(v.get("message") or ""),
                compile_expression(v["messageExpression"], unauthorized, types.STRING)
                if v.get("messageExpression")
                else None,
                v.get("reason") or "Invalid",
            )
            for v in spec.get("validations") or ()
        )
        self.annotations = tuple(
            (
                a.get("key") or "",
                compile_expression(trim_space(a.get("valueExpression") or ""), self.scope, types.STRING, types.NULL),
            )
            for a in spec.get("auditAnnotations") or ()
        )

    def validate(self, inputs: Inputs) -> PolicyOutcome:
        """Raises Paused and Undecided."""
        try:
            if not self.conditions.hold(inputs, self.variables):
                return PolicyOutcome()
            return self._validate(inputs)
        except Failed as failed:
            return self._failure(str(failed))
        except OutOfBudget:
            return self._failure(OUT_OF_BUDGET)

    def _failure(self, message: str) -> PolicyOutcome:
        return PolicyOutcome(((0, PolicyDecision(message)),)) if self.fails else PolicyOutcome()

    def _validate(self, inputs: Inputs) -> PolicyOutcome:
        activation = inputs.activation("validations", self.variables)
        results = values(activation, [v.expression for v in self.validations])
        decisions: list[tuple[int, PolicyDecision]] = []
        for i, (validation, result) in enumerate(zip(self.validations, results, strict=True)):
            if isinstance(result, Failed):
                if self.fails:
                    decisions.append((i, PolicyDecision(str(result))))
            elif result is not True:
                decisions.append((i, PolicyDecision(_message(activation, validation), validation.reason)))
        annotations: list[tuple[str, str]] = []
        broken: list[str] = []
        if self.annotations:
            texts = values(inputs.activation("annotations", self.variables), [e for _, e in self.annotations])
            for (key, _), value in zip(self.annotations, texts, strict=True):
                if isinstance(value, Failed):
                    if self.fails:
                        broken.append(str(value))
                elif type(value) is str and trim_space(value):
                    annotations.append((key, trim_space(value)[:_MAX_ANNOTATION_BYTES]))
        return PolicyOutcome(tuple(decisions), tuple(annotations), tuple(broken))


def _message(activation: Activation, validation: _Validation) -> str:
    """The text for the client: messageExpression's value if it is one line, else the message or the expression."""
    message = ""
    if validation.message_expression is not None:
        try:
            value = activation.value(validation.message_expression)
        except Failed:
            value = None
        except OutOfBudget:
            return f"failed messageExpression: {OUT_OF_BUDGET}"
        if type(value) is str:
            message = trim_space(value)
            if len(message.encode("utf-8", "replace")) > MAX_MESSAGE_BYTES or "\n" in message:
                message = ""
    return message or validation.message or f"failed expression: {validation.text}"


# --- mutating policies


class MutationFailed(Exception):
    """A mutation failed; the text follows `policy 'p' with binding 'b' denied request: `."""


class _TooLarge(Exception):
    """What an expression returned would be too large in JSON."""


class MutatingPolicy(_Policy):
    def __init__(self, policy: Mapping[str, Any]) -> None:
        super().__init__(policy)
        spec = policy.get("spec") or {}
        self.reinvoked = spec.get("reinvocationPolicy") == "IfNeeded"
        scope = Scope(params=self.scope.params, patches=True, variables=self.scope.variables or {})
        self.mutations = tuple(_mutation(m, scope) for m in spec.get("mutations") or ())

    def is_json_patch(self, mutation: int) -> bool:
        return self.mutations[mutation][1]

    def mutate(self, mutation: int, inputs: Inputs, schema: AppliedType) -> Object:
        """The object after one mutation, before defaults; raises MutationFailed, Paused, and Undecided."""
        expression, is_patch = self.mutations[mutation]
        try:
            value = inputs.activation(f"mutation {mutation}", self.variables).value(expression)
            return _patch(inputs.object, value) if is_patch else _apply(inputs.object, value, schema)
        except (OutOfBudget, _TooLarge):
            raise MutationFailed(OUT_OF_BUDGET) from None
        except (Failed, EvalError) as failed:
            raise MutationFailed(str(failed)) from failed


def _mutation(mutation: Mapping[str, Any], scope: Scope) -> tuple[PolicyExpression, bool]:
    if mutation.get("patchType") == "JSONPatch":
        text = (mutation.get("jsonPatch") or {}).get("expression") or ""
        return compile_expression(text, scope, JSON_PATCHES), True
    text = (mutation.get("applyConfiguration") or {}).get("expression") or ""
    return compile_expression(text, scope, OBJECT), False


def _json(convert: Callable[[], T]) -> T:
    """Returns what `convert` makes of a value. Raises _TooLarge."""
    try:
        return convert()
    except BudgetExceeded:
        raise _TooLarge from None


def _apply(obj: Object, value: Value, schema: AppliedType) -> Object:
    configured = _json(lambda: configuration(value))
    applied = {**configured, "apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}
    try:
        return apply_configuration(schema, obj, applied)
    except TypedError as error:
        raise MutationFailed(f"error applying patch: {error}") from error


def _patch(obj: Object, value: Value) -> Object:
    try:
        patch = json_patch.decode(_json(lambda: operations(elements(value))))
        patched = json_patch.apply_json_patch(obj, patch)
    except ApplyError as error:
        if str(error).endswith("test failed"):
            return obj  # a failed test operation leaves the object unchanged
        raise MutationFailed(f"JSON Patch: {shorten(str(error))}") from error
    if not isinstance(patched, dict):
        raise MutationFailed("JSON Patch: the result is not an object")
    return patched
