"""The message types of mutations: `Object{spec: Object.spec{size: 1}}`, `JSONPatch{op: 'add', path: '/a', value: 1}`.

An Object may have any fields; whether its parts are named after their paths is checked on conversion to JSON.

Follows apiserver pkg/cel/mutation/{typeresolver,dynamic/objects,jsonpatch}.go.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

from registry.admission.dynamic import plain
from registry.apply.validate import GoValue, go_plain, go_syntax
from registry.budget import spend
from registry.cel.checker.declarations import Function, Overload, declared_functions
from registry.cel.common import types
from registry.cel.common.maps import Map
from registry.cel.common.times import SECOND, Duration, Timestamp
from registry.cel.common.types import Type
from registry.cel.common.values import (
    MISSING,
    EvalError,
    MapValue,
    Opaque,
    Optional,
    TypeValue,
    Uint,
    Value,
    equal,
    register_type,
)
from registry.cel.ext.table import function
from registry.codec.go_text import go_quote, quote_rune
from registry.codec.json_size import VALUE_UNITS
from registry.schema.goduration import duration_text

OBJECT: Final = types.struct("Object", {})
JSON_PATCH: Final = types.struct(
    "JSONPatch", {"op": types.STRING, "path": types.STRING, "from": types.STRING, "value": types.DYN}
)
JSON_PATCHES: Final = types.list_of(JSON_PATCH)
_MONTHS: Final = "January February March April May June July August September October November December".split()
# The bytes of a value that an error shows.
_MAX_SHOWN: Final = 1000


class Made(MapValue):
    """A message value of one of these types."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str, fields: dict[str, Value]) -> None:
        self.name = name
        self.fields = fields

    def __len__(self) -> int:
        return len(self.fields)

    def find(self, key: Value) -> Value:
        return self.fields.get(key, MISSING)

    def all_keys(self) -> list[Value]:
        return list(self.fields)

    def equals(self, other: Value) -> bool:
        return (
            type(other) is Made
            and other.name == self.name
            and self.fields.keys() == other.fields.keys()
            and all(equal(value, other.fields[key]) for key, value in self.fields.items())
        )


register_type(Made, TypeValue("Object"))


class MutationMessages:
    """Implements Messages of registry/cel/checker/checker.py."""

    def type_of(self, name: str) -> Type | None:
        if name == "Object":
            return OBJECT
        if name == "JSONPatch":
            return JSON_PATCH
        return types.struct(name, {}) if name.startswith("Object.") else None

    def field(self, name: str, field: str) -> Type | None:
        if name != "JSONPatch":
            return types.DYN
        assert JSON_PATCH.fields is not None
        return JSON_PATCH.fields.get(field)

    def make(self, name: str, fields: dict[str, Any]) -> Made:
        return Made(name, fields)


MESSAGES: Final = MutationMessages()


def configuration(value: Value) -> dict[str, Any]:
    """The JSON of an `Object{...}`; raises EvalError where a part has the name of another path, and BudgetExceeded."""
    if type(value) is not Made or value.name != "Object":
        raise EvalError("unexpected evaluation result type, expected Object")
    plain = _unwrap(value, "Object")
    if type(plain) is not dict:
        raise EvalError("invalid return type: *dynamic.ObjectVal")
    return plain


def _unwrap(value: Value, path: str) -> Any:
    """The value as kube-apiserver converts one of an `Object{...}`: only lists and maps directly in its fields become
    JSON. What is no JSON then is a GoValue, which fits no type."""
    if type(value) is Optional:
        return _unwrap(value.get(), path) if value.present else None
    if type(value) is list:
        spend(VALUE_UNITS)
        return [_unwrap_part(item, path) for item in value]
    if isinstance(value, Map):
        spend(VALUE_UNITS)
        return {_key_of_field(key): _unwrap_part(value.find(key), path) for key in value.all_keys()}
    return _unwrap_part(value, path)


class _BadKey(Exception):
    """A map directly in a field has a key that is no string: the Object around it is an error then."""


def _key_of_field(key: Value) -> str:
    if type(key) is str:
        spend(len(key))
        return key
    if type(key) is bool:
        raise _BadKey(f"map key %!q(types.Bool={'true' if key else 'false'}) is of type types.Bool, not string")
    assert isinstance(key, int), "the other kinds of keys"
    character = chr(key) if 0 <= key <= sys.maxunicode else "\N{REPLACEMENT CHARACTER}"
    kind = "Uint" if isinstance(key, Uint) else "Int"
    raise _BadKey(f"map key {quote_rune(character)} is of type types.{kind}, not string")


