"""Policies of tests: roles and bindings as manifests would write them, and questions in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from registry.authentication.user import AUTHENTICATED, User
from registry.authorization.attributes import Attributes, Decision
from registry.authorization.rbac.model import Binding, PolicyRule, RoleReference, Subject, rule_of
from registry.authorization.rbac.policy import CompiledRole, Policy

Manifest = Mapping[str, Any]


def compiled(*rules: Manifest | PolicyRule) -> CompiledRole:
    return CompiledRole([rule if isinstance(rule, PolicyRule) else rule_of(rule) for rule in rules])


def bound(role: str, subject: str, *, namespace: str = "", kind: str = "ClusterRole") -> Binding:
    """`bound("view", "User jane", namespace="n")`; `ServiceAccount ns/name` is an account of a namespace."""
    subject_kind, _, name = subject.partition(" ")
    where, _, name = name.rpartition("/") if subject_kind == "ServiceAccount" else ("", "", name)
    return Binding(f"{role} to {name}", namespace, RoleReference(kind, role), (Subject(subject_kind, name, where),))


def policy(
    *bindings: Binding,
    cluster_roles: Mapping[str, CompiledRole] | None = None,
    roles: Mapping[tuple[str, str], CompiledRole] | None = None,
) -> Policy:
    return Policy(cluster_roles or {}, roles or {}, bindings)


def known(name: str, *groups: str) -> User:
    return User(name, (*groups, AUTHENTICATED))


def account(namespace: str, name: str) -> User:
    return known(
        f"system:serviceaccount:{namespace}:{name}", "system:serviceaccounts", f"system:serviceaccounts:{namespace}"
    )


def attributes_of(question: str) -> Attributes:
    """`get pods`, `get pods/log`, `update configmaps x in n`, `list deployments.apps in n`, `get /healthz`."""
    verb, what, *rest = question.split(" ")
    if what.startswith("/"):
        return Attributes(verb, what)
    namespace = rest[rest.index("in") + 1] if "in" in rest else ""
    name = rest[0] if rest and rest[0] != "in" else ""
    resource, _, subresource = what.partition("/")
    plural, _, group = resource.partition(".")
    return Attributes(verb, "", plural, subresource, group, namespace, name)


def decide(policy: Policy, user: User, question: str) -> Decision:
    return policy.decide(user, attributes_of(question))


def allowed(policy: Policy, user: User, questions: Sequence[str]) -> list[str]:
    """Those of the questions that are answered yes."""
    return [question for question in questions if decide(policy, user, question).allowed]
