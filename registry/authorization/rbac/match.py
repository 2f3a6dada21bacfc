"""Matches requests against the rules of a role.

A role is compiled once: rules are indexed by verb, their resources and groups are sets. Follows kubernetes
pkg/registry/rbac/validation/rule.go, pkg/apis/rbac/v1/evaluation_helpers.go and
plugin/pkg/auth/authorizer/rbac/rbac.go at v1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from registry.authorization.rbac.model import PolicyRule, rules_size


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
