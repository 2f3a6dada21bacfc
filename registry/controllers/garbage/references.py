"""What an owner reference points to: the resource of its kind, and the key of its object."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from registry.api.catalog import TenantCatalog
from registry.api.dependents import Reference
from registry.api.served import Served
from registry.definitions.model import Definition
from registry.store.types import ResourceName

_kinds: WeakKeyDictionary[TenantCatalog, dict[tuple[str, str], Definition]] = WeakKeyDictionary()


def group_and_version(api_version: str) -> tuple[str, str]:
    """`apps/v1` gives ("apps", "v1"), `v1` gives ("", "v1")."""
    group, _, version = api_version.rpartition("/")
    return group, version


def served_by_reference(catalog: TenantCatalog, reference: Reference) -> Served | None:
    """The resource whose kind the reference names, at the version that it names; None unless that is served."""
    group, version_name = group_and_version(reference.get("apiVersion") or "")
    definition = kinds_of(catalog).get((group, reference.get("kind") or ""))
    version = definition.versions.get(version_name) if definition is not None else None
    if definition is None or version is None or not version.served:
        return None
    return catalog.at_version(definition, version)


def is_defined(catalog: TenantCatalog, reference: Reference) -> bool:
    """Whether there is a definition of the kind that the reference names, at whatever version."""
    group, _ = group_and_version(reference.get("apiVersion") or "")
    return (group, reference.get("kind") or "") in kinds_of(catalog)


def kinds_of(catalog: TenantCatalog) -> dict[tuple[str, str], Definition]:
    """Definitions by group and kind; a catalog never changes, so this is made once for each."""
    kinds = _kinds.get(catalog)
    if kinds is None:
        kinds = _kinds[catalog] = {(d.group, d.names.kind): d for d in catalog.definitions()}
    return kinds


def served_by_name(catalog: TenantCatalog, resource: ResourceName) -> Served | None:
    """A resource by the name that the store knows it by, at its storage version."""
    plural, _, group = resource.partition(".")
    definition = catalog.definition(group, plural)
    return (
        None if definition is None else catalog.at_version(definition, definition.versions[definition.storage_version])
    )
