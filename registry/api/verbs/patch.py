"""Patch: JSON patch, JSON merge patch, strategic merge patch (built-in kinds) and server-side apply.

A patch is parsed once, and applied to the stored object; if another write comes first, it is applied again.

Follows apiserver pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from registry.api.answers import ObjectAnswer
from registry.api.bodies import field_faults
from registry.api.errors import Qualified, StatusError, bad_request, invalid, plain_internal, unprocessable
from registry.api.metadata import agree_on_name, agree_on_namespace
from registry.api.options import WriteOptions, manager_of, write_options
from registry.api.request import Body, ResourceRequest
from registry.api.served import Object, Served
from registry.api.strategies.base import ObjectDecodeError
from registry.api.verbs.apply import apply
from registry.api.verbs.driver import run
from registry.api.verbs.update import UpdateOperation
from registry.apply.errors import ApplyError, PatchInapplicable, PatchTooLong, PatchUndecodable, StrategicPatchError
from registry.apply.patches import json_patch, strategic
from registry.apply.patches.merge_patch import INVALID_MERGE_PATCH, apply_merge_patch, decode_merge_patch
from registry.apply.validate import go_plain
from registry.codec.go_text import GoText, go_json, type_meta_error
from registry.codec.json_decode import decode_json, decode_verbatim_json, has_float
from registry.codec.json_scan import patch_syntax_error
from registry.codec.model import Decoded, JsonNumberError, JsonSyntaxError, NumberLiteral, Repeated
from registry.codec.model import DecodeError as CodecError
from registry.codec.sorting import sorted_by, sorted_keys
from registry.codec.structs.base import StructDecodeError
from registry.emulation import emulated
from registry.flowcontrol.evaluation import evaluate
from registry.schema.field import MAX_TEXT
from registry.schema.field import invalid as invalid_field
from registry.schema.values import deep_copy, with_sorted_keys

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCHES = ("application/apply-patch+yaml", "application/apply-patch+cbor")

# Maps the old object to the patched one.
Patcher = Callable[[Object], Any]
# Returns the error for a patched object, and why it is invalid.
Refuse = Callable[[Any, str], StatusError]


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
    """Parses the patch after the object has been loaded: a missing object is reported before an invalid patch."""

    def __init__(self, body: Body, options: WriteOptions) -> None:
        self._body = body
        self._options = options
        self._patcher: Patcher | None = None
        self._decoded: Decoded | None = None
        self.faults: list[str] = []
        self._strategic: Any = None
        # A JSON patch; errors quote its values in the order of their own keys.
        self._operations: json_patch.Patch | None = None

    def require_json(self) -> None:
        """Raises 400 if the patch is not JSON: 1.37 parses it for the audit log, before it loads the object."""
        try:
            self._decoded = self._body.read(decode_json)
        except JsonNumberError:
            pass  # well formed: the patched object reports the number
        except CodecError as error:
            raise bad_request("invalid JSON patch") from error

    def apply(self, request: ResourceRequest, old: Object) -> Object:
        """Returns the new object, decoded by its kind."""
        obj = self._decode(request, old, self.result(request.served.kind.name, old))
        agree_on_namespace(request, obj)
        agree_on_name(request, obj)
        return obj

    def result(self, kind: str, old: Object) -> Any:
        """Applies the patch to a document of a kind; sets `faults` to the errors in the form of the patch itself."""
        if self._patcher is None:
            self._patcher = self._read(kind)
        try:
            if self._operations is None:
                return self._patcher(old)
            # Decoding changes the result in place, and the patch may be applied again.
            return json_patch.apply_json_patch(old, self._operations.with_own_values())
        except PatchInapplicable as error:
            raise unprocessable(_REJECTED) from error
        except PatchUndecodable as error:  # a strategic merge patch that is not an object
            raise bad_request(str(error)) from error
        except StrategicPatchError as error:
            raise _strategic_failure(error) from error

    def _read(self, kind: str) -> Patcher:
        strict = self._options.field_validation != "Ignore"
        try:
            decoded = self._decoded or self._body.read(decode_json)
            self.faults = list(decoded.duplicates) if strict else []
            return self._patcher_of(kind, decoded, strict)
        except PatchUndecodable as error:
            raise bad_request(str(error)) from error
        except JsonSyntaxError as error:
            raise bad_request(self._syntax_error(str(error), strict)) from error
        except JsonNumberError as error:
            self._require_type(error.decoded.value, strict)
            text = str(error)
            if strict and self._body.media_type == JSON_PATCH:
                text = text.replace("Go value", "Go struct field jsonPatchOp.value")
            raise bad_request(self._prefixed(text, strict)) from error
        except PatchTooLong as error:
            raise StatusError(413, "RequestEntityTooLarge", str(error)) from error

    def _syntax_error(self, text: str, strict: bool) -> str:
        """Returns the error of a patch that is not JSON; of `text`, if encoding/json decodes it."""
        if not strict and self._body.media_type == JSON_PATCH:
            return text
        if not strict and self._body.media_type == MERGE_PATCH:
            return INVALID_MERGE_PATCH
        return self._prefixed(patch_syntax_error(self._body.data) or text, strict)

    def _prefixed(self, text: str, strict: bool) -> str:
        is_prefixed = strict and self._body.media_type != STRATEGIC_MERGE_PATCH
        return f"error decoding patch: {text}" if is_prefixed else text

    def _require_type(self, value: Any, strict: bool) -> None:
        """Raises 400 for a JSON patch of a wrong type: a number in it that is out of range comes after that."""
        try:
            if self._body.media_type == JSON_PATCH:
                json_patch.decode(value, strict=strict)
        except PatchUndecodable as error:
            raise bad_request(str(error)) from error

    def _patcher_of(self, kind: str, decoded: Decoded, strict: bool) -> Patcher:
        match self._body.media_type:
            case media if media == JSON_PATCH:
                operations = json_patch.decode(decoded.value, strict=strict)
                if strict:
                    duplicates = [f"json patch {fault}" for fault in self.faults]
                    self.faults = sorted_by([*duplicates, *operations.unknown_members], _operation_of)
                self._operations = operations
                return lambda old: json_patch.apply_json_patch(old, operations)
            case media if media == MERGE_PATCH:
                changes = decode_merge_patch(decoded.value, strict=strict)
                return lambda old: apply_merge_patch(old, changes)
            case _:
                changes = self._strategic = decoded.value
                if not has_float(changes):
                    return lambda old: strategic.apply_strategic(kind, old, changes)
                # As the key of a list's item, 80.0 is not 80.
                return lambda old: _with_replaced(
                    strategic.apply_strategic(kind, old, deep_copy(changes)), _as_whole_number
                )

    def _decode(self, request: ResourceRequest, old: Object, result: Any) -> Object:
        served, options = request.served, self._options
        refuse = partial(self.refused, old, served.strategy.in_struct_order)
        if self._strategic is None and (why := type_meta_error(result)):
            raise refuse(result, why)
        if result is None:
            raise refuse(result, "Object 'Kind' is missing in 'null'")
        if self._strategic is not None and not all(isinstance(result.get(name), str | None) for name in _TYPE):
            raise _bad_patch(go_plain(self._strategic), served.strategy.conversion_fault(result) or "")
        # Decoding prunes in place, and an error of strict validation shows the whole object. That of a custom resource
        # is made again from the old object: a copy would share nothing with that, and be validated as a whole.
        text = result
        if options.field_validation == "Strict" and served.definition.builtin:
            result = deep_copy(result)
        # Without a version, kube-apiserver decodes a built-in kind into its internal struct with other field names.
        is_internal = served.definition.builtin and self._strategic is None and not result.get("apiVersion")
        if served.definition.builtin:
            result = self._with_type(served, result, refuse)
        if (result.get("apiVersion") or "").count("/") > 1:
            raise refuse(result, f"unexpected GroupVersion string: {result['apiVersion']}")
        if not result.get("kind"):
            raise refuse(result, f"Object 'Kind' is missing in '{go_json(result, MAX_TEXT)}'")
        unknown = [*sorted_keys(result.keys() - _TYPE)] if is_internal else []
        try:
            result_of_kind = {name: result[name] for name in _TYPE} if is_internal else {**result}
            obj = served.strategy.decode(result_of_kind, unknown, old)
        except ObjectDecodeError as error:
            raise self._refusal(served, result, text, error, refuse) from error
        if self._strategic is None:
            unknown = in_document_order(unknown)
        faults = field_faults(self.faults, unknown, custom=not served.definition.builtin)
        self._report(request, faults, text, refuse)
        return obj

    def _refusal(
        self, served: Served, result: Object, text: Object, error: ObjectDecodeError, refuse: Refuse
    ) -> StatusError:
        if self._strategic is not None:
            return _bad_patch(go_plain(self._strategic), served.strategy.conversion_fault(result) or str(error))
        return refuse(text, self.first_fault(result, served.strategy.decode) or str(error))

    def _report(self, request: ResourceRequest, faults: Sequence[str], text: Object, refuse: Refuse) -> None:
        """Reports unknown and repeated fields, as the request's fieldValidation has it."""
        if faults and self._options.field_validation == "Strict":
            why = f"strict decoding error: {', '.join(faults)}"
            if self._strategic is not None:  # upstream, its result is never a text: the patch is shown
                raise _bad_patch(go_plain(self._strategic), why)
            raise refuse(text, why)
        if self._options.field_validation != "Ignore":
            request.context.warnings.extend(faults)

    def refused(
        self, old: Object, in_struct_order: Callable[[Object], Object | None], result: Any, why: str
    ) -> StatusError:
        """Returns the error for an invalid patched object: it names neither kind nor object, and shows all of it.

        Like upstream's text, it has sorted keys in the maps that the patch has changed; what it has not changed is in
        the order of the Go struct, the values of a JSON patch in their own, and numbers as the patch has them.
        """
        if self._strategic is not None:
            return _bad_patch(go_json(result, MAX_TEXT), why)
        assert self._patcher is not None
        ordered = in_struct_order(old)
        in_order = _containers(ordered)
        try:
            result = self._quoting_patcher()(old if ordered is None else ordered)
        except ApplyError:  # a test of a number
            result = self._patcher(old)
        if self._operations is not None:
            in_order |= _containers([operation.value for operation in self._operations.operations])
        return _bad_patch(go_json(_in_text_order(result, in_order), MAX_TEXT), why)

    def _quoting_patcher(self) -> Patcher:
        """Returns the patcher, with texts for numbers that are no int64."""
        assert self._patcher is not None
        value = decode_verbatim_json(self._body.data)
        if not has_float(value):
            return self._patcher
        return self._patcher_of("", Decoded(_with_replaced(value, _as_quoted_number)), strict=False)

    def first_fault(self, result: Any, decode: Callable[[Any, list[str]], object]) -> str:
        """Returns the error of decoding an invalid result that Go meets first.

        In its text the keys of the maps that it has merged are sorted; a JSON patch leaves its values as they are.
        """
        is_merge = self._body.media_type == MERGE_PATCH
        ordered = with_sorted_keys(result) if is_merge else {name: result[name] for name in sorted_keys(result)}
        try:
            decode(ordered, [])
        except (ObjectDecodeError, StructDecodeError) as error:
            return str(error)
        return ""

    def _with_type(self, served: Served, result: Object, refuse: Refuse) -> Object:
        """Completes the type of a patched object of a built-in kind.

        The decoder fills in what was removed, and refuses another type. The result of a strategic merge patch is not
        decoded, so its type does not matter.
        """
        typed = {} if self._strategic is not None else result
        completed = {
            **result,
            "kind": typed.get("kind") or served.kind.name,
            "apiVersion": typed.get("apiVersion") or served.api_version,
        }
        if self._strategic is None and (why := served.strategy.type_fault(completed)):
            raise refuse(result, why)
        return completed


