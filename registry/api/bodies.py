"""Decodes the bytes of a body to an object of the kind in the path.

The order and the messages are kube-apiserver's: syntax and kind (400), duplicate and unknown fields (a warning, or 400
if strict), the API version (400). The strategy checks the contents of the object.

Follows apiextensions-apiserver pkg/apiserver/customresource_handler.go and apimachinery
pkg/apis/meta/v1/unstructured/helpers.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from registry.api.errors import StatusError, bad_request
from registry.api.options import WriteOptions
from registry.api.request import Body, ResourceRequest
from registry.api.served import Object, Served
from registry.api.strategies.base import ObjectDecodeError
from registry.codec.cbor import decode_cbor
from registry.codec.go_text import cannot_be_handled_as, go_json, go_quote, type_meta, type_meta_error
from registry.codec.json_decode import decode_json, decode_verbatim_json, floats, has_float
from registry.codec.model import Decoded, JsonNumberError
from registry.codec.model import DecodeError as SyntaxFault
from registry.codec.protobuf.envelope import MessageError, UnknownKind
from registry.codec.protobuf.envelope import decode_object as decode_protobuf
from registry.codec.structs.base import RepeatedField
from registry.codec.yaml_decode import decode_yaml
from registry.schema.field import MAX_TEXT
from registry.schema.objectmeta.rules import owner_reference_warnings
from registry.schema.values import with_sorted_keys

# How many bytes of a body an error shows (runtime/serializer/json).
_SHOWN_BYTES = 30


def decode_object(request: ResourceRequest, body: Body, options: WriteOptions) -> Object:
    """Returns the object of a create or an update, decoded by its kind; adds warnings to the request's context."""
    served = request.served
    number = ""
    try:
        decoded = _parse(request, body, options)
    except JsonNumberError as error:
        number, decoded = str(error), error.decoded
    obj = _recognize(request, decoded, body, options)
    unknown: list[str] = []
    if body.media_type == "json" and served.strategy.tells_repeated:
        obj = _decode_typed_json(served, obj, decoded, body.data, unknown, number)
    elif number:  # reported only if there is a kind
        raise cannot_be_handled(served, number, obj)
    else:
        # Upstream, YAML becomes JSON with sorted keys first: the first error depends on it, and the order of warnings.
        is_sorted = body.media_type == "yaml" and served.strategy.tells_repeated
        obj = decode_kind(served, with_sorted_keys(obj) if is_sorted else obj, unknown)
    note_fields(request, options, decoded, unknown, obj)
    request.context.warnings.extend(owner_reference_warnings(obj["metadata"]))
    if obj.get("apiVersion") != served.api_version:
        raise bad_request(
            f"the API version in the data ({obj.get('apiVersion') or ''}) does not match the expected "
            f"API version ({served.api_version})"
        )
    request.context.refer_to(obj["metadata"])
    return obj


def _decode_typed_json(
    served: Served, obj: Object, decoded: Decoded, data: bytes, unknown: list[str], number: str
) -> Object:
    """Decodes a kind with a Go struct. `number` is the error of a number beyond float64, or empty.

    Such a number is an error only in a field of any JSON: other fields refuse numbers themselves, or ignore them."""
    if decoded.duplicates or number or (served.strategy.has_quantities and has_float(obj)):
        exact = verbatim(obj, decoded, data)
        result = decode_kind(served, exact, unknown)
        if number and (exact is obj or any(map(math.isinf, floats(result)))):
            raise cannot_be_handled(served, number, obj)
        return result
    try:
        return decode_kind(served, obj, unknown)
    except StatusError:
        if has_float(obj):  # the error may quote a number, which it does as it was written
            decode_kind(served, verbatim(obj, decoded, data), [])
        raise


def decode_kind(served: Served, obj: Object, unknown: list[str]) -> Object:
    try:
        return served.strategy.decode(obj, unknown)
    except ObjectDecodeError as error:
        raise cannot_be_handled(served, str(error), obj) from error


def cannot_be_handled(served: Served, why: str, obj: Object, *, wanted: str = "") -> StatusError:
    """Returns the error for a body `obj`, which names its kind and version, and the `wanted` kind."""
    kind, api_version = obj.get("kind") or served.kind.name, obj.get("apiVersion") or ""
    return bad_request(cannot_be_handled_as(wanted or served.kind.name, kind, api_version, why))


def note_fields(
    request: ResourceRequest, options: WriteOptions, decoded: Decoded, unknown: list[str], obj: Object
) -> None:
    """Refuses duplicate and unknown fields, reports them as warnings, or ignores them, according to fieldValidation."""
    if not (decoded.duplicates or unknown) or options.field_validation == "Ignore":
        return
    custom = not request.served.definition.builtin
    if options.field_validation == "Strict":
        if not obj.get("apiVersion"):
            raise bad_request("Object 'apiVersion' is missing in 'object has no apiVersion field'")
        texts = field_faults(decoded.strict_errors(), unknown, custom=custom)
        raise cannot_be_handled(request.served, f"strict decoding error: {', '.join(texts)}", obj, wanted=obj["kind"])
    request.context.warnings.extend(field_faults(decoded.duplicates, unknown, custom=custom))


