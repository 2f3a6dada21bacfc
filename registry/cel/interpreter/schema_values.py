"""Values of an object as CEL values: lists, objects and maps accessed through a View, and untyped values.

All are thin wrappers of decoded JSON that convert an element when it is accessed. Lists of type set and map have their
own equality and addition.

Follows apiserver pkg/cel/common/{valuesunstructured,valuesreflect}.go.
"""

from __future__ import annotations

from typing import Any

from registry.budget import spend
from registry.cel.common.escaping import escape, unescape
from registry.cel.common.values import (
    LIST,
    MAP,
    MISSING,
    EvalError,
    ListValue,
    MapValue,
    Opaque,
    TypeValue,
    Value,
    elements,
    equal,
    is_list,
    no_such_overload,
    register_type,
)
from registry.cel.interpreter.view import View
from registry.schema.values import same

Json = Any


class Preserved(Opaque):
    """A preserved value without a type in the schema. CEL can only compare it."""

    __slots__ = ("value",)

    type = TypeValue("unknown")
    has_text = False

    def __init__(self, value: Json) -> None:
        self.value = value

    def equals(self, other: Value) -> bool:
        return type(other) is Preserved and _same(self.value, other.value)


def _same(left: Json, right: Json) -> bool:
    """Equality of untyped values. Its cost in CEL is 1, so the size is charged to the budget before comparing."""
    if left is right:
        return True
    spend(_size(left))
    return same(left, right)


def _size(value: Json) -> int:
    """The number of values in a JSON value."""
    count, open_values = 0, [value]
    while open_values:
        inner = open_values.pop()
        if inner.__class__ is dict or inner.__class__ is list:
            count += len(inner)
            open_values.extend(inner.values() if inner.__class__ is dict else inner)
    return count + 1


# --- objects and maps


class SchemaMap(MapValue):
    """An object or a map. The keys of an object are the identifiers of its properties."""

    __slots__ = ("value", "view")

    def __init__(self, value: dict[str, Json], view: View) -> None:
        self.value = value
        self.view = view

    def __len__(self) -> int:
        return len(self.value)

    def find(self, key: Value) -> Value:
        if type(key) is not str:
            raise no_such_overload()
        view = self.view
        if view.element is not None:
            return view.element.convert(self.value[key]) if key in self.value else MISSING
        field = view.fields.get(key)
        if field is None:
            return self._find_unescaped(key)
        value = self.value.get(field[0])
        return MISSING if value is None else field[1].convert(value)

    def _find_unescaped(self, key: str) -> Value:
        name = unescape(key)
        child = self.view.properties.get(name) if name is not None else None
        value = self.value.get(name) if name is not None else None
        return MISSING if child is None or value is None else child.convert(value)

    def all_keys(self) -> list[Value]:
        if self.view.element is not None:
            return list(self.value)
        properties = self.view.properties
        return [escape(name) or name for name in self.value if name in properties]

    def equals(self, other: Value) -> bool:
        if not isinstance(other, MapValue):
            raise no_such_overload()
        if len(self.value) != len(other):
            return False
        spend(len(self.value))
        for name, value in self.value.items():
            if self.view.element is not None or name in self.view.properties:
                mine, theirs = self.find(name), other.find(name)
                if (mine is MISSING) != (theirs is MISSING):
                    return False
                if mine is not MISSING and not equal(mine, theirs):
                    return False
            elif not isinstance(other, SchemaMap):
                raise no_such_overload()
            elif name in other.value and not _same(value, other.value[name]):
                return False
        return True


register_type(SchemaMap, MAP)


# --- lists


class SchemaList(ListValue):
    """A list of an object; lists of type set and map have their own equality and addition.

    `raw` is None for the result of `+` on such a list, which has the list type of the left operand.
    """

    __slots__ = ("_elements", "raw", "view")

    def __init__(self, raw: list[Json] | None, view: View, made: list[Value] | None = None) -> None:
        self.raw = raw
        self.view = view
        self._elements = made

    def __len__(self) -> int:
        return len(self._elements if self.raw is None else self.raw)  # type: ignore[arg-type]

    def get(self, index: int) -> Value:
        if self._elements is not None:
            return self._elements[index]
        assert self.raw is not None
        assert self.view.element is not None
        return self.view.element.convert(self.raw[index])

    def elements(self) -> list[Value]:
        if self._elements is None:
            assert self.raw is not None
            assert self.view.element is not None
            element = self.view.element
            if element.plain is not None and set(map(type, self.raw)) == {element.plain}:
                self._elements = self.raw
            else:
                self._elements = list(map(element.convert, self.raw))
        return self._elements

    def contains(self, needle: Value) -> bool:
        """Raises the error of an element that cannot be converted only if no other element equals `needle`."""
        spend(len(self))
        failure: str | None = None
        for position in range(len(self)):
            try:
                if equal(self.get(position), needle):
                    return True
            except EvalError as error:
                failure = failure or str(error)
        if failure is not None:
            raise EvalError(failure)
        return False

    def equals(self, other: Value) -> bool:
        if not is_list(other):
            raise no_such_overload()
        if len(self) != len(other):
            return False
        spend(len(self))
        if self.view.list_type == "set":
            mine, theirs = set(map(_set_key, self.elements())), set(map(_set_key, elements(other)))
            return mine == theirs
        if self.view.list_type == "map":
            return self._equals_map_list(elements(other))
        return all(map(equal, self.elements(), elements(other)))

    def _equals_map_list(self, others: list[Value]) -> bool:
        mine = {self._raw_key(item): item for item in self.elements()}
        seen = set()
        for item in others:
            key = self._raw_key(item)
            if key not in mine or not equal(mine[key], item):
                return False
            seen.add(key)
        return len(seen) == len(mine)

    def _raw_key(self, item: Value) -> object:
        """The key values of an element. Kubernetes looks them up under their escaped names."""
        if type(item) is not SchemaMap:
            return id(item)
        return tuple(map(_scalar_key, map(item.value.get, self.view.keys)))

    def plus(self, other: Value) -> Value:
        if not is_list(other):
            raise no_such_overload()
        mine, others = list(self.elements()), elements(other)
        spend(len(mine) + len(others))
        if self.view.list_type == "set":
            known = set(map(_set_key, mine))
            for item in others:
                key = _set_key(item)
                if key not in known:
                    known.add(key)
                    mine.append(item)
        elif self.view.list_type == "map":
            _merge(mine, others, self.view.keys)
        else:
            return mine + others
        return SchemaList(None, self.view, mine)


register_type(SchemaList, LIST)


def _merge(items: list[Value], others: list[Value], keys: tuple[str, ...]) -> None:
    positions = {_value_key(item, keys): position for position, item in enumerate(items)}
    for item in others:
        position = positions.get(_value_key(item, keys))
        if position is None:
            items.append(item)
        else:
            items[position] = item


def _value_key(item: Value, keys: tuple[str, ...]) -> object:
    if not isinstance(item, MapValue):
        return id(item)
    return tuple(_scalar_key(value) for value in map(item.find, keys))


def _scalar_key(value: Value) -> object:
    """A hashable value that distinguishes 1, 1.0 and true."""
    if isinstance(value, (Opaque, ListValue, MapValue, list, dict)):
        return repr(value) if isinstance(value, Opaque) else id(value)
    return type(value), value


def _set_key(value: Value) -> object:
    if is_list(value) or isinstance(value, MapValue):
        raise EvalError("listSet operations are only supported on lists of scalar values")
    return repr(value) if isinstance(value, Opaque) else (type(value), value)
