"""CEL values of JSON without a schema: maps and lists whose elements are converted on access.

Follows cel-go common/types/{map,list}.go over what apimachinery's unstructured converter returns.
"""

from __future__ import annotations

import base64
import math
from typing import Any

from registry.budget import spend
from registry.cel.common.times import Duration, Timestamp
from registry.cel.common.values import (
    LIST,
    MAP,
    MISSING,
    EvalError,
    ListValue,
    MapValue,
    Optional,
    TypeValue,
    Value,
    are_plain,
    elements,
    equal,
    is_list,
    no_such_overload,
    register_type,
    type_of,
)
from registry.codec.json_size import VALUE_UNITS, charge_json

Json = Any

# The depth limit of decoded bodies (registry/codec) also holds for what expressions construct.
_MAX_DEPTH = 200
# Integers beyond this become strings in JSON, so that no decoder rounds them (cel-go common/types/int.go).
_MAX_EXACT = 2**53 - 1
_NO_NUMBER = "json: error calling MarshalJSON for type *structpb.Value: proto: google.protobuf.Value.number_value"
_GO_FLOATS = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}


class DynamicMap(MapValue):
    """A JSON object; keys are not escaped."""

    __slots__ = ("value",)

    def __init__(self, value: dict[str, Json]) -> None:
        self.value = value

    def __len__(self) -> int:
        return len(self.value)

    def find(self, key: Value) -> Value:
        if type(key) is not str or key not in self.value:
            return MISSING
        return to_value(self.value[key])

    def all_keys(self) -> list[Value]:
        return list(self.value)

    def equals(self, other: Value) -> bool:
        if not isinstance(other, MapValue) or len(self) != len(other):
            return False
        spend(2 * len(self.value))
        for key, value in self.value.items():
            theirs = other.find(key)
            if theirs is MISSING or not equal(to_value(value), theirs):
                return False
        return True


register_type(DynamicMap, MAP)


class DynamicList(ListValue):
    __slots__ = ("_elements", "value")

    def __init__(self, value: list[Json]) -> None:
        self.value = value
        self._elements: list[Value] | None = None

    def __len__(self) -> int:
        return len(self.value)

    def get(self, index: int) -> Value:
        return to_value(self.value[index])

    def elements(self) -> list[Value]:
        if self._elements is None:
            self._elements = list(map(to_value, self.value))
        return self._elements

    def equals(self, other: Value) -> bool:
        if not is_list(other) or len(self) != len(other):
            return False
        spend(len(self.value))
        others = other.value if type(other) is DynamicList else elements(other)
        if are_plain(self.value) and are_plain(others):
            return bool(self.value == others)
        return all(map(equal, self.elements(), elements(other)))

    def plus(self, other: Value) -> list[Value]:
        if not is_list(other):
            raise no_such_overload()
        others = elements(other)
        spend(len(self.value) + len(others))
        return self.elements() + others


register_type(DynamicList, LIST)


def to_value(value: Json) -> Value:
    """The CEL value of decoded JSON."""
    kind = type(value)
    if kind is dict:
        return DynamicMap(value)
    if kind is list:
        return DynamicList(value)
    return value


def plain(value: Value, depth: int = 0) -> Json:
    """The JSON of a CEL value, as cel-go converts it to structpb.Value; raises EvalError for values that have none.

    A value may contain another one many times, in few bytes; its JSON is charged as often. Raises BudgetExceeded.
    """
    kind = type(value)
    if kind is DynamicMap or kind is DynamicList:
        charge_json(value.value)
        return value.value
    spend(VALUE_UNITS)
    if kind is str:
        spend(len(value))
        return value
    if value is None or kind is bool:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise EvalError(f"{_NO_NUMBER}: invalid {_GO_FLOATS.get(str(value), value)} value")
        return value
    if isinstance(value, int):  # includes Uint
        return int(value) if abs(value) <= _MAX_EXACT else str(int(value))
    if depth > _MAX_DEPTH:
        raise EvalError("the value is nested too deeply")
    if is_list(value):
        return [plain(item, depth + 1) for item in elements(value)]
    if isinstance(value, MapValue):
        return {key_text(key): plain(value.find(key), depth + 1) for key in value.all_keys()}
    if kind is bytes:
        spend(len(value))
        return base64.b64encode(value).decode()
    if kind is Timestamp or kind is Duration:
        return value.text()
    if kind is Optional:
        return plain(value.get(), depth + 1)
    if kind is TypeValue:
        raise EvalError("type conversion not supported for 'type'")
    raise EvalError(f"type conversion error from '{type_of(value).name.rpartition('.')[2]}' to '*structpb.Value'")


def key_text(key: Value) -> str:
    if type(key) is bool:
        raise EvalError("type conversion error from bool to 'string'")
    if type(key) is not str:
        raise EvalError(f"unsupported type conversion from '{type_of(key).name}' to string")
    spend(len(key))
    return key
