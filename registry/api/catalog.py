"""The definitions of each tenant, as last read by this process.

A TenantCatalog is what a request is evaluated against: the tenant's definitions and the namespaces known to be active,
both as of its `guards`. It is replaced whole, never edited, except for two caches that only grow, resolved versions and
active namespaces, and for `statuses_until`. It is not validated in advance: every read and every commit returns the
tenant's guards, and a request that finds newer ones is re-evaluated with a newer catalog (CatalogStale in request.py),
unless only new definitions have been established since. So no write is accepted under a definition that another process
has replaced, and nothing waits for caches to expire.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from registry.admission.configuration import Admission
from registry.aggregation.model import NOTHING_AGGREGATED, Aggregated
from registry.api.admission.loading import NOTHING, Configured
from registry.api.bound_definitions import NOTHING_BOUND, Shared
from registry.api.served import Served
from registry.api.strategies.base import Strategy
from registry.definitions.conversion import has_invalid_ca_bundle
from registry.definitions.model import Definition, Version
from registry.definitions.naming import HeldNames, NamesInUse
from registry.store.types import Guards, ObjectKey, ResourceName

# The number of active namespaces cached for a tenant; beyond it they are looked up again.
NAMESPACES_LIMIT = 2_000
# What a catalog takes in memory by itself, in bytes.
_OWN_BYTES = 10_000

_SERIALS = itertools.count()

StrategyFor = Callable[[Definition, Version], Strategy]


class CatalogEntry(NamedTuple):
    """A stored definition, compiled."""

    revision: int
    definition: Definition
    # The names with which others may conflict.
    names: HeldNames
    waits_for_names: bool
    created: str
    # About what it takes in memory, in bytes.
    size: int


class TenantCatalog:
    """The definitions of one tenant as of `guards`."""

    def __init__(
        self,
        guards: Guards,
        builtin: Mapping[tuple[str, str], Definition],
        entries: Mapping[ObjectKey, CatalogEntry],
        strategy_for: StrategyFor,
        configured: Configured = NOTHING,
        bound: Mapping[ResourceName, Shared] = NOTHING_BOUND,
        aggregated: Aggregated = NOTHING_AGGREGATED,
    ) -> None:
        self.guards = guards
        # Unique in this process for each time that definitions are read: identifies what is derived from them.
        self.serial = next(_SERIALS)
        # The serial of the first catalog with these very definitions, own and bound.
        self.definitions_serial = self.serial
        # All that has changed up to this revision is the status of new definitions, written by this process
        # (establishment.py). It only grows.
        self.statuses_until = guards.definitions
        self.configured = configured
        # The policies and webhooks in force; None if there are none.
        self.admission: Admission | None = configured.admission
        self.entries = entries
        # The definitions of other tenants that this one has bound, by their names.
        self.bound = bound
        # The versions of groups that other servers serve.
        self.aggregated = aggregated
        self.active_namespaces: set[str] = set()
        # Namespaces in which no quota is in force (quota.py).
        self.unbounded_namespaces: set[str] = set()
        self._strategy_for = strategy_for
        self._served: dict[tuple[str, str, str], Served] = {}
        self._builtin = builtin
        self._builtin_versions = versions_by_group(builtin.values())

    def serves_as_at(self, guards: Guards) -> bool:
        """Whether what it serves is still the same at `guards`, and so are policies; further definitions may have been
        established since."""
        return self.guards.definitions <= guards.definitions <= self.statuses_until

    @cached_property
    def definitions_size(self) -> int:
        """About what the tenant's own definitions take in memory, in bytes."""
        return sum(entry.size for entry in self.entries.values())

    @cached_property
    def documented_size(self) -> int:
        """About what the definitions take that documents describe, own and bound, in bytes."""
        return self.definitions_size + sum(shared.size for shared in self.bound.values())

    @property
    def size(self) -> int:
        """The same of its policies and webhooks, too."""
        return _OWN_BYTES + self.configured.size + self.definitions_size

    def names_in_use(self) -> NamesInUse:
        """Returns the names that new definitions may conflict with: those of all definitions, own and bound."""
        return NamesInUse([*(e.names for e in self.entries.values()), *(s.names for s in self.bound.values())])

    def definitions(self) -> Iterator[Definition]:
        """Yields every served definition: built-in ones, the tenant's own, bound ones."""
        yield from self._builtin.values()
        for name in (*self.entries, *(name for name in self.bound if ObjectKey(name) not in self.entries)):
            definition = self._custom(name)
            if definition is not None and (definition.group, definition.names.plural) not in self._builtin:
                yield definition

    def definition(self, group: str, plural: str) -> Definition | None:
        return self._builtin.get((group, plural)) or self._custom(f"{plural}.{group}")

    def _custom(self, name: str) -> Definition | None:
        """Returns an established or bound definition by its name, which is that of its resource."""
        entry = self.entries.get(ObjectKey(name))
        if entry is not None and entry.definition.established:
            return entry.definition
        shared = self.bound.get(ResourceName(name))
        return None if shared is None else shared.definition

    def served(self, group: str, version: str, plural: str) -> Served | None:
        """Returns the resource at a served version; None if there is none."""
        served = self._served.get((group, version, plural))
        if served is None:
            definition = self.definition(group, plural)
            wanted = definition.versions.get(version) if definition else None
            if definition is None or wanted is None:
                return None
            served = self.at_version(definition, wanted)
        # It may be cached for controllers, which also ask for versions that are not served.
        return served if served.version.served else None

    def is_unresolvable(self, group: str, version: str, plural: str, *, in_namespace: bool, across: bool) -> bool:
        """Whether a definition has its names but is not served, as its conversion webhook's caBundle is invalid.

        A path of another scope does not exist, unless it is that of a list or watch `across` namespaces.
        """
        entry = self.entries.get(ObjectKey(f"{plural}.{group}"))
        if entry is None or entry.waits_for_names or entry.definition.established:
            return False
        if entry.definition.namespaced != in_namespace and not (entry.definition.namespaced and across):
            return False
        wanted = entry.definition.versions.get(version)
        return wanted is not None and wanted.served and has_invalid_ca_bundle(entry.definition.conversion)

    def at_version(self, definition: Definition, version: Version) -> Served:
        """Returns `definition` at any of its versions, served or not."""
        key = (definition.group, version.name, definition.names.plural)
        served = self._served.get(key)
        if served is None:
            served = self._served[key] = Served(definition, version, self._strategy_for(definition, version))
        return served

    def at_storage_version(self, definition: Definition) -> Served:
        return self.at_version(definition, definition.versions[definition.storage_version])

    def stored_together(self, served: Served) -> Sequence[Served]:
        """Returns the built-in resources of other groups, at their served versions, that share the objects of `served`.

        Events of events.k8s.io and of the core group are the same objects.
        """
        if not served.definition.builtin:
            return ()
        definitions = [self._builtin.get((group, served.resource.name)) for group in self._builtin_versions]
        others = [
            self.at_version(definition, version)
            for definition in definitions
            if definition is not None and definition.group != served.resource.group
            for version in definition.versions.values()
            if version.served
        ]
        return [other for other in others if other.resource_name == served.resource_name]

    def is_builtin_group(self, group: str) -> bool:
        """Whether the group has built-in resources, so that a missing resource is answered with a Status."""
        return group in self._builtin_versions

    def is_builtin_version(self, group: str, version: str) -> bool:
        """Whether the version of the group has built-in resources; definitions are not served there."""
        return version in self._builtin_versions.get(group, ())

    def with_guards(self, guards: Guards) -> TenantCatalog:
        """Returns a catalog with the same definitions and empty caches of namespaces."""
        fresh = TenantCatalog.__new__(TenantCatalog)
        fresh.__dict__.update(self.__dict__)
        fresh.guards = guards
        fresh.active_namespaces = set()
        fresh.unbounded_namespaces = set()
        return fresh

    def without_admission(self) -> TenantCatalog:
        """Returns the same catalog for the server's own writes, which bypass policies and webhooks."""
        if self.admission is None:
            return self
        copy = TenantCatalog.__new__(TenantCatalog)
        copy.__dict__.update(self.__dict__)
        copy.admission = None
        return copy

    def remember_namespace(self, name: str) -> None:
        if len(self.active_namespaces) >= NAMESPACES_LIMIT:
            self.active_namespaces.clear()
        self.active_namespaces.add(name)

    def remember_unbounded(self, name: str) -> None:
        if len(self.unbounded_namespaces) >= NAMESPACES_LIMIT:
            self.unbounded_namespaces.clear()
        self.unbounded_namespaces.add(name)


def versions_by_group(definitions: Iterable[Definition]) -> dict[str, frozenset[str]]:
    versions: dict[str, set[str]] = {}
    for definition in definitions:
        versions.setdefault(definition.group, set()).update(v.name for v in definition.versions.values() if v.served)
    return {group: frozenset(names) for group, names in versions.items()}
