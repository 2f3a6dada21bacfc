"""The compiled roles and bindings of one tenant.

A Policy is immutable. Bindings are indexed by subject, so that a decision only costs as much as the user's own
bindings. Decisions are cached by all that they depend on, so that the usual one is a dictionary look-up.

Follows kubernetes pkg/registry/rbac/validation/rule.go (DefaultRuleResolver.VisitRulesFor) and
plugin/pkg/auth/authorizer/rbac/rbac.go at v1.36. If several bindings allow a request, the first by name is reported,
ClusterRoleBindings before RoleBindings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final

from registry.authentication.user import User
from registry.authorization.attributes import Attributes, Decision, SubjectRules
from registry.authorization.rbac.match import CompiledRole
from registry.authorization.rbac.model import Binding, PolicyRule, RoleReference, Subject, SubjectKey
from registry.caches import LruCache
from registry.codec.go_text import go_quote

# Cached decisions of all policies of the process. One takes about 400 bytes, and its texts.
REMEMBERED = 16_000
# Longer names and groups, which only reviews and impersonation have, are not remembered.
REMEMBERED_CHARACTERS = 1_000
DECISIONS: Final[LruCache[tuple[object, ...], Decision]] = LruCache(REMEMBERED)
_SERIALS: Final = count()


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
        self._serial = next(_SERIALS)
        # ClusterRoleBindings come first: their namespace is "".
        self._bindings = sorted(bindings, key=lambda binding: (binding.namespace, binding.name))
        # By namespace and subject: places in `_bindings`.
        self._places: defaultdict[str, defaultdict[SubjectKey, list[int]]] = defaultdict(lambda: defaultdict(list))
        for place, binding in enumerate(self._bindings):
            places = self._places[binding.namespace]
            for key in binding.by_key:
                places[key].append(place)

    def role(self, reference: RoleReference, namespace: str) -> CompiledRole | None:
        """The role that a binding in `namespace` ("" for a ClusterRoleBinding) refers to; None if it does not exist."""
        if reference.kind == "ClusterRole":
            return self._cluster_roles.get(reference.name)
        return self._roles.get((namespace, reference.name)) if reference.kind == "Role" and namespace else None

    def decide(self, user: User, attributes: Attributes) -> Decision:
        if len(user.groups) > REMEMBERED_CHARACTERS:
            return self._decide(user, attributes)
        key = (
            self._serial,
            user.name,
            user.groups,
            attributes.verb,
            attributes.group,
            attributes.resource,
            attributes.subresource,
            attributes.namespace,
            attributes.name,
            attributes.path if not attributes.is_resource else None,
        )
        decision = DECISIONS.get(key)
        if decision is None:
            decision = self._decide(user, attributes)
            if _characters(key) <= REMEMBERED_CHARACTERS:
                DECISIONS.put(key, decision)
        return decision

    def _decide(self, user: User, attributes: Attributes) -> Decision:
        problems: list[str] = []
        for binding in self._bindings_of(user, attributes.namespace):
            role = self.role(binding.role, binding.namespace)
            if role is None:
                problems.append(_missing(binding.role))
            elif (
                role.allows_resource(
                    attributes.verb, attributes.group, attributes.resource, attributes.subresource, attributes.name
                )
                if attributes.is_resource
                else role.allows_path(attributes.verb, attributes.path)
            ):
                return Decision(True, _reason(binding, user))
        return Decision(False, f"RBAC: {aggregate(problems)}") if problems else _DENIED

    def rules_for(self, user: User, namespace: str) -> tuple[list[PolicyRule], list[RoleReference]]:
        """All rules of a user in a namespace, and the missing roles of the user's bindings."""
        rules: list[PolicyRule] = []
        missing: list[RoleReference] = []
        for binding in self._bindings_of(user, namespace):
            role = self.role(binding.role, binding.namespace)
            if role is None:
                missing.append(binding.role)
            else:
                rules.extend(role.rules)
        return rules, missing

    def _bindings_of(self, user: User, namespace: str) -> list[Binding]:
        """The bindings of a user in order: those for everywhere, then those of the namespace."""
        places: set[int] = set()
        for where in {"", namespace}:
            if where in self._places:
                of_namespace = self._places[where]
                for key in _keys(user):
                    if key in of_namespace:
                        places.update(of_namespace[key])
        return [self._bindings[place] for place in sorted(places)]


_DENIED = Decision(False)


def _characters(key: tuple[object, ...]) -> int:
    """Returns the length of all texts in a key, including those in its tuples; a text counts as one more."""
    total = len(key)
    for part in key:
        if isinstance(part, tuple):
            total += _characters(part)
        elif isinstance(part, str):
            total += len(part)
    return total


def _keys(user: User) -> Iterator[SubjectKey]:
    """One after the other: to free 100,000 of them at once would hold the interpreter's lock for 20 ms and more."""
    yield "User", user.name
    for group in user.groups:
        yield "Group", group


def _reason(binding: Binding, user: User) -> str:
    """Names the binding's first subject that matches."""
    kind, name = (
        ("RoleBinding", f"{binding.name}/{binding.namespace}")
        if binding.namespace
        else ("ClusterRoleBinding", binding.name)
    )
    groups = frozenset(user.groups)
    subject = next(
        subject
        for (is_of, name), subject in binding.by_key.items()
        if (name == user.name if is_of == "User" else name in groups)
    )
    return (
        f"RBAC: allowed by {kind} {go_quote(name)} of {binding.role.kind} {go_quote(binding.role.name)} to "
        f"{_describe(subject, binding.namespace)}"
    )


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


def review_rules(rules: Iterable[PolicyRule], missing: Iterable[RoleReference]) -> SubjectRules:
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
    return SubjectRules(resources, paths, aggregate(problems) if problems else "")


def _present(**members: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {name: values for name, values in members.items() if values or name == "verbs"}
