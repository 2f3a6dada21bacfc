"""The compiled roles and bindings of one tenant.

A Policy is immutable. Bindings are indexed by subject, so that a decision only costs as much as the user's own
bindings. Decisions are cached by all that they depend on, so that the usual one is a dictionary look-up.

Follows kubernetes pkg/registry/rbac/validation/rule.go (DefaultRuleResolver.VisitRulesFor) and
plugin/pkg/auth/authorizer/rbac/rbac.go at v1.36. If several bindings allow a request, the first by name is reported,
ClusterRoleBindings before RoleBindings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from registry.authentication.user import User
from registry.authorization.attributes import Attributes, Decision, Rules
from registry.authorization.rbac.match import CompiledRole
from registry.authorization.rbac.model import Binding, PolicyRule, RoleReference, Subject
from registry.schema.field import go_quote

# Maximum number of cached decisions; beyond it all are dropped. One takes about 400 bytes.
REMEMBERED = 4_000

_ACCOUNT = "system:serviceaccount:"
_Key = tuple[str, str]  # ("User", name) or ("Group", name)


@dataclass(frozen=True, slots=True)
class Grant:
    """One subject of one binding. `role` is None if the referenced role does not exist."""

    position: tuple[int, int]  # of the binding among all, and of the subject in it
    reason: str
    role: CompiledRole | None
    reference: RoleReference


_Index = dict[_Key, list[Grant]]
_NOTHING: _Index = {}


class Policy:
    def __init__(
        self,
        cluster_roles: Mapping[str, CompiledRole],
        roles: Mapping[tuple[str, str], CompiledRole],
        bindings: Iterable[Binding],
    ) -> None:
        """`roles` are keyed by namespace and name."""
        self._cluster_roles = cluster_roles
        self._roles = roles
        self._indexes: dict[str, _Index] = {}
        self._decisions: dict[tuple[object, ...], Decision] = {}
        ordered = sorted(bindings, key=lambda binding: (binding.namespace, binding.name))
        for position, binding in enumerate(ordered):
            self._add(position, binding)

    def _add(self, position: int, binding: Binding) -> None:
        index = self._indexes.setdefault(binding.namespace, {})
        role = self.role(binding.role, binding.namespace)
        kind, name = (
            ("RoleBinding", f"{binding.name}/{binding.namespace}")
            if binding.namespace
            else ("ClusterRoleBinding", binding.name)
        )
        start = f"RBAC: allowed by {kind} {go_quote(name)} of {binding.role.kind} {go_quote(binding.role.name)} to "
        for number, subject in enumerate(binding.subjects):
            key = _key(subject, binding.namespace)
            if key is not None:
                reason = start + _describe(subject, binding.namespace)
                index.setdefault(key, []).append(Grant((position, number), reason, role, binding.role))

    def role(self, reference: RoleReference, namespace: str) -> CompiledRole | None:
        """The role that a binding in `namespace` ("" for a ClusterRoleBinding) refers to; None if it does not exist."""
        if reference.kind == "ClusterRole":
            return self._cluster_roles.get(reference.name)
        return self._roles.get((namespace, reference.name)) if reference.kind == "Role" and namespace else None

    def decide(self, user: User, asked: Attributes) -> Decision:
        key = (
            user.name,
            user.groups,
            asked.verb,
            asked.group,
            asked.resource,
            asked.subresource,
            asked.namespace,
            asked.name,
            asked.path if not asked.is_resource else None,
        )
        found = self._decisions.get(key)
        if found is None:
            if len(self._decisions) >= REMEMBERED:
                self._decisions.clear()
            found = self._decisions[key] = self._decide(user, asked)
        return found

    def _decide(self, user: User, asked: Attributes) -> Decision:
        problems: list[str] = []
        for grant in self._grants(user, asked.namespace):
            role = grant.role
            if role is None:
                problems.append(_missing(grant.reference))
            elif (
                role.allows_resource(asked.verb, asked.group, asked.resource, asked.subresource, asked.name)
                if asked.is_resource
                else role.allows_path(asked.verb, asked.path)
            ):
                return Decision(True, grant.reason)
        return Decision(False, f"RBAC: {aggregate(problems)}") if problems else _DENIED

    def rules_for(self, user: User, namespace: str) -> tuple[list[PolicyRule], list[RoleReference]]:
        """All rules of a user in a namespace, and the missing roles of the user's bindings."""
        rules: list[PolicyRule] = []
        missing: list[RoleReference] = []
        for grant in self._grants(user, namespace):
            if grant.role is None:
                missing.append(grant.reference)
            else:
                rules.extend(grant.role.rules)
        return rules, missing

    def _grants(self, user: User, namespace: str) -> list[Grant]:
        """The bindings of a user in order, each with the first of its subjects that matches."""
        found = self._of(self._indexes.get("", _NOTHING), user)
        if namespace:
            found += self._of(self._indexes.get(namespace, _NOTHING), user)
        return found

    def _of(self, index: _Index, user: User) -> list[Grant]:
        if not index:
            return []
        grants = list(index.get(("User", user.name), ()))
        for group in user.groups:
            grants += index.get(("Group", group), ())
        if len(grants) > 1:
            grants.sort(key=_position)
            first: dict[int, Grant] = {}
            for grant in grants:
                first.setdefault(grant.position[0], grant)
            grants = list(first.values())
        return grants


_DENIED = Decision(False)


def _position(grant: Grant) -> tuple[int, int]:
    return grant.position


def _key(subject: Subject, namespace: str) -> _Key | None:
    """A service account without a namespace is in the binding's; in a ClusterRoleBinding it matches nobody."""
    if subject.kind == "ServiceAccount":
        where = subject.namespace or namespace
        return ("User", f"{_ACCOUNT}{where}:{subject.name}") if where else None
    return (subject.kind, subject.name) if subject.kind in ("User", "Group") else None


def _describe(subject: Subject, namespace: str) -> str:
    if subject.kind != "ServiceAccount":
        return f"{subject.kind} {go_quote(subject.name)}"
    return f"{subject.kind} {go_quote(f'{subject.name}/{subject.namespace or namespace}')}"


def _missing(reference: RoleReference) -> str:
    """`clusterrole.rbac.authorization.k8s.io "x" not found`."""
    return f"{reference.kind.lower()}.rbac.authorization.k8s.io {go_quote(reference.name)} not found"


def aggregate(problems: Sequence[str]) -> str:
    """Several errors as Go prints them: `[a, b]` without duplicates; a single one by itself."""
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def review_rules(rules: Iterable[PolicyRule], missing: Iterable[RoleReference]) -> Rules:
    """Rules in the form of a rules review: resource and non-resource rules are separate."""
    problems = [_missing(reference) for reference in missing]
    resources, paths = [], []
    for rule in rules:
        if rule.resources or rule.groups:
            resources.append(
                _present(verbs=rule.verbs, apiGroups=rule.groups, resources=rule.resources, resourceNames=rule.names)
            )
        if rule.paths:
            paths.append(_present(verbs=rule.verbs, nonResourceURLs=rule.paths))
    return Rules(resources, paths, bool(problems), aggregate(problems) if problems else "")


def _present(**members: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {name: values for name, values in members.items() if values or name == "verbs"}
