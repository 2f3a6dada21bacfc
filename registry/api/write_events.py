"""Connects the backend, which reports committed writes, with the controllers, which subscribe to them.

It is constructed before both: controllers write through the backend, and the backend reports their writes to them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from registry.api.dependents import DeletedObject, Dependents, Reference
from registry.store.types import ObjectKey, ResourceName, Tenant

Enqueue = Callable[[Tenant, ResourceName, ObjectKey], None]


class WriteEvents:
    """Every method returns at once, and does nothing without subscribers, as in tests and tools."""

    def __init__(self) -> None:
        self._queues: list[Enqueue] = []
        self._dependents: list[Dependents] = []

    @contextlib.contextmanager
    def subscription(self, enqueue: Enqueue) -> Iterator[None]:
        """Within the block, `enqueue` is called with each object that controllers have to reconcile."""
        self._queues.append(enqueue)
        try:
            yield
        finally:
            self._queues.remove(enqueue)

    @contextlib.contextmanager
    def collector_subscription(self, dependents: Dependents) -> Iterator[None]:
        """Within the block, `dependents` is notified of what matters to the garbage collector."""
        self._dependents.append(dependents)
        try:
            yield
        finally:
            self._dependents.remove(dependents)

    def enqueue(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        for enqueue in self._queues:
            enqueue(tenant, resource, key)

    def notify_owned(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        for dependents in self._dependents:
            dependents.notify_owned(tenant, resource, key)

    def notify_marked(self, tenant: Tenant, resource: ResourceName, key: ObjectKey, *, by_server: bool) -> None:
        for dependents in self._dependents:
            dependents.notify_marked(tenant, resource, key, by_server=by_server)

    def notify_unblocked(self, tenant: Tenant, namespace: str, owners: Sequence[Reference]) -> None:
        for dependents in self._dependents:
            dependents.notify_unblocked(tenant, namespace, owners)

    def notify_gone(self, tenant: Tenant, deleted: DeletedObject) -> None:
        for dependents in self._dependents:
            dependents.notify_gone(tenant, deleted)
