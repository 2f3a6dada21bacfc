"""Aggregated cluster roles: the rules of a role are those of the roles that its selectors match.

Follows kubernetes pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go at v1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from registry.admission.selectors import compile_selector
from registry.authorization.rbac.model import Object
from registry.codec.json_encode import encode_canonical

SELECTOR_LABEL = "rbac.authorization.k8s.io/aggregate-to-"


def aggregated_rules(role: Object, others: Iterable[Object]) -> list[Any]:
    """The rules ordered by selector and then by role name, without duplicates; the role itself contributes none."""
    roles = {other["metadata"]["name"]: other for other in others}
    return merged(roles[name] for name in RoleSelection(roles).of(role))


class RoleSelection:
    """The cluster roles of a tenant, by name, for the selectors of those that are aggregated."""

    def __init__(self, roles: Mapping[str, Object]) -> None:
        self._roles = roles
        self._names = sorted(roles)
        self._with_label: dict[tuple[str, str], list[str]] = {}
        for name in self._names:
            for label in (roles[name]["metadata"].get("labels") or {}).items():
                self._with_label.setdefault(label, []).append(name)

    def of(self, role: Object) -> list[str]:
        """Returns the names of the roles whose rules an aggregated one has, in the order of the rules."""
        selected = {role["metadata"]["name"]: None}
        for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
            labels = (selector.get("matchLabels") or {}).items()
            candidates = min((self._with_label.get(label, []) for label in labels), key=len, default=self._names)
            test = compile_selector(selector)
            for name in candidates:
                if name not in selected and (test is None or test(self._roles[name]["metadata"].get("labels") or {})):
                    selected[name] = None
        return [*selected][1:]


def merged(roles: Iterable[Object], text: Callable[[Any], str] = encode_canonical) -> list[Any]:
    """Returns the rules of all roles without duplicates: rules are equal if their canonical texts are."""
    rules: dict[str, Any] = {}
    for role in roles:
        for rule in role.get("rules") or ():
            rules.setdefault(text(rule), rule)
    return list(rules.values())
