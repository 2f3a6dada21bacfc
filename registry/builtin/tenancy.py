"""The kind Tenant, served only in the tenant `system`: like a custom resource except for its strategy."""

from __future__ import annotations

from functools import cache
from typing import Final

from registry.builtin import packaged_definition
from registry.definitions.model import Definition

GROUP: Final = "tenancy.registry"
PLURAL: Final = "tenants"
# The tenant in which tenants are objects.
SYSTEM: Final = "system"


@cache
def tenant_definition() -> Definition:
    return packaged_definition("system", "tenants.yaml")
