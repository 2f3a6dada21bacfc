"""The little protobuf that clients cannot do without: DeleteOptions in, metadata and Status out.

The metadata client of client-go asks for PartialObjectMetadata in protobuf and sends its DeleteOptions so. All else is
JSON. A message is an Unknown behind four magic bytes: `k8s\\0`, then apiVersion and kind, then the message's own bytes.

    decode_delete_options(data)     # {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}
    encode_proto(obj)               # of a Status, PartialObjectMetadata or PartialObjectMetadataList

Follows apimachinery pkg/runtime/serializer/protobuf/protobuf.go and the generated.proto of pkg/runtime and
pkg/apis/meta/v1.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Mapping
from typing import Any, NamedTuple

from registry.codec.json_decode import decode_json
from registry.codec.json_encode import encode_json
from registry.codec.model import ProtoError
from registry.codec.wire import encode_delimited, fields, tag, varint

Json = Any
_MAGIC = b"k8s\x00"


def decode_delete_options(data: bytes) -> dict[str, Json]:
    """The options with their kind and apiVersion as sent. Raises ProtoError."""
    types, raw = _decode_envelope(data)
    return types | _decode(_DELETE_OPTIONS, raw)


def decode_kind(data: bytes, kinds: Mapping[str, tuple[Field, ...]]) -> dict[str, Json]:
    """A whole object in its envelope, as the JSON that it stands for. ProtoError also for a kind not in `kinds`."""
    types, raw = _decode_envelope(data)
    version, kind = types.get("apiVersion") or "", types.get("kind") or ""
    message = kinds.get(f"{version} {kind}") or kinds.get(kind)
    if message is None:
        raise ProtoError(f'no kind "{kind}" is registered for version "{version}"')
    return types | _decode(message, raw)


def _decode_envelope(data: bytes) -> tuple[dict[str, Json], bytes]:
    """apiVersion and kind of an Unknown, and the bytes of the message in it."""
    if not data.startswith(_MAGIC):
        raise ProtoError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    types: dict[str, Json] = {}
    raw = b""
    for number, value in fields(data[len(_MAGIC) :]):
        if number == 1:
            types |= _decode(_TYPE_META, _bytes(value))
        elif number == 2:
            raw = _bytes(value)
    return types, raw


def encode_proto(obj: Mapping[str, Json]) -> bytes:
    """The envelope and message of a Status, PartialObjectMetadata or PartialObjectMetadataList."""
    message = _encode(_MESSAGES[obj["kind"]], obj)
    return _MAGIC + encode_delimited(1, _encode(_TYPE_META, obj)) + encode_delimited(2, message)


def encode_list_item(obj: Mapping[str, Json]) -> bytes:
    """A PartialObjectMetadata as it stands in its list."""
    return encode_delimited(2, _encode(_PARTIALOBJECT_METADATA, obj))


def encode_list_beginning(obj: Mapping[str, Json], items_bytes: int) -> bytes:
    """The PartialObjectMetadataList `obj` up to its items, which follow with `items_bytes` together."""
    beginning = _encode(_MESSAGES[obj["kind"]], {**obj, "items": None})
    length = varint(len(beginning) + items_bytes)
    return _MAGIC + encode_delimited(1, _encode(_TYPE_META, obj)) + tag(2, 2) + length + beginning


def encode_watch_event(type_: str, obj: Mapping[str, Json]) -> bytes:
    """One frame of a watch: four bytes of length, then the event, whose object has an envelope of its own."""
    event = encode_delimited(1, type_.encode()) + encode_delimited(2, encode_delimited(1, encode_proto(obj)))
    return len(event).to_bytes(4, "big") + event


# --- the messages


class Field(NamedTuple):
    """`type` is string, integer, boolean, time, microtime, bytes, quantity, intorstring, json, or a message's fields;
    `strings`, `bytesmap` and `quantities` are maps from texts. Bytes are base64 in JSON, as Go writes them.
    """

    number: int
    name: str
    type: str | tuple[Field, ...] = "string"
    repeated: bool = False


_TYPE_META = (Field(1, "apiVersion"), Field(2, "kind"))
_PRECONDITIONS = (Field(1, "uid"), Field(2, "resourceVersion"))
_DELETE_OPTIONS = (
    Field(1, "gracePeriodSeconds", "integer"),
    Field(2, "preconditions", _PRECONDITIONS),
    Field(3, "orphanDependents", "boolean"),
    Field(4, "propagationPolicy"),
    Field(5, "dryRun", repeated=True),
    Field(6, "ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
)
_LIST_META = (
    Field(1, "selfLink"),
    Field(2, "resourceVersion"),
    Field(3, "continue"),
    Field(4, "remainingItemCount", "integer"),
)
_OWNER_REFERENCE = (
    Field(1, "kind"),
    Field(3, "name"),
    Field(4, "uid"),
    Field(5, "apiVersion"),
    Field(6, "controller", "boolean"),
    Field(7, "blockOwnerDeletion", "boolean"),
)
_MANAGED_FIELDS = (
    Field(1, "manager"),
    Field(2, "operation"),
    Field(3, "apiVersion"),
    Field(4, "time", "time"),
    Field(6, "fieldsType"),
    Field(7, "fieldsV1", "json"),
    Field(8, "subresource"),
)
OBJECT_META = (
    Field(1, "name"),
    Field(2, "generateName"),
    Field(3, "namespace"),
    Field(4, "selfLink"),
    Field(5, "uid"),
    Field(6, "resourceVersion"),
    Field(7, "generation", "integer"),
    Field(8, "creationTimestamp", "time"),
    Field(9, "deletionTimestamp", "time"),
    Field(10, "deletionGracePeriodSeconds", "integer"),
    Field(11, "labels", "strings"),
    Field(12, "annotations", "strings"),
    Field(13, "ownerReferences", _OWNER_REFERENCE, repeated=True),
    Field(14, "finalizers", repeated=True),
    Field(17, "managedFields", _MANAGED_FIELDS, repeated=True),
)
_PARTIALOBJECT_METADATA = (Field(1, "metadata", OBJECT_META),)
_STATUS_CAUSE = (Field(1, "reason"), Field(2, "message"), Field(3, "field"))
_STATUS_DETAILS = (
    Field(1, "name"),
    Field(2, "group"),
    Field(3, "kind"),
    Field(4, "causes", _STATUS_CAUSE, repeated=True),
    Field(5, "retryAfterSeconds", "integer"),
    Field(6, "uid"),
)
_MESSAGES = {
    "Status": (
        Field(1, "metadata", _LIST_META),
        Field(2, "status"),
        Field(3, "message"),
        Field(4, "reason"),
        Field(5, "details", _STATUS_DETAILS),
        Field(6, "code", "integer"),
    ),
    "PartialObjectMetadata": _PARTIALOBJECT_METADATA,
    "PartialObjectMetadataList": (
        Field(1, "metadata", _LIST_META),
        Field(2, "items", _PARTIALOBJECT_METADATA, repeated=True),
    ),
}


# --- encoding


def _encode(message: tuple[Field, ...], obj: Mapping[str, Json]) -> bytes:
    pieces: list[bytes] = []
    for field in message:
        value = obj.get(field.name)
        if value is None:
            continue
        for item in value if field.repeated else (value,):
            pieces.append(_encode_field(field, item))
    return b"".join(pieces)


def _encode_field(field: Field, value: Json) -> bytes:
    match field.type:
        case "integer" | "boolean":
            return tag(field.number, 0) + varint(int(value))
        case "string":
            return encode_delimited(field.number, value.encode())
        case "time":
            return encode_delimited(field.number, _encode_time(value))
        case "json":
            return encode_delimited(field.number, encode_delimited(1, encode_json(value)))
        case "strings":
            return b"".join(
                encode_delimited(field.number, encode_delimited(1, key.encode()) + encode_delimited(2, text.encode()))
                for key, text in value.items()
            )
    assert isinstance(field.type, tuple)
    return encode_delimited(field.number, _encode(field.type, value))


def _encode_time(text: str) -> bytes:
    """A Timestamp; metadata has whole seconds."""
    moment = datetime.datetime.fromisoformat(text)
    return tag(1, 0) + varint(int(moment.timestamp()))


# --- decoding


def _decode(message: tuple[Field, ...], data: bytes) -> dict[str, Json]:
    by_number = {field.number: field for field in message}
    obj: dict[str, Json] = {}
    for number, value in fields(data):
        field = by_number.get(number)
        if field is None:
            continue
        decoded = _decode_value(field, value)
        if field.type in _MAPS:
            obj.setdefault(field.name, {}).update(decoded)
        elif field.repeated:
            obj.setdefault(field.name, []).append(decoded)
        else:
            obj[field.name] = decoded
    return obj


def _decode_value(field: Field, value: int | bytes) -> Json:
    if field.type in ("integer", "boolean"):
        if not isinstance(value, int):
            raise ProtoError(f"proto: wrong wireType for field {field.name}")
        if field.type == "boolean":
            return value != 0
        return _signed(value)
    data = _bytes(value)
    if isinstance(field.type, tuple):
        return _decode(field.type, data)
    if field.type in _MAPS:
        return dict([_decode_entry(data, _MAPS[field.type])])
    return _decode_scalar(data, field.type)


# What the values of a map are.
_MAPS = {"strings": "string", "bytesmap": "bytes", "quantities": "quantity"}


def _decode_entry(data: bytes, type_: str) -> tuple[str, Json]:
    key, item = "", _decode_scalar(b"", type_)
    for number, value in fields(data):
        if number == 1:
            key = _bytes(value).decode("utf-8", "replace")
        elif number == 2:
            item = _decode_scalar(_bytes(value), type_)
    return key, item


def _decode_scalar(data: bytes, type_: str) -> Json:
    match type_:
        case "bytes":
            return base64.b64encode(data).decode()
        case "quantity":
            return next((_bytes(v).decode("utf-8", "replace") for n, v in fields(data) if n == 1), "0")
        case "intorstring":
            return _decode_int_or_string(data)
        case "time" | "microtime":
            return _decode_time(data, micro=type_ == "microtime")
        case "json":
            raw = next((_bytes(v) for n, v in fields(data) if n == 1), b"{}")
            return decode_json(raw).value
    return data.decode("utf-8", "replace")


def _decode_int_or_string(data: bytes) -> int | str:
    """An IntOrString: which of the two it is, and both."""
    is_text, number, text = False, 0, ""
    for field, value in fields(data):
        if field == 1:
            is_text = value == 1
        elif field == 2 and isinstance(value, int):
            number = _signed(value)
        elif field == 3:
            text = _bytes(value).decode("utf-8", "replace")
    return text if is_text else number


def _decode_time(data: bytes, *, micro: bool) -> str | None:
    """A Timestamp as text; the empty one is no time at all."""
    seconds = nanos = 0
    for number, value in fields(data):
        if not isinstance(value, int):
            raise ProtoError("proto: wrong wireType for field seconds")
        if number == 1:
            seconds = _signed(value)
        elif number == 2:
            nanos = value
    if not data:
        return None
    try:
        moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise ProtoError("proto: time out of range") from error
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{nanos // 1000:06d}Z" if micro else f"{text}Z"


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ProtoError("proto: wrong wireType")
    return value