_TYPE = frozenset({"apiVersion", "kind"})
_POSITION = re.compile(r'"\[(\d+)\]')
# A step of a path to an unknown field: the index of an item, or a name.
_STEP = re.compile(r"\[([0-9]{1,9})\]|([^.\[\]]+)")
_REJECTED = "the server rejected our request due to an error in our request"


def _with_replaced(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Replaces values by what `replace` returns for them, maps and lists before their members: in place, unless it
    returns copies."""
    root = [value]
    pending: list[Any] = [root]
    while pending:
        holder = pending.pop()
        for key, inner in holder.items() if isinstance(holder, dict) else enumerate(holder):
            holder[key] = new = replace(inner)  # a key that is there, so the iteration stays valid
            if isinstance(new, dict | list):
                pending.append(new)
    return root[0]


def _as_whole_number(value: Any) -> Any:
    """Returns whole floats as integers: 1.0 fits an integer, since what a patch has made is no longer JSON."""
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1 << 63
    return int(value) if is_whole else value


def _as_quoted_number(value: Any) -> Any:
    """Returns numbers that are no int64 as their texts."""
    if isinstance(value, NumberLiteral):
        return GoText(value.text)
    return dict(value) if isinstance(value, Repeated) else value


def _operation_of(fault: str) -> int:
    """Returns the position of the operation that a fault is about: 2 of `json patch unknown field "[2].a"`."""
    position = _POSITION.search(fault)
    return int(position[1]) if position else 0


def in_document_order(unknown: list[str]) -> list[str]:
    """Returns unknown fields as a decoder finds them in a patched object, which is a text with sorted keys."""
    return sorted_by(unknown, _position) if len(unknown) > 1 else unknown


def _position(path: str) -> tuple[tuple[int, str], ...]:
    """Returns the position of an unknown field (`spec.versions[10].huh`) in such a text."""
    return tuple((int(index), "") if index else (-1, name) for index, name in _STEP.findall(path))


def _containers(value: Any) -> set[int]:
    """Returns the ids of all maps and lists in a value."""
    ids: set[int] = set()
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict | list):
            ids.add(id(item))
            pending.extend(item.values() if isinstance(item, dict) else item)
    return ids


def _in_text_order(result: Any, in_order: set[int]) -> Any:
    """Returns a copy of a patched object in which containers whose ids are in `in_order` are texts of JSON. The root is
    none: it is always a map that was merged."""

    def arranged(value: Any) -> Any:
        if not isinstance(value, dict | list):
            return value
        is_text = id(value) in in_order and value is not result
        return GoText(go_json(value, MAX_TEXT, is_sorted=False)) if is_text else value.copy()

    return _with_replaced(result, arranged)


def _bad_patch(value: str, why: str) -> StatusError:
    return invalid(Qualified(""), "", [invalid_field("patch", value, why)])


def _strategic_failure(error: StrategicPatchError) -> StatusError:
    return bad_request(str(error)) if error.code == 400 else plain_internal(str(error))
