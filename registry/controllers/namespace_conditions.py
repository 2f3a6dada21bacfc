"""The conditions of a terminating namespace about its content, in kube-controller-manager's words.

Follows kubernetes pkg/controller/namespace/deletion/status_condition_utils.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Status = dict[str, Any]
# Bounds errors of other servers.
_MESSAGE: Final = 4096


def with_conditions(
    status: Mapping[str, Any],
    remaining: Mapping[str, int],
    finalizers: Mapping[str, int],
    now: str,
    *,
    undiscovered: Sequence[str] = (),
    failures: Sequence[str] = (),
) -> Status:
    """Returns `status` with the five conditions. An unchanged condition keeps its time.

    `remaining` counts the remaining objects by plural and group, `{"configmaps.": 1, "widgets.example.com": 3}`,
    `finalizers` those held by each finalizer. `undiscovered` are group versions whose servers do not respond,
    `failures` other errors.
    """
    conditions = list(status.get("conditions") or ())
    for condition in [*_deletion_conditions(undiscovered, failures), *_conditions(remaining, finalizers)]:
        _put(conditions, {**condition, "lastTransitionTime": now})
    return {**status, "conditions": conditions}


def _put(conditions: list[Status], new: Status) -> None:
    for position, old in enumerate(conditions):
        if old.get("type") == new["type"]:
            if any(old.get(k) != new[k] for k in ("status", "reason", "message")):
                conditions[position] = new
            return
    conditions.append(new)


def _deletion_conditions(undiscovered: Sequence[str], failures: Sequence[str]) -> list[Status]:
    discovery = _condition(
        "NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"
    )
    if undiscovered:
        stale = ", ".join(f"{name}: stale GroupVersion discovery: {name}" for name in undiscovered)
        discovery |= {
            "status": "True",
            "reason": "DiscoveryFailed",
            "message": f"Discovery failed for some groups, {len(undiscovered)} failing: unable to retrieve the "
            f"complete list of server APIs: {stale}",
        }
    content = _condition(
        "NamespaceDeletionContentFailure",
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    )
    if failures:
        content |= {
            "status": "True",
            "reason": "ContentDeletionFailed",
            "message": f"Failed to delete all resource types, {len(failures)} remaining: {', '.join(failures)}"[
                :_MESSAGE
            ],
        }
    parsing = _condition(
        "NamespaceDeletionGroupVersionParsingFailure",
        "False",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    )
    return [discovery, parsing, content]


def _conditions(remaining: Mapping[str, int], finalizers: Mapping[str, int]) -> list[Status]:
    conditions = []
    if remaining:
        counts = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(remaining.items()))
        conditions.append(
            _condition(
                "NamespaceContentRemaining", "True", "SomeResourcesRemain", f"Some resources are remaining: {counts}"
            )
        )
    else:
        conditions.append(
            _condition("NamespaceContentRemaining", "False", "ContentRemoved", "All content successfully removed")
        )
    if finalizers:
        counts = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        conditions.append(
            _condition(
                "NamespaceFinalizersRemaining",
                "True",
                "SomeFinalizersRemain",
                f"Some content in the namespace has finalizers remaining: {counts}",
            )
        )
    else:
        conditions.append(
            _condition(
                "NamespaceFinalizersRemaining",
                "False",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            )
        )
    return conditions


def _condition(kind: str, status: str, reason: str, message: str) -> Status:
    return {"type": kind, "status": status, "reason": reason, "message": message}
