"""Reads the definitions of tenants, and keeps the catalogs of those that this process serves.

A catalog is read again when a read or a commit reports newer guards: of the definitions, only those that have changed
are compiled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from registry.aggregation.model import NOTHING_AGGREGATED
from registry.api.admission.loading import NOTHING, load_admission
from registry.api.api_services import load_aggregated
from registry.api.bound_definitions import DEFINITION_HEAD, DEFINITIONS, SharedEntries
from registry.api.catalog import CatalogEntry, StrategyFor, TenantCatalog, versions_by_group
from registry.api.definition_changes import DefinitionChanges
from registry.api.first_reading import FirstReading, SingleEntry
from registry.api.served import Object
from registry.builtin.sharing import binding_definition, export_definition
from registry.builtin.tenancy import GROUP, PLURAL, SYSTEM, tenant_definition
from registry.caches import LruCache
from registry.codec.stored import decode_stored
from registry.definitions.compiled import compile_definition
from registry.definitions.model import Definition
from registry.definitions.naming import held_names, needs_reconsidering
from registry.definitions.packed import definition_size
from registry.flowcontrol.evaluation import LARGE_BYTES, shared_aside
from registry.flowcontrol.time_slice import TimeSlice
from registry.store.errors import RevisionExpired
from registry.store.store import Store
from registry.store.types import Change, ChangeType, Guards, ObjectKey, Row, State, Tenant, TenantId

# The catalogs that a process caches: a tenant without definitions of its own takes 2 kB, a definition some 20 kB. None
# counts as more than a quarter, so that the largest is cached, too.
CATALOG_BYTES: Final = 256 * 1024 * 1024
# More definitions than this are decoded in a thread: they take about 0.3 ms each.
FEW = 20
NOTHING_KNOWN: Final[Mapping[ObjectKey, CatalogEntry]] = {}


class WrittenDefinition(NamedTuple):
    """A stored definition; `decoded` is its object, with the keys of its spec in the order of the stored text, if it is
    known."""

    row: Row
    decoded: Object | None = None


class Catalogs:
    """The catalogs of the tenants that this process serves, an LRU cache."""

    def __init__(
        self,
        store: Store,
        builtin: Iterable[Definition],
        strategy_for: StrategyFor,
        *,
        when_gone: Callable[[str, str], None] = lambda group, plural: None,
    ) -> None:
        """`when_gone` is called with the group and plural of a definition that no cached tenant has any more."""
        self._store = store
        self._strategy_for = strategy_for
        everywhere = (*builtin, export_definition(), binding_definition())
        self._builtin = {(d.group, d.names.plural): d for d in everywhere}
        self._shared = SharedEntries(store, self._entries)
        self._builtin_of_system = {**self._builtin, (GROUP, PLURAL): tenant_definition()}
        self._builtin_versions = versions_by_group(self._builtin_of_system.values())
        self._catalogs: LruCache[TenantId, TenantCatalog] = LruCache(
            CATALOG_BYTES, lambda catalog: min(catalog.size, CATALOG_BYTES // 4)
        )
        self._when_gone = when_gone
        # Notifies watches when their definition changes.
        self.changes = DefinitionChanges(store, self.fresh)
        # One reload of a tenant at a time; others wait for it and check again.
        self._reloading: WeakValueDictionary[TenantId, asyncio.Lock] = WeakValueDictionary()
        # Tenants whose definitions are read for the first time, for requests.
        self._first: dict[TenantId, FirstReading[TenantCatalog]] = {}

    def _builtin_of(self, tenant: Tenant) -> Mapping[tuple[str, str], Definition]:
        return self._builtin_of_system if tenant.name == SYSTEM else self._builtin

    async def get(self, tenant: Tenant) -> TenantCatalog:
        """Returns the cached catalog, without asking the database whether it is current."""
        catalog = self._catalogs.get(tenant.id)
        return catalog if catalog is not None else await self.fresh(tenant, None)

    async def for_resource(self, tenant: Tenant, group: str, plural: str) -> TenantCatalog:
        """Returns the cached catalog; while it is read for the first time, and that takes long, one that only contains
        the definition of this resource (first_reading.py)."""
        catalog = self._catalogs.get(tenant.id)
        if catalog is not None:
            return catalog
        reading = self._first.get(tenant.id)
        if reading is None:
            task = asyncio.create_task(self._read_first(tenant), name="registry definitions")
            reading = self._first[tenant.id] = FirstReading(task)
            task.add_done_callback(partial(self._end_first, tenant.id))
        key = ObjectKey(f"{plural}.{group}")
        if not await reading.wait():
            part = reading.parts.get(key) or await self._read_part(tenant, key)
            # Policies and webhooks may refer to any resource.
            if part.admission is None:
                reading.parts[key] = part
                return part
        return await self.get(tenant)

    async def _read_first(self, tenant: Tenant) -> TenantCatalog:
        TimeSlice().begin()  # whether the client of the first request is still there does not matter
        return await self.get(tenant)

    def _end_first(self, tenant: TenantId, task: asyncio.Task[TenantCatalog]) -> None:
        del self._first[tenant]
        if not task.cancelled():
            task.exception()  # each request that needs the catalog tries again, and gets its own

    def recall(self, tenant: Tenant) -> TenantCatalog | None:
        """Returns the cached catalog, or None."""
        return self._catalogs.get(tenant.id)

    def note_status(self, tenant: Tenant, before: Guards, after: Guards) -> None:
        """Records that the status of a definition which is not served has been written, based on `before`: nothing else
        has changed from there to `after`."""
        catalog = self._catalogs.get(tenant.id)
        if catalog is not None and catalog.statuses_until == before.definitions:
            catalog.statuses_until = after.definitions

    async def adopt(self, tenant: Tenant, before: Guards, after: Guards, written: Sequence[WrittenDefinition]) -> None:
        """Puts definitions that this process has written into the cached catalog, which need not be read then. From
        `before` to `after` nothing but `written` has changed."""
        async with self.writing(tenant):
            known = self._catalogs.get(tenant.id)
            if known is None or not before.definitions <= known.guards.definitions < after.definitions:
                return
            compiled = await self._compile(written, known.entries)
            guards = Guards(after.definitions, max(known.guards.namespaces, after.namespaces))
            entries = {**known.entries, **compiled}
            fresh = TenantCatalog(
                guards,
                self._builtin_of(tenant),
                entries,
                self._strategy_for,
                known.configured,
                known.bound,
                known.aggregated,
            )
            self._catalogs.put(tenant.id, fresh)

    async def current(self, tenant: Tenant) -> TenantCatalog:
        """Returns a current catalog: for discovery, and before reporting that a resource does not exist."""
        state = await self._store.state(tenant)
        return await self.fresh(tenant, state.guards)

    async def fresh(self, tenant: Tenant, guards: Guards | None) -> TenantCatalog:
        """Returns a catalog at least as new as `guards`."""
        catalog = self._catalogs.get(tenant.id)
        if catalog is not None and guards is not None and catalog.guards == guards:
            return catalog
        async with self.writing(tenant):
            return await self._reload(tenant, guards)

    async def serving(self, tenant: Tenant, guards: Guards) -> TenantCatalog:
        """Returns a catalog that serves what it has as at `guards`, and has the policies of then: the cached one if
        only statuses have been written since, which may be known a moment later than they are found."""
        async with self.writing(tenant):
            known = self._catalogs.get(tenant.id)
            if known is not None and known.serves_as_at(guards):
                return known
            return await self._reload(tenant, guards)

    def writing(self, tenant: Tenant) -> asyncio.Lock:
        """Returns a lock: while it is held, nobody else replaces the catalog of the tenant; what is written meanwhile
        is noted before others look for what has changed."""
        return self._reloading.setdefault(tenant.id, asyncio.Lock())

    async def _reload(self, tenant: Tenant, guards: Guards | None) -> TenantCatalog:
        known = self._catalogs.get(tenant.id)
        if known is not None and (guards is None or _covers(known.guards, guards)):
            return known
        if known is not None and guards is not None and known.guards.definitions == guards.definitions:
            fresh = known.with_guards(guards)
        else:
            fresh = await self._read(tenant, known)
        self._catalogs.put(tenant.id, fresh)
        if known is not None and known.entries is not fresh.entries:
            for key in known.entries.keys() - fresh.entries.keys():
                self._notify_gone(known.entries[key].definition)
        return fresh

    def _notify_gone(self, definition: Definition) -> None:
        group, plural = definition.group, definition.names.plural
        if all(catalog.definition(group, plural) is None for catalog in self._catalogs.values()):
            self._when_gone(group, plural)

    async def _read(self, tenant: Tenant, known: TenantCatalog | None) -> TenantCatalog:
        if known is not None:
            try:
                entries, state = await self._refresh(tenant, known)
                return await self._complete(tenant, state.guards, entries, known)
            except RevisionExpired:
                pass  # unused for longer than the log reaches back: read everything
        return await self._read_all(tenant)

    async def _read_all(self, tenant: Tenant) -> TenantCatalog:
        """Reads in chunks, so that thousands of definitions are not decoded at once, and other requests are served."""
        entries: dict[ObjectKey, CatalogEntry] = {}
        guards: Guards | None = None
        async with aclosing(self._store.scan(tenant, DEFINITIONS, rows=FEW)) as chunks:
            async for chunk in chunks:
                if chunk.more and (reading := self._first.get(tenant.id)) is not None:
                    reading.note_length()
                # All chunks have the definitions as of the first.
                guards = guards or chunk.state.guards
                entries |= await self._entries(chunk.rows)
        assert guards is not None, "a scan has at least one chunk"
        return await self._complete(tenant, guards, entries)

    async def _read_part(self, tenant: Tenant, key: ObjectKey) -> TenantCatalog:
        """Reads a catalog that only contains the definition of this name, if there is one."""
        row, state = await self._store.load(tenant, DEFINITIONS, key)
        entry = None if row is None else (await self._entries([row]))[key]
        return await self._complete(tenant, state.guards, SingleEntry(key, entry))

    async def _complete(
        self,
        tenant: Tenant,
        guards: Guards,
        entries: Mapping[ObjectKey, CatalogEntry],
        known: TenantCatalog | None = None,
    ) -> TenantCatalog:
        """Reads what a catalog contains beside the tenant's own definitions; of `known`, what has not changed is kept.

        It is read after the guards: if it is newer, the catalog is merely read once more.
        """
        configured = await load_admission(self._store, tenant, known.configured if known else NOTHING)
        bound = await self._shared.of(tenant)
        aggregated = await load_aggregated(self._store, tenant, known.aggregated if known else NOTHING_AGGREGATED)
        fresh = TenantCatalog(
            guards, self._builtin_of(tenant), entries, self._strategy_for, configured, bound, aggregated
        )
        if known is not None and entries is known.entries and bound == known.bound:
            fresh.definitions_serial = known.definitions_serial
        return fresh

    async def _refresh(self, tenant: Tenant, known: TenantCatalog) -> tuple[Mapping[ObjectKey, CatalogEntry], State]:
        """Updates the cached definitions from the change log, at the cost of what has changed. Returns those of `known`
        themselves if none has changed."""
        entries, is_same = dict(known.entries), True
        state = await self._store.state(tenant)
        async for changes in self._store.changes(
            tenant, DEFINITIONS, after=known.guards.definitions, upto=state.revision
        ):
            # A new definition is written three times in a row: only the last state of those read together is compiled.
            newest = {change.key: change for change in changes}
            rows = []
            for key, change in newest.items():
                before = entries.get(key)
                if before is not None and before.revision == change.revision:
                    continue  # created since the guards moved, and read then
                is_same = False
                if change.type is ChangeType.DELETED:
                    entries.pop(key, None)
                else:
                    rows.append(_row(change))
            entries |= await self._entries(rows, entries)
        return known.entries if is_same else entries, state

    async def _entries(
        self, rows: Sequence[Row], known: Mapping[ObjectKey, CatalogEntry] = NOTHING_KNOWN
    ) -> dict[ObjectKey, CatalogEntry]:
        return await self._compile([WrittenDefinition(row) for row in rows], known)

    async def _compile(
        self, written: Sequence[WrittenDefinition], known: Mapping[ObjectKey, CatalogEntry]
    ) -> dict[ObjectKey, CatalogEntry]:
        """Compiles many or large ones beside the event loop. `known` are entries of the same tenant."""

        def compiled() -> dict[ObjectKey, CatalogEntry]:
            return {one.row.key: self._entry(one, known.get(one.row.key)) for one in written}

        few = len(written) <= FEW and sum(len(one.row.body) for one in written) <= LARGE_BYTES
        return compiled() if few else await shared_aside(compiled)

    def _entry(self, written: WrittenDefinition, known: CatalogEntry | None) -> CatalogEntry:
        """Compiles a stored definition. Its versions that are built in are not served: built-in resources precede."""
        row = written.row
        stored = written.decoded or decode_stored(f'{DEFINITION_HEAD}{row.revision}",{row.body}')
        definition = compile_definition(stored, None if known is None else known.definition)
        return CatalogEntry(
            row.revision,
            definition.unserved_at(self._builtin_versions.get(definition.group, frozenset())),
            held_names(stored),
            needs_reconsidering(stored),
            stored["metadata"].get("creationTimestamp") or "",
            definition_size(len(row.body)),
        )


def _covers(known: Guards, wanted: Guards) -> bool:
    return known.definitions >= wanted.definitions and known.namespaces >= wanted.namespaces


def _row(change: Change) -> Row:
    return Row(change.resource, change.key, change.uid, change.revision, change.version, change.schema, change.body)