def verbatim(obj: Object, decoded: Decoded, data: bytes) -> Object:
    """Returns `obj` for a kind whose decoding reports repeated fields itself, in order with unknown ones, and reads
    numbers as they were written."""
    exact = decode_verbatim_json(data)
    if not isinstance(exact, dict):
        return obj
    decoded.duplicates = []
    for name in ("apiVersion", "kind"):  # filled in if the body omits them
        if name in obj:
            exact[name] = obj[name]
    return exact


def field_faults(duplicates: list[str], unknown: list[str], *, custom: bool = False) -> list[str]:
    """`duplicates` are complete texts (JSON and YAML word them differently), `unknown` are paths.

    `custom` says that these are of a custom resource, which upstream puts between quotes as they are."""

    def fault(path: str) -> str:
        quoted = f'"{path}"' if custom else go_quote(path)
        return f"{'duplicate' if isinstance(path, RepeatedField) else 'unknown'} field {quoted}"

    return [*dict.fromkeys(duplicates), *dict.fromkeys(map(fault, unknown))]


def _parse(request: ResourceRequest, body: Body, options: WriteOptions) -> Decoded:
    served = request.served
    try:
        return read_body(body, served.api_version, served.kind.name)
    except JsonNumberError:
        raise
    except MessageError as fault:
        obj = _recognize(request, Decoded(fault.types), body, options)
        raise cannot_be_handled(served, str(fault), obj) from fault
    except SyntaxFault as fault:
        why = f"couldn't get version/kind; json parse error: {fault}" if body.media_type == "json" else str(fault)
        raise unrecognized(served, why, body.data) from fault


def read_body(body: Body, api_version: str, kind: str) -> Decoded:
    """Decodes an object in any encoding. Raises DecodeError.

    The arguments are its type if protobuf has none. Another kind is refused by its name alone, so its contents are not
    decoded.
    """
    try:
        return body.read(decoder_of(body.media_type))
    except UnknownKind as unknown:
        if unknown.types.keys() >= {"apiVersion", "kind"}:
            return Decoded(unknown.types)
        return Decoded(decode_protobuf(body.data, api_version, kind))


def decoder_of(media_type: str) -> Callable[[bytes], Decoded]:
    if media_type == "protobuf":
        return lambda data: Decoded(decode_protobuf(data))
    if media_type.endswith("cbor"):
        return decode_cbor
    return decode_yaml if media_type.endswith("yaml") else decode_json


def unrecognized(served: Served, why: str, data: bytes) -> StatusError:
    """Returns `the object provided is unrecognized (must be of type W): R (P)`; P is the beginning of the body."""
    if not data:
        excerpt = "<empty>"
    else:
        cut = data[:_SHOWN_BYTES]
        excerpt = cut.decode(errors="replace") if data[:1] == b"{" else cut.hex()
        if len(data) > _SHOWN_BYTES:
            excerpt += " ..."
    return bad_request(f"the object provided is unrecognized (must be of type {served.kind.name}): {why} ({excerpt})")


def _recognize(request: ResourceRequest, decoded: Decoded, body: Body, options: WriteOptions) -> Object:
    served, value = request.served, decoded.value
    # Of several kinds each must be a text.
    is_repeated = decoded.duplicates and body.media_type == "json"
    if (why := type_meta_error(decode_verbatim_json(body.data) if is_repeated else value)) is not None:
        raise unrecognized(served, why, body.data)
    obj: Object = value or {}
    if served.strategy.completes_type:
        obj.update(type_meta(obj, is_sorted=body.media_type == "yaml"))
    if (obj.get("apiVersion") or "").count("/") == 1:
        obj["apiVersion"] = obj["apiVersion"].removeprefix("/")  # Go reads "/v1" as version v1 of the core group
    _check_version(served, obj, body.data)
    if served.strategy.completes_type:
        obj["kind"] = obj.get("kind") or served.kind.name
        obj["apiVersion"] = obj.get("apiVersion") or served.api_version
        if obj["apiVersion"] == f"{served.kind.group}/":
            obj["apiVersion"] = served.api_version
        if obj["apiVersion"].endswith("/"):
            raise cannot_be_handled(served, f"Object 'apiVersion' is missing in '{_json_text(obj, body)}'", obj)
        served.strategy.check_type(obj, lambda unknown: note_fields(request, options, decoded, unknown, obj))
    if not obj.get("kind"):
        raise _without_kind(served, value, body, options)
    return obj


def _without_kind(served: Served, value: Object | None, body: Body, options: WriteOptions) -> StatusError:
    """Returns the error for a missing kind, which upstream assumes unless it decodes strictly."""
    if options.field_validation != "Ignore":
        return unrecognized(served, f"Object 'Kind' is missing in '{body.data.decode(errors='replace')}'", body.data)
    text = _json_text(value, body)
    version = (value or {}).get("apiVersion") or served.api_version
    return cannot_be_handled(served, f"Object 'Kind' is missing in '{text}'", {"apiVersion": version})


def _json_text(obj: Object | None, body: Body) -> str:
    return go_json(obj, MAX_TEXT) if body.media_type == "yaml" else body.data.decode(errors="replace")


def _check_version(served: Served, obj: Object, data: bytes) -> None:
    if (obj.get("apiVersion") or "").count("/") > 1:
        raise unrecognized(served, f"unexpected GroupVersion string: {obj['apiVersion']}", data)
