"""JSON patches (RFC 6902) on decoded values.

`decode` validates a patch once, `apply_json_patch` applies it to a document, which is never changed: a container is
copied once, when an operation first writes into it. Follows gopkg.in/evanphx/json-patch.v4 patch.go with its
leniencies: a `replace` of a missing member adds it, a `test` for null passes where nothing is, a `copy` from a missing
member copies null, `-1` is the last item, a pointer that starts without `/` loses its first segment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from registry.apply.errors import PatchInapplicable, PatchTooLong, PatchUndecodable
from registry.apply.patches.json_pointer import BadIndex, Pointed, copy_value, delete, get, index, insert
from registry.apply.values import equal
from registry.codec.go_text import go_quote, json_type
from registry.schema.model import Json
from registry.schema.values import deep_copy

MAX_OPERATIONS = 10_000
# The limit of a request body: a few `copy` operations could otherwise double a document until memory is exhausted.
MAX_COPIED_BYTES = 3 * 1024 * 1024

_T = TypeVar("_T")

_MEMBERS = frozenset({"op", "path", "from", "value"})
_TEXT_MEMBERS = ("op", "from", "path")


@dataclass(frozen=True, slots=True)
class PatchOperation:
    """One operation; None stands for a member that is absent or null."""

    op: str | None
    path: str | None
    source: str | None
    value: Json


@dataclass(frozen=True, slots=True)
class Patch:
    """`unknown_members` are the texts for a warning, or for a strict error: `json patch unknown field "[0].extra"`."""

    operations: tuple[PatchOperation, ...]
    unknown_members: tuple[str, ...] = ()

    def with_own_values(self) -> Patch:
        """Returns the patch with copies of its values, for a result that is changed in place."""
        copies = [
            replace(one, value=deep_copy(one.value)) if isinstance(one.value, dict | list) else one
            for one in self.operations
        ]
        return Patch(tuple(copies))


def decode(document: Json, *, strict: bool = True) -> Patch:
    """Decodes a patch: `[{"op": "remove", "path": "/spec/a"}]`; null is the empty patch.

    `strict` is false for fieldValidation=Ignore: wrong types are then found only by the operation that needs them.
    """
    if document is None:
        return Patch(())
    if not isinstance(document, list):
        _refuse(document, "[]handlers.jsonPatchOp" if strict else "jsonpatch.Patch", strict)
    operations: list[PatchOperation] = []
    unknown: list[str] = []
    for position, entry in enumerate(document):
        if not isinstance(entry, dict):
            if entry is not None:
                _refuse(entry, "handlers.jsonPatchOp" if strict else "jsonpatch.Operation", strict)
            entry = {}
        if strict:
            _check_types(entry)
            names = [name for name in entry if name not in _MEMBERS]
            unknown.extend(f"json patch unknown field {go_quote(f'[{position}].{name}')}" for name in names)
        operations.append(
            PatchOperation(_text(entry, "op"), _text(entry, "path"), _text(entry, "from"), entry.get("value"))
        )
    if len(operations) > MAX_OPERATIONS:
        raise PatchTooLong(
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(operations)}"
        )
    return Patch(tuple(operations), tuple(unknown))


def apply_json_patch(document: Json, patch: Patch) -> Json:
    """The document after all operations, or PatchInapplicable from the first that fails."""
    state = Pointed(document)
    for operation in patch.operations:
        kind = "unknown" if operation.op is None else operation.op
        run = _RUN.get(kind)
        if run is None:
            raise PatchInapplicable(f"Unexpected kind: {kind}")
        run(state, operation)
    return state.root


def _refuse(value: Json, wanted: str, strict: bool) -> None:
    prefix = "error decoding patch: " if strict else ""
    raise PatchUndecodable(f"{prefix}json: cannot unmarshal {json_type(value)} into Go value of type {wanted}")


def _check_types(entry: dict[str, Json]) -> None:
    for name in _TEXT_MEMBERS:
        value = entry.get(name)
        if value is not None and not isinstance(value, str):
            raise PatchUndecodable(
                f"error decoding patch: json: cannot unmarshal {json_type(value)} into Go struct "
                f"field jsonPatchOp.{name} of type string"
            )


def _text(entry: dict[str, Json], name: str) -> str | None:
    value = entry.get(name)
    return value if isinstance(value, str) else None


def _required(found: _T | None, problem: str) -> _T:
    if found is None:
        raise PatchInapplicable(f"{problem}: missing value")
    return found


def _add(state: Pointed, operation: PatchOperation) -> None:
    path = _required(operation.path, "add operation failed to decode path")
    place = _required(state.find_own(path), f'add operation does not apply: doc is missing path: "{path}"')
    with _Prefix(f"error in add for path: '{path}'"):
        insert(*place, operation.value)


def _remove(state: Pointed, operation: PatchOperation) -> None:
    path = _required(operation.path, "remove operation failed to decode path")
    place = _required(state.find_own(path), f'remove operation does not apply: doc is missing path: "{path}"')
    with _Prefix(f"error in remove for path: '{path}'"):
        delete(*place)


def _replace(state: Pointed, operation: PatchOperation) -> None:
    path = _required(operation.path, "replace operation failed to decode path: operation missing path field")
    if path == "":
        if not isinstance(operation.value, (dict, list)):
            raise PatchInapplicable("replace operation value must be object or array: %!w(<nil>)")
        state.root = operation.value
        return
    container, name = _required(state.find_own(path), f"replace operation does not apply: doc is missing path: {path}")
    if type(container) is dict:
        container[name] = operation.value
        return
    try:
        container[index(name, len(container))] = operation.value
    except BadIndex:
        raise PatchInapplicable(
            f"replace operation does not apply: doc is missing key: {path}: missing value"
        ) from None


def _move(state: Pointed, operation: PatchOperation) -> None:
    source = _required(operation.source, "move operation failed to decode from: operation, missing from field")
    place = _required(state.find_own(source), f"move operation does not apply: doc is missing from path: {source}")
    with _Prefix(f"error in move for path: '{place[1]}'"):
        value = get(*place)
        delete(*place)
    path = _required(operation.path, "move operation failed to decode path: operation missing path field")
    place = _required(state.find_own(path), f"move operation does not apply: doc is missing destination path: {path}")
    with _Prefix(f"error in move for path: '{path}'"):
        insert(*place, value)


def _test(state: Pointed, operation: PatchOperation) -> None:
    path = _required(operation.path, "test operation failed to decode path: operation missing path field")
    if path == "":
        value = state.root
    else:
        place = _required(state.find(path), f"test operation does not apply: is missing path: {path}")
        with _Prefix(f"error in test for path: '{path}'"):
            value = get(*place)
    if not equal(value, operation.value):
        raise PatchInapplicable(f"testing value {path} failed: test failed")


def _copy(state: Pointed, operation: PatchOperation) -> None:
    source = _required(operation.source, "copy operation failed to decode from: operation, missing from field")
    place = _required(state.find(source), f"copy operation does not apply: doc is missing from path: {source}")
    with _Prefix(f"error in copy for from: '{source}'"):
        value = get(*place)
    path = _required(operation.path, "copy operation failed to decode path")
    target = _required(state.find_own(path), f"copy operation does not apply: doc is missing destination path: {path}")
    value, size = copy_value(value, MAX_COPIED_BYTES)
    state.copied_bytes += size
    if state.copied_bytes > MAX_COPIED_BYTES:
        raise PatchInapplicable(
            f"Unable to complete the copy, the accumulated size increase of copy is "
            f"{state.copied_bytes}, exceeding the limit {MAX_COPIED_BYTES}"
        )
    with _Prefix("error while adding value during copy"):
        insert(*target, value)


_RUN: dict[str, Callable[[Pointed, PatchOperation], None]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "test": _test,
    "copy": _copy,
}


class _Prefix:
    """Prefixes errors with the operation: `error in add for path: '/a/x': ...`."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, BadIndex):
            raise PatchInapplicable(f"{self.text}: {error}") from None
