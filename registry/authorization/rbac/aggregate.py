"""Aggregated cluster roles: the rules of a role are those of the roles that its selectors match.

Follows kubernetes pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go at v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from registry.codec.json_encode import encode_canonical

SELECTOR_LABEL = "rbac.authorization.k8s.io/aggregate-to-"
Object = Mapping[str, Any]


def aggregated_rules(role: Object, others: Iterable[Object]) -> list[Any]:
    """The rules ordered by selector and then by role name, without duplicates; the role itself contributes none."""
    left = {other["metadata"]["name"]: other for other in others}
    left.pop(role["metadata"]["name"], None)
    rules: dict[str, Any] = {}
    for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        for name in sorted(name for name, other in left.items() if selects(selector, other)):
            for rule in left.pop(name).get("rules") or ():
                rules.setdefault(encode_canonical(rule), rule)
    return list(rules.values())


def selects(selector: Object, obj: Object) -> bool:
    """Whether a valid label selector matches an object. An empty one matches everything."""
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
