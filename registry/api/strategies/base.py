"""The life rules of a kind: what decoding, creating, updating and deleting mean for it.

The verbs are the same for every resource; what differs is behind this protocol. Custom resources have one
implementation, steered by their schemas; a built-in kind overrides what is its own.

Follows apiserver pkg/registry/rest/{create,update,delete}.go (RESTCreateStrategy and its kin).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypedDict

from registry.api.admission.escalation import Authority
from registry.api.options import DeleteOptions
from registry.api.retry_memo import RetryMemo
from registry.authentication.user import User
from registry.authorization.wildcard import Across
from registry.schema.field import FieldError
from registry.store.types import Tenant, WriteFlag

Object = dict[str, Any]


@dataclass(slots=True)
class Context:
    """Who asks for what tenant, and what is reported with the answer: warnings, audit annotations, effects.

    Each attempt to serve the request has a fork, which reports nothing until it is adopted: an attempt that is made
    again under newer definitions, or over a newer row, leaves nothing behind.
    """

    tenant: Tenant
    user: User
    user_agent: str = ""
    warnings: list[str] = field(default_factory=list)
    now: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    # Of a write to a role or a binding by anybody but an administrator: what he may grant.
    authority: Authority | None = None
    # The tenants that are asked for, where it is more than one (/clusters/*).
    across: Across | None = None
    # The one object that the authorizer was asked about, "" for all: a list or a watch by metadata.name is authorized
    # as a request for that object (registry/api/confining.py).
    authorized_name: str = ""
    # Where what the audit log is to know is put; None where there is none.
    annotations: dict[str, str] | None = None
    # What the server itself writes: no limit and no suspension of a tenant stops it. It is never recognised by the name
    # of the user, which a credential may give to anybody.
    by_server: bool = False
    # What stays over all attempts; None outside of them.
    memo: RetryMemo | None = None
    # What is to happen once if the attempt counts, such as metrics; None where it happens at once, in no attempt.
    effects: list[Callable[[], None]] | None = None

    def annotate(self, key: str, value: str) -> None:
        """Adds an annotation for the audit log; the first value of a key stays."""
        if self.annotations is not None:
            self.annotations.setdefault(key, value)

    def once(self, effect: Callable[[], None]) -> None:
        """Has `effect` happen if this attempt counts."""
        if self.effects is None:
            effect()
        else:
            self.effects.append(effect)

    def fork(self, memo: RetryMemo | None = None) -> Context:
        """The context of one attempt: the same request, with nothing reported yet."""
        return Context(
            self.tenant,
            self.user,
            self.user_agent,
            [],
            self.now,
            self.authority,
            self.across,
            self.authorized_name,
            None if self.annotations is None else {},
            self.by_server,
            memo or self.memo,
            [],
        )

    def adopt(self, attempt: Context) -> None:
        """The attempt counts. What is reported later, while an answer is streamed, is reported here."""
        self.warnings.extend(attempt.warnings)
        attempt.warnings = self.warnings
        if attempt.annotations:
            for key, value in attempt.annotations.items():
                self.annotate(key, value)
        attempt.annotations = self.annotations
        for effect in attempt.effects or ():
            self.once(effect)
        attempt.effects = self.effects

    @property
    def timestamp(self) -> str:
        """The time of the request as metadata writes it: 2026-11-21T03:17:59Z."""
        return self.timestamp_in(0)

    def timestamp_in(self, seconds: int) -> str:
        """The same of a time after that of the request."""
        return (self.now + datetime.timedelta(seconds=seconds)).isoformat(timespec="seconds")[:19] + "Z"


class ObjectDecodeError(Exception):
    """A body that is not of its kind. The text follows `W in version "v1" cannot be handled as a W: `."""


class WriteEffects(TypedDict, total=False):
    """What a write means to other objects and tenants (registry/store/types.py, Write)."""

    flags: WriteFlag
    tenancy: str
    sharing: str
    group: int


class Translation(NamedTuple):
    """A kind whose objects are stored as those of another kind of the core group: events of events.k8s.io.

    `plural` names the resource that they are stored as; `write` and `read` translate, neither changing its argument.
    `api_version` is that of what is stored. A version whose definition is stored at another one translates, too.
    """

    plural: str
    write: Callable[[Object], Object]
    read: Callable[[Object], Object]
    api_version: str = "v1"


class Strategy(Protocol):
    """Every function may change `obj` and `new` in place, never `old`."""

    # A PUT without a resourceVersion replaces whatever is there; a PUT of nothing creates.
    allow_unconditional_update: bool
    allow_create_on_update: bool
    # A delete answers the object instead of a Status.
    returns_deleted_object: bool
    # propagationPolicy becomes a finalizer.
    propagates: bool
    # The policy that `orphanDependents: false` means, the older form of propagationPolicy.
    policy_without_orphans: str
    # A controller goes on with each write (names of a definition, the end of a namespace).
    controlled: bool
    # A deleted object may stay for a while (`grace_seconds`), and be undeleted as long as it does.
    has_grace_period: bool
    # A body may leave out kind and apiVersion.
    completes_type: bool
    # Decoding tells of fields that are given twice (registry/codec/model.py, Repeated), among the unknown ones.
    tells_repeated: bool
    # Subresources beside status and scale.
    subresources: Sequence[str]
    # Nothing is stored: creating asks a question, and the answer is the object with a status (reviews).
    virtual: bool

    @property
    def translation(self) -> Translation | None: ...

    # How field owners of another version see an object of a built-in kind; None where only its name differs.
    convert_for_owners: Callable[[Object, str], Object] | None

    @property
    def only_name_and_namespace(self) -> bool:
        """Words the refusal of a field selector as kinds do that have no fields of their own to select by."""

    def part(self, subresource: str) -> Strategy:
        """The rules of a write through a subresource."""

    def check_type(self, obj: Object) -> None:
        """Raises a StatusError for an object of another kind or version, where that is reported before all else."""

    def type_fault(self, obj: Object) -> str | None:
        """What decoding an object says that is of another kind or version; None where it can be taken for this one."""

    def field_labels(self) -> Sequence[str]:
        """What a field selector may name beside metadata.name and metadata.namespace: `spec.color`."""

    def stored_field(self, label: str) -> str:
        """The name under which a field of a selector stands among what is stored (`selectable`)."""

    def selectable(self, obj: Object) -> Iterable[tuple[str, str]]:
        """The fields that can be selected by, with their texts; empty ones may be given or left out."""

    def decode(self, obj: Object, unknown: list[str]) -> Object:
        """Types, pruning and defaulting of a body; unknown fields are added to `unknown`. Raises DecodeError."""

    def complete(self, obj: Object) -> Object:
        """Defaults what an apply has made. Raises DecodeError."""

    def prepare_for_create(self, obj: Object, context: Context) -> None: ...

    def validate(self, obj: Object) -> Sequence[FieldError]: ...

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None: ...

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        """What is wrong but was so before, and has not been touched, only goes into `warnings`."""

    def prepare_for_undelete(self, obj: Object, context: Context) -> None:
        """Makes an object that is in its grace period what it was before; a StatusError for one that is not."""

    def finish(self, obj: Object) -> Object:
        """The form that is stored and served of an object that has been found to be right."""

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        """Which guards the write moves; `new` is the last state where the object goes."""

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]: ...

    def waits(self, obj: Object) -> bool:
        """Whether a deletion only marks the object even when it has no finalizers (a namespace's own ones)."""

    def grace_seconds(self, options: DeleteOptions) -> int:
        """How long a deleted object stays before it goes (RESTGracefulDeleteStrategy)."""

    def prepare_for_delete(self, obj: Object, context: Context) -> None:
        """Before a deletion is marked or done; may raise a StatusError that refuses it, or add finalizers."""
