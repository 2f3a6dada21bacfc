"""One row for each row of the Kubernetes documentation of RBAC: its examples, its subjects, its default roles."""

from __future__ import annotations

from typing import Any

import pytest

from registry.authentication.user import ANONYMOUS, User
from registry.authorization.rbac.aggregate import aggregated_rules
from registry.authorization.rbac.defaults import default_entries
from registry.authorization.rbac.policy import CompiledRole
from registry.authorization.rbac.stored import CLUSTER_ROLES, policy_of
from registry.store.types import ObjectKey
from tests.authorization.rbac.build import account, allowed, bound, compiled, known, policy

Rules = list[dict[str, Any]]


def rule(groups: str, resources: str, verbs: str, names: str = "") -> dict[str, Any]:
    """Words separated by blanks; `core` is the core group."""
    made: dict[str, Any] = {
        "apiGroups": ["" if g == "core" else g for g in groups.split()],
        "resources": resources.split(),
        "verbs": verbs.split(),
    }
    return {**made, "resourceNames": names.split()} if names else made


# What is allowed and what is not, to one who has a role of these rules in the namespace n.
ROLES: dict[str, tuple[Rules, list[str], list[str]]] = {
    "a role that reads pods": (
        [rule("core", "pods", "get watch list")],
        ["get pods a in n", "list pods in n", "watch pods in n"],
        ["create pods in n", "get pods a in m", "list pods", "get secrets a in n", "get pods/log a in n"],
    ),
    "a role of a subresource": (
        [rule("core", "pods pods/log", "get list")],
        ["get pods/log a in n", "get pods a in n"],
        ["get pods/exec a in n"],
    ),
    "a role of one object": (
        [rule("core", "configmaps", "update get", "my-configmap")],
        ["get configmaps my-configmap in n", "update configmaps my-configmap in n"],
        ["get configmaps other in n", "list configmaps in n", "create configmaps in n"],
    ),
    "list and watch of one object": (
        [rule("core", "configmaps", "list watch", "a")],
        ["list configmaps a in n", "watch configmaps a in n"],
        ["list configmaps in n"],
    ),
    "all verbs of all resources of a group": (
        [rule("example.com", "*", "*")],
        ["get widgets.example.com a in n", "frob widgets.example.com/deep a in n"],
        ["get pods a in n"],
    ),
    "core pods": ([rule("core", "pods", "get list watch")], ["list pods in n"], ["list pods.apps in n"]),
    "deployments of apps": (
        [rule("apps", "deployments", "get list watch create update patch delete")],
        ["patch deployments.apps a in n"],
        ["patch deployments a in n", "deletecollection deployments.apps in n"],
    ),
    "pods, and jobs of batch": (
        [rule("core", "pods", "get list watch"), rule("batch", "jobs", "get list watch create update patch delete")],
        ["get pods a in n", "delete jobs.batch a in n"],
        ["delete pods a in n"],
    ),
    "the config map my-config": (
        [rule("core", "configmaps", "get", "my-config")],
        ["get configmaps my-config in n"],
        ["get configmaps a in n"],
    ),
    "every scale": ([rule("*", "*/scale", "get")], ["get widgets.g/scale a in n"], ["get widgets.g a in n"]),
}


@pytest.mark.parametrize("rules, yes, no", ROLES.values(), ids=ROLES)
def test_examples_of_roles(rules: Rules, yes: list[str], no: list[str]) -> None:
    found = policy(bound("r", "User jane", namespace="n", kind="Role"), roles={("n", "r"): compiled(*rules)})
    assert allowed(found, known("jane"), yes + no) == yes
    assert allowed(found, known("john"), yes) == []


NODES = compiled(
    rule("core", "nodes", "get list watch"), {"nonResourceURLs": ["/healthz", "/healthz/*"], "verbs": ["get", "post"]}
)
CLUSTER_QUESTIONS = [
    "get nodes a",
    "get /healthz",
    "post /healthz/etcd",
    "get /health",
    "delete /healthz",
    "get secrets a in m",
    "list secrets",
]
# By how it is bound: what of the questions is allowed.
BINDINGS: dict[str, tuple[str, CompiledRole, list[str]]] = {
    "nodes and paths, everywhere": ("", NODES, ["get nodes a", "get /healthz", "post /healthz/etcd"]),
    "nodes and paths, by a RoleBinding": ("m", NODES, []),
    "secrets, everywhere": (
        "",
        compiled(rule("core", "secrets", "get watch list")),
        ["get secrets a in m", "list secrets"],
    ),
    "secrets, by a RoleBinding": ("m", compiled(rule("core", "secrets", "get watch list")), ["get secrets a in m"]),
}


