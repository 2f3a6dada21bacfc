"""Validation of conditions in a status.

Follows apimachinery pkg/apis/meta/v1/validation/validation.go (ValidateConditions).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from registry.emulation import emulated
from registry.schema.field import FieldError, duplicate, index, invalid, not_supported, required, too_long
from registry.schema.names import label_key

_STATUSES: Final = ["False", "True", "Unknown"]
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_is_reason: Final = re.compile(_REASON).fullmatch
_NOT_A_REASON: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)
_MAX_REASON, _MAX_MESSAGE = 1024, 32 * 1024


def conditions_errors(conditions: Sequence[dict[str, Any]], path: str) -> list[FieldError]:
    """Returns the errors of conditions; 1.37 says of some what declarative validation would."""
    declarative = emulated().is_1_37
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, condition in enumerate(conditions):
        kind, at = condition.get("type") or "", index(path, i)
        if kind in seen:
            errors.append(duplicate(at if declarative else f"{at}.type", kind))
        seen.add(kind)
        errors += _condition_errors(condition, kind, at, declarative)
    return errors


def _condition_errors(condition: dict[str, Any], kind: str, path: str, declarative: bool) -> list[FieldError]:
    errors = [invalid(f"{path}.type", kind, problem) for problem in label_key(kind)]
    if not kind and declarative:
        errors = [required(f"{path}.type", "is required")]
    status = condition.get("status") or ""
    if not status and declarative:
        errors.append(required(f"{path}.status"))
    elif status not in _STATUSES:
        errors.append(not_supported(f"{path}.status", status, _STATUSES))
    generation = condition.get("observedGeneration") or 0
    if generation < 0:
        errors.append(invalid(f"{path}.observedGeneration", generation, "must be greater than or equal to zero"))
    if not condition.get("lastTransitionTime"):
        errors.append(required(f"{path}.lastTransitionTime"))
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    if not reason:
        errors.append(required(f"{path}.reason"))
    elif not _is_reason(reason):
        errors.append(invalid(f"{path}.reason", reason, _NOT_A_REASON))
    if len(reason.encode()) > _MAX_REASON:
        errors.append(too_long(f"{path}.reason", _MAX_REASON))
    if len(message.encode()) > _MAX_MESSAGE:
        errors.append(too_long(f"{path}.message", _MAX_MESSAGE))
    return errors
