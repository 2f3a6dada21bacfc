"""The types that enter and leave the store: the boundary between SQL and everything above.

The store knows tenants, resources (opaque texts such as `crontabs.stable.example.com`), keys and bodies; the layers
above interpret bodies. All revisions are integers of the tenant's revision domain.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Any, Final, NamedTuple, NewType

from registry.store.labels import StoredLabels

TenantName = NewType("TenantName", str)
TenantId = NewType("TenantId", int)
DomainId = NewType("DomainId", int)
Uid = NewType("Uid", str)

# The plural and group as one text: "crontabs.stable.example.com", in the core group just "namespaces".
ResourceName = NewType("ResourceName", str)

# "<namespace>/<name>" of a namespaced object, "<name>" of a cluster-scoped one. Compared by bytes, as Kubernetes does.
ObjectKey = NewType("ObjectKey", str)


class Guards(NamedTuple):
    """What a write was validated against: the revisions at which the tenant's definitions and namespaces last changed.

    `definitions` rises with each write of a definition, `namespaces` whenever a namespace begins to terminate or is
    removed (a new namespace cannot invalidate an earlier validation).
    """

    definitions: int
    namespaces: int


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant as stored in its row. `attributes` belongs to the layers above (display name, suspended ...)."""

    id: TenantId
    name: TenantName
    domain: DomainId
    guards: Guards
    attributes: dict[str, Any] = field(default_factory=dict)


class State(NamedTuple):
    """The tenant's state in the same snapshot as the rows of a read."""

    revision: int
    guards: Guards


class Row(NamedTuple):
    """A stored object.

    `body` is the object's JSON text without its beginning: the whole object is
    `{"apiVersion":"<group>/<version>","kind":"<kind>","metadata":{"resourceVersion":"<revision>",` + body, so that a
    get is a concatenation. `version` is the API version that it is stored in, `schema` the identity of the schema
    that pruned, defaulted and validated it.
    """

    resource: ResourceName
    key: ObjectKey
    uid: Uid
    revision: int
    version: str
    schema: int
    body: str


class Replaced(NamedTuple):
    """What a write replaces: the row that it was prepared from, and the `labels` with which that was written, unless
    they are many."""

    row: Row
    labels: Sequence[str] | None


class WriteFlag(enum.IntFlag):
    """What the commit and later readers must know of a write without looking into its body (sql/commit.sql)."""

    CHANGES_DEFINITIONS = 1
    CHANGES_NAMESPACES = 2
    # A controller has to reconcile the object; `pending` finds it until a write clears the flag.
    PENDING = 4
    # What the object also counts as in its tenant's limits, in addition to being an object.
    COUNTS_AS_DEFINITION = 8
    COUNTS_AS_NAMESPACE = 16
    # Counted in the tenant's limits, but never rejected by them: the server's own writes, and deletions.
    UNLIMITED = 32
    # Written by the server itself: accepted in a suspended tenant.
    BY_SERVER = 128
    # Other objects may have to change after this write: if this process crashes, another finds it in the log.
    FOLLOW_UP = 256
    # The object is being deleted.
    TERMINATING = 512


NO_FLAGS: Final = WriteFlag(0)


@dataclass(frozen=True, slots=True)
class Contents:
    """The objects that belong to another: all of `resource`, or all whose keys begin with `prefix` (`"ns/"`).

    With a prefix, `excepted` resources do not count; or only some of their keys, if any are listed.
    """

    resource: ResourceName | None = None
    prefix: str | None = None
    excepted: Mapping[str, Sequence[str] | None] = field(default_factory=dict)


