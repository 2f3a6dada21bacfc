"""Aggregates cluster roles: fills in the rules of the roles that they select.

All roles of a tenant at once, transitively: view is part of edit, and edit of admin. Follows kubernetes
pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go at v1.36.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from registry.api.served import Object
from registry.api.verbs.apply import force_apply
from registry.authorization.authorizer import TENANT_BYTES
from registry.authorization.rbac.aggregate import RoleSelection, merged
from registry.authorization.rbac.model import GROUP, rule_of, rule_size, rules_of, rules_size
from registry.authorization.rbac.stored import CLUSTER_ROLES
from registry.codec.json_encode import encode_canonical
from registry.codec.stored import decode_stored
from registry.controllers.controller_client import ControllerClient
from registry.flowcontrol.evaluation import evaluate
from registry.store.types import ObjectKey, Row

logger = logging.getLogger(__name__)

MANAGER: Final = "clusterrole-aggregation-controller"


async def reconcile(client: ControllerClient, key: ObjectKey) -> None:
    """Aggregates as far as the rules fit into the memory that a tenant's roles may take."""
    roles: dict[ObjectKey, Object] = {}
    size, room = 0, TENANT_BYTES
    async for page in client.backend.store.scan(client.tenant, CLUSTER_ROLES):
        size += page.size
        decoded, taken = await evaluate(partial(_decode_roles, page.rows), page.size, repeatable=True)
        roles |= decoded
        room -= taken
        if room < 0:
            logger.info("the cluster roles of %s are not aggregated: they are too large", client.tenant.name)
            return
    aggregated = await evaluate(partial(aggregate_rules, roles, room), size, repeatable=True)
    for name, rules in aggregated.items():
        if rules is None:
            logger.info("%s of %s is not aggregated: its rules are too many", name, client.tenant.name)
            return
        configuration = _configuration(name, rules)
        operation = force_apply(partial(_if_aggregated, configuration), MANAGER)
        await client.update(GROUP, "clusterroles", name, operation)


def _if_aggregated(configuration: Object, role: Object) -> Object | None:
    return configuration if role.get("aggregationRule") else None


def _decode_roles(rows: Sequence[Row]) -> tuple[dict[ObjectKey, Object], int]:
    """Returns the roles, and what their rules take in memory, in bytes."""
    roles = {row.key: decode_stored('{"metadata":{' + row.body) for row in rows}
    return roles, sum(rules_size(rules_of(role)) for role in roles.values())


def aggregate_rules(roles: Mapping[ObjectKey, Object], room: int = TENANT_BYTES) -> dict[ObjectKey, list[Any] | None]:
    """Returns the new rules of the aggregated roles whose rules are out of date; None for the first that would take
    more than the `room` that is left, in bytes of memory, and nothing for others after it.

    Roles come after those that they select, so that one round suffices unless some select each other. There are at
    most as many rounds as roles: such have converged by then.
    """
    roles = {**roles}
    selection = RoleSelection({str(key): role for key, role in roles.items()})
    parts = {
        key: [ObjectKey(name) for name in selection.of(role)]
        for key, role in roles.items()
        if role.get("aggregationRule")
    }
    rules = _KnownRules()
    changed: dict[ObjectKey, list[Any] | None] = {}
    order = _after_parts(parts)
    for _ in order:
        is_stable = True
        for key in order:
            before, new = roles[key].get("rules") or [], merged((roles[part] for part in parts[key]), rules.text)
            if new == before:
                continue
            room += rules.size(before) - rules.size(new)
            if room < 0:
                return {**changed, key: None}
            is_stable, changed[key], roles[key] = False, new, {**roles[key], "rules": new}
        if is_stable:
            break
    return changed


class _KnownRules:
    """What has been found out of each rule: the same object in all roles that have it from one."""

    def __init__(self) -> None:
        # By the ids of rules, which live as long as this does.
        self._known: dict[int, tuple[str, int, Any]] = {}

    def text(self, rule: Any) -> str:
        return self._of(rule)[0]

    def size(self, rules: Sequence[Any]) -> int:
        """The approximate size of the rules in memory, in bytes."""
        return sum(self._of(rule)[1] for rule in rules)

    def _of(self, rule: Any) -> tuple[str, int, Any]:
        known = self._known.get(id(rule))
        if known is None:
            known = self._known[id(rule)] = encode_canonical(rule), rule_size(rule_of(rule)), rule
        return known


def _after_parts(parts: Mapping[ObjectKey, Sequence[ObjectKey]]) -> list[ObjectKey]:
    """Returns the aggregated roles in an order in which each follows those that it selects, but for circles."""
    order: list[ObjectKey] = []
    seen: set[ObjectKey] = set()
    for root in parts:
        path = [] if root in seen else [(root, iter(parts[root]))]
        seen.add(root)
        while path:
            key, left = path[-1]
            part = next((part for part in left if part in parts and part not in seen), None)
            if part is None:
                order.append(key)
                path.pop()
            else:
                seen.add(part)
                path.append((part, iter(parts[part])))
    return order


def _configuration(name: str, rules: list[Any]) -> Object:
    """Returns what the controller applies; without rules it owns nothing."""
    head = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    return {**head, "rules": rules} if rules else head
