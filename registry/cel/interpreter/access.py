"""Code for names, fields and indexes: `self.spec.ports[0]`, `has(a.b)`, `a.?b`, `a[?0]`.

Follows cel-go interpreter/attributes.go.
"""

from __future__ import annotations

from typing import Any

from registry.cel.common.times import Duration, Timestamp
from registry.cel.common.values import (
    MISSING,
    NONE,
    EvalError,
    ListValue,
    MapValue,
    Optional,
    Uint,
    Value,
    no_such_overload,
    type_of,
)
from registry.cel.ext.maps import key_text
from registry.cel.interpreter.code import Code, Frame, Run, value_of
from registry.cel.interpreter.schema_values import SchemaList, SchemaMap
from registry.cel.interpreter.view import CONTAINERS, View
from registry.codec.go_text import go_g


def container_type(view: View) -> type | None:
    """The Python type of decoded values that the compiler accesses directly; None for those that are converted."""
    return None if view.nullable else CONTAINERS.get(view.kind)


def missing_key(key: Value) -> EvalError:
    return EvalError(f"no such key: {key_text(key)}")


def variable(slot: int, view: View | None, *, verified: bool = False) -> Code:
    """The value of a slot. With a view it is decoded JSON, whose type has been checked if `verified`."""
    if verified and view is not None and view.kind in CONTAINERS:
        return Code(lambda frame: frame[slot], view=view, attribute=True, slot=slot)
    if view is None:

        def read(frame: Frame) -> Value:
            return frame[slot]

        return Code(read, attribute=True, slot=slot)
    return _compile_typed(view, slot)


def _compile_typed(view: View, slot: int) -> Code:
    convert = view.convert
    python_type = CONTAINERS.get(view.kind)
    if python_type is not None and not view.nullable:

        def read(frame: Frame) -> Any:
            value = frame[slot]
            if type(value) is not python_type:
                convert(value)
            return value

        return Code(read, view=view, attribute=True)
    plain = view.plain
    if plain is None or view.nullable:
        return Code(lambda frame: convert(frame[slot]), attribute=True)

    def read_plain(frame: Frame) -> Value:
        value = frame[slot]
        return value if type(value) is plain else convert(value)

    return Code(read_plain, attribute=True)


# --- fields


def select(operand: Code, name: str) -> Code:
    """`operand.name`"""
    view = operand.view
    if view is not None and view.kind == "object" and name in view.fields:
        return _select_property(operand, name, *view.fields[name])
    if view is not None and view.element is not None and view.kind == "map":
        return _select_entry(operand, name, view.element)
    run = value_of(operand)
    return Code(lambda frame: select_value(run(frame), name), operand.cost, attribute=True)


def _select_property(operand: Code, name: str, key: str, child: View) -> Code:
    """A property of an object; null counts as absent."""
    convert, run, slot = child.convert, operand.run, operand.slot
    expected = CONTAINERS.get(child.kind) or child.plain
    missing = f"no such key: {name}"
    view = child if child.kind in CONTAINERS else None
    if expected is None:

        def select_converted(frame: Frame) -> Value:
            value = run(frame).get(key)
            if value is None:
                raise EvalError(missing)
            return convert(value)

        return Code(select_converted, operand.cost, attribute=True)
    if slot:

        def select_from_slot(frame: Frame) -> Value:
            value = frame[slot].get(key)
            if type(value) is expected:
                return value
            if value is None:
                raise EvalError(missing)
            return convert(value)

        code = Code(select_from_slot, operand.cost, view, attribute=True)
        if expected is dict and view is not None:
            code.property_of = slot, key
        return code
    if operand.property_of is not None:
        return Code(_nested_property(operand, key, expected, child, missing), operand.cost, view, attribute=True)

    def select_property(frame: Frame) -> Value:
        value = run(frame).get(key)
        if type(value) is expected:
            return value
        if value is None:
            raise EvalError(missing)
        return convert(value)

    return Code(select_property, operand.cost, view, attribute=True)


def _nested_property(operand: Code, key: str, expected: type, child: View, missing: str) -> Run:
    """A property of a property of a slot, which is read without evaluating `operand` if it is an object."""
    assert operand.property_of is not None
    (slot, outer), run, convert = operand.property_of, operand.run, child.convert

    def select_nested(frame: Frame) -> Value:
        inner = frame[slot].get(outer)
        value = (inner if type(inner) is dict else run(frame)).get(key)
        if type(value) is expected:
            return value
        if value is None:
            raise EvalError(missing)
        return convert(value)

    return select_nested


def _select_entry(operand: Code, key: str, element: View) -> Code:
    """An entry of a map whose key is a constant of the expression."""
    run, convert = operand.run, element.convert
    missing = f"no such key: {key}"
    if element.kind in CONTAINERS and not element.nullable:
        expected = CONTAINERS[element.kind]

        def select_raw(frame: Frame) -> Any:
            entries = run(frame)
            value = entries.get(key)
            if type(value) is not expected:
                if key not in entries:
                    raise EvalError(missing)
                convert(value)
            return value

        return Code(select_raw, operand.cost, element, attribute=True)

    def select_entry(frame: Frame) -> Value:
        entries = run(frame)
        if key not in entries:
            raise EvalError(missing)
        return convert(entries[key])

    return Code(select_entry, operand.cost, attribute=True)


def select_value(container: Value, name: str) -> Value:
    if isinstance(container, MapValue):
        value = container.find(name)
        if value is MISSING:
            raise missing_key(name)
        return value
    if type(container) is Optional:
        return optional_of_key(container, name)
    raise missing_key(name)


# --- indexes


