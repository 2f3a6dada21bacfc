"""Resolves an owner reference: the resource of its kind, and the key of its object."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from registry.api.catalog import TenantCatalog
from registry.api.dependents import Reference
from registry.api.served import Served
from registry.definitions.model import Definition
from registry.store.types import ResourceName

_kinds: WeakKeyDictionary[TenantCatalog, dict[tuple[str, str], Definition]] = WeakKeyDictionary()


def group_and_version(api_version: str) -> tuple[str, str]:
    """Splits `apps/v1` into ("apps", "v1"), and `v1` into ("", "v1")."""
    group, _, version = api_version.rpartition("/")
    return group, version


def served_by_reference(catalog: TenantCatalog, reference: Reference) -> Served | None:
    """Returns the resource of the reference's kind, at the reference's version; None unless that is served."""
    group, version_name = group_and_version(reference.get("apiVersion") or "")
    definition = kinds_of(catalog).get((group, reference.get("kind") or ""))
    version = definition.versions.get(version_name) if definition is not None else None
    if definition is None or version is None or not version.served:
        return None
    return catalog.at_version(definition, version)


def is_defined(catalog: TenantCatalog, reference: Reference) -> bool:
    """Returns whether the kind of the reference is defined, at any version."""
    group, _ = group_and_version(reference.get("apiVersion") or "")
    return (group, reference.get("kind") or "") in kinds_of(catalog)


def kinds_of(catalog: TenantCatalog) -> dict[tuple[str, str], Definition]:
    """Returns definitions by group and kind, built-in ones first; computed once, as a catalog never changes."""
    kinds = _kinds.get(catalog)
    if kinds is None:
        kinds = _kinds[catalog] = {(d.group, d.names.kind): d for d in reversed([*catalog.definitions()])}
    return kinds


def served_by_name(catalog: TenantCatalog, resource: ResourceName) -> Served | None:
    """Returns the resource with this name in the store, at its storage version."""
    plural, _, group = resource.partition(".")
    definition = catalog.definition(group, plural)
    return None if definition is None else catalog.at_storage_version(definition)
