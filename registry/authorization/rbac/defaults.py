"""The default roles and bindings of every tenant, and their objects.

While a tenant has none stored, these apply. They are written to the tenant when its roles are first read or changed
(registry/api/default_roles.py).

Follows kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy at v1.36; defaults.yaml has the content. admin, edit
and view already include their aggregated rules, which a controller would add in a cluster.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from registry.authorization.rbac.aggregate import SELECTOR_LABEL, aggregated_rules
from registry.authorization.rbac.model import GROUP
from registry.authorization.rbac.stored import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    Entries,
    Which,
    entry_of_object,
)
from registry.codec.packaged_yaml import load_file
from registry.store.types import ObjectKey

Object = dict[str, Any]

API_VERSION = f"{GROUP}/v1"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_VERBS = {
    "read": "get list watch",
    "write": "create update patch delete deletecollection",
    "change": "get list watch update patch",
    "all": "get list watch create update patch delete deletecollection",
}
_EVENTS = "create update patch | core events.k8s.io | events"
_CONTROLLER = "system:controller:"
# The roles that aggregate into others, by the label that selects them.
_PARTS = {
    "edit": "admin",
    "view": "edit",
    "system:aggregate-to-admin": "admin",
    "system:aggregate-to-edit": "edit",
    "system:aggregate-to-view": "view",
}


@cache
def default_objects() -> dict[Which, Object]:
    """All objects: cluster roles and roles first, ClusterRoleBindings last. Must not be changed."""
    document = load_file(resources.files(__package__).joinpath("defaults.yaml"))
    objects: dict[Which, Object] = {}
    for name, rules in document["clusterRoles"].items():
        objects[CLUSTER_ROLES, ObjectKey(name)] = _cluster_role(name, rules)
    for name, rules in document["controllers"].items():
        full = f"{_CONTROLLER}{name}"
        objects[CLUSTER_ROLES, ObjectKey(full)] = _cluster_role(full, rules)
    _aggregate(objects, document["aggregated"])
    for key, rules in document["roles"].items():
        objects[ROLES, ObjectKey(key)] = {**_object("Role", key), "rules": [_rule(rule) for rule in rules]}
    for key, (role, *subjects) in document["roleBindings"].items():
        objects[ROLE_BINDINGS, ObjectKey(key)] = _binding("RoleBinding", key, "Role", role, subjects)
    for name, subjects in document["clusterRoleBindings"].items():
        objects[CLUSTER_ROLE_BINDINGS, ObjectKey(name)] = _binding(
            "ClusterRoleBinding", name, "ClusterRole", name, subjects
        )
    for name in document["controllers"]:
        full = f"{_CONTROLLER}{name}"
        objects[CLUSTER_ROLE_BINDINGS, ObjectKey(full)] = _binding(
            "ClusterRoleBinding", full, "ClusterRole", full, [f"ServiceAccount kube-system/{name}"]
        )
    return objects


@cache
def default_entries() -> Entries:
    return {
        (resource, key): entry_of_object(resource, key, 0, obj) for (resource, key), obj in default_objects().items()
    }


def _aggregate(objects: dict[Which, Object], names: list[str]) -> None:
    """From the smallest to the largest: edit includes view."""
    for name in names:
        obj = _cluster_role(name, [])
        obj["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {f"{SELECTOR_LABEL}{name}": "true"}}]}
        objects[CLUSTER_ROLES, ObjectKey(name)] = obj
    roles = {key: obj for (resource, key), obj in objects.items() if resource == CLUSTER_ROLES}
    for name in reversed(names):
        roles[ObjectKey(name)]["rules"] = aggregated_rules(roles[ObjectKey(name)], roles.values()) or None


def _cluster_role(name: str, rules: list[str]) -> Object:
    obj = _object("ClusterRole", name)
    if name in _PARTS:
        obj["metadata"]["labels"][f"{SELECTOR_LABEL}{_PARTS[name]}"] = "true"
    return {**obj, "rules": [_rule(rule) for rule in rules]}


def _object(kind: str, key: str) -> Object:
    namespace, _, name = key.rpartition("/")
    metadata: Object = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {**metadata, "labels": dict(_LABELS), "annotations": {AUTOUPDATE: "true"}},
    }


def _rule(text: str) -> Object:
    """`read | core | pods` is {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods"]}."""
    parts = [part.split() for part in (_EVENTS if text == "events" else text).split("|")]
    verbs = sorted(" ".join(_VERBS.get(word, word) for word in parts[0]).split())
    if len(parts) == 2:
        return {"verbs": verbs, "nonResourceURLs": sorted(parts[1])}
    rule = {
        "verbs": verbs,
        "apiGroups": sorted("" if group == "core" else group for group in parts[1]),
        "resources": sorted(parts[2]),
    }
    if len(parts) > 3:
        rule["resourceNames"] = sorted(parts[3])
    return rule


def _binding(kind: str, key: str, role_kind: str, role: str, subjects: list[str]) -> Object:
    obj = _object(kind, key)
    if subjects:
        obj["subjects"] = [_subject(*text.split(" ", 1)) for text in subjects]
    return {**obj, "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role}}


def _subject(kind: str, name: str) -> Object:
    if kind == "ServiceAccount":
        namespace, _, name = name.partition("/")
        return {"kind": kind, "name": name, "namespace": namespace}
    return {"kind": kind, "apiGroup": GROUP, "name": name}
