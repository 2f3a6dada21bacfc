"""The compiled roles and bindings of one tenant.

A Policy is immutable. Bindings are indexed by subject, so that a decision only costs as much as the user's own
bindings. Decisions are cached by all that they depend on, so that the usual one is a dictionary look-up.

Follows kubernetes pkg/registry/rbac/validation/rule.go (DefaultRuleResolver.VisitRulesFor),
pkg/apis/rbac/v1/evaluation_helpers.go and plugin/pkg/auth/authorizer/rbac/rbac.go at v1.36. If several bindings allow a
request, the first by name is reported, ClusterRoleBindings before RoleBindings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final, NamedTuple

from registry.authentication.user import User
from registry.authorization.attributes import Attributes, Decision, SubjectRules
from registry.authorization.rbac.model import Binding, PolicyRule, RoleReference, Subject, SubjectKey, rules_size
from registry.caches import LruCache
from registry.codec.go_text import go_quote
from registry.schema.field import join_shortened, quote_shortened

# Cached decisions of all policies of the process. One takes about 400 bytes, and its texts.
REMEMBERED = 16_000
# Longer names and groups, which only reviews and impersonation have, are not remembered.
REMEMBERED_CHARACTERS = 1_000
DECISIONS: Final[LruCache[tuple[object, ...], Decision]] = LruCache(REMEMBERED)
# The most that a rules review returns: far more than anybody can read. Beyond it the answer says that it is incomplete.
MAX_RULES = 5_000
MAX_RULES_BYTES = 16 * 1024 * 1024  # as rules_size counts
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
        # What a decision may have to look at: the rules and the bindings.
        self.steps = sum(role.steps for role in (*cluster_roles.values(), *roles.values()))
        # ClusterRoleBindings come first: their namespace is "".
        self._bindings = sorted(bindings, key=lambda binding: (binding.namespace, binding.name))
        self.steps += len(self._bindings)
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

    def recall(self, user: User, attributes: Attributes) -> Decision | None:
        """The cached decision."""
        is_short = len(user.groups) <= REMEMBERED_CHARACTERS
        return DECISIONS.get(self._key(user, attributes)) if is_short else None

    def decide(self, user: User, attributes: Attributes) -> Decision:
        if len(user.groups) > REMEMBERED_CHARACTERS:
            return self._decide(user, attributes)
        key = self._key(user, attributes)
        decision = DECISIONS.get(key)
        if decision is None:
            decision = self._decide(user, attributes)
            if _characters(key) <= REMEMBERED_CHARACTERS:
                DECISIONS.put(key, decision)
        return decision

    def _key(self, user: User, attributes: Attributes) -> tuple[object, ...]:
        return (
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

    def _decide(self, user: User, attributes: Attributes) -> Decision:
        missing: list[RoleReference] = []
        for binding, role in self._roles_of(user, attributes.namespace):
            if role is None:
                missing.append(binding.role)
            elif (
                role.allows_resource(
                    attributes.verb, attributes.group, attributes.resource, attributes.subresource, attributes.name
                )
                if attributes.is_resource
                else role.allows_path(attributes.verb, attributes.path)
            ):
                return Decision(True, _reason(binding, user))
        return Decision(False, f"RBAC: {aggregate(map(_missing, missing))}") if missing else _DENIED

    def rules_for(self, user: User, namespace: str) -> tuple[list[PolicyRule], list[RoleReference]]:
        """All rules of a user in a namespace, and the missing roles of the user's bindings."""
        rules: list[PolicyRule] = []
        missing: list[RoleReference] = []
        for binding, role in self._roles_of(user, namespace):
            if role is None:
                missing.append(binding.role)
            else:
                rules.extend(role.rules)
        return rules, missing

    def review(self, user: User, namespace: str, first: Sequence[PolicyRule] = ()) -> SubjectRules:
        """What a rules review returns: the rules of a role once for each binding, as kube-apiserver does, after those
        of `first` that are not among them.
        """
        rules: list[PolicyRule] = []
        missing: list[RoleReference] = []
        size, is_complete = 0, True
        for binding in self._bindings_of(user, namespace):
            role = self.role(binding.role, binding.namespace)
            if role is None:
                missing.append(binding.role)
                continue
            size += role.size
            if len(rules) + len(role.rules) > MAX_RULES or size > MAX_RULES_BYTES:
                is_complete = False
                break
            rules.extend(role.rules)
        return review_rules([*(rule for rule in first if rule not in rules), *rules], missing, is_complete)

    def _roles_of(self, user: User, namespace: str) -> Iterator[tuple[Binding, CompiledRole | None]]:
        """The roles of a user, each with its first binding; None for a role that does not exist."""
        seen: set[int] = set()
        for binding in self._bindings_of(user, namespace):
            role = self.role(binding.role, binding.namespace)
            if role is None:
                yield binding, None
            elif id(role) not in seen:
                seen.add(id(role))
                yield binding, role

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
    return f"{reference.kind.lower()}.rbac.authorization.k8s.io {quote_shortened(reference.name)} not found"