def index(operand: Code, key: Code) -> Code:
    """`operand[key]`"""
    cost = operand.cost + key.cost
    view, key_run = operand.view, _qualifier(key)
    if view is not None and view.kind == "list" and view.element is not None:
        return _index_list(operand, key, view.element)
    run = value_of(operand)
    return Code(lambda frame: index_value(run(frame), key_run(frame)), cost, attribute=True)


def _qualifier(key: Code) -> Run:
    """The value of a key. An attribute must be of a type that qualifies others (newQualifier in the original)."""
    run = value_of(key)
    if not key.attribute:
        return run

    def qualify(frame: Frame) -> Value:
        value = run(frame)
        if type(value) not in _QUALIFIERS and (go_type := _go_type(value)):
            raise EvalError(f"invalid qualifier type: {go_type}")
        return value

    return qualify


_QUALIFIERS = frozenset((str, int, Uint, float, bool))
_LISTS = {"set": "unstructuredSetList", "map": "unstructuredMapList"}
_GO_TYPES: dict[type, str] = {
    bytes: "types.Bytes",
    Duration: "types.Duration",
    Timestamp: "types.Timestamp",
    type(None): "types.Null",
}


def _go_type(value: Value) -> str:
    """The Go type of a value that an attribute can have, other than a key; "" for any other."""
    if isinstance(value, SchemaList):
        return f"*common.{_LISTS.get(value.view.list_type, 'unstructuredList')}"
    return "*common.unstructuredMap" if isinstance(value, SchemaMap) else _GO_TYPES.get(type(value), "")


def _index_list(operand: Code, key: Code, element: View) -> Code:
    run, key_run, convert = operand.run, _qualifier(key), element.convert
    expected = None if element.nullable else CONTAINERS.get(element.kind)

    def index_list(frame: Frame) -> Any:
        items, position = run(frame), key_run(frame)
        if type(position) is not int:
            raise _not_an_int(position, len(items))
        if not 0 <= position < len(items):
            raise EvalError(f"index out of bounds: {position}")
        value = items[position]
        return value if type(value) is expected else convert(value)

    view = element if expected is not None else None
    return Code(index_list, operand.cost + key.cost, view, attribute=True)


def _not_an_int(key: Value, length: int) -> EvalError:
    """The error of an index of a list of an object, which must be an int (apiserver pkg/cel/common/values.go)."""
    is_within = 0 <= list_index(key) < length
    return EvalError(f"unsupported index: {key_text(key)}" if is_within else f"index out of bounds: {key_text(key)}")


def index_value(container: Value, key: Value) -> Value:
    if isinstance(container, MapValue):
        value = container.find(key)
        if value is MISSING:
            raise missing_key(key)
        return value
    if type(container) is list or isinstance(container, ListValue):
        if type(key) is not int and isinstance(container, SchemaList):
            raise _not_an_int(key, len(container))
        position = list_index(key)
        if not 0 <= position < len(container):
            raise EvalError(f"index out of bounds: {key_text(key)}")
        return _element(container, position)
    if type(container) is Optional:
        return optional_of_key(container, key)
    raise missing_key(key)


def _element(container: Value, position: int) -> Value:
    return container[position] if type(container) is list else container.get(position)


def list_index(key: Value) -> int:
    """The position of a list index, which may be an int, a uint, or a double without a fraction."""
    if type(key) is int or type(key) is Uint:
        return int(key)
    if type(key) is float:
        if key == key and abs(key) < 1 << 63 and key.is_integer():
            return int(key)
        raise EvalError(f"unsupported index value {go_g(key)} in list")
    raise EvalError(f"unsupported index type '{type_of(key).name}' in list")


# --- presence


def has(operand: Code, name: str) -> Code:
    """`has(operand.name)`"""
    view = operand.view
    if view is not None and view.kind == "object" and name in view.fields:
        key, run, slot = view.fields[name][0], operand.run, operand.slot
        if slot:
            return Code(lambda frame: frame[slot].get(key) is not None, operand.cost)
        if operand.property_of is not None:
            holder, first = operand.property_of

            def has_through(frame: Frame) -> bool:
                inner = frame[holder].get(first)
                return (inner if type(inner) is dict else run(frame)).get(key) is not None

            return Code(has_through, operand.cost)
        return Code(lambda frame: run(frame).get(key) is not None, operand.cost)
    if view is not None and view.kind == "map":
        run = operand.run
        return Code(lambda frame: name in run(frame), operand.cost)
    value_run = value_of(operand)
    return Code(lambda frame: has_value(value_run(frame), name), operand.cost)


def has_value(container: Value, name: str) -> bool:
    if isinstance(container, MapValue):
        return container.has(name)
    if type(container) is Optional:
        return container.present and has_value(container.get(), name)
    if isinstance(container, ListValue) or type(container) is list:
        raise EvalError("unsupported index type 'string' in list")
    return False


# --- optional fields and indexes


def optional_index(operand: Code, key: Code) -> Code:
    """`operand.?key` and `operand[?key]`"""
    run, key_run = value_of(operand), _qualifier(key)
    return Code(lambda frame: optional_of_key(run(frame), key_run(frame)), operand.cost + key.cost, attribute=True)


def optional_of_key(container: Value, key: Value) -> Optional:
    """The value of `key` in a container or in the container of an optional; NONE if absent."""
    if type(container) is Optional:
        if not container.present:
            return NONE
        container = container.get()
    if isinstance(container, MapValue):
        value = container.find(key)
        return NONE if value is MISSING else Optional(value)
    if type(container) is list or isinstance(container, ListValue):
        position = list_index(key)
        if not 0 <= position < len(container):
            return NONE
        return Optional(_element(container, position))
    if type(container) is Optional:
        raise no_such_overload()
    return NONE
