"""Ownership rules of built-in kinds: members that are always present, and the fields that a subresource resets.

In Go a built-in object is a struct: `spec: {}` or `status.acceptedNames` exist before any client sets them, so no
manager ever adds them, and no entry has a `.` for them. Follows the GetResetFields of the kinds' strategies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.apply.fieldsets import FieldSet

_STATUS: FieldSet = {"f:status": {}}
_NOT_STATUS: FieldSet = {"f:metadata": {}, "f:spec": {}}
_SPEC_ONLY: FieldSet = {"f:spec": {}}

# Their status can be written together with labels and annotations.
_STATUS_WITH_METADATA = frozenset({"CustomResourceDefinition", "Namespace", "ResourceQuota", "Service"})
_WITH_STATUS = _STATUS_WITH_METADATA | {"APIService", "StorageVersionMigration", "ValidatingAdmissionPolicy"}


def builtin_resets(kind: str, subresource: str) -> FieldSet:
    """The fields of a kind that a write through a subresource leaves unchanged."""
    if kind not in _WITH_STATUS:
        return {}
    if subresource == "status":
        return _SPEC_ONLY if kind in _STATUS_WITH_METADATA else _NOT_STATUS
    return _STATUS


def with_zeros(value: dict[str, Any], zeros: Mapping[str, Any]) -> dict[str, Any]:
    """`value` with the members that its Go struct always has; `value` itself if it has them all."""
    result = value
    for name, zero in zeros.items():
        part = value.get(name)
        if part is None:
            filled = zero
        elif type(zero) is dict and type(part) is dict:
            filled = with_zeros(part, zero)
        else:
            continue
        if filled is not part or name not in value:
            if result is value:
                result = dict(value)
            result[name] = filled
    return result
