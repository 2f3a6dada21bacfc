"""Type checks validating policies; the warnings go to their status, and do not affect evaluation.

Follows kubernetes pkg/controller/validatingadmissionpolicystatus/controller.go.
"""

from __future__ import annotations

from typing import Final

from registry.admission.configuration import GROUP, VALIDATING_POLICIES
from registry.admission.typecheck import TypedKind, type_warnings
from registry.api.catalog import TenantCatalog
from registry.api.served import Object
from registry.api.verbs.apply import force_apply
from registry.controllers.controller_client import ControllerClient
from registry.definitions.model import Definition, Version
from registry.store.types import ObjectKey, ResourceName

POLICIES: Final = ResourceName(f"{VALIDATING_POLICIES}.{GROUP}")
# A policy is checked after this long without a write, so that an editor does not at once meet a new resourceVersion.
QUIET_SECONDS: Final = 0.5
_MANAGER: Final = "validatingadmissionpolicy-status"


async def reconcile(client: ControllerClient, key: ObjectKey) -> None:
    """Type checks one policy, unless that was done since its last change."""
    catalog = await client.catalog()

    def configure(policy: Object) -> Object | None:
        generation = policy["metadata"].get("generation", 0)
        status = policy.get("status") or {}
        if status.get("observedGeneration") == generation:
            return None
        warnings = type_warnings(policy, lambda *resource: _kind(catalog, *resource), _param_kind(catalog, policy))
        # An empty list takes the place of warnings that were not applied, but written by a server before.
        has_warnings = warnings or (status.get("typeChecking") or {}).get("expressionWarnings")
        checking = {"expressionWarnings": warnings} if has_warnings else {}
        return {
            "apiVersion": policy["apiVersion"],
            "kind": policy["kind"],
            "metadata": {"name": policy["metadata"]["name"]},
            "status": {"observedGeneration": generation, "typeChecking": checking},
        }

    await client.with_manager(_MANAGER).update(
        GROUP, VALIDATING_POLICIES, key, force_apply(configure, _MANAGER), "status"
    )


def _kind(catalog: TenantCatalog, group: str, version: str, plural: str) -> TypedKind | None:
    definition = catalog.definition(group, plural)
    served_version = definition.versions.get(version) if definition is not None else None
    return _as_kind(definition, served_version)


def _param_kind(catalog: TenantCatalog, policy: Object) -> TypedKind | None:
    wanted = (policy.get("spec") or {}).get("paramKind") or {}
    group, _, version = (wanted.get("apiVersion") or "").rpartition("/")
    for definition in catalog.definitions():
        if definition.group == group and definition.names.kind == wanted.get("kind"):
            return _as_kind(definition, definition.versions.get(version))
    return None


def _as_kind(definition: Definition | None, version: Version | None) -> TypedKind | None:
    if definition is None or version is None or not version.served:
        return None
    return TypedKind(definition.group, version.name, definition.names.kind, version.schema().structural)
