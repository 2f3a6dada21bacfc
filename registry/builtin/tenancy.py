"""The kind Tenant, served only in the tenant `system`: like a custom resource except for its strategy."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

from registry.codec.packaged_yaml import load_file
from registry.definitions.compiled import compile_definition
from registry.definitions.model import Definition

GROUP: Final = "tenancy.registry"
PLURAL: Final = "tenants"
# The tenant in which tenants are objects.
SYSTEM: Final = "system"


@cache
def tenant_definition() -> Definition:
    spec = load_file(resources.files("registry.builtin").joinpath("system", "tenants.yaml"))
    status = {
        "acceptedNames": spec["names"],
        "conditions": [{"type": "Established", "status": "True"}],
        "storedVersions": ["v1"],
    }
    return compile_definition({"metadata": {"name": f"{PLURAL}.{GROUP}"}, "spec": spec, "status": status})
