"""Definitions that tenants have bound, each read and compiled once for all tenants of the process.

A definition is identified by its provider, its name and its revision: thousands of tenants that have bound it share the
same Definition, and with it the compiled schemas.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from registry.api.decoding import metadata_of
from registry.builtin import sharing
from registry.caches import LruCache
from registry.definitions.model import Definition
from registry.definitions.naming import HeldNames
from registry.store.sharing import BoundDefinition
from registry.store.store import Store
from registry.store.types import ObjectKey, ResourceName, Row, Tenant, TenantId, Uid

# The shared definitions that a process caches, in bytes: some 3,000 of usual ones.
CACHED_BYTES: Final = 64 * 1024 * 1024
DEFINITIONS: Final = ResourceName("customresourcedefinitions.apiextensions.k8s.io")
# What stands before a stored definition's revision and body (registry/api/served.py).
DEFINITION_HEAD: Final = (
    '{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"resourceVersion":"'
)
BINDINGS: Final = ResourceName(f"{sharing.BINDINGS}.{sharing.GROUP}")


class Shared(NamedTuple):
    """A bound definition; `names` are those that conflict with others (definitions/naming.py), `size` is about what it
    takes in memory, in bytes."""

    definition: Definition
    names: HeldNames
    size: int


NOTHING_BOUND: Final[Mapping[ResourceName, Shared]] = {}


class _ReadDefinition(Protocol):
    @property
    def definition(self) -> Definition: ...

    @property
    def names(self) -> HeldNames: ...

    @property
    def size(self) -> int: ...


class _Bound(NamedTuple):
    revision: int
    living: Shared
    # For tenants whose binding is being deleted: it accepts no new objects.
    terminating: Shared


class SharedEntries:
    """Caches shared definitions. `read` decodes stored ones."""

    def __init__(
        self, store: Store, read: Callable[[Sequence[Row]], Awaitable[Mapping[ObjectKey, _ReadDefinition]]]
    ) -> None:
        self._store = store
        self._read = read
        self._entries: LruCache[tuple[TenantId, str], _Bound] = LruCache(CACHED_BYTES, lambda entry: entry.living.size)

    async def of(self, tenant: Tenant) -> Mapping[ResourceName, Shared]:
        """Returns what the tenant has bound now. Read after the tenant's guards, so it may be newer than they are."""
        bound = await self._store.sharing.bound(tenant, definitions=DEFINITIONS, bindings=BINDINGS)
        if not bound:
            return NOTHING_BOUND
        known = {one.resource: self._cached(one) for one in bound}
        missing = [resource for resource, entry in known.items() if entry is None]
        while missing and (found_bodies := await self._store.sharing.bodies(tenant, missing, definitions=DEFINITIONS)):
            rows = [
                Row(DEFINITIONS, ObjectKey(name), Uid(""), revision, "v1", 0, body)
                for _, name, revision, body in found_bodies
            ]
            read = await self._read(rows)
            for provider, name, revision, _ in found_bodies:
                known[ResourceName(name)] = self._remember(provider, name, revision, read[ObjectKey(name)])
            missing = [resource for resource in missing if resource > found_bodies[-1][1]]
        entries: dict[ResourceName, Shared] = {}
        for one in bound:
            entry = known[one.resource]
            # One that was unbound between the two reads has moved the guards, so this is read again.
            if entry is not None and entry.living.definition.established:
                entries[one.resource] = entry.terminating if await _is_ending(one) else entry.living
        return entries

    def _cached(self, one: BoundDefinition) -> _Bound | None:
        entry = self._entries.get((one.provider, one.resource))
        return entry if entry is not None and entry.revision >= one.revision else None

    def _remember(self, provider: TenantId, name: str, revision: int, entry: _ReadDefinition) -> _Bound:
        known = self._entries.peek((provider, name))
        if known is not None and known.revision >= revision:
            return known
        # The name of no tenant's definition, so that it is the same object as none of them.
        names = entry.names._replace(definition=f"{provider}/{name}")
        living = Shared(entry.definition, names, entry.size)
        ending = Shared(replace(entry.definition, terminating=True), names, entry.size)
        return self._entries.put((provider, name), _Bound(revision, living, ending))


async def _is_ending(one: BoundDefinition) -> bool:
    if '"deletionTimestamp"' not in one.binding:
        return False
    return bool((await metadata_of(one.binding)).get("deletionTimestamp"))
