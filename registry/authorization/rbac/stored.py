"""Compiles stored objects to a Policy incrementally: only changed objects are read and compiled again.

An Entry is one stored role or binding. The defaults (defaults.py) apply before anything is stored: until a tenant has a
ClusterRoleBinding, they complete its stored objects. Bindings are written last when a tenant's own roles are created,
so that no decision is based on half of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from registry.authorization.rbac.model import GROUP, Binding, binding_of, rules_of
from registry.authorization.rbac.policy import CompiledRole, Policy
from registry.codec.stored import decode_stored
from registry.store.types import ObjectKey, ResourceName

CLUSTER_ROLES = ResourceName(f"clusterroles.{GROUP}")
CLUSTER_ROLE_BINDINGS = ResourceName(f"clusterrolebindings.{GROUP}")
ROLES = ResourceName(f"roles.{GROUP}")
ROLE_BINDINGS = ResourceName(f"rolebindings.{GROUP}")
RESOURCES = (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS)

Which = tuple[ResourceName, ObjectKey]


class RoleEntry(NamedTuple):
    """`value` is the role or the binding of `size` bytes in memory; None if it is left out, as it does not fit."""

    revision: int
    value: CompiledRole | Binding | None
    size: int


Entries = Mapping[Which, RoleEntry]


def entry_of(resource: ResourceName, key: ObjectKey, revision: int, body: str) -> RoleEntry:
    """`body` is the stored form: the object without its beginning (registry/store/types.py, Row)."""
    return entry_of_object(resource, key, revision, decode_stored('{"metadata":{' + body))


def entry_of_object(resource: ResourceName, key: ObjectKey, revision: int, obj: Mapping[str, Any]) -> RoleEntry:
    value: CompiledRole | Binding
    if resource in (CLUSTER_ROLES, ROLES):
        value = CompiledRole(rules_of(obj))
    else:
        value = binding_of(obj, key.rpartition("/")[0] if resource == ROLE_BINDINGS else "")
    return RoleEntry(revision, value, value.size)


def policy_of(entries: Entries, defaults: Entries) -> Policy:
    """The policy of the stored entries, completed by the defaults if there is no ClusterRoleBinding."""
    if not any(resource == CLUSTER_ROLE_BINDINGS for resource, _ in entries):
        entries = {**defaults, **entries}
    cluster_roles: dict[str, CompiledRole] = {}
    roles: dict[tuple[str, str], CompiledRole] = {}
    bindings: list[Binding] = []
    for (resource, key), (_, value, _) in entries.items():
        if isinstance(value, Binding):
            bindings.append(value)
        elif resource == CLUSTER_ROLES and value is not None:
            cluster_roles[key] = value
        elif value is not None:
            namespace, _, name = key.rpartition("/")
            roles[namespace, name] = value
    return Policy(cluster_roles, roles, bindings)


def refresh(
    known: Entries, rows: Iterable[tuple[ResourceName, ObjectKey, int, str | None]], room: int
) -> tuple[dict[Which, RoleEntry], int]:
    """The entries of `rows`, of which only those newer than everything known have a body, and how many of `room` bytes
    are left. Those that do not fit are left out."""
    entries: dict[Which, RoleEntry] = {}
    for resource, key, revision, body in rows:
        which = (resource, key)
        entry = known[which] if body is None else entry_of(resource, key, revision, body)
        if entry.value is not None and entry.size > room:
            entry = entry._replace(value=None)
        elif entry.value is not None:
            room -= entry.size
        entries[which] = entry
    return entries, room


def usage(entries: Entries) -> int:
    """How many bytes the entries take in memory, with those that are left out."""
    return sum(entry.size for entry in entries.values())