@pytest.mark.parametrize("namespace, role, yes", BINDINGS.values(), ids=BINDINGS)
def test_a_cluster_role_holds_where_it_is_bound(namespace: str, role: CompiledRole, yes: list[str]) -> None:
    found = policy(bound("r", "User dave", namespace=namespace), cluster_roles={"r": role})
    assert allowed(found, known("dave"), CLUSTER_QUESTIONS) == yes


MY = account("my-namespace", "my-sa")
SUBJECTS: dict[str, tuple[str, list[User], list[User]]] = {
    "a user": ("User alice@example.com", [known("alice@example.com")], [known("alice"), ANONYMOUS]),
    "a group": ("Group frontend-admins", [known("x", "frontend-admins")], [known("frontend-admins")]),
    "the default account of kube-system": (
        "ServiceAccount kube-system/default",
        [account("kube-system", "default")],
        [account("default", "default"), known("default")],
    ),
    "an account": ("ServiceAccount my-namespace/my-sa", [MY], [account("other", "my-sa")]),
    "all accounts of a namespace": ("Group system:serviceaccounts:qa", [account("qa", "a")], [MY]),
    "all accounts": ("Group system:serviceaccounts", [MY, account("qa", "a")], [known("a")]),
    "authenticated users": ("Group system:authenticated", [MY, known("a")], [ANONYMOUS]),
    "unauthenticated users": ("Group system:unauthenticated", [ANONYMOUS], [MY]),
}


@pytest.mark.parametrize("subject, they, others", SUBJECTS.values(), ids=SUBJECTS)
def test_subjects(subject: str, they: list[User], others: list[User]) -> None:
    found = policy(bound("r", subject), cluster_roles={"r": compiled(rule("core", "pods", "list"))})
    assert [user for user in they + others if allowed(found, user, ["list pods"])] == they


def test_all_users_are_authenticated_and_unauthenticated_ones() -> None:
    found = policy(
        bound("r", "Group system:authenticated"),
        bound("r", "Group system:unauthenticated"),
        cluster_roles={"r": compiled(rule("core", "pods", "list"))},
    )
    assert all(allowed(found, user, ["list pods"]) for user in (MY, known("a"), ANONYMOUS))


def test_an_account_without_a_namespace_is_of_the_binding() -> None:
    found = policy(
        bound("r", "ServiceAccount my-sa", namespace="my-namespace"),
        bound("r", "ServiceAccount my-sa"),
        cluster_roles={"r": compiled(rule("core", "pods", "list"))},
    )
    assert allowed(found, MY, ["list pods in my-namespace", "list pods"]) == ["list pods in my-namespace"]


def test_aggregation_of_the_documentation() -> None:
    monitoring = {
        "metadata": {"name": "monitoring"},
        "rules": None,
        "aggregationRule": {
            "clusterRoleSelectors": [{"matchLabels": {"rbac.example.com/aggregate-to-monitoring": "true"}}]
        },
    }
    part = {
        "metadata": {"name": "monitoring-endpoints", "labels": {"rbac.example.com/aggregate-to-monitoring": "true"}},
        "rules": [rule("core", "services endpointslices pods", "get list watch")],
    }
    other = {"metadata": {"name": "other"}, "rules": [rule("core", "secrets", "get")]}
    assert aggregated_rules(monitoring, [other, monitoring, part]) == part["rules"]


# What the default roles give to whom they are bound in the namespace n, and what they do not.
USER_FACING: dict[str, tuple[list[str], list[str]]] = {
    "cluster-admin": (["delete widgets.g a in n", "update namespaces/finalize n in n", "escalate roles a in n"], []),
    "admin": (
        [
            "create roles.rbac.authorization.k8s.io in n",
            "create rolebindings.rbac.authorization.k8s.io in n",
            "update configmaps a in n",
            "get secrets a in n",
            "create localsubjectaccessreviews.authorization.k8s.io in n",
        ],
        ["update resourcequotas a in n", "update namespaces n in n", "create endpointslices.discovery.k8s.io in n"],
    ),
    "edit": (
        [
            "update configmaps a in n",
            "get secrets a in n",
            "create serviceaccounts/token a in n",
            "impersonate serviceaccounts a in n",
            "create events in n",
            "create events.events.k8s.io in n",
        ],
        ["get roles.rbac.authorization.k8s.io a in n", "create roles.rbac.authorization.k8s.io in n"],
    ),
    "view": (
        [
            "get configmaps a in n",
            "list endpointslices.discovery.k8s.io in n",
            "get namespaces n in n",
            "list events in n",
            "list events.events.k8s.io in n",
        ],
        [
            "get secrets a in n",
            "create events.events.k8s.io in n",
            "get roles.rbac.authorization.k8s.io a in n",
            "update configmaps a in n",
        ],
    ),
}


