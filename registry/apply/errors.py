"""Errors of patches and applies. The HTTP layer converts each to a Status.

    ApplyError
    ├── PatchUndecodable      400 BadRequest: the text of the patch cannot be understood
    ├── PatchTooLong          413 RequestEntityTooLarge: more operations than one JSON patch may have
    ├── PatchInapplicable     422 Invalid, the server's generic text: a JSON patch that fails on this object
    ├── StrategicPatchError   400 or 500 (`code`): a strategic merge patch that fails
    ├── InvalidApply          400 BadRequest: the applied object contradicts the request
    ├── TypedError            500 without a reason: the object does not fit its schema
    ├── ConversionFailed      raised by the conversion of a FieldManager; clients see a TypedError instead
    └── Conflicts             409 Conflict with causes: fields owned by other managers

`str(error)` is the message for the client in all of them but PatchInapplicable, whose text kube-apiserver does not
return to clients (admission policies do show it).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from registry.apply.fieldtexts import path_text
from registry.schema.field import MAX_MESSAGE, join_shortened


class ApplyError(Exception):
    """The base of all errors of this package."""


class PatchUndecodable(ApplyError):
    pass


class PatchTooLong(ApplyError):
    pass


class PatchInapplicable(ApplyError):
    pass


class StrategicPatchError(ApplyError):
    def __init__(self, message: str, code: int = 500) -> None:
        super().__init__(message)
        self.code = code


class InvalidApply(ApplyError):
    pass


class TypedError(ApplyError):
    pass


class ConversionFailed(ApplyError):
    pass


@dataclass(frozen=True, slots=True)
class Conflict:
    """One field of one manager, which is printed as `"m" with subresource "status" using g/v1`.

    `path` consists of path elements (see fieldsets.py); `shown_as` is what clients see instead of it.
    """

    manager: str
    path: tuple[str, ...]
    shown_as: str = ""

    @property
    def field(self) -> str:
        """The path as clients see it: `.spec.a`. Made when it is needed: there may be conflicts by the thousand."""
        return self.shown_as or path_text(self.path)

    @property
    def message(self) -> str:
        return f"conflict with {self.manager}"


class Conflicts(ApplyError):
    """The fields that an apply without force would take from others, ordered by manager."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        super().__init__(_conflicts_message(conflicts))
        self.conflicts = tuple(conflicts)


def _conflicts_message(conflicts: Sequence[Conflict]) -> str:
    if len(conflicts) == 1:
        return f"Apply failed with 1 conflict: {conflicts[0].message}: {conflicts[0].field}"
    return f"Apply failed with {len(conflicts)} conflicts: " + join_shortened(_lines(conflicts), "\n", MAX_MESSAGE)


def _lines(conflicts: Sequence[Conflict]) -> Iterator[str]:
    by_manager: dict[str, list[Conflict]] = {}
    for conflict in conflicts:
        by_manager.setdefault(conflict.manager, []).append(conflict)
    for manager, of_manager in by_manager.items():
        yield f"conflicts with {manager}:"
        for conflict in of_manager:
            yield f"- {conflict.field}"