def _unwrap_part(value: Value, path: str) -> Any:
    if type(value) is Made:
        if value.name != path:
            raise EvalError(
                f"type mismatch: unexpected type name {go_quote(value.name)}, expected {go_quote(path)}, which matches "
                "field name path from root Object type"
            )
        spend(VALUE_UNITS)
        fields = {}
        for name, part in value.fields.items():
            try:
                fields[name] = _unwrap(part, f"{path}.{name}")
            except _BadKey as error:
                text = f"fail to convert field {go_quote(name)}: {error}"
                return GoValue("*types.Err", text, f"&types.Err{{{text}}}")
        return fields
    if type(value) is Optional:
        return _unwrap_part(value.get(), path) if value.present else None
    if type(value) is TypeValue:
        return value.name
    if type(value) is int:
        spend(VALUE_UNITS)
        return value
    if isinstance(value, Opaque):
        return _go_opaque(value)
    json = plain(value)
    return _go_value(value, json) or json


def _go_value(value: Value, json: Any) -> GoValue | None:
    """The Go value that a part of an `Object{...}` becomes, if that is no JSON."""
    if value is None:
        return GoValue("structpb.NullValue", "NULL_VALUE", "0")
    if type(value) is bytes:
        some = value[:_MAX_SHOWN]
        syntax = ", ".join(f"0x{byte:x}" for byte in some)
        return GoValue("[]uint8", f"[{' '.join(map(str, some))}]", f"[]uint8{{{syntax}}}")
    if isinstance(value, Uint):
        return GoValue("uint64", str(int(value)), f"{value:#x}")
    if type(value) is list:
        return GoValue("[]ref.Val", go_plain(json), go_syntax(json).replace("interface {}", "ref.Val", 1))
    if isinstance(value, Map):
        syntax = go_syntax(json).replace("map[string]interface {}", "map[ref.Val]ref.Val", 1)
        return GoValue("map[ref.Val]ref.Val", go_plain(json), syntax)
    return None


def _go_opaque(value: Opaque) -> GoValue:
    """The Go value of a library type. The texts of quantities, and of pointers in `%#v`, are not upstream's."""
    spend(VALUE_UNITS)
    if type(value) is Timestamp:
        when = value.calendar("")
        numbers = f"{when.day}, {when.hour}, {when.minute}, {when.second}, {value.nanoseconds % SECOND}"
        syntax = f"time.Date({when.year}, time.{_MONTHS[when.month - 1]}, {numbers}, time.UTC)"
        return GoValue("time.Time", value.utc_text().replace("T", " ").replace("Z", " +0000 UTC"), syntax)
    if type(value) is Duration:
        return GoValue("time.Duration", duration_text(value.nanoseconds), str(value.nanoseconds))
    name = value.type.name.rpartition(".")[2]
    return GoValue(name, value.text() if value.has_text else name, f"{name}{{}}")


def plain_parts(value: Value) -> Any:
    """The JSON of a value that may contain `Object.a.b{...}` anywhere: the value of a JSON patch operation."""
    if type(value) is Made:
        if value.name == "JSONPatch":
            raise EvalError("cannot convert to native type: *structpb.Value")
        spend(VALUE_UNITS)
        return {name: plain_parts(part) for name, part in value.fields.items()}
    if type(value) is list:
        spend(VALUE_UNITS)
        return [plain_parts(item) for item in value]
    return plain(value)


def operations(values: list[Value]) -> list[dict[str, Any]]:
    """The JSON patch of a list of `JSONPatch{...}`. Raises EvalError and BudgetExceeded."""
    parts = []
    for value in values:
        if type(value) is not Made or value.name != "JSONPatch":
            raise EvalError("unexpected evaluation result type, expected JSONPatch")
        parts.append(_operation(value.fields))
    return parts


def _operation(fields: Mapping[str, Value]) -> dict[str, Any]:
    """An operation always has an op and a path, perhaps empty ones, and a `from` only if it is not empty."""
    operation: dict[str, Any] = {"op": fields.get("op", ""), "path": fields.get("path", "")}
    if fields.get("from"):
        operation["from"] = fields["from"]
    spend(VALUE_UNITS + sum(map(len, operation.values())))
    if "value" not in fields:
        return operation
    value = fields["value"]
    if type(value) is Made and value.name != "JSONPatch":
        _unwrap(value, value.name)  # checks the names of its parts
    try:
        operation["value"] = plain_parts(value)
    except EvalError as error:
        text = f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}"
        raise EvalError(text) from error
    return operation


@function("jsonpatch.escapeKey", 1, of=(str,))
def escape_key(value: str) -> str:
    return value.replace("~", "~0").replace("/", "~1")


_ESCAPE = Overload("string_jsonpatch_escapeKey_string", "jsonpatch.escapeKey", (types.STRING,), types.STRING, False, ())
_FOR_MUTATIONS: Final = {"jsonpatch.escapeKey": Function("jsonpatch.escapeKey", (_ESCAPE,), {(False, 1): (_ESCAPE,)})}


def mutation_functions() -> Mapping[str, Function]:
    """The functions of all expressions, and those that only mutations may call."""
    return {**declared_functions(), **_FOR_MUTATIONS}
