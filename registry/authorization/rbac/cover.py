"""Privilege escalation check: whether one set of rules covers another, since users may only grant rights they have.

    covers(have, [Rule(("get", "delete"), ("g",), ("widgets",))])   == the parts that `have` lacks
    missing_text(parts)     == ['{APIGroups:["g"], Resources:["widgets"], Verbs:["delete"]}']

Follows component-helpers auth/rbac/validation/policy_comparator.go, kubernetes
pkg/registry/rbac/validation/{rule,policy_compact}.go and pkg/apis/rbac/v1/helpers.go at v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from registry.authorization.rbac.model import PolicyRule
from registry.budget import spend
from registry.codec.go_text import go_quote_all

# Far more than a realistic role has (one verb of one resource each); any further parts count as not covered.
MAX_PARTS = 100_000


def missing_rules(have: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The parts of `wanted`, each one verb of one resource, that no single rule of `have` covers.

    Raises BudgetExceeded."""
    missing: list[PolicyRule] = []
    for count, part in enumerate(_parts(wanted)):
        if count >= MAX_PARTS:
            missing.append(part)
            break
        spend(10 * len(have))
        if not any(_rule_covers(rule, part) for rule in have):
            missing.append(part)
    return missing


def _parts(rules: Iterable[PolicyRule]) -> Iterator[PolicyRule]:
    for rule in rules:
        for group in rule.groups:
            for resource in rule.resources:
                for verb in rule.verbs:
                    if rule.names:
                        for name in rule.names:
                            yield PolicyRule((verb,), (group,), (resource,), (name,))
                    else:
                        yield PolicyRule((verb,), (group,), (resource,))
        for path in rule.paths:
            for verb in rule.verbs:
                yield PolicyRule((verb,), paths=(path,))


def _rule_covers(owner: PolicyRule, part: PolicyRule) -> bool:
    return (
        _has_all(owner.verbs, part.verbs)
        and _has_all(owner.groups, part.groups)
        and all(_covers_resource(owner.resources, resource) for resource in part.resources)
        and all(_covers_path(owner.paths, path) for path in part.paths)
        and (not owner.names or (bool(part.names) and set(part.names) <= set(owner.names)))
    )


def _has_all(owner: Sequence[str], wanted: Sequence[str]) -> bool:
    return "*" in owner or all(value in owner for value in wanted)


def _covers_resource(owner: Sequence[str], resource: str) -> bool:
    if "*" in owner or resource in owner:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in owner


def _covers_path(owner: Sequence[str], path: str) -> bool:
    return any(own == path or (own.endswith("*") and path.startswith(own.rstrip("*"))) for own in owner)


def missing_texts(parts: Iterable[PolicyRule]) -> list[str]:
    """The parts as kube-apiserver prints them: the verbs of one resource on one line, lines sorted."""
    return sorted({compact_text(rule) for rule in compact(parts)}, key=str.encode)


def compact(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Joins the verbs of rules with the same single group, single resource and at most one name; verbs may repeat."""
    others: list[PolicyRule] = []
    simple: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for rule in rules:
        if rule.paths or len(rule.groups) != 1 or len(rule.resources) != 1 or len(rule.names) > 1:
            others.append(rule)
            continue
        simple.setdefault((rule.groups[0], rule.resources[0], rule.names), []).extend(rule.verbs)
    return others + [
        PolicyRule(tuple(verbs), (group,), (resource,), names) for (group, resource, names), verbs in simple.items()
    ]


def compact_text(rule: PolicyRule) -> str:
    parts = (
        ("APIGroups", rule.groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.paths),
        ("ResourceNames", rule.names),
        ("Verbs", rule.verbs),
    )
    return "{" + ", ".join(f"{name}:{go_quote_all(values)}" for name, values in parts if values) + "}"
