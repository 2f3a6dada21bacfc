"""The ranges of comprehensions: lists and maps, as views or as values.

Follows cel-go interpreter/interpretable.go (evalFold) and common/types/traits/iterator.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from registry.cel.common.values import EvalError, ListValue, MapValue, Value, type_of
from registry.cel.interpreter import access
from registry.cel.interpreter.code import Code, Frame, Run, value_of
from registry.cel.interpreter.view import View


@dataclass(frozen=True, slots=True)
class Range:
    """The range of a loop: `items(frame)` returns the values of the first variable, or pairs for two variables.

    `second` is None with one variable. The views are those of the variables in the body.
    """

    items: Callable[[Frame], list[Value]]
    cost: int
    first: View | None
    second: View | None
    pairs: bool


def range_of(source: Code, pairs: bool) -> Range:
    view, run = source.view, source.run
    if view is not None and view.element is not None:
        run = _resolve_view(run, view)
    if view is not None and view.kind == "list":
        if pairs:
            return Range(lambda frame: list(enumerate(run(frame))), source.cost, None, view.element, True)
        return Range(run, source.cost, view.element, None, False)
    if view is not None and view.kind == "map":
        if pairs:
            return Range(lambda frame: list(run(frame).items()), source.cost, None, view.element, True)
        return Range(lambda frame: list(run(frame)), source.cost, None, None, False)
    value = value_of(source)
    if pairs:
        return Range(lambda frame: _pairs(value(frame)), source.cost, None, None, True)
    return Range(lambda frame: _items(value(frame)), source.cost, None, None, False)


def _resolve_view(run: Run, view: View) -> Run:
    """Returns the list or map after checking the types of its values: the body then accesses them unchecked."""
    element = view.element
    assert element is not None
    expected, convert, of_map = access.container_type(element), element.convert, view.kind == "map"
    if expected is None:
        return run
    kinds = {expected}

    def look(frame: Frame) -> Value:
        result = run(frame)
        values = result.values() if of_map else result
        if set(map(type, values)) != kinds:
            for value in values:
                convert(value)
        return result

    return look


def _items(value: Value) -> list[Value]:
    if type(value) is list:
        return value
    if isinstance(value, ListValue):
        return value.elements()
    if isinstance(value, MapValue):
        return value.all_keys()
    raise EvalError(f"got '{_GO_TYPES.get(type_of(value).name, 'ref.Val')}', expected iterable type")


def _pairs(value: Value) -> list[Value]:
    if isinstance(value, MapValue):
        return [(key, value.find(key)) for key in value.all_keys()]
    if type(value) is list or isinstance(value, ListValue):
        return list(enumerate(_items(value)))
    raise EvalError(f"unsupported comprehension range type: {_GO_TYPES.get(type_of(value).name, 'ref.Val')}")


_GO_TYPES = {
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "bool": "types.Bool",
    "string": "types.String",
    "bytes": "types.Bytes",
    "null_type": "types.Null",
    "google.protobuf.Timestamp": "types.Timestamp",
    "google.protobuf.Duration": "types.Duration",
}
