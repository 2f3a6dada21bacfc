"""The client of the controllers: uses the same verbs as API requests, as the server itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, TypeVar

from registry.api.answers import ObjectAnswer
from registry.api.catalog import TenantCatalog
from registry.api.conversions import VersionGone
from registry.api.decoding import metadata_of
from registry.api.dependents import FOREGROUND, ORPHAN
from registry.api.errors import StatusError
from registry.api.options import DeleteOptions, Preconditions, WriteOptions
from registry.api.request import Backend, ResourceRequest
from registry.api.served import Object, Served
from registry.api.strategies.base import Context
from registry.api.verbs.create import create_object
from registry.api.verbs.delete import DeleteOperation
from registry.api.verbs.driver import DefinitionsUnstable, NoLongerServed, run, run_current
from registry.api.verbs.update import UpdateOperation, copy_of
from registry.authentication.user import SERVER, SERVER_MANAGER
from registry.controllers.queue import Requeue
from registry.schema.values import deep_copy
from registry.store.bounds import READ_BYTES
from registry.store.reads.pages import Place
from registry.store.types import ObjectKey, Row, Tenant
from registry.tasks import BoundedTasks

T = TypeVar("T")

# The name that managedFields show for what controllers write, as in a cluster.
CONTROLLER_MANAGER: Final = "kube-controller-manager"
# Concurrent deletions: as many as fit into a transaction. Each holds its object, so they are bounded by bytes, too.
_CONCURRENT_DELETES = 64
_CONCURRENT_BYTES = READ_BYTES


class ControllerClient:
    """A client for one tenant, with the field manager `manager`. Attributes the current task's evaluations to the
    tenant."""

    def __init__(self, backend: Backend, tenant: Tenant, manager: str = SERVER_MANAGER) -> None:
        self.backend = backend
        self.tenant = tenant
        self.manager = manager
        backend.evaluations.begin(tenant.name)

    def with_manager(self, manager: str) -> ControllerClient:
        return ControllerClient(self.backend, self.tenant, manager)

    def context(self) -> Context:
        return Context(self.tenant, SERVER, self.manager, by_server=True)

    async def catalog(self) -> TenantCatalog:
        return await self.backend.catalogs.current(self.tenant)

    async def cached_catalog(self) -> TenantCatalog:
        """Returns the cached, perhaps outdated catalog: for writes that the commit checks, or callers that re-check."""
        return await self.backend.catalogs.get(self.tenant)

    def request(
        self,
        catalog: TenantCatalog,
        served: Served,
        key: ObjectKey,
        subresource: str = "",
        context: Context | None = None,
    ) -> ResourceRequest:
        namespace, _, name = key.rpartition("/")
        context = context or self.context()
        catalog = catalog.without_admission()
        request = ResourceRequest(self.backend, context, catalog, served, namespace, name, subresource, {})
        return request._replace(served=request.converting(served)) if served.converts_contents else request

    async def change(
        self,
        group: str,
        plural: str,
        key: ObjectKey,
        make: Callable[[Object], Object],
        subresource: str = "",
        *,
        verb: str = "update",
        uid: str = "",
    ) -> ObjectAnswer | None:
        """Changes one object, and returns the result, whose decoding may be long; None if it, or its resource, is gone.

        `uid`, if given, is a precondition; another uid raises a StatusError 409.
        """

        operation = UpdateOperation(lambda _, old: make(old), verb, self.manager, uid=uid)
        return await self.update(group, plural, key, operation, subresource)

    async def change_status(
        self, group: str, plural: str, key: ObjectKey, make: Callable[[Object], Object], *, uid: str = ""
    ) -> None:
        """Changes the status of one object to what `make` returns for the object, as `change` does."""
        await self.change(group, plural, key, lambda old: {**copy_of(old), "status": make(old)}, "status", uid=uid)

    async def change_definition_status(self, key: ObjectKey, make: Callable[[Object], Object]) -> None:
        await self.change_status("apiextensions.k8s.io", "customresourcedefinitions", key, make)

    async def annotate(
        self,
        group: str,
        plural: str,
        key: ObjectKey,
        make: Callable[[Mapping[str, str]], Mapping[str, str]],
        *,
        uid: str = "",
    ) -> None:
        """Changes the annotations of one object to what `make` returns for them, as `change` does."""

        def replace_annotations(old: Object) -> Object:
            metadata = old["metadata"]
            return {**old, "metadata": {**metadata, "annotations": make(metadata.get("annotations") or {})}}

        await self.change(group, plural, key, replace_annotations, uid=uid)

    async def update(
        self, group: str, plural: str, key: ObjectKey, operation: UpdateOperation, subresource: str = ""
    ) -> ObjectAnswer | None:
        """Runs the operation on one object, and returns the result; None if it, or its resource, is gone."""

        def address(catalog: TenantCatalog, context: Context) -> ResourceRequest | None:
            definition = catalog.definition(group, plural)
            if definition is None:
                return None
            served = catalog.at_storage_version(definition)
            if subresource:
                served = served.part(subresource)
            return self.request(catalog, served, key, subresource, context)

        return await self._run(address, lambda request: run(request, operation))

    async def create(self, group: str, version: str, plural: str, namespace: str, obj: Object) -> None:
        """Creates an object of a built-in resource, unless its namespace is gone. Raises StatusError."""

        def address(catalog: TenantCatalog, context: Context) -> ResourceRequest | None:
            served = catalog.served(group, version, plural)
            return self.request(catalog, served, served.key(namespace, ""), context=context) if served else None

        async def create(request: ResourceRequest) -> None:
            await create_object(request, deep_copy(obj), WriteOptions(), self.manager, "create")

        await self._run(address, create)

    async def delete(self, served: Served, key: ObjectKey, options: DeleteOptions) -> None:
        """Deletes one object if it exists."""
        known = await self.cached_catalog()

        def address(catalog: TenantCatalog, context: Context) -> ResourceRequest:
            current = served if catalog is known else _served_by(catalog, served)
            return self.request(catalog, current, key, context=context)

        async def delete(request: ResourceRequest) -> None:
            try:
                await run(request, DeleteOperation(options))
            except VersionGone:
                # An object that can no longer be read can still be deleted.
                await run(request._replace(served=request.served.leniently()), DeleteOperation(options))

        await self._run(address, delete, known)

    async def delete_row(self, resource: str, row: Row) -> None:
        """Deletes the object of a row of a core resource, unless there is another one of its name by now."""
        served = (await self.cached_catalog()).served("", "v1", resource)
        assert served is not None, "every tenant has the core resources"
        await self.delete(served, row.key, DeleteOptions(preconditions=Preconditions(uid=str(row.uid))))

    async def _run(
        self,
        address: Callable[[TenantCatalog, Context], ResourceRequest | None],
        write: Callable[[ResourceRequest], Awaitable[T]],
        catalog: TenantCatalog | None = None,
    ) -> T | None:
        """Returns None if the object, or its resource, is gone. Raises Requeue if definitions keep changing."""
        try:
            known = catalog or await self.cached_catalog()
            return await run_current(self.backend, known, self.context(), address, write)
        except NoLongerServed:
            return None
        except DefinitionsUnstable as error:
            raise Requeue from error
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def delete_all(self, served: Served, options: DeleteOptions, namespace: str | None = None) -> int:
        """Deletes the objects of a resource concurrently; returns their number. Tries all of them before it raises.

        Works by keys, so that it holds only the objects being deleted, however large all of them are together.
        """
        tasks = BoundedTasks(_CONCURRENT_DELETES, _CONCURRENT_BYTES)
        count = 0
        async for part in self.backend.store.places(self.tenant, served.resource_name, namespace=namespace):
            for place in part.places:
                count += 1
                await tasks.start(self._delete_at(served, place, options), place.size)
        await tasks.finish()
        return count

    async def _delete_at(self, served: Served, place: Place, options: DeleteOptions) -> None:
        if place.may_be_terminating:
            row, _ = await self.backend.store.load(self.tenant, served.resource_name, place.key)
            if row is None or await _waits(row):
                return
        await self.delete(served, place.key, options)

    async def rows(self, served: Served, namespace: str | None = None) -> AsyncIterator[Row]:
        """Yields the objects of a resource, all at one revision."""
        async for page in self.backend.store.scan(self.tenant, served.resource_name, namespace=namespace):
            for row in page.rows:
                yield row


async def _waits(row: Row) -> bool:
    """Returns whether a deleted object only waits for the finalizers of others. Checks the text before decoding."""
    if '"deletionTimestamp"' not in row.body:
        return False
    metadata = await metadata_of(row.body)
    finalizers = metadata.get("finalizers") or ()
    return bool(metadata.get("deletionTimestamp")) and FOREGROUND not in finalizers and ORPHAN not in finalizers


def _served_by(catalog: TenantCatalog, served: Served) -> Served:
    """Returns the same resource by newer definitions; unchanged if they no longer have it."""
    definition = catalog.definition(served.definition.group, served.definition.names.plural)
    version = definition.versions.get(served.version.name) if definition is not None else None
    return served if definition is None or version is None else catalog.at_version(definition, version)