class WriteOperation(enum.StrEnum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who wrote, for the change log and history. `verb` is the API verb (create, update, patch, apply, delete ...)."""

    user: str
    manager: str
    verb: str


@dataclass(frozen=True, slots=True)
class Entries:
    """An object's entries in the indexes that its definition declares (registry/query/indexes.py).

    `numbers` identify all of these indexes, and `layout` their combination. `fields` is the one of them for the values
    of selectable fields among the labels, which have no entries; 0 if there are none.
    """

    layout: int
    numbers: Sequence[int]
    entries: Sequence[bytes]
    fields: int = 0

    @property
    def of_sealed(self) -> Entries | None:
        """What remains if the body is sealed."""
        return Entries(self.layout, [self.fields], (), self.fields) if self.fields else None


@dataclass(frozen=True, slots=True)
class Write:
    """One change of one object.

    `expected_revision` None accepts any revision (update and delete still require that the object exists; create
    requires that it does not). `expected_guards` None means that the write does not depend on them. `labels` are
    `key=value` texts, including selectable fields as `f:spec.color=red`; `owners` the uids of the owner references, for
    garbage collection. `doc` is JSON text for the reporting column, or None where reporting is off.
    """

    operation: WriteOperation
    resource: ResourceName
    key: ObjectKey
    actor: Actor
    uid: Uid = Uid("")
    version: str = ""
    schema: int = 0
    body: str = ""
    labels: Sequence[str] = ()
    owners: Sequence[str] = ()
    doc: str | None = None
    expected_revision: int | None = None
    expected_guards: Guards | None = None
    flags: WriteFlag = NO_FLAGS
    # Of a tenant object: what its row becomes in the same commit, as JSON (registry_follow, sql/tenancy.sql).
    tenancy: str | None = None
    # Of a definition that tenants may share, an export or a binding: its effect on the tenants that share it, as JSON
    # (registry_sharing_refusal, sql/sharing.sql).
    sharing: str | None = None
    # What an update or a deletion replaces, if `expected_revision` is that of its row: watches in this process then get
    # the change without reading it from the log.
    replaced: Replaced | None = None
    # The write is refused while any of these exists.
    unless_used: Contents | None = None
    # Writes with the same number were prepared together: they may share a transaction although each changes guards.
    group: int | None = None
    # Entries in declared indexes; None if the definition declares none, or the body is sealed.
    indexed: Entries | None = None

    @property
    def alone(self) -> bool:
        """Whether the write is committed by a call of its own, because it affects other tenants."""
        return self.tenancy is not None or self.sharing is not None


@dataclass(frozen=True, slots=True)
class Committed:
    """The outcome of a write."""

    revision: int
    guards: Guards


class ChangeType(enum.StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(slots=True)
class Change:
    """One change, in the order of its revision.

    For DELETED, `body` is the last stored state. `forms` is a cache for the layers above: all watchers get the same
    Change, so that its encodings are shared.
    """

    revision: int
    type: ChangeType
    resource: ResourceName
    key: ObjectKey
    uid: Uid
    version: str
    schema: int
    body: str
    labels: StoredLabels
    previous_revision: int
    previous_version: str
    previous_schema: int
    previous_body: str | None
    previous_labels: StoredLabels
    actor: Actor
    forms: dict[Any, Any] = field(default_factory=dict)
    tenant: TenantId = TenantId(0)

    @property
    def size(self) -> int:
        """The approximate size in memory in bytes, without `forms`. A body with one non-Latin-1 character takes up to
        four times its length."""
        previous = self.previous_body
        size = 500 + getsizeof(self.body)
        return size if previous is None or previous is self.body else size + getsizeof(previous)


@dataclass(slots=True, kw_only=True)
class LoggedChange(Change):
    """A change as it is in the change log, with the time of its commit by PostgreSQL's clock."""

    at: datetime.datetime


@dataclass(frozen=True, slots=True)
class Batch:
    """One result of a subscription: changes in order, perhaps none, and the revision up to which it is complete."""

    changes: Sequence[Change]
    revision: int


class SelectorOperator(enum.StrEnum):
    """The operators of a selector requirement."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = "gt"
    LESS_THAN = "lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a selector over the `labels` of a Write: all terms must hold.

    `key` is a label key, or `f:<path>` for a selectable field. NOT_IN also holds where the key is absent. For a field,
    an absent value equals the empty text.
    """

    key: str
    match: SelectorOperator
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in the order of their keys as of `state.revision` (or of the requested revision).

    `remaining` counts the rows after this page if the page is limited and has no selector, else None.
    """

    rows: Sequence[Row]
    revision: int
    more: bool
    remaining: int | None
    state: State

    @property
    def size(self) -> int:
        """The total length of its bodies."""
        return sum([len(row.body) for row in self.rows])
