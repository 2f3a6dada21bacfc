"""Rules, bindings and their subjects, parsed from stored objects.

Follows k8s.io/api rbac/v1/types.go at v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

GROUP = "rbac.authorization.k8s.io"
Object = Mapping[str, Any]
# What a role or binding takes in memory, in bytes: by itself, with each text of its rules, and with each subject.
_OBJECT_BYTES, _TEXT_BYTES, _SUBJECT_BYTES = 1_000, 150, 600
SubjectKey = tuple[str, str]  # ("User", name) or ("Group", name)

_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]} or {"verbs": ["get"], "nonResourceURLs": ["/x"]}."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    kind: str
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class RoleReference:
    """The role of a binding: its kind is Role or ClusterRole."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Binding:
    """`namespace` is empty for a ClusterRoleBinding."""

    name: str
    namespace: str
    role: RoleReference
    subjects: tuple[Subject, ...]
    # In their order, the first one of each key. Made once, since a policy is made again with each change.
    by_key: Mapping[SubjectKey, Subject] = field(init=False, repr=False, compare=False)
    size: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_key: dict[SubjectKey, Subject] = {}
        for subject in self.subjects:
            key = _key(subject, self.namespace)
            if key is not None:
                by_key.setdefault(key, subject)
        object.__setattr__(self, "by_key", by_key)
        object.__setattr__(self, "size", subjects_size(self.subjects))


def _key(subject: Subject, namespace: str) -> SubjectKey | None:
    """A service account without a namespace is in the binding's; in a ClusterRoleBinding it matches no user."""
    if subject.kind == "ServiceAccount":
        where = subject.namespace or namespace
        return ("User", f"{_ACCOUNT}{where}:{subject.name}") if where else None
    return (subject.kind, subject.name) if subject.kind in ("User", "Group") else None


def subjects_size(subjects: Sequence[Subject]) -> int:
    """The approximate size in memory of a binding, in bytes."""
    return _OBJECT_BYTES + sum(_SUBJECT_BYTES + 2 * len(s.name) + len(s.namespace) for s in subjects)


def rules_size(rules: Sequence[PolicyRule]) -> int:
    """The approximate size in memory of a role, in bytes."""
    return _OBJECT_BYTES + sum(map(rule_size, rules))


def rule_size(rule: PolicyRule) -> int:
    size = _OBJECT_BYTES
    for texts in (rule.verbs, rule.groups, rule.resources, rule.names, rule.paths):
        size += _TEXT_BYTES * len(texts) + sum(map(len, texts))
    return size


EVERYTHING = (PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), paths=("*",)))


def rule_of(rule: Object) -> PolicyRule:
    return PolicyRule(
        _texts(rule.get("verbs")),
        _texts(rule.get("apiGroups")),
        _texts(rule.get("resources")),
        _texts(rule.get("resourceNames")),
        _texts(rule.get("nonResourceURLs")),
    )


def rules_of(role: Object) -> tuple[PolicyRule, ...]:
    return tuple(rule_of(rule) for rule in role.get("rules") or ())


def reference_of(binding: Object) -> RoleReference:
    reference = binding.get("roleRef") or {}
    return RoleReference(reference.get("kind") or "", reference.get("name") or "")


def binding_of(obj: Object, namespace: str) -> Binding:
    """A RoleBinding, or a ClusterRoleBinding where `namespace` is empty."""
    return Binding(obj["metadata"]["name"], namespace, reference_of(obj), subjects_of(obj))


def subjects_of(binding: Object) -> tuple[Subject, ...]:
    return tuple(
        Subject(s.get("kind") or "", s.get("name") or "", s.get("namespace") or "")
        for s in binding.get("subjects") or ()
    )


def _texts(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(values) if values else ()
