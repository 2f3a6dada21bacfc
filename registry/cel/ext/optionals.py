"""Optional values: optional.of, optional.none and their members.

`or` and `orValue` evaluate their argument only if needed, so the compiler generates them, as it does `?.` and `[?]`.

Follows cel-go cel/library.go.
"""

from __future__ import annotations

from registry.cel.common.maps import Map
from registry.cel.common.times import Duration
from registry.cel.common.values import NONE, ListValue, Optional, Uint, Value, elements, is_list, no_such_overload
from registry.cel.ext.table import function, member, mismatch


@function("optional.of", 1)
def optional_of(value: Value) -> Optional:
    return Optional(value)


@function("optional.none", 0)
def optional_none() -> Optional:
    return NONE


@function("optional.ofNonZeroValue", 1)
def optional_of_non_zero(value: Value) -> Optional:
    """NONE for null, false, 0, and what is empty; lists and maps of an object always count as values."""
    kind = type(value)
    if value is None or (kind in _ZEROS and value == _ZEROS[kind]):
        return NONE
    if (kind is list or kind is Map) and not len(value):
        return NONE
    if kind is Duration and value.nanoseconds == 0:
        return NONE
    return Optional(value)


_ZEROS: dict[type, Value] = {bool: False, int: 0, Uint: 0, float: 0.0, str: "", bytes: b""}


@member("value", 1, of=(Optional,))
def optional_value(optional: Optional) -> Value:
    return optional.get()


@member("hasValue", 1, of=(Optional,))
def optional_has_value(optional: Optional) -> bool:
    return optional.present


@member("first", 1)
def first(value: Value) -> Optional:
    return _at("first", value, 0)


@member("last", 1)
def last(value: Value) -> Optional:
    return _at("last", value, len(value) - 1 if is_list(value) else 0)


def _at(name: str, value: Value, position: int) -> Optional:
    """The element at `position`, or NONE for an empty list; other elements are not converted."""
    if type(value) is list:
        return Optional(value[position]) if value else NONE
    if isinstance(value, ListValue):
        return Optional(value.get(position)) if len(value) else NONE
    raise mismatch(name, value)


@function("optional.unwrap", 1)
@member("unwrapOpt", 1)
def unwrap(value: Value) -> list[Value]:
    """The values of a list of optionals, omitting those without one."""
    result = []
    for item in elements(value):
        if type(item) is not Optional:
            raise no_such_overload()
        if item.present:
            result.append(item.get())
    return result
