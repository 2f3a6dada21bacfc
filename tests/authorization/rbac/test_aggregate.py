"""What aggregated roles consist of, and how long it takes to find out."""

from __future__ import annotations

from time import thread_time
from typing import Any

from registry.authorization.rbac.aggregate import aggregated_rules


def role(name: str, labels: dict[str, str], *groups: str, selectors: Any = None) -> dict[str, Any]:
    rules = [{"apiGroups": [group], "resources": ["*"], "verbs": ["get"]} for group in groups]
    found: dict[str, Any] = {"metadata": {"name": name, "labels": labels}, "rules": rules}
    return found if selectors is None else {**found, "aggregationRule": {"clusterRoleSelectors": selectors}}


def groups(rules: list[Any]) -> list[str]:
    return [rule["apiGroups"][0] for rule in rules]


def test_rules_are_ordered_by_selector_and_name_without_duplicates() -> None:
    others = [
        role("b", {"x": "1", "y": "1"}, "b1", "a1"),
        role("a", {"x": "1"}, "a1", "a2"),
        role("c", {"y": "1"}, "c1"),
    ]
    own = role("whole", {"x": "1"}, "own", selectors=[{"matchLabels": {"y": "1"}}, {"matchLabels": {"x": "1"}}])
    assert groups(aggregated_rules(own, [*others, own])) == ["b1", "a1", "c1", "a2"]


def test_rules_that_differ_in_the_order_of_their_keys_are_equal() -> None:
    first, second = role("a", {}, "g"), role("b", {}, "g")
    second["rules"] = [dict(reversed(second["rules"][0].items()))]
    assert len(aggregated_rules(role("w", {}, selectors=[{}]), [first, second])) == 1


def test_many_rules_and_selectors_take_linear_time() -> None:
    others = [role(f"r{i}", {"part": "1"}, *(f"g{i}-{j}" for j in range(1000))) for i in range(20)]
    own = role("whole", {}, selectors=[{"matchLabels": {"part": "1"}}] * 2000)
    began = thread_time()
    assert len(aggregated_rules(own, others)) == 20_000
    assert thread_time() - began < 3