def default_role(name: str) -> CompiledRole:
    found = default_entries()[CLUSTER_ROLES, ObjectKey(name)].value
    assert isinstance(found, CompiledRole)
    return found


@pytest.mark.parametrize("name", USER_FACING)
def test_roles_for_people(name: str) -> None:
    yes, no = USER_FACING[name]
    found = policy(bound(name, "User jane", namespace="n"), cluster_roles={name: default_role(name)})
    assert allowed(found, known("jane"), yes + no) == yes


# To whom the defaults are bound, and what they give.
BOUND: dict[str, tuple[User, list[str], list[str]]] = {
    "system:basic-user": (
        known("a"),
        [
            "create selfsubjectaccessreviews.authorization.k8s.io",
            "create selfsubjectrulesreviews.authorization.k8s.io",
            "create selfsubjectreviews.authentication.k8s.io",
        ],
        ["create subjectaccessreviews.authorization.k8s.io"],
    ),
    "system:discovery": (
        known("a"),
        ["get /api", "get /apis/x/y", "get /openapi/v3", "get /version"],
        ["get /metrics", "post /api"],
    ),
    "system:public-info-viewer": (
        ANONYMOUS,
        ["get /healthz", "get /livez", "get /readyz", "get /version"],
        ["get /api", "get /readyz/ping", "create selfsubjectreviews.authentication.k8s.io"],
    ),
    "system:monitoring": (
        known("m", "system:monitoring"),
        ["get /metrics", "get /metrics/slis", "get /livez/ping", "get /statusz", "get nodes/metrics a"],
        ["list pods", "get nodes a"],
    ),
    "cluster-admin": (known("m", "system:masters"), ["get /metrics", "delete widgets.g a in n"], []),
    "system:kube-scheduler": (
        User("system:kube-scheduler"),
        ["create pods/binding a in n", "list nodes"],
        ["delete nodes a"],
    ),
    "system:volume-scheduler": (User("system:kube-scheduler"), ["update persistentvolumes a"], []),
    "system:kube-controller-manager": (
        User("system:kube-controller-manager"),
        ["list widgets.g", "create serviceaccounts/token a in n"],
        ["delete widgets.g a in n"],
    ),
    "system:node-proxier": (
        User("system:kube-proxy"),
        ["watch services", "list endpointslices.discovery.k8s.io"],
        ["update services a in n"],
    ),
    "system:kube-dns": (account("kube-system", "kube-dns"), ["list endpoints"], ["list secrets"]),
    "system:node is bound to nobody": (known("system:node:a", "system:nodes"), [], ["list pods", "create nodes"]),
    "the namespace controller": (
        account("kube-system", "namespace-controller"),
        ["update namespaces/finalize a in a", "deletecollection widgets.g in a"],
        ["create widgets.g in a"],
    ),
    "the garbage collector": (
        account("kube-system", "generic-garbage-collector"),
        ["delete widgets.g a in n"],
        ["create widgets.g in n"],
    ),
    "the aggregation of roles": (
        account("kube-system", "clusterrole-aggregation-controller"),
        ["escalate clusterroles.rbac.authorization.k8s.io a"],
        [],
    ),
}


@pytest.mark.parametrize("user, yes, no", BOUND.values(), ids=BOUND)
def test_default_bindings(user: User, yes: list[str], no: list[str]) -> None:
    assert allowed(policy_of({}, default_entries()), user, yes + no) == yes


@pytest.mark.parametrize(
    "name",
    [
        "system:auth-delegator",
        "system:heapster",
        "system:kube-aggregator",
        "system:kubelet-api-admin",
        "system:node-bootstrapper",
        "system:node-problem-detector",
        "system:persistent-volume-provisioner",
        "system:node",
        "system:service-account-issuer-discovery",
    ],
)
def test_roles_for_components(name: str) -> None:
    assert default_role(name).rules
