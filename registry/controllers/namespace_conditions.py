"""The conditions of a terminating namespace about its content, in kube-controller-manager's words.

Follows kubernetes pkg/controller/namespace/deletion/status_condition_utils.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Status = dict[str, Any]
# Bounds errors of other servers, and names that they or users make up.
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
    problems = _problems(remaining, finalizers, undiscovered, failures)
    for kind, (reason, otherwise, message) in _REASONS.items():
        problem = problems.get(kind, "")
        condition = {"type": kind, "status": "True" if problem else "False", "reason": reason if problem else otherwise}
        _put(conditions, {**condition, "message": problem[:_MESSAGE] or message, "lastTransitionTime": now})
    return {**status, "conditions": conditions}


def _put(conditions: list[Status], new: Status) -> None:
    for position, old in enumerate(conditions):
        if old.get("type") == new["type"]:
            if any(old.get(k) != new[k] for k in ("status", "reason", "message")):
                conditions[position] = new
            return
    conditions.append(new)


# The reason of each condition where it has a problem to report; the reason and message where it has none.
_REASONS: Final = {
    "NamespaceDeletionDiscoveryFailure": (
        "DiscoveryFailed",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "GroupVersionParsingFailed",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeletionFailed",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("SomeResourcesRemain", "ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "SomeFinalizersRemain",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


def _problems(
    remaining: Mapping[str, int], finalizers: Mapping[str, int], undiscovered: Sequence[str], failures: Sequence[str]
) -> dict[str, str]:
    """Returns the messages of the conditions that have a problem to report."""
    problems = {}
    if undiscovered:
        stale = ", ".join(f"{name}: stale GroupVersion discovery: {name}" for name in undiscovered)
        problems["NamespaceDeletionDiscoveryFailure"] = (
            f"Discovery failed for some groups, {len(undiscovered)} failing: unable to retrieve the complete list of "
            f"server APIs: {stale}"
        )
    if failures:
        text = f"Failed to delete all resource types, {len(failures)} remaining: {', '.join(failures)}"
        problems["NamespaceDeletionContentFailure"] = text
    if remaining:
        counts = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(remaining.items()))
        problems["NamespaceContentRemaining"] = f"Some resources are remaining: {counts}"
    if finalizers:
        counts = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        problems["NamespaceFinalizersRemaining"] = f"Some content in the namespace has finalizers remaining: {counts}"
    return problems
