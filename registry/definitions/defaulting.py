"""Defaulting of CustomResourceDefinitions.

Follows apiextensions-apiserver pkg/apis/apiextensions/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def default_definition(crd: dict[str, Any]) -> None:
    """Sets singular, listKind, conversion, the webhook's port and storedVersions, in place."""
    spec = crd.setdefault("spec", {})
    default_names(spec.setdefault("names", {}))
    conversion = spec.get("conversion")
    if conversion is None:
        spec["conversion"] = {"strategy": "None"}
    else:
        service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
        if service is not None and service.get("port") is None:
            service["port"] = 443
    default_stored_versions(crd)


def default_names(names: dict[str, Any]) -> None:
    """Sets singular and listKind, in place."""
    kind = names.get("kind") or ""
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"


def default_stored_versions(crd: dict[str, Any]) -> None:
    """Sets an empty storedVersions to the storage version, in place; also on an update of the status."""
    storage = storage_version(crd)
    status = crd.setdefault("status", {})
    if storage is not None and not status.get("storedVersions"):
        status["storedVersions"] = [storage]


def storage_version(crd: Mapping[str, Any]) -> str | None:
    """The name of the first version marked as storage version."""
    for version in (crd.get("spec") or {}).get("versions") or ():
        if version.get("storage"):
            return str(version.get("name") or "")
    return None
