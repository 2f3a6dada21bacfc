"""Writes the due status of a tenant's definitions (names, establishment, and what follows), many at a time.

Every step is a separate write, so that watchers see each definition go through kube-apiserver's states in order. The
same step of different definitions is written in one transaction, unless they contend for a name
(definitions/naming.py):

    transaction 1    names of a          names of b          names of c
    transaction 2    a is established    b is established    c is established

The commit checks that the tenant's definitions have not changed since the step was decided.

Follows apiextensions-apiserver pkg/controller/{status,establish}.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from registry.api.bound_definitions import DEFINITIONS
from registry.api.catalog import TenantCatalog
from registry.api.catalogs import WrittenDefinition
from registry.api.clock import timestamp
from registry.api.errors import StatusError
from registry.api.request import ResourceRequest
from registry.api.served import Object, Served, stored_spec
from registry.api.strategies.definition import UnsharedStatus
from registry.api.verbs.pipeline import Draft, Outcome, Start, draft_of
from registry.api.verbs.update import UpdateOperation, copy_of
from registry.controllers.controller_client import ControllerClient
from registry.controllers.queue import Requeue
from registry.definitions.conditions import is_true
from registry.definitions.naming import held_names, needs_reconsidering, next_statuses, releases
from registry.flowcontrol.evaluation import begins_again, evaluate, note_size
from registry.flowcontrol.watchdog import EvaluationStopped
from registry.store.errors import GuardsChanged, NotFound, RevisionConflict, StoreError
from registry.store.types import Guards, ObjectKey, Row
from registry.tasks import gather_all

GROUP: Final = "apiextensions.k8s.io"
PLURAL: Final = "customresourcedefinitions"
# Definitions that are decoded and written together, and the bytes of their bodies: half a transaction's limit, since
# each is sent and returned.
_MAX_DEFINITIONS: Final = 32
_MAX_BYTES: Final = 2 << 20
# Attempts when definitions, or others of the tenant, have changed meanwhile.
_ATTEMPTS: Final = 8
NOTHING_RECONCILED: Final[Mapping[ObjectKey, int]] = MappingProxyType({})

_GROUPS = itertools.count(1)


class Reconciled(NamedTuple):
    """A definition with no more status due: None if it is gone. `released` says that it has given up accepted names.

    `written` is its revision if this wrote its status, and nothing is due before the definition changes.
    """

    crd: Object | None
    released: bool
    written: int | None = None


async def write_due_statuses(
    client: ControllerClient, keys: Iterable[ObjectKey], reconciled: Mapping[ObjectKey, int] = NOTHING_RECONCILED
) -> dict[ObjectKey, Reconciled | StatusError | StoreError | Requeue]:
    """Writes every due status of these definitions. Returns an outcome for each, which may be an error; none for those
    that still have the revision in `reconciled`.

    Requeue is the outcome if it, or the tenant's definitions, keep changing.
    """
    left = list(dict.fromkeys(keys))
    results: dict[ObjectKey, Reconciled | StatusError | StoreError | Requeue] = {}
    for _ in range(_ATTEMPTS):
        if not left:
            break
        writer = _StatusWriter(client, await client.catalog(), reconciled)
        try:
            for at in range(0, len(left), _MAX_DEFINITIONS):
                await writer.write_due(left[at : at + _MAX_DEFINITIONS])
        except GuardsChanged:
            pass  # the names of the tenant's definitions are others by now
        results |= writer.results
        left = [key for key in left if key not in results and key not in writer.unchanged]
    return results | {key: Requeue() for key in left}


class _Definition(NamedTuple):
    """A definition in its current state. `alone` says that tenants have bound it, or may have: its writes affect
    them."""

    row: Row
    crd: Object
    is_shared: bool
    released: bool = False
    written: bool = False

    @property
    def alone(self) -> bool:
        return self.is_shared or is_true(self.crd, "Established")


class _StatusWriter:
    """Writes statuses based on the definitions of one catalog, and on its own writes since.

    Invariant: `_in_use` are the names of the tenant's definitions at `_guards`.
    """

    def __init__(self, client: ControllerClient, catalog: TenantCatalog, reconciled: Mapping[ObjectKey, int]) -> None:
        self._controlled = client
        self._reconciled = reconciled
        self._catalog = catalog
        self._in_use = catalog.names_in_use()
        self._guards = catalog.guards
        # The definitions that the process need not read, as nothing but this has changed definitions since `_adopted`;
        # None once it has written a status that affects others.
        self._written: dict[ObjectKey, WrittenDefinition] | None = {}
        self._adopted = catalog.guards
        definition = catalog.definition(GROUP, PLURAL)
        assert definition is not None, "it is built in"
        self._definition, self._version = definition, definition.versions["v1"]
        self._served = catalog.at_version(self._definition, self._version)
        self.results: dict[ObjectKey, Reconciled | StatusError | StoreError] = {}
        self.unchanged: set[ObjectKey] = set()

    async def write_due(self, keys: Sequence[ObjectKey]) -> None:
        """Writes due statuses. Definitions that others change meanwhile get no outcome. Raises GuardsChanged."""
        store, tenant = self._controlled.backend.store, self._controlled.tenant
        self.unchanged |= {key for key in keys if self._is_unchanged(key)}
        keys = [key for key in keys if key not in self.unchanged]
        if not keys:
            return
        loaded = await asyncio.gather(*(store.load(tenant, DEFINITIONS, key) for key in keys))
        for _, state in loaded:
            if state.guards.definitions != self._guards.definitions:
                raise GuardsChanged(state.guards)
        rows = {key: row for key, (row, _) in zip(keys, loaded, strict=True)}
        self.results |= {key: Reconciled(None, False) for key, row in rows.items() if row is None}
        present = [row for row in rows.values() if row is not None]
        # A definition that is not established when it is loaded cannot be bound before its row changes.
        shared = await store.sharing.shared_among(tenant, keys)
        for part in _parts(present):
            decoded = await evaluate(partial(self._objects, part), sum(len(row.body) for row in part), repeatable=True)
            pending = {
                row.key: _Definition(row, crd, row.key in shared) for row, crd in zip(part, decoded, strict=True)
            }
            while pending:
                await self._step(pending)
            await self._hand_over()

    async def _hand_over(self) -> None:
        """Puts what has been written into the process's catalog of the tenant."""
        if self._written:
            written, self._written = list(self._written.values()), {}
            before, self._adopted = self._adopted, self._guards
            await self._controlled.backend.catalogs.adopt(self._controlled.tenant, before, self._guards, written)

    def _is_unchanged(self, key: ObjectKey) -> bool:
        entry = self._catalog.entries.get(key)
        return entry is not None and entry.revision == self._reconciled.get(key)

    def _objects(self, rows: Sequence[Row]) -> list[Object]:
        return [self._served.object(row) for row in rows]

    async def _step(self, pending: dict[ObjectKey, _Definition]) -> None:
        """Writes the next status of some, and removes finished ones from `pending`."""
        statuses = next_statuses([one.crd for one in pending.values()], self._in_use, timestamp())
        due: dict[ObjectKey, Object] = {}
        for name, status in statuses.items():
            key = ObjectKey(name)
            if status is None:
                done = pending.pop(key)
                is_final = done.written and not needs_reconsidering(done.crd)
                self.results[key] = Reconciled(done.crd, done.released, done.row.revision if is_final else None)
            else:
                due[key] = status
        drafts = await self._drafts(pending, due)
        async with self._controlled.backend.catalogs.writing(self._controlled.tenant):
            outcomes = await gather_all(_commit(*draft) for draft in drafts.values())
            changed = self._note_outcomes(pending, drafts, outcomes)
        if changed is not None:
            raise GuardsChanged(changed)

    def _note_outcomes(
        self,
        pending: dict[ObjectKey, _Definition],
        drafts: Mapping[ObjectKey, tuple[ResourceRequest, UpdateOperation, Draft]],
        outcomes: Iterable[Outcome | StatusError | StoreError],
    ) -> Guards | None:
        """Removes finished ones from `pending`. Returns the guards if others have changed definitions."""
        changed: Guards | None = None
        for key, outcome in zip(drafts, outcomes, strict=True):
            before = pending.pop(key)
            if isinstance(outcome, GuardsChanged):
                changed = outcome.guards
            elif isinstance(outcome, RevisionConflict | NotFound):
                pass
            elif isinstance(outcome, StatusError | StoreError):
                self.results[key] = outcome
            else:
                self._note(pending, before, drafts[key][2], outcome)
        return changed

    async def _drafts(
        self, pending: dict[ObjectKey, _Definition], due: dict[ObjectKey, Object]
    ) -> dict[ObjectKey, tuple[ResourceRequest, UpdateOperation, Draft]]:
        """Returns what fits into one transaction: all definitions that no tenant has bound, or else a single one."""
        together = {key: status for key, status in due.items() if not pending[key].alone}
        if together:
            strategy = UnsharedStatus(self._definition, self._version, next(_GROUPS))
            served = Served(self._definition, self._version, strategy)
        else:
            together = dict(itertools.islice(due.items(), 1))
            served = self._served.part("status")
        drafts: dict[ObjectKey, tuple[ResourceRequest, UpdateOperation, Draft]] = {}
        for key, status in together.items():
            try:
                drafts[key] = await self._draft(served, pending[key], status)
            except StatusError as error:
                del pending[key]
                self.results[key] = error.with_traceback(None)  # which refers to this object
            # Lets other requests run.
            await asyncio.sleep(0)
        return drafts

    async def _draft(
        self, served: Served, before: _Definition, status: Object
    ) -> tuple[ResourceRequest, UpdateOperation, Draft]:
        """Evaluates the write of a status, up to its stored form: commits that wait for nothing share a transaction.

        Evaluates it again beside the event loop if that takes too long on it.
        """
        row = before.row
        note_size(len(row.body))
        while True:
            request = self._controlled.request(self._catalog, served, row.key, "status")
            operation = UpdateOperation(_replacing_status(status), "update", self._controlled.manager)
            try:
                draft = await draft_of(request, operation, Start(row, self._guards, obj=before.crd))
                is_kept = draft.new["spec"] is before.crd["spec"]  # the largest part by far
                draft.stored = await request.encode(draft.new, stored_spec(row, before.crd) if is_kept else None)
                return request, operation, draft
            except EvaluationStopped:
                if not begins_again():
                    raise

    def _note(self, pending: dict[ObjectKey, _Definition], before: _Definition, draft: Draft, outcome: Outcome) -> None:
        """Records a completed write."""
        key = before.row.key
        if outcome.row is None:
            self.results[key] = Reconciled(None, False)
            return
        names = held_names(draft.new)
        released = before.released or releases(held_names(before.crd), names)
        self._in_use.replace(names)
        if outcome.guards is None:
            self.results[key] = Reconciled(draft.new, released)
            return
        if outcome.guards.definitions > self._guards.definitions:
            if not before.alone:
                self._controlled.backend.catalogs.note_status(self._controlled.tenant, self._guards, outcome.guards)
            self._guards = outcome.guards
        written = copy_of(draft.new)
        written["metadata"]["resourceVersion"] = str(outcome.row.revision)
        if before.alone:
            self._written = None
        elif self._written is not None:
            self._written[key] = WrittenDefinition(outcome.row, written)
        pending[key] = _Definition(outcome.row, written, before.is_shared, released, written=True)


async def _commit(
    request: ResourceRequest, operation: UpdateOperation, draft: Draft
) -> Outcome | StatusError | StoreError:
    try:
        return await operation.commit(request, draft)
    except (StatusError, StoreError) as error:
        return error.with_traceback(None)


def _parts(rows: Sequence[Row]) -> Iterator[list[Row]]:
    part: list[Row] = []
    size = 0
    for row in rows:
        if part and size + len(row.body) > _MAX_BYTES:
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row.body)
    if part:
        yield part


def _replacing_status(status: Object) -> Callable[[ResourceRequest, Object], Object]:
    return lambda _, old: {**copy_of(old), "status": status}
