"""Aggregated cluster roles get the rules of the roles that they select.

All of a tenant's at once, to the end: view is part of edit, and edit of admin. Follows kubernetes
pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go at v1.36.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from registry.api.served import Object
from registry.api.verbs.update import copy_of
from registry.authorization.rbac.aggregate import aggregated_rules
from registry.authorization.rbac.model import GROUP
from registry.authorization.rbac.stored import CLUSTER_ROLES
from registry.codec.stored import decode_stored
from registry.controllers.controller_client import ControllerClient
from registry.store.types import ObjectKey

MANAGER: Final = "clusterrole-aggregation-controller"
# The work for all roles of a tenant is one piece: whichever of them has changed.
ALL: Final = ObjectKey("*")


async def reconcile(controlled: ControllerClient, key: ObjectKey) -> None:
    roles: dict[ObjectKey, Object] = {}
    async for page in controlled.backend.store.scan(controlled.tenant, CLUSTER_ROLES):
        for row in page.rows:
            roles[row.key] = decode_stored('{"metadata":{' + row.body)
    for name, rules in aggregate_rules(roles).items():
        await controlled.with_manager(MANAGER).change(GROUP, "clusterroles", name, _with_rules(rules))


def aggregate_rules(roles: dict[ObjectKey, Object]) -> dict[ObjectKey, list[Any]]:
    """The rules of the aggregated roles that do not have them yet. Changes `roles` as it goes.

    Each round brings rules one role further, so there are as many rounds at the most as there are aggregated roles; two
    that select each other have come to rest by then.
    """
    aggregated = [key for key, role in roles.items() if role.get("aggregationRule")]
    found: dict[ObjectKey, list[Any]] = {}
    for _ in aggregated:
        before = dict(found)
        for key in aggregated:
            rules = aggregated_rules(roles[key], roles.values())
            if rules != (roles[key].get("rules") or []):
                found[key] = roles[key]["rules"] = rules
        if found == before:
            break
    return found


def _with_rules(rules: list[Any]) -> Callable[[Object], Object]:
    """A role that is no aggregated one any more keeps its rules."""
    return lambda old: {**copy_of(old), "rules": rules} if old.get("aggregationRule") else copy_of(old)
