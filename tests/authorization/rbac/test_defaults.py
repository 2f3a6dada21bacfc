"""The default roles: whole, in the form in which they are stored, and as kube-apiserver names them."""

from __future__ import annotations

from registry.authorization.rbac.aggregate import aggregated_rules
from registry.authorization.rbac.defaults import AUTOUPDATE, default_entries, default_objects
from registry.authorization.rbac.model import Binding
from registry.authorization.rbac.stored import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, policy_of
from registry.controllers.aggregation import aggregate_rules
from registry.store.types import ObjectKey

OBJECTS = default_objects()
CLUSTER = {key: obj for (resource, key), obj in OBJECTS.items() if resource == CLUSTER_ROLES}


def test_every_binding_has_its_role() -> None:
    policy = policy_of({}, default_entries())
    bindings = [entry.value for entry in default_entries().values() if isinstance(entry.value, Binding)]
    assert bindings
    assert [b.name for b in bindings if policy.role(b.role, b.namespace) is None] == []


def test_all_defaults_are_labelled() -> None:
    for obj in OBJECTS.values():
        assert obj["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
        assert obj["metadata"]["annotations"] == {AUTOUPDATE: "true"}


def test_bindings_of_the_cluster_come_last() -> None:
    """A tenant counts as having its own roles from the first of them on."""
    resources = [resource for resource, _ in OBJECTS]
    first = resources.index(CLUSTER_ROLE_BINDINGS)
    assert set(resources[first:]) == {CLUSTER_ROLE_BINDINGS}
    assert set(resources[:first]) == {CLUSTER_ROLES, ROLES, ROLE_BINDINGS}
    # One transaction takes them all (store/commit/batch.py, MAX_ROWS).
    assert len(resources[first:]) <= 64


def test_rules_are_complete() -> None:
    for key, obj in CLUSTER.items():
        for rule in obj["rules"]:
            assert rule["verbs"] == sorted(rule["verbs"]), key
            assert ("nonResourceURLs" in rule) != ("resources" in rule and "apiGroups" in rule), key


def test_aggregated_roles_have_the_rules_of_their_parts() -> None:
    """So that writing them leaves the controller nothing to do."""
    for name in ("admin", "edit", "view"):
        role = CLUSTER[ObjectKey(name)]
        assert role["rules"]
        assert role["rules"] == aggregated_rules(role, CLUSTER.values())
    assert aggregate_rules(dict(CLUSTER)) == {}


def test_aggregation_runs_to_the_end() -> None:
    """What is added to view reaches admin through edit; two that select each other come to rest."""
    roles = {key: dict(obj) for key, obj in CLUSTER.items()}
    rule = {"verbs": ["get"], "apiGroups": ["g"], "resources": ["widgets"]}
    roles[ObjectKey("mine")] = {
        "metadata": {"name": "mine", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [rule],
    }
    aggregated = aggregate_rules(roles)
    assert sorted(aggregated) == ["admin", "edit", "view"]
    assert all(rules is not None and rule in rules for rules in aggregated.values())

    def circular(name: str, other: str) -> dict[str, object]:
        return {
            "metadata": {"name": name, "labels": {"of": name}},
            "rules": [rule] if name == "a" else None,
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"of": other}}]},
        }

    aggregate_rules({ObjectKey("a"): circular("a", "b"), ObjectKey("b"): circular("b", "a")})
