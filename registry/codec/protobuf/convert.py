"""Converts between messages and JSON.

    fill(message, {"data": {"a": "b"}})
    read(message)                        # {"data": {"a": "b"}}

A field that is not set is absent from the JSON, and null in the JSON sets no field. Omitting empty values as a Go type
does is left to the decoder of the JSON. Members without a field are ignored, and so are fields that messages.txt does
not have.

Some messages have another form in JSON: a time and a Quantity are strings, JSON is any value. `_FORMS` lists them.
Follows the marshalers of apimachinery pkg/apis/meta/v1/{time,micro_time}_proto.go, pkg/util/intstr and
apiextensions-apiserver pkg/apis/apiextensions/v1/marshal.go.
"""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from registry.codec.json_decode import decode_json
from registry.codec.json_encode import encode_json
from registry.codec.model import ProtoError
from registry.codec.protobuf.messages import INLINE, key_of, type_of

Json = Any


def fill(message: Message, value: Mapping[str, Json]) -> None:
    """Sets the fields of an empty message."""
    plan = _plan(message.DESCRIPTOR)
    for name, item in value.items():
        if item is not None and (setter := plan.setters.get(name)) is not None:
            setter(message, item)


def read(message: Message) -> dict[str, Json]:
    """The JSON of a message. Raises ProtoError for an invalid time or invalid JSON."""
    getters = _plan(message.DESCRIPTOR).getters
    value: dict[str, Json] = {}
    for field, content in message.ListFields():
        name, getter = getters[field.number]
        if name == INLINE:
            value |= getter(content)
        else:
            value[name] = getter(content)
    return value


_Setter = Callable[[Message, Json], None]
_Getter = Callable[[Any], Json]


class _Plan(NamedTuple):
    """The setter of each member by name, and the getter of each field by number."""

    setters: dict[str, _Setter]
    getters: dict[int, tuple[str, _Getter]]


@cache
def _plan(descriptor: Descriptor) -> _Plan:
    plan = _Plan({}, {})
    for field in descriptor.fields:
        if field.json_name == INLINE:
            for name, setter in _plan(type_of(field)).setters.items():
                plan.setters[name] = _inline(field.name, setter)
        else:
            plan.setters[field.json_name] = _setter(field)
        plan.getters[field.number] = (field.json_name, _getter(field))
    return plan


def _inline(attribute: str, setter: _Setter) -> _Setter:
    return lambda message, value: setter(getattr(message, attribute), value)


class _Form(NamedTuple):
    """The JSON form of a message: `fill` sets the fields of an empty message, `read` returns its value."""

    fill: Callable[[Message, Json], None]
    read: Callable[[Any], Json]


_OBJECT = _Form(fill, read)


def _form(field: FieldDescriptor) -> _Form:
    return _FORMS.get(key_of(type_of(field).full_name).rpartition("/")[2], _OBJECT)


def _is_message(field: FieldDescriptor) -> bool:
    return field.type == FieldDescriptor.TYPE_MESSAGE


def _map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """The field of a map's values; None if the field is not a map."""
    is_map = _is_message(field) and type_of(field).GetOptions().map_entry
    return type_of(field).fields_by_name["value"] if is_map else None


def _setter(field: FieldDescriptor) -> _Setter:
    attribute = field.name
    value = _map_value(field)
    if value is not None:
        return _map_setter(attribute, value)
    if _is_message(field):
        form = _form(field)
        if field.is_repeated:
            return lambda message, items: _add_each(getattr(message, attribute), form, items)
        return lambda message, item: _set_message(getattr(message, attribute), form, item)
    convert = _TO_SCALAR.get(field.type)
    if field.is_repeated:
        return lambda message, items: getattr(message, attribute).extend(map(convert, items) if convert else items)
    return lambda message, item: setattr(message, attribute, convert(item) if convert else item)


def _set_message(message: Message, form: _Form, value: Json) -> None:
    message.SetInParent()  # an empty message counts as set
    form.fill(message, value)


def _add_each(container: Any, form: _Form, items: list[Json]) -> None:
    for item in items:
        form.fill(container.add(), item)


def _map_setter(attribute: str, field: FieldDescriptor) -> _Setter:
    form = _form(field) if _is_message(field) else None
    convert = _TO_SCALAR.get(field.type)

    def set_map(message: Message, items: Mapping[str, Json]) -> None:
        entries = getattr(message, attribute)
        for key, item in items.items():
            if form is not None:
                form.fill(entries[key], item)
            else:
                entries[key] = convert(item) if convert else item

    return set_map


def _getter(field: FieldDescriptor) -> _Getter:
    value = _map_value(field)
    if value is not None:
        of_value = _value_getter(value)
        return lambda entries: {_text(key): of_value(item) for key, item in entries.items()}
    of_value = _value_getter(field)
    if field.is_repeated:
        return lambda items: [of_value(item) for item in items]
    return of_value