def aggregate(problems: Iterable[str]) -> str:
    """Several errors as Go prints them: `[a, b]` without duplicates; a single one by itself. Truncated."""
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else f"[{join_shortened(distinct, ', ')}]"


def review_rules(rules: Iterable[PolicyRule], missing: Sequence[RoleReference], is_complete: bool) -> SubjectRules:
    """Rules in the form of a rules review: resource and non-resource rules are separate."""
    resources, paths = [], []
    for rule in rules:
        if rule.resources or rule.groups:
            resources.append(
                _present(verbs=rule.verbs, apiGroups=rule.groups, resources=rule.resources, resourceNames=rule.names)
            )
        if rule.paths:
            paths.append(_present(verbs=rule.verbs, nonResourceURLs=rule.paths))
    return SubjectRules(resources, paths, aggregate(map(_missing, missing)) if missing else "", is_complete)


def _present(**members: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    return {name: values for name, values in members.items() if values or name == "verbs"}


# -- roles: each is compiled once, its rules indexed by verb, their resources and groups as sets
class _OfResources(NamedTuple):
    groups: frozenset[str] | None  # None means every group
    resources: frozenset[str] | None
    names: frozenset[str]  # empty means every name


class _OfPaths(NamedTuple):
    exact: frozenset[str]
    prefixes: tuple[str, ...]


# As many paths are compared in the time of one rule.
_PATHS_OF_A_STEP = 16


class CompiledRole:
    """The rules of a role, and their index by verb. `size` is about what it takes in memory, in bytes, and `steps` how
    many rules a decision may have to compare.
    """

    __slots__ = ("_paths", "_resources", "rules", "size", "steps")

    def __init__(self, rules: Sequence[PolicyRule]) -> None:
        self.rules = tuple(rules)
        self.size = rules_size(rules)
        self.steps = len(self.rules) + sum(len(rule.paths) for rule in rules) // _PATHS_OF_A_STEP
        self._resources: dict[str, list[_OfResources]] = {}
        self._paths: dict[str, list[_OfPaths]] = {}
        for rule in rules:
            compiled = _OfResources(_set(rule.groups), _set(rule.resources), frozenset(rule.names))
            paths = _of_paths(rule.paths)
            for verb in dict.fromkeys(rule.verbs):
                if rule.groups and rule.resources:
                    self._resources.setdefault(verb, []).append(compiled)
                if rule.paths:
                    self._paths.setdefault(verb, []).append(paths)

    def allows_resource(self, verb: str, group: str, resource: str, subresource: str, name: str) -> bool:
        for key in (verb, "*"):
            for rule in self._resources.get(key, ()):
                if (
                    (rule.groups is None or group in rule.groups)
                    and (rule.resources is None or _covers(rule.resources, resource, subresource))
                    and (not rule.names or name in rule.names)
                ):
                    return True
        return False

    def allows_path(self, verb: str, path: str) -> bool:
        """A `*` in a pattern is only special at the end: `/a*` matches `/abc`."""
        return any(
            path in patterns.exact or path.startswith(patterns.prefixes)
            for key in (verb, "*")
            for patterns in self._paths.get(key, ())
        )


def _set(values: Sequence[str]) -> frozenset[str] | None:
    return None if "*" in values else frozenset(values)


def _covers(resources: frozenset[str], resource: str, subresource: str) -> bool:
    """`pods/status` is allowed by itself and by `*/status`, `pods` by itself only."""
    if not subresource:
        return resource in resources
    return f"{resource}/{subresource}" in resources or f"*/{subresource}" in resources


def _of_paths(patterns: Sequence[str]) -> _OfPaths:
    return _OfPaths(
        frozenset(pattern for pattern in patterns if not pattern.endswith("*")),
        tuple(pattern.rstrip("*") for pattern in patterns if pattern.endswith("*")),
    )
