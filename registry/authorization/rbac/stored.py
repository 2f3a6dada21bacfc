"""Compiles stored objects to a Policy incrementally: only changed objects are read and compiled again.

An Entry is one stored role or binding. The defaults (defaults.py) apply before anything is stored: until a tenant has a
ClusterRoleBinding, they complete its stored objects. Bindings are written last when a tenant's own roles are created,
so that no decision is based on half of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from registry.authorization.rbac.match import CompiledRole
from registry.authorization.rbac.model import GROUP, Binding, binding_of, rules_of
from registry.authorization.rbac.policy import Policy
from registry.codec.stored import decode_stored
from registry.store.types import ObjectKey, ResourceName

CLUSTER_ROLES = ResourceName(f"clusterroles.{GROUP}")
CLUSTER_ROLE_BINDINGS = ResourceName(f"clusterrolebindings.{GROUP}")
ROLES = ResourceName(f"roles.{GROUP}")
ROLE_BINDINGS = ResourceName(f"rolebindings.{GROUP}")
RESOURCES = (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS)

Which = tuple[ResourceName, ObjectKey]


class RoleEntry(NamedTuple):
    """`value` is the role or the binding."""

    revision: int
    value: CompiledRole | Binding


Entries = Mapping[Which, RoleEntry]


def entry_of(resource: ResourceName, key: ObjectKey, revision: int, body: str) -> RoleEntry:
    """`body` is the stored form: the object without its beginning (registry/store/types.py, Row)."""
    return entry_of_object(resource, key, revision, decode_stored('{"metadata":{' + body))


def entry_of_object(resource: ResourceName, key: ObjectKey, revision: int, obj: Mapping[str, Any]) -> RoleEntry:
    if resource in (CLUSTER_ROLES, ROLES):
        return RoleEntry(revision, CompiledRole(rules_of(obj)))
    namespace = key.rpartition("/")[0] if resource == ROLE_BINDINGS else ""
    return RoleEntry(revision, binding_of(obj, namespace))


def policy_of(entries: Entries, defaults: Entries) -> Policy:
    """The policy of the stored entries, completed by the defaults if there is no ClusterRoleBinding."""
    if not any(resource == CLUSTER_ROLE_BINDINGS for resource, _ in entries):
        entries = {**defaults, **entries}
    cluster_roles: dict[str, CompiledRole] = {}
    roles: dict[tuple[str, str], CompiledRole] = {}
    bindings: list[Binding] = []
    for (resource, key), (_, value) in entries.items():
        if isinstance(value, Binding):
            bindings.append(value)
        elif resource == CLUSTER_ROLES:
            cluster_roles[key] = value
        else:
            namespace, _, name = key.rpartition("/")
            roles[namespace, name] = value
    return Policy(cluster_roles, roles, bindings)


def refresh(known: Entries, rows: Iterable[tuple[ResourceName, ObjectKey, int, str | None]]) -> dict[Which, RoleEntry]:
    """The entries of `rows`; only rows newer than everything known have a body."""
    entries: dict[Which, RoleEntry] = {}
    for resource, key, revision, body in rows:
        which = (resource, key)
        entries[which] = known[which] if body is None else entry_of(resource, key, revision, body)
    return entries
