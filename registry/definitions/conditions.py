"""The conditions in the status of a definition.

Follows apiextensions-apiserver pkg/apihelpers/helpers.go.
"""

from __future__ import annotations

from typing import Any

from registry.definitions.model import Json

Condition = dict[str, Any]


def find(crd: Json, condition_type: str) -> Condition | None:
    for condition in (crd.get("status") or {}).get("conditions") or ():
        if condition.get("type") == condition_type:
            match: Condition = condition
            return match
    return None


def is_true(crd: Json, condition_type: str) -> bool:
    condition = find(crd, condition_type)
    return condition is not None and condition.get("status") == "True"


def has_condition(crd: Json, condition_type: str, condition_status: str, reason: str, message: str) -> bool:
    """Whether there is this condition, at whatever time."""
    condition = find(crd, condition_type) or {}
    state = [condition.get(name) or "" for name in ("status", "reason", "message")]
    return state == [condition_status, reason, message]


def with_condition(
    status: Json, condition_type: str, condition_status: str, reason: str, message: str, now: str
) -> dict[str, Any]:
    """`status` with this condition set. Its time only changes if the condition's status does.

    `now` is in RFC 3339. An existing condition keeps its position; the given status is not changed.
    """
    new = {
        "type": condition_type,
        "status": condition_status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    conditions = []
    is_replaced = False
    for old in status.get("conditions") or ():
        if old.get("type") == condition_type and not is_replaced:
            is_replaced = True
            if old.get("status") == condition_status and old.get("lastTransitionTime"):
                new["lastTransitionTime"] = old["lastTransitionTime"]
            conditions.append({**old, **new})
        else:
            conditions.append(old)
    if not is_replaced:
        conditions.append(new)
    return {**status, "conditions": conditions}
