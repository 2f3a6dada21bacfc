"""Matching of requests to a configuration: rules, selectors, and equivalent versions (matchPolicy: Equivalent).

The namespace's labels are loaded only where a selector needs them: see `Match.needs_namespace`.

Follows apiserver pkg/admission/plugin/webhook/predicates/* and pkg/admission/plugin/policy/matching/matching.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from registry.admission.attributes import CREATE, UPDATE, AdmissionAttributes, Resource, labels_of
from registry.admission.selectors import Labels, compile_selector

Json = Mapping[str, Any]

_ANY = "*"


class RuleMatcher:
    """One rule with its `resourceNames`; `*` matches everything."""

    __slots__ = ("_groups", "_names", "_operations", "_resources", "_scope", "_versions")

    def __init__(self, rule: Json) -> None:
        self._operations = _set(rule.get("operations"))
        self._groups = _set(rule.get("apiGroups"))
        self._versions = _set(rule.get("apiVersions"))
        self._resources = {(name, part) for name, _, part in (t.partition("/") for t in rule.get("resources") or ())}
        self._scope = rule.get("scope") or _ANY
        self._names = frozenset(rule.get("resourceNames") or ())

    def matches(self, attributes: AdmissionAttributes, resource: Resource) -> bool:
        """Whether the request, made on `resource`, would match."""
        return (
            _in(attributes.operation, self._operations)
            and _in(resource.group, self._groups)
            and _in(resource.version, self._versions)
            and self._has_scope(attributes)
            and any(
                (name, part) in self._resources
                for name in (resource.resource, _ANY)
                for part in (attributes.subresource, _ANY)
            )
            and (not self._names or attributes.name in self._names)
        )

    def _has_scope(self, attributes: AdmissionAttributes) -> bool:
        if self._scope == _ANY:
            return True
        namespaced = bool(attributes.namespace) and not attributes.is_namespace
        return namespaced if self._scope == "Namespaced" else not namespaced


def _set(values: Sequence[str] | None) -> frozenset[str]:
    return frozenset(values or ())


def _in(value: str, values: frozenset[str]) -> bool:
    return value in values or _ANY in values


class Match:
    """The match conditions of one policy, binding or webhook; empty `rules` match everything if `empty_matches`."""

    __slots__ = ("_empty_matches", "_equivalent", "_excluded", "_namespaces", "_objects", "_rules")

    def __init__(self, resources: Json, *, rules: str = "resourceRules", empty_matches: bool = True) -> None:
        self._rules = [RuleMatcher(rule) for rule in resources.get(rules) or ()]
        self._excluded = [RuleMatcher(rule) for rule in resources.get("excludeResourceRules") or ()]
        self._equivalent = (resources.get("matchPolicy") or "Equivalent") == "Equivalent"
        self._namespaces = compile_selector(resources.get("namespaceSelector"))
        self._objects = compile_selector(resources.get("objectSelector"))
        self._empty_matches = empty_matches

    @property
    def size(self) -> int:
        """The number of its rules."""
        return len(self._rules) + len(self._excluded)

    def resource(self, attributes: AdmissionAttributes) -> Resource | None:
        """The resource at the version that matches, None where none does. Ignores namespace selectors."""
        if self._objects is not None:
            of_objects = (labels_of(attributes.object), labels_of(attributes.old_object))
            if not any(labels is not None and self._objects(labels) for labels in of_objects):
                return None
        if self._excluded and self._match(self._excluded, attributes) is not None:
            return None
        if not self._rules and self._empty_matches:
            return attributes.resource
        return self._match(self._rules, attributes)

    def _match(self, rules: Sequence[RuleMatcher], attributes: AdmissionAttributes) -> Resource | None:
        own = attributes.resource
        if any(rule.matches(attributes, own) for rule in rules):
            return own
        if self._equivalent:
            for rule in rules:
                for other in attributes.equivalents:
                    if rule.matches(attributes, other):
                        return other
        return None

    def needs_namespace(self, attributes: AdmissionAttributes) -> bool:
        """Whether the labels of the request's namespace are needed to decide the match."""
        return (
            self._namespaces is not None
            and bool(attributes.namespace)
            and not (
                attributes.is_namespace and not attributes.subresource and attributes.operation in (CREATE, UPDATE)
            )
        )

    def selects_namespace(self, attributes: AdmissionAttributes, labels: Labels | None) -> bool:
        """`labels` are those of the namespace, where they are needed."""
        if self._namespaces is None or not attributes.namespace:
            return True
        if not self.needs_namespace(attributes):
            labels = labels_of(attributes.object)
        return self._namespaces(labels or {})
