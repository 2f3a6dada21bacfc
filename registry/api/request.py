"""A request on a resource, and what the verbs need to answer it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeVar

from registry.aggregation.automatic import Written
from registry.api.catalog import TenantCatalog
from registry.api.catalogs import Catalogs
from registry.api.commit_refusals import commit_refusal
from registry.api.conversions import SharedConversions
from registry.api.converted_texts import run_with_conversions
from registry.api.dependents import WriteEvents
from registry.api.errors import namespace_required, not_found, refused_key
from registry.api.object_locks import Identity, ObjectLocks
from registry.api.options import Query
from registry.api.served import Object, Served, StoredForm
from registry.api.strategies.base import Context
from registry.authentication.authenticator import Authentication
from registry.authentication.tokens.service_accounts import RESOURCES as TOKEN_RESOURCES
from registry.authentication.tokens.service_accounts import AccountTokens
from registry.authorization.authorizer import Authorizer
from registry.authorization.rbac.model import GROUP as RBAC
from registry.codec.model import Decoded, DecodeError, TooManyValues
from registry.flowcontrol.activity import Activity
from registry.flowcontrol.byte_shares import HeldAnswer
from registry.flowcontrol.evaluation import Evaluations, Large, evaluate, large, note_size
from registry.schema.names import name_is_path_segment
from registry.schema.values import with_sorted_keys
from registry.store.errors import QuotaExceeded, SharingRefused, TenancyRefused, TenantSuspended
from registry.store.store import Store
from registry.store.types import (
    NO_FLAGS,
    Actor,
    Committed,
    Guards,
    ObjectKey,
    ResourceName,
    Row,
    State,
    Tenant,
    Write,
    WriteFlag,
)
from registry.webhooks.client import WebhookClient

T = TypeVar("T")
QUOTAS = ResourceName("resourcequotas")
# The queue of the controller that builds indexes: the key is the name of the resource.
INDEXES = ResourceName("indexes.query.registry")


# The label of stored secrets that controllers fill with tokens.
_OF_ACCOUNT = "f:type=kubernetes.io/service-account-token"


class CatalogStale(Exception):
    """The request was evaluated with definitions or namespaces that have changed since: serve it again."""

    def __init__(self, guards: Guards) -> None:
        super().__init__("definitions or namespaces changed")
        self.guards = guards


@dataclass(frozen=True, slots=True)
class Backend:
    """State shared by all requests of a process."""

    store: Store
    catalogs: Catalogs
    authorizer: Authorizer
    authentication: Authentication
    tokens: AccountTokens
    # Notifies controllers of committed writes.
    events: WriteEvents
    # How definitions with a conversion webhook or rules are served.
    conversions: SharedConversions
    # Calls admission webhooks.
    webhooks: WebhookClient
    # Whether objects are written with the documents that SQL reports read.
    reports: bool = False
    # Whether clusterpedia's label keys are parameters of queries.
    clusterpedia_labels: bool = False
    locks: ObjectLocks = field(default_factory=ObjectLocks)
    # Which tenants have APIServices written (registry/api/automatic_api_services.py).
    api_services: Written = field(default_factory=Written)
    # Where requests and controllers evaluate.
    evaluations: Evaluations = field(default_factory=Evaluations)
    # The activity of tenants in this process.
    activity: Activity = field(default_factory=Activity)

    def enqueue(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        """Enqueues an object for reconciliation by controllers."""
        self.events.enqueue(tenant, resource, key)


class PredecodedBody:
    """A decoded body. It is returned once: the receiver may change it."""

    def __init__(self, outcome: Decoded | DecodeError | TooManyValues) -> None:
        self._outcome: Decoded | DecodeError | TooManyValues | None = outcome

    def take(self) -> Decoded | None:
        outcome, self._outcome = self._outcome, None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@dataclass(frozen=True, slots=True)
class Body:
    """A body as received: `media_type` is json, yaml, protobuf, or one of the patch types."""

    data: bytes
    media_type: str
    # Set if a long body has been decoded already, outside of the event loop.
    predecoded: PredecodedBody | None = None

    def read(self, decode: Callable[[bytes], Decoded]) -> Decoded:
        """Returns the data decoded by `decode`. Raises the errors of `decode`."""
        decoded = self.predecoded.take() if self.predecoded is not None else None
        return decoded if decoded is not None else decode(self.data)


class ResourceRequest(NamedTuple):
    """`name` is empty for a collection, `namespace` for all namespaces and for cluster-scoped resources."""

    backend: Backend
    context: Context
    catalog: TenantCatalog
    served: Served
    namespace: str
    name: str
    subresource: str
    query: Query

    @property
    def tenant(self) -> Tenant:
        return self.context.tenant

    @property
    def key(self) -> ObjectKey:
        return self.served.key(self.namespace, self.name)

    @property
    def identity(self) -> Identity:
        return (self.context.tenant.id, self.served.resource_name, self.key)

    async def wait_for_room(self, *alike: Hashable) -> None:
        """Waits until an answer as long as the last one may be held that was `alike`. Raises TooManyRequests."""
        if (answer := HeldAnswer.current()) is not None:
            await answer.reserve((self.tenant.id, self.served.resource, self.key, *alike))

    def actor(self, manager: str, verb: str) -> Actor:
        return Actor(self.context.user.name, manager, verb)

    def document(self, obj: Object, body: str) -> str | None:
        """Returns the document for SQL reports of an object that is stored as `body`; None without reports."""
        return self.served.extraction.document(obj, body) if self.backend.reports else None

    async def commit(self, write: Write) -> Committed:
        """Commits a write, and enqueues follow-up work for controllers."""
        by_server = self.context.by_server
        if by_server or write.actor.verb == "delete":
            flags = WriteFlag.UNLIMITED | (WriteFlag.BY_SERVER if by_server else NO_FLAGS)
            write = replace(write, flags=write.flags | flags)
        if (answer := HeldAnswer.current()) is not None:
            answered = write.body
            if not answered and write.replaced is not None and self.served.strategy.returns_deleted_object:
                answered = write.replaced.row.body
            await answer.before_commit(2 * len(answered))
        try:
            committed = await self.backend.store.commit(self.tenant, write)
        except (TenantSuspended, QuotaExceeded, TenancyRefused, SharingRefused) as refusal:
            raise commit_refusal(self.tenant, self.served, write.key, refusal) from refusal
        if write.resource in TOKEN_RESOURCES:
            self.backend.tokens.forget(self.tenant, write.resource, write.key)
            if _OF_ACCOUNT in write.labels:
                self.backend.enqueue(self.tenant, write.resource, write.key)
        if self.served.definition.group == RBAC:
            self.backend.authorizer.invalidate(self.tenant)
            self.backend.enqueue(self.tenant, write.resource, write.key)
        if self.served.strategy.controlled or write.resource == QUOTAS:
            self.backend.enqueue(self.tenant, write.resource, write.key)
        return committed

    def converting(self, served: Served) -> Served:
        """Returns `served` with conversions of its own, if a webhook or rules convert."""
        return served.converting(self.backend.conversions, self.tenant.id) if served.converts_contents else served

    def fork(self) -> ResourceRequest:
        return self._replace(context=self.context.fork())

    async def run_with_conversions(self, read: Callable[[], T]) -> T:
        """Returns the result of `read`, which is run again after each conversion that it needs, so it must be pure."""
        return await run_with_conversions(self.served, read)

    async def text(self, row: Row) -> str:
        """Returns the object of a row as JSON text at the request's version."""
        if self.served.is_passthrough(row.version, row.schema):
            return self.served.text(row)
        async with large(Large.CONVERSION, len(row.body)):
            return await run_with_conversions(self.served, lambda: self.served.text(row), len(row.body))

    async def object(self, row: Row) -> Object:
        """Returns the object of a row, decoded, at the request's version."""
        return await run_with_conversions(self.served, lambda: self.served.object(row), len(row.body))

    async def encode(self, obj: Object, spec: str | None = None) -> StoredForm:
        """Returns the stored form of an object that a client writes at the request's version; `spec` is the text of its
        spec, if known."""
        return await run_with_conversions(self.served, lambda: self.served.storable(obj, spec))

    async def as_stored(self, obj: Object, stored: StoredForm) -> Object:
        """Returns `obj` as read from its stored form, with its own resourceVersion: the answer of a dry run.

        Its maps have sorted keys, as upstream; Go structs keep the order of their fields.
        """
        version, schema, body, _ = stored
        if self.served.is_passthrough(version, schema):
            arranged = _with_sorted_owners if self.served.definition.builtin else with_sorted_keys
            return await evaluate(partial(arranged, obj), len(body), repeatable=True)
        read = await run_with_conversions(
            self.served, lambda: self.served.object_of(0, version, schema, body), len(body)
        )
        revision = obj["metadata"].get("resourceVersion")
        metadata = {name: value for name, value in read["metadata"].items() if name != "resourceVersion"}
        return {**read, "metadata": metadata if revision is None else {**metadata, "resourceVersion": revision}}

    def build_indexes(self) -> None:
        """Enqueues the resource for the completion of its indexes."""
        self.backend.enqueue(self.tenant, INDEXES, ObjectKey(self.served.resource_name))

    def check_fresh(self, state: State) -> None:
        """Raises CatalogStale if the definition that this request was resolved by, or policies, may have changed by
        `state`."""
        if not self.catalog.serves_as_at(state.guards):
            raise CatalogStale(state.guards)

    async def load(self) -> tuple[Row, Guards]:
        """Returns the row of the named object, and the guards of the read.

        Raises 404 without it, or 400 if no object can have the name: the check stands here as in kube-apiserver, after
        what is wrong with the request otherwise (apiserver pkg/registry/generic/registry/store.go, NamespaceKeyFunc).
        """
        if self.served.namespaced and not self.namespace:
            raise namespace_required()
        row, state = await self.backend.store.load(self.tenant, self.served.resource_name, self.key)
        self.check_fresh(state)
        if row is None:
            if problems := name_is_path_segment(self.name):
                raise refused_key(self.name, problems)
            raise not_found(self.served.resource, self.name)
        note_size(len(row.body))
        return row, state.guards


def _with_sorted_owners(obj: Object) -> Object:
    metadata = obj["metadata"]
    entries = metadata.get("managedFields")
    if not entries:
        return obj
    entries = [{name: with_sorted_keys(part) for name, part in entry.items()} for entry in entries]
    return {**obj, "metadata": {**metadata, "managedFields": entries}}
