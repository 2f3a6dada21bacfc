"""Builds the views through which CEL reads the values of an object.

A View is built once from a Structural. It determines the CEL value of decoded JSON: scalars are used unchanged (after a
check of their type) or parsed by their format, lists become SchemaList, objects and maps SchemaMap, both thin wrappers
that convert an element when it is accessed. The compiler uses views to access decoded values directly and creates
wrappers only for the result of a chain of fields.

Follows apiserver pkg/cel/common/{valuesunstructured,valuesreflect,schemas}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry.budget import spend
from registry.cel.common.escaping import escape
from registry.cel.common.times import Duration, parse_date, parse_format_date_time, parse_format_duration
from registry.cel.common.values import EvalError, Value
from registry.cel.interpreter.schema_values import Preserved, SchemaList, SchemaMap
from registry.cel.interpreter.view import View
from registry.codec import go_base64
from registry.codec.go_text import go_type
from registry.schema.model import Structural

Json = Any

# --- building views


def view_of(schema: Structural, *, resource: bool = False) -> View:
    """The view of a schema; with `resource`, that of the root of a resource with apiVersion, kind and metadata."""
    view = View(_kind(schema), schema.nullable)
    if schema.int_or_string:
        view.convert = _nullable(schema, _int_or_string)
    elif view.kind in ("object", "map"):
        _describe_map(view, schema, resource or schema.embedded_resource)
    elif view.kind == "list":
        _describe_list(view, schema)
    else:
        _describe_scalar(view, schema)
    return view


def _kind(schema: Structural) -> str:
    if schema.int_or_string:
        return "scalar"
    if schema.type == "object":
        has_values = isinstance(schema.additional_properties, Structural)
        return "map" if has_values and not schema.properties and not schema.embedded_resource else "object"
    return "list" if schema.type == "array" and schema.items is not None else "scalar"


def _describe_map(view: View, schema: Structural, resource: bool) -> None:
    if view.kind == "map" and not resource:
        assert isinstance(schema.additional_properties, Structural)
        view.element = view_of(schema.additional_properties)
    else:
        view.kind = "object"
        children = {name: view_of(child) for name, child in schema.properties.items()}
        if resource:
            children |= _METADATA
        view.properties = children
        view.fields = {
            identifier: (name, child) for name, child in children.items() if (identifier := escape(name)) is not None
        }

    def convert(value: Json) -> Value:
        if type(value) is dict:
            return SchemaMap(value, view)
        raise EvalError("invalid data, expected a map for the provided schema with type=object")

    view.convert = _nullable(schema, convert)


def _describe_list(view: View, schema: Structural) -> None:
    assert schema.items is not None
    view.element = view_of(schema.items)
    view.list_type = schema.list_type or "atomic"
    view.keys = tuple(escape(key) or key for key in schema.list_map_keys)

    def convert(value: Json) -> Value:
        if type(value) is list:
            return SchemaList(value, view)
        raise EvalError("invalid data, expected an array for the provided schema with type=array")

    view.convert = _nullable(schema, convert)


def _describe_scalar(view: View, schema: Structural) -> None:
    if schema.type == "string":
        convert = _FORMATS.get(schema.format)
        if convert is None:
            view.plain, convert = str, _string
        else:
            convert = _format_view(convert)
    elif schema.type in _SCALARS:
        view.plain, convert = _SCALARS[schema.type]
    elif schema.preserve_unknown_fields:
        convert = Preserved
    else:
        convert = _unknown(schema.type)
    view.convert = _nullable(schema, convert)


def _nullable(schema: Structural, convert: Callable[[Json], Value]) -> Callable[[Json], Value]:
    if schema.nullable:
        return lambda value: None if value is None else convert(value)

    def strict(value: Json) -> Value:
        if value is None:
            raise EvalError("invalid data, got null for schema with nullable=false")
        return convert(value)

    return strict


# --- scalars


def _type_error(expected: str, value: Json) -> EvalError:
    return EvalError(f"invalid data, expected {expected}, got {go_type(value)}")


def _of_type(type_: type, name: str) -> Callable[[Json], Value]:
    def convert(value: Json) -> Value:
        if type(value) is type_:
            return value
        raise _type_error(name, value)

    return convert


_string: Final = _of_type(str, "string")


def _number(value: Json) -> Value:
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    raise _type_error("float", value)


def _int_or_string(value: Json) -> Value:
    if type(value) is str or type(value) is int:
        return value
    raise EvalError("invalid data, expected XIntOrString value to be either a string or integer")


_SCALARS: Final[Mapping[str, tuple[type, Callable[[Json], Value]]]] = {
    "integer": (int, _of_type(int, "int")),
    "number": (float, _number),
    "boolean": (bool, _of_type(bool, "bool")),
}


def _unknown(type_: str) -> Callable[[Json], Value]:
    def convert(value: Json) -> Value:
        if type_ == "array":
            raise EvalError("invalid array type, expected Items with a non-empty Schema")
        raise EvalError(
            "invalid type, expected object, array, number, integer, boolean or string, or no type with "
            f"x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {type_}"
        )

    return convert


def _format_view(read: Callable[[str], Value]) -> Callable[[Json], Value]:
    def convert(value: Json) -> Value:
        if type(value) is not str:
            raise _type_error("string", value)
        if len(value) > _SHORT:
            spend(len(value))  # parsed again each time the field is read
        return read(value)

    return convert


_SHORT: Final = 200


def _duration(text: str) -> Value:
    nanoseconds = parse_format_duration(text)
    if nanoseconds is None:
        raise EvalError(f"Invalid duration {text}: unable to parse {text} as duration")
    return Duration(nanoseconds)


def _date(text: str) -> Value:
    day = parse_date(text)
    if day is None:
        raise EvalError(f'Invalid date formatted string {text}: parsing time "{text}" as "2006-01-02"')
    return day


def _bytes(text: str) -> Value:
    """Decodes base64 in the URL-safe alphabet, as Kubernetes does here: + and / are rejected."""
    try:
        return go_base64.decode(text, url=True)
    except go_base64.Base64Error as error:
        raise EvalError(f"Invalid byte formatted string {text}: {error}") from None


_FORMATS: Final[Mapping[str, Callable[[str], Value]]] = {
    "duration": _duration,
    "date": _date,
    "date-time": parse_format_date_time,
    "byte": _bytes,
}


# --- resources


def _metadata() -> Mapping[str, View]:
    text = Structural(type="string")
    return {
        "apiVersion": view_of(text),
        "kind": view_of(text),
        "metadata": view_of(Structural(type="object", properties={"name": text, "generateName": text})),
    }


_METADATA: Final[Mapping[str, View]] = _metadata()
