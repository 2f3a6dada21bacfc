"""Validation of rules, match conditions, variables and parameters, which all configurations share.

Follows kubernetes pkg/apis/admissionregistration/validation/validation.go at v1.36.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from registry.admission.environment import PolicyExpression, Scope, compile_expression
from registry.admission.selectors import selector_errors
from registry.cel.common import types
from registry.cel.common.escaping import RESERVED
from registry.cel.common.types import Type
from registry.cel.ext.strings import trim_space
from registry.schema.field import (
    ErrorType,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from registry.schema.names import dns1035_label, dns1123_subdomain, label_key, name_is_path_segment

Json = Mapping[str, Any]

OPERATIONS: Final = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]
_SCOPES: Final = ["*", "Cluster", "Namespaced"]
FAILURE_POLICIES: Final = ["Fail", "Ignore"]
MATCH_POLICIES: Final = ["Equivalent", "Exact"]
REINVOCATION_POLICIES: Final = ["IfNeeded", "Never"]
_MAX_CONDITIONS: Final = 64
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)


def enum_errors(value: str | None, supported: list[str], path: str) -> list[FieldError]:
    return [] if value is None or value in supported else [not_supported(path, value, supported)]


def expression_errors(expression: PolicyExpression, path: str) -> list[FieldError]:
    if expression.error is None:
        return []
    if expression.error.internal:
        return [FieldError(ErrorType.INTERNAL, path, "", expression.error.detail)]
    return [invalid(path, expression.text, expression.error.detail)]


def compile_errors(text: str, scope: Scope, path: str, *wanted: Type) -> list[FieldError]:
    return expression_errors(compile_expression(text, scope, *wanted), path)


# --- rules


def rule_errors(rule: Json, path: str) -> list[FieldError]:
    operations: list[str] = rule.get("operations") or []
    errors = _listed_errors(operations, f"{path}.operations", "operations")
    errors += [
        not_supported(f"{path}.operations[{i}]", operation, OPERATIONS)
        for i, operation in enumerate(operations)
        if operation not in OPERATIONS
    ]
    errors += _listed_errors(rule.get("apiGroups") or [], f"{path}.apiGroups", "API groups")
    versions: list[str] = rule.get("apiVersions") or []
    errors += _listed_errors(versions, f"{path}.apiVersions", "API versions")
    errors += [required(f"{path}.apiVersions[{i}]") for i, version in enumerate(versions) if not version]
    errors += _resource_errors(rule.get("resources") or [], f"{path}.resources")
    return errors + enum_errors(rule.get("scope"), _SCOPES, f"{path}.scope")


def _listed_errors(values: list[str], path: str, what: str) -> list[FieldError]:
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _resource_errors(resources: list[str], path: str) -> list[FieldError]:
    errors = [] if resources else [required(path)]
    whole: set[str] = set()  # x/*
    parts: set[str] = set()  # */x
    plain = False
    for i, text in enumerate(resources):
        if not text:
            errors.append(required(f"{path}[{i}]"))
            continue
        resource, slash, part = text.partition("/")
        if not slash:
            plain = text != "*"
            continue
        if resource in whole:
            errors.append(invalid(f"{path}[{i}]", text, f"if '{resource}/*' is present, must not specify {text}"))
        if part in parts:
            errors.append(invalid(f"{path}[{i}]", text, f"if '*/{part}' is present, must not specify {text}"))
        if part == "*":
            whole.add(resource)
        if resource == "*":
            parts.add(part)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        errors.append(
            invalid(path, resources, "if '*' is present, must not specify other resources without subresources")
        )
    return errors


def match_resources_errors(match: Json | None, path: str) -> list[FieldError]:
    if match is None:
        return []
    errors = _needed_enum(match.get("matchPolicy"), MATCH_POLICIES, f"{path}.matchPolicy")
    for name in ("namespaceSelector", "objectSelector"):
        selector = match.get(name)
        errors += [required(f"{path}.{name}")] if selector is None else selector_errors(selector, f"{path}.{name}")
    for name in ("resourceRules", "excludeResourceRules"):
        for i, rule in enumerate(match.get(name) or ()):
            errors += _named_rule_errors(rule, f"{path}.{name}[{i}]")
    return errors


def _needed_enum(value: str | None, supported: list[str], path: str) -> list[FieldError]:
    return [required(path)] if value is None else enum_errors(value, supported, path)


def failure_policy_errors(spec: Json, path: str) -> list[FieldError]:
    return _needed_enum(spec.get("failurePolicy"), FAILURE_POLICIES, f"{path}.failurePolicy")


def _named_rule_errors(rule: Json, path: str) -> list[FieldError]:
    errors = []
    seen: set[str] = set()
    for i, name in enumerate(rule.get("resourceNames") or ()):
        at = f"{path}.resourceNames[{i}]"
        errors += [invalid(at, name, why) for why in name_is_path_segment(name)]
        if name in seen:
            errors.append(duplicate(at, name))
        seen.add(name)
    return errors + rule_errors(rule, path)


# --- match conditions, variables


def condition_errors(conditions: Sequence[Json] | None, path: str, *, params: bool) -> list[FieldError]:
    conditions = conditions or ()
    errors = [too_many(path, len(conditions), _MAX_CONDITIONS)] if len(conditions) > _MAX_CONDITIONS else []
    seen: set[str] = set()
    scope = Scope(params=params)
    for i, condition in enumerate(conditions[: 2 * _MAX_CONDITIONS]):  # thousands need not be compiled
        at = f"{path}[{i}]"
        text, name = trim_space(condition.get("expression") or ""), condition.get("name") or ""
        if not text:
            errors.append(required(f"{at}.expression"))
        else:
            errors += compile_errors(text, scope, f"{at}.expression", types.BOOL)
        if not name:
            errors.append(required(f"{at}.name"))
            continue
        errors += [invalid(f"{at}.name", name, why) for why in label_key(name)]
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        seen.add(name)
    return errors


def variable_errors(
    variables: Sequence[Json] | None, path: str, *, params: bool
) -> tuple[list[FieldError], Mapping[str, Type] | None]:
    """The errors, and the types of the variables for later expressions; None where there are errors."""
    if not variables:
        return [], None
    errors = []
    known: dict[str, Type] = {}
    for i, variable in enumerate(variables):
        at, name, text = f"{path}[{i}]", variable.get("name") or "", variable.get("expression") or ""
        if not trim_space(name):
            errors.append(required(f"{at}.name", "name is not specified"))
        elif not _IDENTIFIER.fullmatch(name) or name in RESERVED:
            errors.append(invalid(f"{at}.name", name, "must be a valid CEL identifier"))
        if not trim_space(text):
            errors.append(required(f"{at}.expression", "expression is not specified"))
            continue
        expression = compile_expression(text, Scope(params=params, variables=dict(known)))
        errors += expression_errors(expression, f"{at}.expression")
        known[name] = expression.type
    return errors, known


# --- parameters


def param_kind_errors(kind: Json | None, path: str) -> list[FieldError]:
    if kind is None:
        return []
    api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    errors = _api_version_errors(api_version, f"{path}.apiVersion")
    if not name:
        errors.append(required(f"{path}.kind"))
    elif why := dns1035_label(name.lower()):
        form = f"may have mixed case, but should otherwise match: {','.join(why)}"
        errors.append(invalid(f"{path}.kind", name, form))
    return errors


def _api_version_errors(text: str, path: str) -> list[FieldError]:
    if not text:
        return [required(path)]
    if text.count("/") > 1:
        return [invalid(path, text, f"unexpected GroupVersion string: {text}")]
    group, _, version = text.rpartition("/")
    errors = []
    if group and (why := dns1123_subdomain(group)):
        errors.append(invalid(path, group, ",".join(why)))
    if not version:
        errors.append(invalid(path, text, "version must be specified"))
    elif why := dns1035_label(version):
        errors.append(invalid(path, version, ",".join(why)))
    return errors


_EXCLUSIVE: Final = "name and selector are mutually exclusive"


def param_ref_errors(ref: Json | None, path: str) -> list[FieldError]:
    if ref is None:
        return []
    name, selector, action = ref.get("name") or "", ref.get("selector"), ref.get("parameterNotFoundAction")
    errors = [invalid(f"{path}.name", name, why) for why in name_is_path_segment(name)] if name else []
    if name and selector is not None:
        errors.append(forbidden(f"{path}.name", _EXCLUSIVE))
    errors += selector_errors(selector, f"{path}.selector")
    if name and selector is not None:
        errors.append(forbidden(f"{path}.selector", _EXCLUSIVE))
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    if not action:
        errors.append(required(f"{path}.parameterNotFoundAction"))
    else:
        errors += enum_errors(action, ["Deny", "Allow"], f"{path}.parameterNotFoundAction")
    return errors


def binding_errors(spec: Json, path: str) -> list[FieldError]:
    """The errors that both kinds of bindings have in common."""
    name = spec.get("policyName") or ""
    errors = (
        [invalid(f"{path}.policyName", name, why) for why in dns1123_subdomain(name)]
        if name
        else [required(f"{path}.policyName")]
    )
    errors += param_ref_errors(spec.get("paramRef"), f"{path}.paramRef")
    return errors + match_resources_errors(spec.get("matchResources"), f"{path}.matchResources")
