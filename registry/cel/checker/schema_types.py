"""CEL types of structural schemas, with the sizes that cost estimates need.

`declare(schema, resource_root=True)` maps `{"type": "object", "properties": {"replicas": {"type": "integer"}}}` to a
Declared whose type is an object with the field `replicas: int`, and with kind, apiVersion and metadata, which every
resource has. Nodes without a CEL type (untyped nodes, and lists and maps of them) give None and are omitted from their
parent. Preserved unknown fields are not accessible.

Follows apiserver pkg/cel/common/schemas.go and apiextensions-apiserver pkg/apiserver/schema/cel/model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from registry.cel.common import types
from registry.cel.common.escaping import escape
from registry.cel.common.types import Type
from registry.emulation import emulated
from registry.schema.model import UNSET, Structural

ROOT_NAME: Final = "selfType"
MAX_REQUEST_BYTES: Final = 3 * 1024 * 1024

_MAX_STRING: Final = MAX_REQUEST_BYTES - 2  # without its quotes
_MIN_STRING: Final = 2  # ""
_MIN_BOOL: Final = 4  # true
_MIN_NUMBER: Final = 1  # 0
_MIN_DURATION: Final = 3  # "0"
_MIN_DATE: Final = 12  # "2000-01-01"
_MIN_DATE_TIME: Final = 21
_MAX_TIME: Final = 32  # the longest duration or date-time with its quotes
_MIN_EMPTY: Final = 2  # {} or []


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """A schema with its CEL type.

    `name` is the name of its type if that is an object, and the prefix of the names below it: `selfType.spec`.
    `max_elements` is the maximum length of a string in bytes, or of a list or map; 0 for types without a length.
    `min_bytes` is the size of the smallest value in JSON. `fields` are by CEL name: `my__dash__prop`.
    """

    type: Type
    schema: Structural
    name: str
    max_elements: int = 0
    min_bytes: int = 0
    fields: Mapping[str, Declared] | None = None
    key: Declared | None = None
    element: Declared | None = None

    def property(self, name: str) -> Declared | None:
        """The declaration of a property by its JSON name; None if it is not accessible in CEL."""
        if self.fields is None:
            return None
        identifier = escape(name)
        return None if identifier is None else self.fields.get(identifier)


def declare(schema: Structural, resource_root: bool = False, name: str = ROOT_NAME) -> Declared | None:
    """The CEL type of `schema`; None if it has none. `name` is the name of the type if that is an object.

    `resource_root` means that the schema is that of a whole resource or of an embedded one.
    """
    if schema.int_or_string:
        longest = _MAX_STRING if schema.max_length is None else 4 * max(schema.max_length, 0)
        return Declared(types.DYN, schema, name, longest, _MIN_NUMBER)
    if resource_root:
        schema = with_object_meta(schema)
    match schema.type:
        case "array":
            return _list(schema, name)
        case "object":
            return _map(schema, name) if isinstance(schema.additional_properties, Structural) else _object(schema, name)
        case "string":
            return _string(schema, name)
        case "boolean":
            return Declared(types.BOOL, schema, name, min_bytes=_MIN_BOOL)
        case "number":
            return Declared(types.DOUBLE, schema, name, min_bytes=_MIN_NUMBER)
        case "integer":
            return Declared(types.INT, schema, name, min_bytes=_MIN_NUMBER)
        case _:
            return None


def with_object_meta(schema: Structural) -> Structural:
    """`schema` with kind, apiVersion, and metadata with name and generateName; unchanged if it has all of them."""
    properties = schema.properties
    metadata = properties.get("metadata")
    if (
        metadata is not None
        and metadata.type == "object"
        and all(_is_string(properties.get(name)) for name in ("kind", "apiVersion"))
        and all(_is_string(metadata.properties.get(name)) for name in ("name", "generateName"))
    ):
        return schema
    return replace(
        schema,
        items=None,
        properties={**properties, "kind": _ANY_STRING, "apiVersion": _ANY_STRING, "metadata": _object_meta(metadata)},
    )


_ANY_STRING: Final = Structural(type="string")
# The longest name, and the longest generateName that leaves room for a generated suffix.
_MAX_NAME: Final = 253
_MAX_GENERATE_NAME: Final = _MAX_NAME - 1


def _object_meta(schema: Structural | None) -> Structural:
    """The metadata visible to rules. From 1.37 on the lengths of names are bounded, which lowers the estimated cost."""
    if not emulated().is_1_37:
        return Structural(type="object", properties={"name": _ANY_STRING, "generateName": _ANY_STRING})
    of = schema.properties if schema is not None else {}
    bounds = {"name": _MAX_NAME, "generateName": _MAX_GENERATE_NAME}
    return Structural(
        type="object", properties={name: _capped(of.get(name), longest) for name, longest in bounds.items()}
    )


def _capped(schema: Structural | None, longest: int) -> Structural:
    """A string of at most `longest` characters, or of fewer where the schema says so."""
    if schema is not None and schema.max_length is not None:
        longest = min(longest, schema.max_length)
    return Structural(type="string", max_length=longest)


def _is_string(schema: Structural | None) -> bool:
    return schema is not None and schema.type == "string"


def _list(schema: Structural, name: str) -> Declared | None:
    if schema.items is None:
        return None
    element = declare(schema.items, schema.items.embedded_resource, f"{name}.@idx")
    if element is None:
        return None
    if schema.max_items is None:
        longest = (MAX_REQUEST_BYTES - 2) // (element.min_bytes + 1)
    else:
        longest = max(schema.max_items, 0)
    return Declared(types.list_of(element.type), schema, name, longest, _MIN_EMPTY, element=element)


def _map(schema: Structural, name: str) -> Declared | None:
    values = schema.additional_properties
    assert isinstance(values, Structural)
    element = declare(values, values.embedded_resource, f"{name}.@elem")
    if element is None:
        return None
    if schema.max_properties is None:
        # An entry is at least a key of two bytes, its quotes, colon and comma, and the value.
        largest = (MAX_REQUEST_BYTES - 2) // (element.min_bytes + 6)
    else:
        largest = max(schema.max_properties, 0)
    of = types.map_of(types.STRING, element.type)
    return Declared(of, schema, name, largest, _MIN_EMPTY, key=_KEY, element=element)


_KEY: Final = Declared(types.STRING, _ANY_STRING, "", min_bytes=_MIN_STRING)


def _object(schema: Structural, name: str) -> Declared:
    fields: dict[str, Declared] = {}
    smallest = _MIN_EMPTY
    required = frozenset(schema.required)
    for property_name, of in schema.properties.items():
        identifier = escape(property_name)
        declared = declare(of, of.embedded_resource, f"{name}.{identifier}")
        if declared is None:
            continue
        if identifier is not None:
            fields[identifier] = declared
        if property_name in required and of.default is UNSET:
            smallest += len(property_name.encode()) + declared.min_bytes + 4
    of_fields = types.struct(name, {identifier: field.type for identifier, field in fields.items()})
    return Declared(of_fields, schema, name, 0, smallest, fields)


def _string(schema: Structural, name: str) -> Declared:
    match schema.format:
        case "byte":
            longest = _MAX_STRING if schema.max_length is None else max(schema.max_length, 0)
            return Declared(types.BYTES, schema, name, longest, _MIN_STRING)
        case "duration":
            return Declared(types.DURATION, schema, name, _MAX_TIME, _MIN_DURATION)
        case "date":
            return Declared(types.TIMESTAMP, schema, name, _MIN_DATE, _MIN_DATE)
        case "date-time":
            return Declared(types.TIMESTAMP, schema, name, _MAX_TIME, _MIN_DATE_TIME)
    if schema.max_length is not None:
        longest = 4 * max(schema.max_length, 0)  # maxLength counts code points
    elif schema.enum:
        longest = max((len(value.encode()) for value in schema.enum if isinstance(value, str)), default=0)
    else:
        longest = _MAX_STRING
    return Declared(types.STRING, schema, name, longest, _MIN_STRING)
