"""Statuses for writes that a commit refused because of their tenant, in the words that clients know of quotas."""

from __future__ import annotations

from typing import Final

from registry.api.errors import StatusError, conflict, forbidden, invalid
from registry.api.served import Served
from registry.schema.field import FieldError
from registry.schema.field import forbidden as forbidden_field
from registry.store.errors import QuotaExceeded, SharingRefused, StoreError, TenancyRefused, TenantSuspended
from registry.store.types import ObjectKey, Tenant


def commit_refusal(tenant: Tenant, served: Served, key: ObjectKey, why: StoreError) -> StatusError:
    name = key.rpartition("/")[2]
    match why:
        case TenantSuspended():
            return forbidden(
                served.resource, name, f'the tenant "{tenant.name}" is suspended: it can be read but not written to'
            )
        case QuotaExceeded():
            text = (
                f"exceeded quota: tenant {tenant.name}, requested: {why.what}={why.requested}, "
                f"used: {why.what}={why.used}, limited: {why.what}={why.limit}"
            )
            return forbidden(served.resource, name, text)
        case TenancyRefused(reason="children"):
            text = f'the tenant "{why.name}" is below it: delete those below it first, or give them another parent'
            return forbidden(served.resource, name, text)
        case TenancyRefused(reason="provides"):
            text = "other tenants have bound definitions of this tenant: they have to delete their APIBindings first"
            return forbidden(served.resource, name, text)
        case SharingRefused():
            return _sharing(served, name, why)
        case TenancyRefused(reason="removing"):
            return conflict(served.resource, name, "what the tenant held is being removed already")
        case TenancyRefused(reason="ending"):
            return conflict(served.resource, name, "a tenant of this name was deleted, and is not yet removed")
        case _:
            assert isinstance(why, TenancyRefused)
            return invalid(served.kind, name, [_tenancy_error(why)])


def _sharing(served: Served, name: str, why: SharingRefused) -> StatusError:
    match why.reason:
        case "bound":
            tenants = "1 tenant has" if why.detail == "1" else f"{why.detail} tenants have"
            text = f"{tenants} bound what would no longer be shared: the APIBindings have to be deleted first"
            return forbidden(served.resource, name, text)
        case "stored":
            text = f"tenants that have bound the definition have objects that are stored at version {why.detail}"
            return forbidden(served.resource, name, text)
        case "taken":
            return conflict(served.resource, name, f"another APIBinding of the tenant binds {why.detail}")
        case _:
            return conflict(served.resource, name, "the export or a definition of it has changed meanwhile")


_PARENT: Final = {
    "parent": "there is no such tenant",
    "cycle": "a tenant cannot be above itself",
    "depth": "there are more than 16 tenants above it",
}


def _tenancy_error(why: TenancyRefused) -> FieldError:
    if why.reason == "schema":
        return forbidden_field("spec.sqlSchema", f'the tenant "{why.name}" has this schema')
    return forbidden_field("spec.parent", _PARENT[why.reason])
