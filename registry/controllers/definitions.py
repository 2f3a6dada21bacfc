"""The lifecycle of a definition after its write: names and establishment (establishment.py), and cleanup of its
objects.

Every step is a separate write, so that watchers see them in kube-apiserver's order, and is idempotent: another process
continues what a crashed one has left.

Follows apiextensions-apiserver pkg/controller/{status,establish,finalizer}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from registry.api.answers import ObjectAnswer
from registry.api.bound_definitions import DEFINITIONS
from registry.api.clock import timestamp
from registry.api.served import Object
from registry.api.verbs.update import copy_of
from registry.controllers.controller_client import ControllerClient
from registry.controllers.establishment import GROUP, PLURAL, Reconciled, write_due_statuses
from registry.controllers.held import HeldContents, delete_objects
from registry.controllers.queue import LIMIT, Requeue
from registry.definitions import strategy
from registry.definitions.compiled import compile_definition
from registry.definitions.conditions import is_true
from registry.flowcontrol.evaluation import evaluate
from registry.store.errors import TenantNotFound
from registry.store.types import ObjectKey, Tenant, TenantId


class DueDefinitions:
    """The definitions to reconcile, by tenant: a worker takes all of a tenant's at once.

    Each status that it writes makes the definition due again, and most need nothing then: `reconciled` are the
    revisions of those, until they are taken.
    """

    def __init__(self) -> None:
        self._keys: dict[TenantId, dict[ObjectKey, None]] = {}
        self._count = 0
        self.reconciled: dict[TenantId, dict[ObjectKey, int]] = {}

    def __contains__(self, tenant: Tenant) -> bool:
        return bool(self._keys.get(tenant.id))

    def add(self, tenant: Tenant, keys: Iterable[ObjectKey]) -> None:
        """Adds definitions, of a tenant at most as many as there is still room for; the leader's sweep finds others."""
        due = self._keys.setdefault(tenant.id, {})
        self._count -= len(due)
        for key in keys:
            if len(due) < LIMIT - self._count - len(due):
                due[key] = None
        self._count += len(due)

    @contextmanager
    def take(self, tenant: Tenant) -> Iterator[list[ObjectKey]]:
        """Takes a tenant's definitions. They are due again if the block fails, unless the tenant is gone."""
        keys = list(self._keys.pop(tenant.id, ()))
        self._count -= len(keys)
        try:
            yield keys
        except TenantNotFound:
            raise
        except BaseException:
            self.add(tenant, keys)
            raise


async def reconcile_due(client: ControllerClient, due: DueDefinitions) -> list[ObjectKey]:
    """Writes the status of all definitions of a tenant that are due. Returns those to be reconciled individually,
    because their objects must be deleted, or their status could not be written. Those that keep changing are due
    again."""
    reconciled = due.reconciled.pop(client.tenant.id, {})
    with due.take(client.tenant) as keys:
        outcomes = await write_due_statuses(client, keys, reconciled)
        written = {key: o.written for key, o in outcomes.items() if isinstance(o, Reconciled) and o.written is not None}
        if written:
            due.reconciled[client.tenant.id] = written
        if changing := [key for key, outcome in outcomes.items() if isinstance(outcome, Requeue)]:
            due.add(client.tenant, changing)
        await _release_names(client, {key for key, outcome in outcomes.items() if _releases_names(outcome)})
    return [
        key
        for key, outcome in outcomes.items()
        if not isinstance(outcome, Requeue)
        and (not isinstance(outcome, Reconciled) or (outcome.crd is not None and strategy.awaits_cleanup(outcome.crd)))
    ]


async def reconcile(client: ControllerClient, key: ObjectKey, held: HeldContents) -> None:
    """Reconciles one definition. Raises Requeue while finalizers hold its objects, or the error of a failed write."""
    outcome = (await write_due_statuses(client, [key]))[key]
    if not isinstance(outcome, Reconciled):
        raise outcome
    if _releases_names(outcome):
        await _release_names(client, {key})
    if outcome.crd is not None and strategy.awaits_cleanup(outcome.crd):
        await _clean_up(client, key, outcome.crd, held)


async def _write(client: ControllerClient, key: ObjectKey, make: Callable[[Object], Object]) -> ObjectAnswer | None:
    return await client.change(GROUP, PLURAL, key, lambda old: copy_of(make(old)), subresource="status")


def _releases_names(outcome: object) -> bool:
    return isinstance(outcome, Reconciled) and (outcome.crd is None or outcome.released)


async def _release_names(client: ControllerClient, changed: set[ObjectKey]) -> None:
    """Enqueues the definitions that wait for a name, since `changed` may have released one."""
    if not changed:
        return
    catalog = await client.catalog()
    for key, entry in catalog.entries.items():
        if entry.waits_for_names and changed != {key}:
            client.backend.enqueue(client.tenant, DEFINITIONS, key)


async def _clean_up(client: ControllerClient, key: ObjectKey, crd: Object, held: HeldContents) -> None:
    if is_true(crd, "Established"):
        terminating = await _write(client, key, lambda old: strategy.begin_cleanup(old, timestamp()))
        if terminating is None:
            return
        if await _delete_objects(client, terminating, held):
            raise Requeue
    await _write(client, key, lambda old: strategy.finish_cleanup(old, timestamp()))
    await _release_names(client, {key})


async def _delete_objects(client: ControllerClient, crd: ObjectAnswer, held: HeldContents) -> int:
    """Deletes every object of the definition; returns the number of those that remain because of finalizers."""
    definition = await evaluate(lambda: compile_definition(crd.object), crd.size, repeatable=True)
    catalog = await client.catalog()
    served = catalog.at_storage_version(definition)
    return await delete_objects(client, served, (crd.object["metadata"]["uid"], served.resource_name), held)
