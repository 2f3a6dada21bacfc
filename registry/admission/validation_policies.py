"""Validation of policies and their bindings.

Follows kubernetes pkg/apis/admissionregistration/validation/validation.go at v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from registry.admission.environment import Scope
from registry.admission.messages import JSON_PATCHES, OBJECT
from registry.admission.validation_rules import (
    REINVOCATION_POLICIES,
    binding_errors,
    compile_errors,
    condition_errors,
    enum_errors,
    failure_policy_errors,
    match_resources_errors,
    param_kind_errors,
    variable_errors,
)
from registry.cel.common import types
from registry.cel.common.types import Type
from registry.cel.ext.strings import trim_space
from registry.schema.field import FieldError, duplicate, invalid, not_supported, required
from registry.schema.names import label_key

Json = Mapping[str, Any]

_REASONS: Final = ["Forbidden", "Invalid", "RequestEntityTooLarge"]
_ACTIONS: Final = ["Audit", "Deny", "Warn"]
_MAX_ANNOTATIONS: Final = 20
_MAX_ANNOTATION_BYTES: Final = 5 * 1024
_MUTABLE: Final = ["*", "CONNECT", "CREATE", "UPDATE"]
_PATCHES: Final = {"ApplyConfiguration": ("applyConfiguration", OBJECT), "JSONPatch": ("jsonPatch", JSON_PATCHES)}


def _common_errors(spec: Json) -> list[FieldError]:
    errors = failure_policy_errors(spec, "spec")
    errors += param_kind_errors(spec.get("paramKind"), "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        return [*errors, required("spec.matchConstraints")]
    errors += match_resources_errors(match, "spec.matchConstraints")
    if not match.get("resourceRules"):
        errors.append(required("spec.matchConstraints.resourceRules"))
    return errors


def _conditions_changed(spec: Json, old: Json | None) -> bool:
    return old is None or any(spec.get(name) != old.get(name) for name in ("paramKind", "matchConditions"))


def validating_policy_errors(policy: Json, old: Json | None = None) -> list[FieldError]:
    """The errors of the spec; `old` is the policy that is replaced."""
    spec = policy.get("spec") or {}
    params = spec.get("paramKind") is not None
    errors = _common_errors(spec)
    if _conditions_changed(spec, (old.get("spec") or {}) if old is not None else None):
        errors += condition_errors(spec.get("matchConditions"), "spec.matchConditions", params=params)
    new_errors, variables = variable_errors(spec.get("variables"), "spec.variables", params=params)
    errors += new_errors
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations")
    if not validations and not annotations:
        needed = "validations or auditAnnotations must contain at least one item"
        return [*errors, required("spec.validations", needed), required("spec.auditAnnotations", needed)]
    scope = Scope(params=params, variables=variables)
    for i, validation in enumerate(validations):
        errors += _validation_errors(validation, scope, f"spec.validations[{i}]")
    return errors + _annotations_errors(policy["metadata"].get("name") or "", annotations or [], scope)


def _validation_errors(validation: Json, scope: Scope, path: str) -> list[FieldError]:
    errors = []
    text, message = validation.get("expression") or "", validation.get("message") or ""
    if not trim_space(text):
        errors.append(required(f"{path}.expression", "expression is not specified"))
    else:
        errors += compile_errors(text, scope, f"{path}.expression", types.BOOL)
    message_expression = validation.get("messageExpression") or ""
    if message_expression and not trim_space(message_expression):
        errors.append(invalid(f"{path}.messageExpression", message_expression, "must be non-empty if specified"))
    elif message_expression:
        unauthorized = Scope(params=scope.params, authorizer=False, variables=scope.variables)
        errors += compile_errors(message_expression, unauthorized, f"{path}.messageExpression", types.STRING)
    if message and not trim_space(message):
        errors.append(invalid(f"{path}.message", message, "must be non-empty if specified"))
    elif any(c in trim_space(message) for c in "\r\n"):
        errors.append(invalid(f"{path}.message", message, "must not contain line breaks"))
    return errors + enum_errors(validation.get("reason"), _REASONS, f"{path}.reason")


def _annotations_errors(name: str, annotations: list[Json], scope: Scope) -> list[FieldError]:
    path = "spec.auditAnnotations"
    if len(annotations) > _MAX_ANNOTATIONS:
        return [invalid(path, annotations, f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations")]
    errors = []
    seen: set[str] = set()
    for i, annotation in enumerate(annotations):
        at, key = f"{path}[{i}]", annotation.get("key") or ""
        if name:
            whole = f"{name}/{key}"
            errors += [invalid(f"{at}.key", whole, why) for why in label_key(whole)]
        else:
            errors.append(invalid(f"{at}.key", key, "requires metadata.name be non-empty"))
        text = trim_space(annotation.get("valueExpression") or "")
        if not text:
            errors.append(required(f"{at}.valueExpression", "valueExpression is not specified"))
        elif len(text.encode("utf-8", "replace")) > _MAX_ANNOTATION_BYTES:
            errors.append(required(f"{at}.valueExpression", f"must not exceed {_MAX_ANNOTATION_BYTES} bytes in length"))
        else:
            errors += compile_errors(text, scope, f"{at}.valueExpression", types.STRING, types.NULL)
        if key in seen:
            errors.append(duplicate(f"{at}.key", key))
        seen.add(key)
    return errors


def validating_binding_errors(binding: Json) -> list[FieldError]:
    spec = binding.get("spec") or {}
    actions: list[str] = spec.get("validationActions") or []
    path = "spec.validationActions"
    errors = binding_errors(spec, "spec")
    seen: set[str] = set()
    for i, action in enumerate(actions):
        errors += enum_errors(action, _ACTIONS, f"{path}[{i}]")
        if action in seen:
            errors.append(duplicate(f"{path}[{i}]", action))
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        why = (
            "must not contain both Deny and Warn (repeating the same validation "
            "failure information in the API response and headers serves no purpose)"
        )
        errors.append(invalid(path, actions, why))
    if not seen:
        errors.append(required(path, "at least one validation action is required"))
    return errors


def mutating_policy_errors(policy: Json, old: Json | None = None) -> list[FieldError]:
    spec = policy.get("spec") or {}
    params = spec.get("paramKind") is not None
    errors = _common_errors(spec)
    errors += _mutable_errors(spec.get("matchConstraints"), "spec.matchConstraints")
    if _conditions_changed(spec, (old.get("spec") or {}) if old is not None else None):
        errors += condition_errors(spec.get("matchConditions"), "spec.matchConditions", params=params)
    new_errors, variables = variable_errors(spec.get("variables"), "spec.variables", params=params)
    errors += new_errors
    mutations = spec.get("mutations") or []
    if not mutations:
        errors.append(required("spec.mutations", "mutations must contain at least one item"))
    for i, mutation in enumerate(mutations):
        errors += _mutation_errors(mutation, params, variables, f"spec.mutations[{i}]")
    policy_errors = spec.get("reinvocationPolicy") or ""
    if not policy_errors:
        return [*errors, required("spec.reinvocationPolicy")]
    return errors + enum_errors(policy_errors, REINVOCATION_POLICIES, "spec.reinvocationPolicy")


def _mutation_errors(mutation: Json, params: bool, variables: Mapping[str, Type] | None, path: str) -> list[FieldError]:
    kind = mutation.get("patchType") or ""
    if not kind:
        return [required(f"{path}.patchType")]
    if kind not in _PATCHES:
        return [not_supported(f"{path}.patchType", kind, list(_PATCHES))]
    name, wanted = _PATCHES[kind]
    errors = []
    patch = mutation.get(name)
    if patch is None:
        errors.append(required(f"{path}.{name}", f"must be specified when patchType is {kind}"))
    elif not trim_space(patch.get("expression") or ""):
        errors.append(required(f"{path}.{name}.expression"))
    else:
        scope = Scope(params=params, patches=True, variables=variables or {})  # declared even if there are none
        errors += compile_errors(trim_space(patch["expression"]), scope, f"{path}.{name}.expression", wanted)
    errors += [
        invalid(f"{path}.{other}", f"{{{other}}}", f"must not be specified when patchType is {kind}")
        for other, _ in _PATCHES.values()
        if other != name and mutation.get(other) is not None
    ]
    return errors


def mutating_binding_errors(binding: Json) -> list[FieldError]:
    spec = binding.get("spec") or {}
    return binding_errors(spec, "spec") + _mutable_errors(spec.get("matchResources"), "spec.matchResources")


def _mutable_errors(match: Json | None, path: str) -> list[FieldError]:
    """Returns an error for each operation that cannot be mutated: only creates and updates can."""
    return [
        not_supported(f"{path}.resourceRules.operations", operation, _MUTABLE)
        for rule in (match or {}).get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        if operation not in _MUTABLE
    ]
