"""Writes the default roles and bindings into a tenant, when its roles are first read or changed.

A new tenant stores no roles, and the defaults apply (authorization/rbac/defaults.py). When its roles are first
requested, they are written: roles first, the ClusterRoleBindings last and together, so that after a crash in between
the defaults still apply, and the next request continues. An existing role keeps its rules and gets missing ones, as at
the start of a kube-apiserver. From then on the tenant's own roles are in force, however it changes them; only a tenant
that has deleted every ClusterRoleBinding gets the defaults again.

Follows kubernetes pkg/registry/rbac/rest/storage_rbac.go and component-helpers auth/rbac/reconciliation at v1.36.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from registry.api.errors import StatusError
from registry.api.request import Backend
from registry.api.served import Object
from registry.api.server_writes import creating, updating, write_as_server
from registry.api.verbs.update import copy_of
from registry.authorization.rbac.cover import compact, missing_rules
from registry.authorization.rbac.defaults import AUTOUPDATE, default_objects
from registry.authorization.rbac.model import GROUP, PolicyRule, rules_of
from registry.authorization.rbac.policy import CompiledRole
from registry.authorization.rbac.stored import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, Entries, Which
from registry.store.types import ObjectKey, Tenant


async def ensure_default_roles(backend: Backend, tenant: Tenant) -> None:
    """Writes the default roles and bindings, unless the tenant has its own."""
    if backend.authorizer.is_first_access(tenant):
        # A process that has crashed may have left aggregated roles out of date.
        backend.enqueue(tenant, CLUSTER_ROLES, ObjectKey("*"))
    entries = await backend.authorizer.entries_of(tenant)
    if any(resource == CLUSTER_ROLE_BINDINGS for resource, _ in entries):
        return
    defaults = default_objects()
    missing = [which for which in defaults if which not in entries]
    lacking = {which: rules for which in defaults if which in entries and (rules := _lacking(which, entries))}
    for which, rules in lacking.items():
        await _add_rules(backend, tenant, which, rules)
    await _create_all(backend, tenant, (which for which in missing if which[0] != CLUSTER_ROLE_BINDINGS))
    await _create_all(backend, tenant, (which for which in missing if which[0] == CLUSTER_ROLE_BINDINGS))
    backend.authorizer.invalidate(tenant)


async def _create_all(backend: Backend, tenant: Tenant, wanted: Iterable[Which]) -> None:
    """Writes concurrently: the store combines the writes into few transactions."""
    await asyncio.gather(*(_create(backend, tenant, which) for which in wanted))


async def _create(backend: Backend, tenant: Tenant, which: Which) -> None:
    namespace = which[1][: which[1].rfind("/") + 1]
    try:
        await write_as_server(backend, tenant, _resource(which), namespace, creating(default_objects()[which]))
    except StatusError as error:
        # Another process was first, or the namespace is missing: a tenant may do without kube-public.
        if error.code not in (403, 404, 409):
            raise


def _lacking(which: Which, entries: Entries) -> list[PolicyRule]:
    """Returns the rules that a stored default role lacks."""
    stored = entries[which].value
    wanted = default_objects()[which]
    if which[0] != CLUSTER_ROLES or not isinstance(stored, CompiledRole) or wanted.get("aggregationRule"):
        return []
    return compact(missing_rules(stored.rules, rules_of(wanted)))


async def _add_rules(backend: Backend, tenant: Tenant, which: Which, rules: list[PolicyRule]) -> None:
    def with_rules(old: Object) -> Object:
        if ((old["metadata"].get("annotations") or {}).get(AUTOUPDATE)) == "false":
            return copy_of(old)
        return {**copy_of(old), "rules": [*(old.get("rules") or ()), *map(_object_of, rules)]}

    try:
        await write_as_server(backend, tenant, _resource(which), which[1], updating(with_rules))
    except StatusError as error:
        if error.code != 404:
            raise


def _object_of(rule: PolicyRule) -> dict[str, Any]:
    members = {
        "verbs": rule.verbs,
        "apiGroups": rule.groups,
        "resources": rule.resources,
        "resourceNames": rule.names,
        "nonResourceURLs": rule.paths,
    }
    return {name: list(values) for name, values in members.items() if values}


def _resource(which: Which) -> tuple[str, str]:
    return GROUP, which[0].partition(".")[0]
