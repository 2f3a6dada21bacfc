"""Type checks validating policies; the warnings go to their status, and do not affect evaluation.

Follows kubernetes pkg/controller/validatingadmissionpolicystatus/controller.go.
"""

from __future__ import annotations

from typing import Final

from registry.admission.configuration import GROUP, VALIDATING_POLICIES
from registry.admission.policies import ParamKind
from registry.admission.typecheck import TypedKind, type_warnings
from registry.api.admission.inputs import param_resource
from registry.api.served import Object, Served
from registry.api.verbs.apply import force_apply
from registry.controllers.controller_client import ControllerClient
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
        wanted = (policy.get("spec") or {}).get("paramKind") or {}
        params = param_resource(catalog, ParamKind(wanted.get("apiVersion") or "", wanted.get("kind") or ""))
        warnings = type_warnings(policy, lambda *of: _typed_kind(catalog.served(*of)), _typed_kind(params))
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


def _typed_kind(served: Served | None) -> TypedKind | None:
    if served is None:
        return None
    return TypedKind(served.kind.group, served.version.name, served.kind.name, served.version.schema().structural)
