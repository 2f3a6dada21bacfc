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
from registry.codec.yaml_decode import decode_yaml

API_VERSIONS: Final = ("audit.k8s.io/v1",)
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
        value = decode_yaml(data).value
    except DecodeError as fault:
        raise PolicyError(f"no YAML: {fault}") from fault
    if not isinstance(value, dict):
        raise PolicyError("no Policy")
    if value.get("kind") != "Policy" or value.get("apiVersion") not in API_VERSIONS:
        raise PolicyError("must be of kind Policy and apiVersion audit.k8s.io/v1")
    _check_known(value, {"kind", "apiVersion", "metadata", "rules", "omitStages", "omitManagedFields"}, "")
    stages = _stages(value, "omitStages")
    omit = _boolean(value, "omitManagedFields", "omitManagedFields") or False
    rules = value.get("rules")
    if not isinstance(rules, list) or not rules:
        raise PolicyError("rules: there must be one at least")
    return AuditPolicy(tuple(_rule(rule, f"rules[{i}]", stages, omit=omit) for i, rule in enumerate(rules)))


_RULE_KEYS: Final = {
    "level",
    "users",
    "userGroups",
    "verbs",
    "resources",
    "namespaces",
    "nonResourceURLs",
    "omitStages",
    "omitManagedFields",
}


def _rule(rule: Any, where: str, stages: frozenset[str], *, omit: bool) -> AuditRule:
    if not isinstance(rule, dict):
        raise PolicyError(f"{where}: must be an object")
    _check_known(rule, _RULE_KEYS, where)
    level = rule.get("level")
    if not isinstance(level, str) or level not in NAMES:
        raise PolicyError(f"{where}.level: must be None, Metadata, Request or RequestResponse")
    urls = _texts(rule, "nonResourceURLs", where)
    resources, namespaces = rule.get("resources") or [], _texts(rule, "namespaces", where)
    if urls and (resources or namespaces):
        raise PolicyError(f"{where}: rules cannot apply to both regular resources and non-resource URLs")
    for url in urls:
        if url != "*" and not url.startswith("/"):
            raise PolicyError(f'{where}.nonResourceURLs: {url}: must begin with "/"')
        if "*" in url[:-1]:
            raise PolicyError(f'{where}.nonResourceURLs: {url}: "*" may only be at the end')
    if not isinstance(resources, list):
        raise PolicyError(f"{where}.resources: must be a list")
    own = _boolean(rule, "omitManagedFields", f"{where}.omitManagedFields")
    return AuditRule(
        level=NAMES[level],
        users=frozenset(_texts(rule, "users", where)),
        groups=frozenset(_texts(rule, "userGroups", where)),
        verbs=frozenset(_texts(rule, "verbs", where)),
        resources=tuple(_group_resources(r, f"{where}.resources[{i}]") for i, r in enumerate(resources)),
        namespaces=frozenset(namespaces),
        urls=tuple(urls),
        omit_stages=stages | _stages(rule, f"{where}.omitStages"),
        omit_managed_fields=omit if own is None else own,
    )


def _group_resources(entry: Any, where: str) -> GroupResources:
    if not isinstance(entry, dict):
        raise PolicyError(f"{where}: must be an object")
    _check_known(entry, {"group", "resources", "resourceNames"}, where)
    group = entry.get("group") or ""
    if not isinstance(group, str) or "/" in group:
        raise PolicyError(f"{where}.group: must be the name of a group, without a version")
    resources = GroupResources(group, _texts(entry, "resources", where), _texts(entry, "resourceNames", where))
    if resources.names and not resources.resources:
        raise PolicyError(f"{where}.resourceNames: needs resources")
    return resources


def _stages(document: Mapping[str, Any], where: str) -> frozenset[str]:
    stages = _texts(document, "omitStages", where)
    for stage in stages:
        if stage not in STAGES:
            raise PolicyError(f"{where}: {stage}: must be one of {', '.join(STAGES)}")
    return frozenset(stages)


def _texts(document: Mapping[str, Any], name: str, where: str) -> list[str]:
    texts = document.get(name) or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise PolicyError(f"{where}.{name}: must be a list of texts")
    return texts


def _boolean(document: Mapping[str, Any], name: str, where: str) -> bool | None:
    value = document.get(name)
    if value is not None and not isinstance(value, bool):
        raise PolicyError(f"{where}: must be true or false")
    return value


def _check_known(document: Mapping[str, Any], names: set[str], where: str) -> None:
    for name in document:
        if name not in names:
            raise PolicyError(f"{where}: unknown field {name}" if where else f"unknown field {name}")
