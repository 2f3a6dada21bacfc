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
from registry.authorization.rbac.aggregate import aggregated_rules
from registry.authorization.rbac.model import GROUP, rules_of, rules_size
from registry.authorization.rbac.stored import CLUSTER_ROLES
from registry.codec.stored import decode_stored
from registry.controllers.controller_client import ControllerClient
from registry.flowcontrol.evaluation import evaluate
from registry.store.types import ObjectKey, Row

logger = logging.getLogger(__name__)

MANAGER: Final = "clusterrole-aggregation-controller"
# All roles of a tenant are one work item, whichever of them has changed.
ALL: Final = ObjectKey("*")


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
    aggregated = await evaluate(partial(aggregate_rules, roles), size, repeatable=True)
    for name, rules in aggregated.items():
        room += rules_size(rules_of(roles[name])) - rules_size(rules_of({"rules": rules}))
        if room < 0:
            logger.info("%s of %s is not aggregated: its rules are too many", name, client.tenant.name)
            return
        operation = force_apply(_configuration(name, rules), MANAGER, lambda role: bool(role.get("aggregationRule")))
        await client.update(GROUP, "clusterroles", name, operation)


def _decode_roles(rows: Sequence[Row]) -> tuple[dict[ObjectKey, Object], int]:
    """Returns the roles, and what their rules take in memory, in bytes."""
    roles = {row.key: decode_stored('{"metadata":{' + row.body) for row in rows}
    return roles, sum(rules_size(rules_of(role)) for role in roles.values())


def aggregate_rules(roles: Mapping[ObjectKey, Object]) -> dict[ObjectKey, list[Any]]:
    """Returns the new rules of the aggregated roles whose rules are out of date.

    Each round propagates rules by one role, so there are at most as many rounds as aggregated roles; two that select
    each other have converged by then.
    """
    roles = {key: {**role} for key, role in roles.items()}
    aggregated = [key for key, role in roles.items() if role.get("aggregationRule")]
    by_role: dict[ObjectKey, list[Any]] = {}
    for _ in aggregated:
        before = dict(by_role)
        for key in aggregated:
            rules = aggregated_rules(roles[key], roles.values())
            if rules != (roles[key].get("rules") or []):
                by_role[key] = roles[key]["rules"] = rules
        if by_role == before:
            break
    return by_role


def _configuration(name: str, rules: list[Any]) -> Object:
    """Returns what the controller applies; without rules it owns nothing."""
    head = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    return {**head, "rules": rules} if rules else head
