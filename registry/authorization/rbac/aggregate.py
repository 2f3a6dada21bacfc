"""Aggregated cluster roles: the rules of a role are those of the roles that its selectors select.

Follows kubernetes pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go at v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SELECTOR_LABEL = "rbac.authorization.k8s.io/aggregate-to-"
Object = Mapping[str, Any]


def aggregated_rules(role: Object, others: Iterable[Object]) -> list[Any]:
    """The rules by selector and then by the names of the roles, equal ones once; the role itself gives none."""
    ordered = sorted(others, key=lambda other: other["metadata"]["name"])
    rules: list[Any] = []
    for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        for other in ordered:
            if other["metadata"]["name"] == role["metadata"]["name"] or not selects(selector, other):
                continue
            rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules


def selects(selector: Object, obj: Object) -> bool:
    """Whether a label selector that has been found to be right selects an object. An empty one selects everything."""
    labels = obj["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()) and all(
        _meets(labels, requirement) for requirement in selector.get("matchExpressions") or ()
    )


def _meets(labels: Mapping[str, str], requirement: Object) -> bool:
    key, values = requirement.get("key") or "", requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
