"""Definitions that tenants have bound, each read and compiled once for all tenants of the process.

A definition is identified by its provider, its name and its revision: thousands of tenants that have bound it share the
same Definition, and with it the compiled schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from registry.builtin import sharing
from registry.caches import LruCache
from registry.codec.stored import decode_metadata
from registry.definitions.model import Definition
from registry.definitions.naming import HeldNames
from registry.store.sharing import BoundDefinition
from registry.store.store import Store
from registry.store.types import ObjectKey, ResourceName, Row, Tenant, TenantId, Uid

# The number of shared definitions that a process caches; one takes some 20 kB, without the schemas in use.
LIMIT: Final = 5_000
DEFINITIONS: Final = ResourceName("customresourcedefinitions.apiextensions.k8s.io")
BINDINGS: Final = ResourceName(f"{sharing.BINDINGS}.{sharing.GROUP}")


class Shared(NamedTuple):
    """A bound definition; `names` are those that conflict with others (definitions/naming.py)."""

    definition: Definition
    names: HeldNames


NOTHING_BOUND: Final[Mapping[ResourceName, Shared]] = {}


class _Read(Protocol):
    @property
    def definition(self) -> Definition: ...

    @property
    def names(self) -> HeldNames: ...


class _Entry(NamedTuple):
    revision: int
    living: Shared
    # For tenants whose binding is being deleted: it accepts no new objects.
    terminating: Shared


class SharedEntries:
    """Caches shared definitions. `read` decodes a stored one."""

    def __init__(self, store: Store, read: Callable[[Row], _Read]) -> None:
        self._store = store
        self._read = read
        self._entries: LruCache[tuple[TenantId, str], _Entry] = LruCache(LIMIT)

    async def of(self, tenant: Tenant) -> Mapping[ResourceName, Shared]:
        """Returns what the tenant has bound now. Read after the tenant's guards, so it may be newer than they are."""
        bound = await self._store.sharing.bound(tenant, definitions=DEFINITIONS, bindings=BINDINGS)
        if not bound:
            return NOTHING_BOUND
        known = {one.resource: self._cached(one) for one in bound}
        missing = [resource for resource, entry in known.items() if entry is None]
        while missing and (found_bodies := await self._store.sharing.bodies(tenant, missing, definitions=DEFINITIONS)):
            for provider, name, revision, body in found_bodies:
                known[ResourceName(name)] = self._remember(provider, name, revision, body)
            missing = [resource for resource in missing if resource > found_bodies[-1][1]]
        entries: dict[ResourceName, Shared] = {}
        for one in bound:
            entry = known[one.resource]
            # One that was unbound between the two reads has moved the guards, so this is read again.
            if entry is not None and entry.living.definition.established:
                entries[one.resource] = entry.terminating if _is_ending(one) else entry.living
        return entries

    def _cached(self, one: BoundDefinition) -> _Entry | None:
        entry = self._entries.get((one.provider, one.resource))
        return entry if entry is not None and entry.revision >= one.revision else None

    def _remember(self, provider: TenantId, name: str, revision: int, body: str) -> _Entry:
        known = self._entries.peek((provider, name))
        if known is not None and known.revision >= revision:
            return known
        entry = self._read(Row(DEFINITIONS, ObjectKey(name), Uid(""), revision, "v1", 0, body))
        # The name of no tenant's definition, so that it is the same object as none of them.
        names = entry.names._replace(definition=f"{provider}/{name}")
        living = Shared(entry.definition, names)
        ending = Shared(replace(entry.definition, terminating=True), names)
        return self._entries.put((provider, name), _Entry(revision, living, ending))


def _is_ending(one: BoundDefinition) -> bool:
    if '"deletionTimestamp"' not in one.binding:
        return False
    return bool(decode_metadata(one.binding).get("deletionTimestamp"))
