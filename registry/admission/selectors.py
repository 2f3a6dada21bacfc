"""Label selectors of configurations: compiles `{"matchLabels": {...}, "matchExpressions": [...]}` to a test of labels.

Follows apimachinery pkg/apis/meta/v1/{helpers,validation/validation}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry.schema.field import FieldError, forbidden, invalid, required
from registry.schema.names import label_key, label_value

Json = Mapping[str, Any]
Labels = Mapping[str, str]
Test = Callable[[Labels], bool]

OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def compile_selector(selector: Json | None) -> Test | None:
    """Returns None for a selector that matches everything. The selector must be valid."""
    if not selector:
        return None
    tests: list[Test] = [_equals(key, value) for key, value in (selector.get("matchLabels") or {}).items()]
    tests += [_requirement(r) for r in selector.get("matchExpressions") or ()]
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda labels: all(test(labels) for test in tests)


def _equals(key: str, value: str) -> Test:
    return lambda labels: labels.get(key) == value


def _requirement(requirement: Json) -> Test:
    key, values = requirement.get("key") or "", frozenset(requirement.get("values") or ())
    match requirement.get("operator"):
        case "In":
            return lambda labels: key in labels and labels[key] in values
        case "NotIn":
            return lambda labels: key not in labels or labels[key] not in values
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
        case _:
            return lambda labels: False


def selector_errors(selector: Json | None, path: str, *, any_value: bool = False) -> list[FieldError]:
    """`any_value` allows invalid label values, for a selector that already had them."""
    if selector is None:
        return []
    errors = []
    for key, value in sorted((selector.get("matchLabels") or {}).items()):
        at = f"{path}.matchLabels"
        errors += [invalid(at, key, why) for why in label_key(key)]
        if not any_value:
            errors += [invalid(at, value, why) for why in label_value(value)]
    for i, requirement in enumerate(selector.get("matchExpressions") or ()):
        errors += requirement_errors(requirement, f"{path}.matchExpressions[{i}]", any_value=any_value)
    return errors


def requirement_errors(
    requirement: Json, path: str, *, any_value: bool = False, any_operator: bool = False
) -> list[FieldError]:
    errors = operator_errors(requirement, path, any_operator=any_operator)
    key = requirement.get("key") or ""
    errors += [invalid(f"{path}.key", key, why) for why in label_key(key)]
    if not any_value:
        errors += [
            invalid(f"{path}.values[{i}]", value, why)
            for i, value in enumerate(requirement.get("values") or ())
            for why in label_value(value)
        ]
    return errors


def operator_errors(requirement: Json, path: str, *, any_operator: bool = False) -> list[FieldError]:
    """Returns the errors of an operator and of the number of its values; `any_operator` allows unknown operators."""
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    if operator in ("In", "NotIn"):
        return [] if values else [required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")]
    if operator in ("Exists", "DoesNotExist"):
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        return [forbidden(f"{path}.values", why)] if values else []
    return [] if any_operator else [invalid(f"{path}.operator", operator, "not a valid selector operator")]
