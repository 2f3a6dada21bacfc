"""Limit ranges: stored, validated and defaulted; nothing here consumes the resources that they limit.

Follows kubernetes pkg/apis/core/validation/validation.go (ValidateLimitRange) and pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

import uuid
from typing import Any

from registry.api.retry_memo import RetryMemo
from registry.api.strategies.base import Context, Object
from registry.api.strategies.builtin import TypedStrategy
from registry.api.strategies.resource_names import (
    container_name_errors,
    overcommits,
    qualified_name_errors,
    resource_name_errors,
)
from registry.builtin.quantities import quantity
from registry.builtin.structs import CORE
from registry.cel.ext.quantity import as_approximate_float
from registry.schema.field import FieldError, duplicate, forbidden, invalid, required

_TYPES = frozenset({"Container", "Pod", "PersistentVolumeClaim"})
_BOUNDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


class LimitRangeStrategy(TypedStrategy):
    struct = CORE["LimitRange"]
    has_quantities = True
    checks_finalizers = True
    allow_create_on_update = True

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        """A limit range without any name is given a uid as its name, as no other kind is."""
        super().prepare_for_create(obj, context)
        metadata, memo = obj["metadata"], context.memo or RetryMemo()
        if not metadata.get("name"):
            memo.name = metadata["name"] = memo.name or str(uuid.uuid4())

    def default(self, obj: Object) -> None:
        for limit in (obj.get("spec") or {}).get("limits") or []:
            if limit.get("type") == "Container":
                _default_container(limit)

    def finish(self, obj: Object) -> Object:
        finished = super().finish(obj)
        finished["spec"]["limits"] = finished["spec"]["limits"] or None  # Go's nil: an empty list becomes null
        return finished

    def meta_change_errors(self, new: Object, old: Object) -> list[FieldError]:
        """Nothing: an update is validated as a new object is."""
        return []

    def errors(self, obj: Object) -> list[FieldError]:
        errors = self.meta_errors(obj)
        seen: set[str] = set()
        for position, limit in enumerate((obj.get("spec") or {}).get("limits") or []):
            path, kind = f"spec.limits[{position}]", limit.get("type") or ""
            errors += _type_errors(kind, f"{path}.type")
            if kind in seen:
                errors.append(duplicate(f"{path}.type", kind))
            seen.add(kind)
            errors += _limit_errors(limit, kind, path)
        return errors


def _default_container(limit: dict[str, Any]) -> None:
    """Defaults a container's limits to the maximum, and its requests to the limits or else the minimum."""
    limits = {**(limit.get("max") or {}), **(limit.get("default") or {})}
    requests = {**(limit.get("min") or {}), **limits, **(limit.get("defaultRequest") or {})}
    if limits:
        limit["default"] = limits
    if requests:
        limit["defaultRequest"] = requests


def _type_errors(kind: str, path: str) -> list[FieldError]:
    errors = qualified_name_errors(kind, path)
    if not errors and "/" not in kind and kind not in _TYPES:
        errors.append(invalid(path, kind, "must be a standard limit type or fully qualified"))
    return errors


def _limit_errors(limit: dict[str, Any], kind: str, path: str) -> list[FieldError]:
    bounds = {name: limit.get(name) or {} for name in _BOUNDS}
    errors: list[FieldError] = []
    for name in ("max", "min"):
        errors += _names_errors(bounds[name], kind, f"{path}.{name}")
    for name in ("default", "defaultRequest"):
        if kind != "Pod":
            errors += _names_errors(bounds[name], kind, f"{path}.{name}")
        elif bounds[name]:
            errors.append(forbidden(f"{path}.{name}", "may not be specified when `type` is 'Pod'"))
            bounds[name] = {}
    if kind == "PersistentVolumeClaim" and "storage" not in {**bounds["min"], **bounds["max"]}:
        errors.append(
            required(f"{path}.limits", "either minimum or maximum storage value is required, but neither was provided")
        )
    errors += _names_errors(bounds["maxLimitRequestRatio"], kind, f"{path}.maxLimitRequestRatio")
    for resource in sorted({r for named in bounds.values() for r in named}):
        errors += _order_errors(resource, bounds, path)
    return errors


def _names_errors(bound: dict[str, str], kind: str, path: str) -> list[FieldError]:
    name_errors = container_name_errors if kind in ("Container", "Pod") else resource_name_errors
    return [error for name in sorted(bound) for error in name_errors(name, f"{path}[{name}]")]


# Pairs in which the first must not exceed the second, the field that is blamed, and the message; _SHOWN has the value
# that an error shows, if it is not the blamed one.
_ORDER = (
    ("min", "max", "min", "min value {0} is greater than max value {1}"),
    ("min", "defaultRequest", "defaultRequest", "min value {0} is greater than default request value {1}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {0} is greater than max value {1}"),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "default request value {0} is greater than default limit value {1}",
    ),
    ("min", "default", "default", "min value {0} is greater than default value {1}"),
    ("default", "max", "default", "default value {0} is greater than max value {1}"),
)
_SHOWN = {("min", "default"): 0, ("default", "max"): 1}


def _order_errors(resource: str, bounds: dict[str, dict[str, str]], path: str) -> list[FieldError]:
    errors = []
    for low, high, blamed, text in _ORDER:
        pair = (bounds[low].get(resource), bounds[high].get(resource))
        if pair[0] is None or pair[1] is None or quantity(pair[0]).compare(quantity(pair[1])) <= 0:
            continue
        value = pair[_SHOWN.get((low, high), 0 if blamed == low else 1)]
        errors.append(invalid(f"{path}.{blamed}[{resource}]", value, text.format(*pair)))
    errors += _ratio_errors(resource, bounds, path)
    default, request = bounds["default"].get(resource), bounds["defaultRequest"].get(resource)
    if default and request and not overcommits(resource) and quantity(default).compare(quantity(request)):
        why = f"default value {default} must equal to defaultRequest value {request} in {resource}"
        errors.append(invalid(f"{path}.defaultRequest[{resource}]", request, why))
    return errors


def _ratio_errors(resource: str, bounds: dict[str, dict[str, str]], path: str) -> list[FieldError]:
    ratio = bounds["maxLimitRequestRatio"].get(resource)
    if ratio is None:
        return []
    errors = []
    field = f"{path}.maxLimitRequestRatio[{resource}]"
    if quantity(ratio).compare(quantity("1")) < 0:
        errors.append(invalid(field, ratio, f"ratio {ratio} is less than 1"))
    low, high = bounds["min"].get(resource), bounds["max"].get(resource)
    if low and high and _number(low):
        limit = _number(high) / _number(low)
        if _number(ratio) > limit:
            errors.append(invalid(field, ratio, f"ratio {ratio} is greater than max/min = {limit:f}"))
    return errors


def _number(text: str) -> float:
    return as_approximate_float(quantity(text))
