"""What aggregated roles consist of, and how long it takes to find out."""

from __future__ import annotations

from time import thread_time
from typing import Any

from registry.authorization.rbac.aggregate import aggregated_rules
from registry.controllers.aggregation import aggregate_rules
from registry.store.types import ObjectKey


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


def chain(length: int, groups: int) -> dict[ObjectKey, dict[str, Any]]:
    """Roles each of which selects the one that comes before it by name, and the first of which has the rules."""
    roles = [role("r00000", {"in": "r00001"}, *(f"g{i}" for i in range(groups)))]
    for i in range(1, length + 1):
        name = f"r{i:05}"
        labels = {"in": f"r{i + 1:05}"}
        roles.append(role(name, labels, selectors=[{"matchLabels": {"in": name}}]))
    return {ObjectKey(one["metadata"]["name"]): one for one in roles}


def test_roles_that_select_one_another_take_linear_time() -> None:
    for reverse in (False, True):
        roles = chain(1_000, 1)
        if reverse:
            roles = dict(reversed(roles.items()))
        began = thread_time()
        aggregated = aggregate_rules(roles)
        assert thread_time() - began < 1
        assert len(aggregated) == 1_000
        assert all(rules == roles[ObjectKey("r00000")]["rules"] for rules in aggregated.values())


def test_aggregation_ends_with_the_first_role_that_there_is_no_room_for() -> None:
    roles = chain(1_000, 2_000)
    assert len(aggregate_rules(roles, 1 << 40)) == 1_000
    some = aggregate_rules(roles)
    assert [*some] == [ObjectKey(f"r{i:05}") for i in range(1, len(some) + 1)]
    *fits, too_many = some.values()
    assert too_many is None
    assert 10 < len(fits) < 100
    assert all(rules is not None and len(rules) == 2_000 for rules in fits)


def test_roles_in_a_circle_come_to_rest() -> None:
    roles = {ObjectKey(name): role(name, {"of": name}, f"g{name}", selectors=[{}]) for name in "abc"}
    aggregated = {key: {**roles[key], "rules": rules} for key, rules in aggregate_rules(roles).items()}
    assert aggregate_rules({**roles, **aggregated}) == {}
