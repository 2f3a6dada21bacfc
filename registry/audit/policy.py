"""The audit policy, loaded from a file and matched against requests. No I/O except loading the file.

    apiVersion: audit.k8s.io/v1
    kind: Policy
    omitStages: [RequestReceived]
    rules:
    - level: None
      users: ["system:apiserver"]
    - level: RequestResponse
      resources: [{group: stable.example.com, resources: ["crontabs", "crontabs/*"]}]
    - level: Metadata

The first rule that matches a request decides; a request that matches none is not audited.

Follows apiserver pkg/audit/policy/checker.go and pkg/apis/audit/validation/validation.go.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from registry.authentication.user import User
from registry.authorization.attributes import Attributes
from registry.codec.model import DecodeError
from registry.codec.structs.base import StructDecodeError
from registry.codec.structs.declarations import read_structs
from registry.codec.structs.meta import METAV1
from registry.codec.structs.structs import decode_file
from registry.codec.yaml_decode import decode_yaml

API_VERSIONS: Final = ("audit.k8s.io/v1",)
_POLICY: Final = read_structs(__package__, "audit_v1.txt", METAV1)["Policy"]
STAGES: Final = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")


class AuditLevel(enum.IntEnum):
    """Ordered by how much is recorded."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3


NAMES: Final = {
    "None": AuditLevel.NONE,
    "Metadata": AuditLevel.METADATA,
    "Request": AuditLevel.REQUEST,
    "RequestResponse": AuditLevel.REQUEST_RESPONSE,
}
LEVEL_NAMES: Final = {level: name for name, level in NAMES.items()}


class PolicyError(ValueError):
    """The file is not a valid policy; the text says where and why."""


class GroupResources(NamedTuple):
    group: str
    resources: Sequence[str]
    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class AuditRule:
    """An empty sequence matches everything."""

    level: AuditLevel
    users: frozenset[str]
    groups: frozenset[str]
    verbs: frozenset[str]
    resources: tuple[GroupResources, ...]
    namespaces: frozenset[str]
    urls: tuple[str, ...]
    omit_stages: frozenset[str]
    omit_managed_fields: bool

    def matches(self, user: User | None, attributes: Attributes) -> bool:
        if self.users and (user is None or user.name not in self.users):
            return False
        if self.groups and (user is None or self.groups.isdisjoint(user.groups)):
            return False
        if self.verbs and attributes.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return self._matches_resource(attributes)
        if self.urls:
            return not attributes.is_resource and any(_path_matches(attributes.path, url) for url in self.urls)
        return True

    def _matches_resource(self, attributes: Attributes) -> bool:
        if not attributes.is_resource:
            return False
        if self.namespaces and attributes.namespace not in self.namespaces:
            return False
        return not self.resources or any(_resource_matches(attributes, wanted) for wanted in self.resources)


def _resource_matches(attributes: Attributes, wanted: GroupResources) -> bool:
    if wanted.group != attributes.group:
        return False
    if not wanted.resources:
        return True
    if wanted.names and attributes.name not in wanted.names:
        return False
    resource, subresource = attributes.resource, attributes.subresource
    names = {"*", f"{resource}/{subresource}", f"*/{subresource}", f"{resource}/*"} if subresource else {"*", resource}
    if not subresource:
        names.add(f"{resource}/*")
    return not names.isdisjoint(wanted.resources)


def _path_matches(path: str, pattern: str) -> bool:
    return pattern == "*" or pattern == path or (pattern.endswith("*") and path.startswith(pattern[:-1]))


class AuditDecision(NamedTuple):
    level: AuditLevel
    omit_stages: frozenset[str]
    omit_managed_fields: bool


_NOTHING: Final = AuditDecision(AuditLevel.NONE, frozenset(STAGES), True)


@dataclass(frozen=True, slots=True)
class AuditPolicy:
    rules: tuple[AuditRule, ...]

    def decide(self, user: User | None, attributes: Attributes) -> AuditDecision:
        for rule in self.rules:
            if rule.matches(user, attributes):
                return AuditDecision(rule.level, rule.omit_stages, rule.omit_managed_fields)
        return _NOTHING


def load(path: Path) -> AuditPolicy:
    """Loads a policy file. Raises PolicyError."""
    try:
        return parse(path.read_bytes())
    except OSError as problem:
        raise PolicyError(f"{path} cannot be read: {problem.strerror}") from problem
    except PolicyError as problem:
        raise PolicyError(f"{path}: {problem}") from problem


def parse(data: bytes) -> AuditPolicy:
    """Parses a policy in YAML or JSON. Raises PolicyError."""
    try:
        policy = decode_file(_POLICY, decode_yaml(data), API_VERSIONS)
    except (DecodeError, StructDecodeError) as fault:
        raise PolicyError(str(fault)) from fault
    stages = _stages(policy, "omitStages")
    rules = policy.get("rules")
    if not rules:
        raise PolicyError("rules: there must be one at least")
    omits = policy.get("omitManagedFields", False)
    return AuditPolicy(tuple(_rule(rule, f"rules[{i}]", stages, omits=omits) for i, rule in enumerate(rules)))


def _rule(rule: Mapping[str, Any], where: str, stages: frozenset[str], *, omits: bool) -> AuditRule:
    level = rule.get("level")
    if level not in NAMES:
        raise PolicyError(f"{where}.level: must be None, Metadata, Request or RequestResponse")
    urls, resources = rule.get("nonResourceURLs", ()), rule.get("resources", ())
    if urls and (resources or rule.get("namespaces")):
        raise PolicyError(f"{where}: rules cannot apply to both regular resources and non-resource URLs")
    for url in urls:
        if url != "*" and not url.startswith("/"):
            raise PolicyError(f'{where}.nonResourceURLs: {url}: must begin with "/"')
        if "*" in url[:-1]:
            raise PolicyError(f'{where}.nonResourceURLs: {url}: "*" may only be at the end')
    return AuditRule(
        level=NAMES[level],
        users=frozenset(rule.get("users", ())),
        groups=frozenset(rule.get("userGroups", ())),
        verbs=frozenset(rule.get("verbs", ())),
        resources=tuple(_group_resources(r, f"{where}.resources[{i}]") for i, r in enumerate(resources)),
        namespaces=frozenset(rule.get("namespaces", ())),
        urls=tuple(urls),
        omit_stages=stages | _stages(rule, f"{where}.omitStages"),
        omit_managed_fields=rule.get("omitManagedFields", omits),
    )


def _group_resources(entry: Mapping[str, Any], where: str) -> GroupResources:
    resources = GroupResources(entry.get("group", ""), entry.get("resources", ()), entry.get("resourceNames", ()))
    if "/" in resources.group:
        raise PolicyError(f"{where}.group: must be the name of a group, without a version")
    if resources.names and not resources.resources:
        raise PolicyError(f"{where}.resourceNames: needs resources")
    return resources


def _stages(document: Mapping[str, Any], where: str) -> frozenset[str]:
    stages = document.get("omitStages", ())
    for stage in stages:
        if stage not in STAGES:
            raise PolicyError(f"{where}: {stage}: must be one of {', '.join(STAGES)}")
    return frozenset(stages)
