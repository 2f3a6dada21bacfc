"""Patch: JSON patch, JSON merge patch, strategic merge patch (built-in kinds) and server-side apply.

A patch is read once and applied to the object as it is found; where another write is faster it is applied again.

Follows apiserver pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from registry.api.answers import ObjectAnswer
from registry.api.bodies import field_faults
from registry.api.errors import (
    Qualified,
    StatusError,
    bad_request,
    internal_error,
    invalid,
    plain_internal,
    unprocessable,
)
from registry.api.metadata import agree_on_name, agree_on_namespace
from registry.api.options import WriteOptions, manager_of, write_options
from registry.api.request import Body, ResourceRequest
from registry.api.served import Object, Served
from registry.api.strategies.base import ObjectDecodeError
from registry.api.verbs.apply import apply
from registry.api.verbs.driver import run
from registry.api.verbs.update import UpdateOperation
from registry.apply import json_patch, strategic
from registry.apply.errors import PatchInapplicable, PatchTooLong, PatchUndecodable, StrategicPatchError
from registry.apply.merge_patch import apply_merge_patch, decode_merge_patch
from registry.apply.validate import go_plain
from registry.codec.go_text import json_type
from registry.codec.json_decode import decode_json
from registry.codec.model import Decoded, JsonNumberError
from registry.codec.model import DecodeError as CodecError
from registry.emulation import emulated
from registry.flowcontrol.evaluation import evaluate
from registry.schema.field import MAX_TEXT, go_json
from registry.schema.field import invalid as invalid_field
from registry.schema.values import deep_copy

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCHES = ("application/apply-patch+yaml", "application/apply-patch+cbor")

# The old object in, the patched one out, and what was wrong with the patch's own form.
Patcher = Callable[[Object], Any]


async def patch(request: ResourceRequest, body: Body) -> ObjectAnswer:
    is_apply = body.media_type in APPLY_PATCHES
    options = write_options(request.query, "PatchOptions", is_apply=is_apply)
    if is_apply:
        return await apply(request, body, options)
    reader = PatchReader(body, options)
    if emulated().is_1_37:
        await evaluate(reader.require_json)
    manager = manager_of(options, request.context.user_agent)
    return await run(request, UpdateOperation(reader.apply, "patch", manager, options))


class PatchReader:
    """Reads the patch when the object has been found: a missing object is reported before a broken patch."""

    def __init__(self, body: Body, options: WriteOptions) -> None:
        self._body = body
        self._options = options
        self._patcher: Patcher | None = None
        self._decoded: Decoded | None = None
        self.faults: list[str] = []
        self._strategic: Any = None

    def require_json(self) -> None:
        """Raises 400 where the patch is no JSON: 1.37 reads it for the audit log, before it looks for the object."""
        try:
            self._decoded = self._body.read(decode_json)
        except JsonNumberError:
            pass  # well formed: what it is patched into finds the number
        except CodecError as error:
            raise bad_request("invalid JSON patch") from error

    def apply(self, request: ResourceRequest, old: Object) -> Object:
        """The new object, decoded by its kind."""
        obj = self._decode(request, self.result(request.served.kind.name, old))
        agree_on_namespace(request, obj)
        agree_on_name(request, obj)
        return obj

    def result(self, kind: str, old: Object) -> Any:
        """What the patch makes of a document of a kind, and in `faults` what is wrong with the patch's own form."""
        if self._patcher is None:
            self._patcher = self._read(kind)
        try:
            return self._patcher(old)
        except PatchInapplicable as error:
            raise unprocessable(_REJECTED) from error
        except PatchUndecodable as error:  # a strategic merge patch that is no object
            raise bad_request(str(error)) from error
        except StrategicPatchError as error:
            raise _strategic_failure(error) from error

    def _read(self, kind: str) -> Patcher:
        strict = self._options.field_validation != "Ignore"
        try:
            decoded = self._decoded or self._body.read(decode_json)
            self.faults = list(decoded.duplicates) if strict else []
            return self._patcher_of(kind, decoded, strict)
        except (CodecError, PatchUndecodable) as error:
            raise _undecodable(error) from error
        except PatchTooLong as error:
            raise StatusError(413, "RequestEntityTooLarge", str(error)) from error

    def _patcher_of(self, kind: str, decoded: Decoded, strict: bool) -> Patcher:
        match self._body.media_type:
            case media if media == JSON_PATCH:
                operations = json_patch.decode(decoded.value, strict=strict)
                if strict:
                    self.faults = [f"json patch {fault}" for fault in self.faults] + [*operations.unknown_members]
                return lambda old: json_patch.apply_json_patch(old, operations)
            case media if media == MERGE_PATCH:
                changes = decode_merge_patch(decoded.value, strict=strict)
                return lambda old: apply_merge_patch(old, changes)
            case _:
                self._strategic = decoded.value
                return lambda old: strategic.apply_strategic(kind, old, decoded.value)

    def _decode(self, request: ResourceRequest, result: Any) -> Object:
        served, options = request.served, self._options
        if not isinstance(result, dict):
            raise bad_result(
                result, f"json: cannot unmarshal {json_type(result)} into Go value of type map[string]interface {{}}"
            )
        for name in ("apiVersion", "kind"):
            if not isinstance(result.get(name), str | None):
                raise bad_result(
                    result,
                    "couldn't get version/kind; json parse error: json: cannot unmarshal "
                    f"{json_type(result[name])} into Go struct field .{name} of type string",
                )
        if served.definition.builtin:
            result = self._with_type(served, result)
        if not result.get("kind"):
            raise bad_result(result, f"Object 'Kind' is missing in '{go_json(result, MAX_TEXT)}'")
        if not result.get("apiVersion"):
            raise internal_error("Object 'apiVersion' is missing in 'object has no apiVersion field'")
        # Decoding prunes in place, and an error of strict validation shows the whole.
        text = deep_copy(result) if options.field_validation == "Strict" else result
        unknown: list[str] = []
        try:
            obj = served.strategy.decode({**result}, unknown)
        except ObjectDecodeError as error:
            raise bad_result(text, str(error)) from error
        if self._strategic is None and len(unknown) > 1:
            unknown.sort(key=_in_document_order)
        faults = field_faults(self.faults, unknown)
        if faults and options.field_validation == "Strict":
            why = f"strict decoding error: {', '.join(faults)}"
            if self._strategic is not None:  # whose result is never a text in the original: the patch is shown
                raise _bad_patch(go_plain(self._strategic), why)
            raise bad_result(text, why)
        if options.field_validation != "Ignore":
            request.context.warnings.extend(faults)
        return obj

    def _with_type(self, served: Served, result: Object) -> Object:
        """A patched object of a built-in kind. The decoder supplies a kind that was taken away, and refuses another;
        what a strategic merge patch makes is not decoded, so that its kind is of no consequence."""
        kind = served.kind.name
        if self._strategic is not None or not result.get("kind"):
            result = {**result, "kind": kind}
        if self._strategic is None and result.get("apiVersion") and (why := served.strategy.type_fault(result)):
            raise bad_result(result, why)
        return result


_REJECTED = "the server rejected our request due to an error in our request"


def _undecodable(error: Exception) -> StatusError:
    text = str(error)
    return bad_request(text if text.startswith(("error decoding", "Invalid JSON")) else f"error decoding patch: {text}")


def _in_document_order(path: str) -> tuple[tuple[int, str], ...]:
    """Where an unknown field (`spec.versions[10].huh`) stands in a text whose keys are sorted."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"[.\[\]]+", path))


def bad_result(result: Any, why: str) -> StatusError:
    """A patched object that is none: the error names neither kind nor object, and shows the whole of it."""
    return _bad_patch(go_json(result, MAX_TEXT), why)


def _bad_patch(shown: str, why: str) -> StatusError:
    return invalid(Qualified(""), "", [invalid_field("patch", shown, why)])


def _strategic_failure(error: StrategicPatchError) -> StatusError:
    return bad_request(str(error)) if error.code == 400 else plain_internal(str(error))
