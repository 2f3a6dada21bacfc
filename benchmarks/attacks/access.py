"""Who may do what, and who asks: roles and bindings, tokens, and reviews of access."""

from __future__ import annotations

import base64
import json
from itertools import count, cycle
from typing import Any

from benchmarks.attacks.attacker import TENANT, Attacker
from benchmarks.client import JSON

RBAC = f"{TENANT}/apis/rbac.authorization.k8s.io/v1"
AUTHENTICATION = f"{TENANT}/apis/authentication.k8s.io/v1"
AUTHORIZATION = f"{TENANT}/apis/authorization.k8s.io/v1"


async def bindings(attacker: Attacker) -> None:
    """Roles and bindings by the thousand, which move while rules are asked for."""
    rules = [{"apiGroups": [f"g{i}"], "resources": [f"r{j}" for j in range(20)], "verbs": ["get"]} for i in range(100)]
    head = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    for i in range(20):
        role = {**head, "kind": "ClusterRole", "metadata": {"name": f"role{i}"}, "rules": rules}
        await attacker.ask("POST", f"{RBAC}/clusterroles", role)
    for i in range(1_000):
        await attacker.ask("POST", f"{RBAC}/clusterrolebindings", _binding(f"b{i}", f"role{i % 20}", 40))
    numbers = count()

    async def work(one: Attacker) -> None:
        i = next(numbers)
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
        await one.ask("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {**review, "spec": {"namespace": "default"}})
        attributes = {"verb": "get", "resource": "nothing", "group": "nowhere"}
        access = {"user": "u1", "groups": ["g"], "resourceAttributes": attributes}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        await one.ask("POST", f"{AUTHORIZATION}/subjectaccessreviews", {**review, "spec": access})
        await one.ask("POST", f"{RBAC}/clusterrolebindings", _binding(f"more{i}", "role1", 40))
        await one.ask("DELETE", f"{RBAC}/clusterrolebindings/more{i}")

    await attacker.parallel(4, work)


async def bound(attacker: Attacker) -> None:
    """A role of thousands of rules that is bound hundreds of times to one user, who lacks the right in question."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": [f"{i}"], "verbs": ["get"]} for i in range(10_000)
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "bound"}}
    await attacker.ask("POST", f"{RBAC}/clusterroles", {**role, "rules": rules})
    for i in range(500):
        await attacker.ask("POST", f"{RBAC}/clusterrolebindings", _binding(f"bound{i}", "bound", 1))
    numbers = count()

    async def work(one: Attacker) -> None:
        attributes = {"verb": "get", "resource": "pods", "name": f"none{next(numbers)}"}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        spec = {"user": "u0", "resourceAttributes": attributes}
        await one.ask("POST", f"{AUTHORIZATION}/subjectaccessreviews", {**review, "spec": spec})

    await attacker.parallel(8, work)


async def rules_reviews(attacker: Attacker) -> None:
    """Rules reviews of as much as a review returns, for a user of thousands of rules, in JSON and in YAML."""
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    for i in range(20):
        names = [[f"n{i}-{j}-{k}" for k in range(40)] for j in range(100)]
        rules = [{"apiGroups": [""], "resources": ["pods"], "resourceNames": some, "verbs": ["get"]} for some in names]
        await attacker.ask("POST", f"{RBAC}/clusterroles", {**head, "metadata": {"name": f"ruled{i}"}, "rules": rules})
        await attacker.ask("POST", f"{RBAC}/clusterrolebindings", _binding(f"ruled{i}", f"ruled{i}", 1))
    accepted = cycle([JSON, "application/yaml"])
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "default"},
    }
    path = f"{AUTHORIZATION}/selfsubjectrulesreviews"
    creators = {"apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectrulesreviews"], "verbs": ["create"]}
    role = {**head, "metadata": {"name": "reviewers"}, "rules": [creators]}
    await attacker.ask("POST", f"{RBAC}/clusterroles", role)
    await attacker.ask("POST", f"{RBAC}/clusterrolebindings", _binding("reviewers", "reviewers", 1))

    async def work(one: Attacker) -> None:
        await one.ask("POST", path, {**review, "spec": {"namespace": "default"}}, accept=next(accepted), user="u0")

    await attacker.parallel(8, work)


async def chains(attacker: Attacker) -> None:
    """Hundreds of aggregated roles, each of which selects the next, and the last of which has other rules each time."""
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    for i in range(300):
        metadata = {"name": f"chain{999 - i}", "labels": {"chain": f"{i}"}}
        selector = {"matchLabels": {"chain": f"{i + 1}"}}
        role = {**head, "metadata": metadata, "aggregationRule": {"clusterRoleSelectors": [selector]}}
        await attacker.ask("POST", f"{RBAC}/clusterroles", role)
    last = {**head, "metadata": {"name": "last", "labels": {"chain": "300"}}, "rules": []}
    await attacker.ask("POST", f"{RBAC}/clusterroles", last)
    numbers = count()

    async def work(one: Attacker) -> None:
        rules = [{"apiGroups": [f"g{next(numbers)}"], "resources": ["*"], "verbs": ["get"]}]
        await one.ask("PUT", f"{RBAC}/clusterroles/last", {**last, "rules": rules})

    await attacker.parallel(2, work)


def _binding(name: str, role: str, subjects: int) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [
            {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": f"u{i}"} for i in range(subjects)
        ],
    }


async def tokens(attacker: Attacker) -> None:
    """Tokens that nobody has issued, each another, and reviews of such."""
    numbers = count()

    async def work(one: Attacker) -> None:
        claims = {"iss": "https://127.0.0.1:1/", "sub": f"s{next(numbers)}", "exp": 9_999_999_999, "aud": ["a"] * 2_000}
        parts = [{"alg": "RS256", "kid": "k"}, claims]
        token = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": f"{token}.AAAA"}}
        await one.ask("POST", f"{AUTHENTICATION}/tokenreviews", review)

    await attacker.parallel(8, work)


async def reviews(attacker: Attacker) -> None:
    """Access reviews of a hundred thousand groups, each for another user, of which every other answer is YAML."""
    groups = [f"g{i:08}" for i in range(100_000)]
    numbers = count()

    async def work(one: Attacker) -> None:
        number = next(numbers)
        attributes = {"verb": "get", "resource": "nothing"}
        spec = {"user": f"u{number}", "groups": groups, "resourceAttributes": attributes}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        accept = "application/yaml" if number % 2 else JSON
        await one.ask("POST", f"{AUTHORIZATION}/subjectaccessreviews", review, accept=accept)

    await attacker.parallel(4, work)
