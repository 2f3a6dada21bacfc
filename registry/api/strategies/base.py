"""The strategy of a kind: what decoding, creating, updating and deleting mean for it.

The verbs are the same for every resource; the differences are behind this protocol. Custom resources have one
implementation, driven by their schemas; built-in kinds override parts of it.

Follows apiserver pkg/registry/rest/{create,update,delete}.go (RESTCreateStrategy and its kin).
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypedDict

from registry.api.admission.escalation import Authority
from registry.api.options import DeleteOptions
from registry.api.retry_memo import RetryMemo
from registry.apply.types import MergeType
from registry.authentication.user import User
from registry.authorization.tenants import WildcardScope
from registry.schema.field import FieldError
from registry.store.types import Tenant, WriteFlag

Object = dict[str, Any]


# What the annotations of a request have together: webhooks answer with any number, of any length.
ANNOTATED_CHARACTERS: Final = 256 * 1024
_LEFT_OUT: Final = "audit.registry/annotations-omitted"


@dataclass(slots=True)
class Context:
    """The user and tenant of a request, and what is reported with its answer: warnings, audit annotations, effects.

    Each attempt to serve the request has a fork, which reports nothing until it is adopted: an attempt that is repeated
    under newer definitions, or over a newer row, leaves nothing behind.
    """

    tenant: Tenant
    user: User
    user_agent: str = ""
    warnings: list[str] = field(default_factory=list)
    now: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    # For writes of roles and bindings by anyone but an administrator: the rights that the user may grant.
    authority: Authority | None = None
    # For writes of roles, bindings, policies and webhooks by clients: how many bytes of memory those of the tenant may
    # still take.
    memory_room: int | None = None
    # The requested tenants, if there are several (/clusters/*).
    wildcard: WildcardScope | None = None
    # The object for which the request was authorized, "" for all: a list or a watch by metadata.name is authorized as a
    # request for that object (registry/api/confining.py).
    authorized_name: str = ""
    # Annotations for the audit log; None if there is no log.
    annotations: dict[str, str] | None = None
    annotated_characters: int = 0
    # For the server's own writes, which no limit and no suspension of a tenant stops. Never derived from the name of
    # the user, which a credential may give to anybody.
    by_server: bool = False
    # State kept over all attempts; None outside of them.
    memo: RetryMemo | None = None
    # Effects of the attempt if it is adopted, such as metrics; None if they happen at once, outside of attempts.
    effects: list[Callable[[], None]] | None = None
    # When the request has to be answered, by the clock of the event loop; None for the server's own writes.
    deadline: float | None = None
    # What the object in the body is called, for the audit log; None if there is no log.
    reference: dict[str, str] | None = None

    def refer_to(self, metadata: Mapping[str, Any]) -> None:
        """Has the audit log name the object of the body, as far as its path does not."""
        if self.reference is not None:
            for name in ("namespace", "name", "uid", "resourceVersion"):
                if isinstance(value := metadata.get(name), str):
                    self.reference[name] = value

    def annotate(self, key: str, value: str) -> None:
        """Adds an annotation for the audit log; the first value of a key is kept. What is too much is left out."""
        if self.annotations is None or key in self.annotations:
            return
        size = self.annotated_characters + len(key) + len(value)
        if size <= ANNOTATED_CHARACTERS:
            self.annotations[key] = value
            self.annotated_characters = size
        else:
            self.annotations[_LEFT_OUT] = f"annotations beyond {ANNOTATED_CHARACTERS} characters"

    def once(self, effect: Callable[[], None]) -> None:
        """Runs `effect` if this attempt is adopted."""
        if self.effects is None:
            effect()
        else:
            self.effects.append(effect)

    def fork(self, memo: RetryMemo | None = None) -> Context:
        """Returns the context of one attempt: the same request, with nothing reported yet."""
        return Context(
            self.tenant,
            self.user,
            self.user_agent,
            [],
            self.now,
            self.authority,
            self.memory_room,
            self.wildcard,
            self.authorized_name,
            None if self.annotations is None else {},
            0,
            self.by_server,
            memo or self.memo,
            [],
            self.deadline,
            self.reference,
        )

    def with_limits(self, memory_room: int, authority: Authority | None = None) -> Context:
        """Returns the context of a write with these limits, which reports here."""
        return replace(self, memory_room=memory_room, authority=authority)

    def adopt(self, attempt: Context) -> None:
        """Adopts a final attempt. What it reports later, while an answer is streamed, is reported here."""
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
        """The time of the request in the format of metadata: 2026-11-21T03:17:59Z."""
        return _text_of(self.now)

    def timestamp_in(self, seconds: int) -> str:
        """Returns the timestamp of a time after that of the request."""
        return _text_of(self.now + datetime.timedelta(seconds=seconds))


@lru_cache(maxsize=64)  # a request needs its time three times
def _text_of(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="seconds")[:19] + "Z"


class ObjectDecodeError(Exception):
    """A body is not of its kind. The text follows `W in version "v1" cannot be handled as a W: `."""


class WriteEffects(TypedDict, total=False):
    """The effects of a write on other objects and tenants (registry/store/types.py, Write)."""

    flags: WriteFlag
    tenancy: str
    sharing: str
    group: int


class Translation(NamedTuple):
    """The conversion of a kind that is stored as another kind of the core group: events of events.k8s.io.

    `plural` names the stored resource; `write` and `read` convert, without changing their arguments. `api_version` is
    the stored one. Also used for a version of a definition that is stored at another one.
    """

    plural: str
    write: Callable[[Object], Object]
    read: Callable[[Object], Object]
    api_version: str = "v1"


class Strategy(ABC):
    """What decoding, creating, updating and deleting mean for a kind at one version.

    Methods may change `obj` and `new` in place, never `old`. Defaults are those of a kind without rules of its own.
    """

    # A PUT without a resourceVersion replaces any object; a PUT without an object creates one.
    allow_unconditional_update = False
    allow_create_on_update = False
    # A delete returns the object instead of a Status.
    returns_deleted_object = False
    # propagationPolicy becomes a finalizer.
    propagates = True
    # The policy that `orphanDependents: false` stands for, the older form of propagationPolicy.
    policy_without_orphans = "Background"
    # A controller reconciles after each write (names of a definition, the termination of a namespace).
    controlled = False
    # A deleted object may be kept for a while (`grace_seconds`), and be undeleted during that time.
    has_grace_period = False
    # A body may omit kind and apiVersion.
    completes_type = False
    # Decoding reports repeated fields (registry/codec/model.py, Repeated) among the unknown ones.
    tells_repeated = False
    # Decoding reads quantities, which a number may be as well as a text.
    has_quantities = False
    # Subresources in addition to status and scale.
    subresources: Sequence[str] = ()
    # Subresources that have no Table.
    without_table: Sequence[str] = ()
    # Nothing is stored: a create asks a question, and returns the object with a status (reviews).
    virtual = False
    # Fields for selectors that are read from the objects, since their values are not stored with the labels of rows.
    scanned_fields: Sequence[str] = ()
    # Converts an object of a built-in kind for field owners of another version; None if only apiVersion differs.
    convert_for_owners: Callable[[Object, str], Object] | None = None

    @property
    def translation(self) -> Translation | None:
        return None

    @property
    def only_name_and_namespace(self) -> bool:
        """Whether a field selector is refused with the message of kinds without fields of their own."""
        return False

    @abstractmethod
    def part(self, subresource: str) -> Strategy:
        """Returns the strategy of a write through a subresource."""

    @property
    def zeros(self) -> Mapping[str, Any]:
        """The members that the kind's Go struct always has; empty for custom resources."""
        return {}

    @property
    def checked_items(self) -> Mapping[str, Mapping[str, MergeType]]:
        """By apiVersion and list of the spec, the types of applied items that the schema does not describe in full."""
        return {}

    def in_struct_order(self, obj: Object) -> Object | None:
        """Returns an object with its members in the order of the kind's Go struct; None if the kind is a map."""
        return None

    def check_type(self, obj: Object, note: Callable[[list[str]], None]) -> None:
        """Raises a StatusError for an object of another kind or version, if that is reported before other errors.

        `note` refuses or reports the unknown fields of an object that upstream converts before it refuses its version.
        """
        return

    def conversion_fault(self, obj: Object) -> str | None:
        """Returns the error of converting the result of a patch or apply, if it is not that of decoding."""
        return None

    def type_fault(self, obj: Object) -> str | None:
        """Returns the decoding error for an object of another kind or version; None if it is accepted as this one."""
        return None

    @abstractmethod
    def field_labels(self) -> Sequence[str]:
        """Returns the fields for selectors in addition to metadata.name and metadata.namespace: `spec.color`."""

    def stored_field(self, label: str) -> str:
        """Returns the stored name (as in `selectable`) of a field in a selector."""
        return label

    @abstractmethod
    def selectable(self, obj: Object) -> Iterable[tuple[str, str]]:
        """Returns the selectable fields with their texts; empty ones are optional."""

    @abstractmethod
    def decode(self, obj: Object, unknown: list[str], old: Object | None = None) -> Object:
        """Checks types, prunes and defaults a body; adds unknown fields to `unknown`. Raises DecodeError.

        The result of a patch shares what it has left with `old`, a stored object as served; that may be skipped.
        """

    def decode_mutated(self, obj: Object, unknown: list[str]) -> Object:
        """Decodes the result of a mutation by admission, for what follows in admission. Raises DecodeError."""
        return self.decode(obj, unknown)

    def finish_mutated(self, obj: Object) -> Object:
        """Returns the object to be written for what all mutations have made. Raises DecodeError."""
        return obj

    @abstractmethod
    def complete(self, obj: Object) -> Object:
        """Defaults the result of an apply. Raises DecodeError."""

    @abstractmethod
    def prepare_for_create(self, obj: Object, context: Context) -> None: ...

    @abstractmethod
    def validate(self, obj: Object) -> Sequence[FieldError]: ...

    @abstractmethod
    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None: ...

    @abstractmethod
    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        """Returns the errors of a change. Errors in unchanged parts that existed before only go to `warnings`."""

    def prepare_for_undelete(self, obj: Object, context: Context) -> None:
        """Restores an object in its grace period. Raises a StatusError for any other object."""
        return

    def as_written(self, obj: Object) -> Object:
        """Returns the form of a decoded object from which the fields of its writer are computed."""
        return self.finish(obj)

    def as_created(self, obj: Object) -> Object:
        """Returns as much of `as_written` of a new object as decides which of its fields there are."""
        return self.as_written(obj)

    def finish(self, obj: Object) -> Object:
        """Returns the form of a valid object that is stored and served."""
        return obj

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        """Returns the effects of a write; `new` is the last state if the object is removed."""
        return {}

    @abstractmethod
    def warnings(self, new: Object, old: Object | None) -> Sequence[str]: ...

    def waits(self, obj: Object) -> bool:
        """Whether a deletion only marks the object even without finalizers (because of a namespace's own ones)."""
        return False

    def grace_seconds(self, options: DeleteOptions) -> int:
        """Returns how many seconds a deleted object stays before it is removed (RESTGracefulDeleteStrategy)."""
        return 0

    def prepare_for_delete(self, obj: Object, context: Context) -> None:
        """Prepares a deletion, or its mark. May raise a StatusError that refuses it, or add finalizers."""
        return
