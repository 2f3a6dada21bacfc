"""The write pipeline, shared by create, update, patch, apply, scale, restore and delete.

    decode → load → make → admit (mutate) → prepare → validate → admit (validate) → commit → answer

A verb decodes its body and describes the write as an Operation (create.py, update.py, delete.py). `attempt` runs it
once through the stages from `make` to `commit`; `run` (driver.py) loads what an attempt starts from, repeats attempts
until one is final, and renders the answer. A stage refuses the write by raising a StatusError.

Follows apiserver pkg/registry/generic/registry/store.go (Create, Update, Delete).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from registry.admission.attributes import DELETE
from registry.api.admission.admitter import admitter_of
from registry.api.admission.parameter_rights import require_parameter_rights
from registry.api.answers import ObjectAnswer
from registry.api.errors import Qualified, StatusError, modified
from registry.api.options import DeleteOptions, WriteOptions
from registry.api.ownership import keep_valid_ownership
from registry.api.request import ResourceRequest
from registry.api.served import Object, StoredForm
from registry.flowcontrol.evaluation import evaluate
from registry.store.errors import AlreadyExists, RevisionConflict
from registry.store.types import Guards, Row

A = TypeVar("A")


class Start(NamedTuple):
    """What an attempt starts from: the row (none for a create), and the guards that it was read under.

    A row that is `handed_over` is the last one written by this process. Another may have written since, so the row only
    suffices for a commit, which checks the revision; any other outcome is re-evaluated from the store. `obj` is the
    object of the row, if it has been decoded before.
    """

    row: Row | None
    guards: Guards | None
    handed_over: bool = False
    obj: Object | None = None


@dataclass(slots=True)
class Draft:
    """An object in the pipeline. `name` is the name that admission sees: empty if it is to be generated.

    `stored` is its stored form, if that was made before the commit. `kind` is the one that an update states, which
    errors name even if it is not written.
    """

    start: Start
    name: str
    old: Object | None
    new: Object
    # The resource version given with an object to be created; "" if none was.
    revision: str = ""
    stored: StoredForm | None = None
    kind: Qualified | None = None


class Outcome(NamedTuple):
    """The result of an attempt; warnings, annotations and effects are in its context (Context.adopt).

    The answer is rendered from `row`, or from `obj` if nothing is stored. `guards` are those that `row` was committed
    under; None if it was already there.
    """

    row: Row | None = None
    obj: Object | None = None
    guards: Guards | None = None


class HandoverUnconfirmed(Exception):
    """The write would not change the handed-over row, which may be outdated: load what is stored."""


class Operation(ABC, Generic[A]):
    """A write, by its stages. Each may change `draft`; no state is kept from one attempt to the next."""

    # As admission knows it: CREATE, UPDATE or DELETE.
    action: ClassVar[str]
    # Whether it waits for other writes of the object in this process (object_locks.py).
    is_serialized: ClassVar[bool] = False
    options: WriteOptions | DeleteOptions
    # The number of attempts if other writes of the object come first.
    tries: int

    @property
    def dry_run(self) -> bool:
        return self.options.dry_run

    @abstractmethod
    def review_options(self, request: ResourceRequest, start: Start) -> Mapping[str, Any]:
        """Returns the options of the request as policies and webhooks see them."""

    @abstractmethod
    async def load(self, request: ResourceRequest) -> Start:
        """Loads what is stored now."""

    @abstractmethod
    async def make(self, request: ResourceRequest, start: Start) -> Draft:
        """Returns the old object, and the new one as the client wants it, with its managedFields."""

    def present(self, draft: Draft) -> tuple[Object | None, Object | None]:
        """Returns the new object and the old one as admission sees them."""
        return draft.new, draft.old

    def present_for_mutation(self, draft: Draft) -> tuple[Object | None, Object | None]:
        """Returns the same for mutating admission."""
        return self.present(draft)

    def merge_back(self, request: ResourceRequest, draft: Draft, mutated: Object) -> None:
        """Merges the result of mutating admission, which was presented the new object, into the draft."""

    def prepare(self, request: ResourceRequest, draft: Draft) -> None:
        """Fills in the fields that only the server writes."""

    def validate(self, request: ResourceRequest, draft: Draft) -> None:
        """Raises 422 with everything that is wrong with the object."""

    @abstractmethod
    async def commit(self, request: ResourceRequest, draft: Draft) -> Outcome:
        """Stores the object, unless it is a dry run or changes nothing."""

    @abstractmethod
    async def answer(self, request: ResourceRequest, outcome: Outcome) -> A: ...

    def race_lost(self, request: ResourceRequest, error: RevisionConflict | AlreadyExists) -> StatusError:
        """Returns the refusal after `tries` attempts at which other writes came first."""
        return modified(request.served.resource, request.name)

    def skips_admission(self, request: ResourceRequest, draft: Draft) -> bool:
        """Whether the write changes nothing whatever admission decides, so that it is not asked."""
        return False

    def when_missing(self) -> Operation[A] | None:
        """Returns the operation that replaces this one if there is no object."""
        return None


async def attempt(request: ResourceRequest, operation: Operation[Any], start: Start) -> Outcome:
    """Runs one attempt. Raises a StatusError, or a reason to start again (driver.py)."""
    return await operation.commit(request, await draft_of(request, operation, start))


async def draft_of(request: ResourceRequest, operation: Operation[Any], start: Start) -> Draft:
    """Runs an attempt up to its commit."""
    admitter = admitter_of(request, partial(operation.review_options, request, start), dry_run=operation.dry_run)
    draft = await operation.make(request, start)
    if operation.skips_admission(request, draft):
        return draft
    # A mutation that renames the object does not change the name of the request.
    name = draft.name
    new, old = operation.present_for_mutation(draft)
    mutated = await admitter.mutate(operation.action, name, new, old)
    if new is not None and mutated is not None and mutated is not new:
        operation.merge_back(request, draft, keep_valid_ownership(request, new, mutated))
    await evaluate(partial(_complete, request, operation, draft))
    if operation.action != DELETE:
        await require_parameter_rights(request, draft.new, draft.old)
    await admitter.validate(operation.action, name or draft.name, *operation.present(draft))
    return draft


def _complete(request: ResourceRequest, operation: Operation[Any], draft: Draft) -> None:
    operation.prepare(request, draft)
    operation.validate(request, draft)


async def render(request: ResourceRequest, outcome: Outcome, code: int = 200) -> ObjectAnswer:
    if outcome.row is None:
        return ObjectAnswer(request.served, obj=outcome.obj, code=code)
    return ObjectAnswer(request.served, text=await request.text(outcome.row), code=code)
