"""The CEL environment of policies and match conditions: variables and result types.

`compile_expression(text, scope, BOOL)` returns an Expression; its `error` says why it is unusable, in the API's words.
activation.py evaluates it.

Follows apiserver pkg/admission/plugin/cel/{compile,composition}.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from registry.admission.authorizer import CelAuthorizer
from registry.admission.messages import MESSAGES, mutation_functions
from registry.cel.checker.checked import Checked
from registry.cel.checker.checker import check
from registry.cel.common import types
from registry.cel.common.types import Type, list_of, map_of, struct
from registry.cel.interpreter.compile import Program, compile_program
from registry.cel.interpreter.constants import program_error
from registry.cel.rules.expressions import parse_rule
from registry.cel.rules.literals import literal_issues
from registry.cel.syntax.errors import display

Json = Any

_STRINGS = list_of(types.STRING)
_STRING_MAP = map_of(types.STRING, types.STRING)


def _texts(names: str) -> dict[str, Type]:
    return dict.fromkeys(names.split(), types.STRING)


_KIND = struct("kubernetes.GroupVersionKind", _texts("group version kind"))
_RESOURCE = struct("kubernetes.GroupVersionResource", _texts("group version resource"))
_USER = struct(
    "kubernetes.UserInfo", {**_texts("username uid"), "groups": _STRINGS, "extra": map_of(types.STRING, _STRINGS)}
)
REQUEST: Final = struct(
    "kubernetes.AdmissionRequest",
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        **_texts("subResource requestSubResource name namespace operation"),
        "userInfo": _USER,
        "dryRun": types.BOOL,
        "options": types.DYN,
    },
)
_CONDITION: Final = struct(
    "kubernetes.NamespaceCondition", {**_texts("status type message reason"), "lastTransitionTime": types.TIMESTAMP}
)
NAMESPACE: Final = struct(
    "kubernetes.Namespace",
    {
        "metadata": struct(
            "kubernetes.NamespaceMetadata",
            {
                **_texts("name generateName namespace UID resourceVersion"),
                "labels": _STRING_MAP,
                "annotations": _STRING_MAP,
                "creationTimestamp": types.TIMESTAMP,
                "deletionTimestamp": types.TIMESTAMP,
                "deletionGracePeriodSeconds": types.INT,
                "generation": types.INT,
                "finalizers": _STRINGS,
            },
        ),
        "spec": struct("kubernetes.NamespaceSpec", {"finalizers": _STRINGS}),
        "status": struct("kubernetes.NamespaceStatus", {"conditions": list_of(_CONDITION), "phase": types.STRING}),
    },
)
AUTHORIZER: Final = struct(CelAuthorizer.type.name)
RESOURCE_CHECK: Final = struct("kubernetes.authorization.ResourceCheck")

# The variables of a frame, in order; an expression is checked with those of its scope only.
NAMES: Final = tuple(
    """
    object oldObject request namespaceObject params authorizer authorizer.requestResource variables
    """.split()
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
        parse_rule(text),
        scope.names(),
        functions=mutation_functions() if scope.patches else None,
        messages=MESSAGES if scope.patches else None,
    )
    issues = checked.issues or literal_issues(checked)
    return checked, display(checked.parsed.source, issues) if issues else ""
