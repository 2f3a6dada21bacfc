"""Deletion protection for definitions, whose deletion takes all their objects with it, and for namespaces.

An annotation of the object decides, else the policy of its tenant, else nothing is protected, as in Kubernetes:

    tenancy.registry/deletion-protection: Off         deleted as in Kubernetes
                                          WhileUsed   refused while there are objects of it, or in it
                                          Always      refused; any value but these counts as Always

Whether there are objects is checked in the commit that marks the deletion, under the lock that every write of the
tenant takes: an earlier create causes the deletion to be refused, a later one is refused itself.
"""

from __future__ import annotations

from typing import Final

from registry.api.bound_definitions import DEFINITIONS
from registry.api.errors import StatusError, forbidden
from registry.api.request import ResourceRequest
from registry.api.served import Object
from registry.store.types import Contents, ResourceName, Tenant

ANNOTATION: Final = "tenancy.registry/deletion-protection"
OFF: Final = "Off"
WHILE_USED: Final = "WhileUsed"
ALWAYS: Final = "Always"
NAMESPACES: Final = "namespaces"
_PROTECTABLE: Final = frozenset({DEFINITIONS, NAMESPACES})


async def require_unprotected(request: ResourceRequest, obj: Object, *, dry_run: bool) -> Contents | None:
    """Returns what must not exist when the deletion is committed. Raises 403 if the object is known to be protected."""
    if request.served.resource_name not in _PROTECTABLE or obj["metadata"].get("deletionTimestamp"):
        return None
    match protection_of(request.tenant, obj):
        case "Off":
            return None
        case "WhileUsed":
            contents = _contents(request)
            if dry_run and await request.backend.store.lookups.in_use(request.tenant, contents):
                raise await in_use(request)
            return contents
        case _:
            raise _refusal(request, "it is protected from deletion")


def protection_of(tenant: Tenant, obj: Object) -> str:
    own = (obj["metadata"].get("annotations") or {}).get(ANNOTATION)
    policy = own if own is not None else policy_of(tenant)
    return policy if policy in (OFF, WHILE_USED) else ALWAYS


def policy_of(tenant: Tenant) -> str:
    """Returns the tenant's default for objects without an annotation."""
    policy = tenant.attributes.get("deletionProtection")
    return policy if isinstance(policy, str) and policy else OFF


def _contents(request: ResourceRequest) -> Contents:
    """Returns the objects of a definition, or those in a namespace except the ones that the server puts into each."""
    name = request.name
    if request.served.resource_name == DEFINITIONS:
        return Contents(resource=ResourceName(name))
    return Contents(
        prefix=f"{name}/",
        excepted={"events": None, "configmaps": [f"{name}/kube-root-ca.crt"], "serviceaccounts": [f"{name}/default"]},
    )


async def in_use(request: ResourceRequest) -> StatusError:
    """Returns the refusal of a deletion that would take other objects with it."""
    store, tenant, name = request.backend.store, request.tenant, request.name
    if request.served.resource_name == DEFINITIONS:
        count = sum(n for resource, n in await store.lookups.resources(tenant) if resource == name)
        held = "it has"
    else:
        count = sum(n for _, n in await store.lookups.resources_in_namespace(tenant, name))
        held = "it holds"
    objects = "1 object" if count == 1 else f"{count} objects"
    return _refusal(request, f"it is protected from deletion while {held} objects, and {held} {objects}")


def _refusal(request: ResourceRequest, why: str) -> StatusError:
    served, name = request.served, request.name
    kind = served.definition.names.singular
    way = (
        f"to delete it anyway, lift the protection first: kubectl annotate {kind} {name} {ANNOTATION}={OFF} --overwrite"
    )
    cause = {"reason": "DeletionProtected", "message": why, "field": f"metadata.annotations[{ANNOTATION}]"}
    return forbidden(served.resource, name, f"{why}; {way}", [cause])