def _value_getter(field: FieldDescriptor) -> _Getter:
    return _form(field).read if _is_message(field) else _FROM_SCALAR.get(field.type, _same)


def _same(value: Any) -> Any:
    return value


# --- scalars


def _text(value: str | bytes) -> str:
    """Text that is not UTF-8 is passed as bytes."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _unicode(value: str) -> str:
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def _number(value: float) -> int | float:
    """Whole numbers have the same JSON form whatever their Go type."""
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value


_TO_SCALAR: Mapping[int, Callable[[Any], Any]] = {
    FieldDescriptor.TYPE_BYTES: lambda value: base64.b64decode(value),
    FieldDescriptor.TYPE_STRING: _unicode,
}
_FROM_SCALAR: Mapping[int, Callable[[Any], Any]] = {
    FieldDescriptor.TYPE_BYTES: lambda value: base64.b64encode(value).decode(),
    FieldDescriptor.TYPE_STRING: _text,
    FieldDescriptor.TYPE_DOUBLE: _number,
}


# --- messages with another JSON form; the numbers of their fields are those of messages.txt

_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
_fraction = re.compile(r"\.(\d{1,9})").search


def _fill_time(message: Any, text: str) -> None:
    """A Timestamp: whole seconds and nanoseconds. A missing time is an empty message."""
    moment = datetime.datetime.fromisoformat(text)
    message.f1 = (moment - _EPOCH) // datetime.timedelta(seconds=1)
    fraction = _fraction(text)
    message.f2 = int(fraction[1].ljust(9, "0")) if fraction else 0


def _read_time(message: Any) -> str | None:
    if not message.ListFields():
        return None
    try:
        moment = _EPOCH + datetime.timedelta(seconds=message.f1)
    except OverflowError as error:
        raise ProtoError("proto: time out of range") from error
    return moment.strftime("%Y-%m-%dT%H:%M:%S").zfill(19) + "Z"


def _read_micro_time(message: Any) -> str | None:
    text = _read_time(message)
    return f"{text[:-1]}.{message.f2 // 1000:06d}Z" if text else None


def _fill_raw(message: Any, value: Json) -> None:
    message.f1 = encode_json(value)


def _read_raw(message: Any) -> Json:
    return decode_json(message.f1).value if message.f1 else None


def _fill_int_or_string(message: Any, value: int | str) -> None:
    message.f1 = 1 if isinstance(value, str) else 0
    message.f2 = 0 if isinstance(value, str) else value
    message.f3 = value if isinstance(value, str) else ""


def _read_int_or_string(message: Any) -> int | str:
    return _text(message.f3) if message.f1 == 1 else int(message.f2)


def _fill_items(message: Any, values: list[str]) -> None:
    message.f1.extend(values)


def _read_items(message: Any) -> list[str]:
    return [_text(item) for item in message.f1]


def _fill_quantity(message: Any, text: str) -> None:
    message.f1 = text


def _read_quantity(message: Any) -> str:
    return _text(message.f1) or "0"


def _fill_schema_or_bool(message: Any, value: Json) -> None:
    message.f1 = value is not False
    if isinstance(value, Mapping):
        _set_message(message.f2, _OBJECT, value)


def _read_schema_or_bool(message: Any) -> Json:
    return read(message.f2) if message.HasField("f2") else message.f1


def _fill_schema_or_schemas(message: Any, value: Json) -> None:
    if isinstance(value, Mapping):
        _set_message(message.f1, _OBJECT, value)
    else:
        _add_each(message.f2, _OBJECT, value)


def _read_schema_or_schemas(message: Any) -> Json:
    if message.f2:
        return [read(schema) for schema in message.f2]
    return read(message.f1) if message.HasField("f1") else None


def _fill_schema_or_texts(message: Any, value: Json) -> None:
    if isinstance(value, Mapping):
        _set_message(message.f1, _OBJECT, value)
    else:
        message.f2.extend(value)


def _read_schema_or_texts(message: Any) -> Json:
    if message.f2:
        return [_text(item) for item in message.f2]
    return read(message.f1) if message.HasField("f1") else None


_RAW = _Form(_fill_raw, _read_raw)
_ITEMS = _Form(_fill_items, _read_items)
_FORMS: Mapping[str, _Form] = {
    "ExtraValue": _ITEMS,
    "FieldsV1": _RAW,
    "IntOrString": _Form(_fill_int_or_string, _read_int_or_string),
    "JSON": _RAW,
    "JSONSchemaPropsOrArray": _Form(_fill_schema_or_schemas, _read_schema_or_schemas),
    "JSONSchemaPropsOrBool": _Form(_fill_schema_or_bool, _read_schema_or_bool),
    "JSONSchemaPropsOrStringArray": _Form(_fill_schema_or_texts, _read_schema_or_texts),
    "MicroTime": _Form(_fill_time, _read_micro_time),
    "Quantity": _Form(_fill_quantity, _read_quantity),
    "RawExtension": _RAW,
    "Time": _Form(_fill_time, _read_time),
    "Verbs": _ITEMS,
}
