"""Aggregates cluster roles: fills in the rules of the roles that they select.

All roles of a tenant at once, transitively: view is part of edit, and edit of admin. Follows kubernetes
pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go at v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from registry.api.served import Object
from registry.api.verbs.apply import force_apply
from registry.authorization.rbac.aggregate import aggregated_rules
from registry.authorization.rbac.model import GROUP
from registry.authorization.rbac.stored import CLUSTER_ROLES
from registry.codec.stored import decode_stored
from registry.controllers.controller_client import ControllerClient
from registry.flowcontrol.evaluation import evaluate
from registry.store.types import ObjectKey, Row

MANAGER: Final = "clusterrole-aggregation-controller"
# All roles of a tenant are one work item, whichever of them has changed.
ALL: Final = ObjectKey("*")


async def reconcile(client: ControllerClient, key: ObjectKey) -> None:
    roles: dict[ObjectKey, Object] = {}
    size = 0
    async for page in client.backend.store.scan(client.tenant, CLUSTER_ROLES):
        size += page.size
        roles |= await evaluate(partial(_decode_roles, page.rows), page.size, repeatable=True)
    aggregated = await evaluate(partial(aggregate_rules, roles), size, repeatable=True)
    for name, rules in aggregated.items():
        operation = force_apply(_configuration(name, rules), MANAGER, lambda role: bool(role.get("aggregationRule")))
        await client.update(GROUP, "clusterroles", name, operation)


def _decode_roles(rows: Sequence[Row]) -> dict[ObjectKey, Object]:
    return {row.key: decode_stored('{"metadata":{' + row.body) for row in rows}


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
