"""The fields of an object that its Scale consists of: reads them by the paths in the definition, and validates them.

Follows apiextensions-apiserver pkg/registry/customresource/validator.go (ValidateScaleSpec, ValidateScaleStatus).
"""

from __future__ import annotations

from typing import Any, Final

from registry.api.strategies.base import Object
from registry.apply.validate import go_plain
from registry.codec.go_text import go_type
from registry.definitions.model import Scale
from registry.schema.field import FieldError, invalid

_INT32_MAX: Final = (1 << 31) - 1


def scale_errors(scale: Scale | None, obj: Object, *, spec: bool = True) -> list[FieldError]:
    """The errors of these fields; without `spec` those of the status only, which are all that a status can cause."""
    if scale is None:
        return []
    errors = []
    for path in (scale.spec_replicas_path, scale.status_replicas_path) if spec else (scale.status_replicas_path,):
        value, fault = nested(obj, path, int, "int64")
        if fault:
            errors.append(invalid(path, 0, fault))
        elif value is None:
            continue
        elif value < 0:
            errors.append(invalid(path, value, "should be a non-negative integer"))
        elif value > _INT32_MAX:
            errors.append(invalid(path, value, f"should be less than or equal to {_INT32_MAX}"))
    if scale.label_selector_path:
        _, fault = nested(obj, scale.label_selector_path, str, "string")
        if fault:
            errors.append(invalid(scale.label_selector_path, "", fault))
    return errors


def nested(obj: Object, path: str, wanted: type, go: str) -> tuple[Any, str]:
    """Returns the value at `.spec.replicas` and "", None if it is absent, or the error of the first other type.

    Follows NestedInt64 and NestedString of apimachinery pkg/apis/meta/v1/unstructured/helpers.go.
    """
    value: Any = obj
    passed = ""
    for part in path.strip(".").split("."):
        passed += f".{part}"
        if value is None:
            return None, ""
        if not isinstance(value, dict):
            return None, _accessor_error(passed, value, "map[string]interface{}")
        if part not in value:
            return None, ""
        value = value[part]
    return (value, "") if type(value) is wanted else (None, _accessor_error(path, value, go))


def _accessor_error(path: str, value: Any, go: str) -> str:
    return f"{path} accessor error: {go_plain(value)} is of the type {go_type(value)}, expected {go}"
