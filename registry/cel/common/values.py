"""Run-time values of expressions: equality, order and types as in CEL.

Most values are plain Python: None, bool, int (CEL's int), float (double), str, bytes and list. Those without a Python
counterpart are here: Uint, Type and Optional; maps are in maps.py, Timestamp and Duration in times.py. Values of an
object are accessed through its schema by SchemaList and SchemaMap (interpreter/schema_values.py), which implement
ListValue and MapValue below, so that libraries do not depend on where a list comes from.

An error is an exception, EvalError; the operators `&&`, `||` and `?:` are the only ones that catch it. A function that
raises an error later keeps its text: the traceback refers to the function's frame, so otherwise only the garbage
collector would free both, and with them the object that was evaluated.

Follows cel-go common/types.
"""

from __future__ import annotations

import math
from typing import Any, Final

from registry.budget import Budget, BudgetExceeded, spend

Value = Any  # one of the values above

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 64) - 1


class EvalError(Exception):
    """The evaluation of an expression failed. The text is cel-go's, for example `no such key: x`."""


class CostExceeded(BudgetExceeded):
    """The evaluation exceeds its cost limit, as kube-apiserver counts it. Not an EvalError: `||` must not absorb it.
    The exact cost may be lower, whereas a BudgetExceeded is final."""


# CEL's costs do not cover comparing lists of lists, copying lists and building texts: counted here in elements touched.
# Nor do they bound the time of a loop's rounds, since a cost of 1 takes 20 ns to 3 µs. kube-apiserver's costs count the
# outermost size only (and `x in untyped` as 1), which lets a rule of modest cost run for hours. Realistic rules stay
# far below these limits.
EVALUATION_ELEMENTS: Final = 10_000_000
EVALUATION_SECONDS: Final = 0.25


def evaluation_budget() -> Budget:
    """The budget of one evaluation, in elements."""
    return Budget(EVALUATION_ELEMENTS, EVALUATION_SECONDS)


NO_SUCH_OVERLOAD: Final = "no such overload"


def no_such_overload(function: str = "") -> EvalError:
    return EvalError(f"{NO_SUCH_OVERLOAD}: {function}" if function else NO_SUCH_OVERLOAD)


class Uint(int):
    """An unsigned 64-bit integer. Python compares it with int as CEL does."""

    __slots__ = ()


class TypeValue:
    """A type as a value, such as `type(1)`; one instance for each name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Optional:
    """`optional.of(v)`; NONE below is the one without a value."""

    __slots__ = ("_value", "present")

    def __init__(self, value: Value, present: bool = True) -> None:
        self._value = value
        self.present = present

    def get(self) -> Value:
        if not self.present:
            raise EvalError("optional.none() dereference")
        return self._value


NONE: Final = Optional(None, present=False)


# Neither this nor MapValue is an ABC: `isinstance`, called on every value, takes seven times as long on one.
class ListValue:
    """A list that is not a Python list: one accessed through a schema."""

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def get(self, index: int) -> Value:
        """The element; `index` is within bounds."""
        raise NotImplementedError

    def elements(self) -> list[Value]:
        """All elements. Raises EvalError if one of them cannot be converted."""
        raise NotImplementedError

    def contains(self, needle: Value) -> bool:
        """`needle in self`"""
        return contains(self.elements(), needle)

    def equals(self, other: Value) -> bool:
        raise NotImplementedError

    def plus(self, other: Value) -> list[Value]:
        raise NotImplementedError


class MapValue:
    """The interface of every map: entries by key, keys in order."""

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def find(self, key: Value) -> Value:
        """The value of `key`, or MISSING."""
        raise NotImplementedError

    def has(self, key: Value) -> bool:
        """Whether there is an entry; there may be one that cannot be read."""
        try:
            return self.find(key) is not MISSING
        except EvalError:
            return True

    def all_keys(self) -> list[Value]:
        raise NotImplementedError

    def equals(self, other: Value) -> bool:
        raise NotImplementedError


class Missing:
    """The result of `find` for an unknown key: every CEL value is a possible value of an entry."""

    __slots__ = ()


MISSING: Final = Missing()


class Opaque:
    """A value of a library type, comparable to values of its own type only. Subclasses define `type` and `is_same`."""

    __slots__ = ()

    type: TypeValue
    has_text = True  # string() accepts the value

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "type"):
            register_type(cls, cls.type)

    def equals(self, other: Value) -> bool:
        """Raises no_such_overload for a value of another type."""
        if type(other) is not type(self):
            raise no_such_overload()
        return self.is_same(other)

    def is_same(self, other: Value) -> bool:
        """Whether a value of the same type is equal."""
        raise NotImplementedError

    def size(self) -> int:
        """The size of the value in the cost of a call."""
        return 1

    def text(self) -> str:
        raise NotImplementedError


# --- types

NULL_TYPE: Final = TypeValue("null_type")
BOOL: Final = TypeValue("bool")
INT: Final = TypeValue("int")
UINT: Final = TypeValue("uint")
DOUBLE: Final = TypeValue("double")
STRING: Final = TypeValue("string")
BYTES: Final = TypeValue("bytes")
LIST: Final = TypeValue("list")
MAP: Final = TypeValue("map")
TYPE: Final = TypeValue("type")
OPTIONAL: Final = TypeValue("optional_type")
TIMESTAMP: Final = TypeValue("google.protobuf.Timestamp")
DURATION: Final = TypeValue("google.protobuf.Duration")

_TYPES: dict[type, TypeValue] = {
    type(None): NULL_TYPE,
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    list: LIST,
    TypeValue: TYPE,
    Optional: OPTIONAL,
}


def register_type(python_type: type, cel_type: TypeValue) -> None:
    """Registers the CEL type of a Python class, which `type()` returns."""
    _TYPES[python_type] = cel_type


def type_of(value: Value) -> TypeValue:
    return _TYPES[type(value)]


# --- equality


def equal(left: Value, right: Value) -> bool:
    """`left == right`. Numbers compare by value across their types; values of other different types are unequal.

    Raises EvalError where cel-go does: for values of the Kubernetes libraries and of objects against other types.
    """
    kind = type(left)
    if kind is str or kind is bytes or kind is bool:
        return type(right) is kind and bool(left == right)
    if kind is int or kind is Uint:
        other = type(right)
        if other is int or other is Uint:
            return bool(left == right)
        return other is float and _equal_numbers(right, left)
    if kind is float:
        other = type(right)
        if other is float:
            return bool(left == right)
        return (other is int or other is Uint) and _equal_numbers(left, right)
    if left is None or right is None:
        return left is right
    if kind is list:
        return _equal_lists(left, right)
    if kind is TypeValue:
        return type(right) is TypeValue and left.name == right.name
    if kind is Optional:
        return _equal_optionals(left, right)
    return bool(left.equals(right))


def is_equal(left: Value, right: Value) -> bool:
    """Whether the values are equal; values that cannot be compared are not."""
    try:
        return equal(left, right)
    except EvalError:
        return False


def _equal_lists(left: list[Value], right: Value) -> bool:
    if type(right) is not list:
        if not isinstance(right, ListValue) or len(left) != len(right):
            return False
        right = right.elements()
    spend(len(left))
    if len(left) != len(right):
        return False
    if are_plain(left) and are_plain(right):
        return bool(left == right)
    return all(map(equal, left, right))


def are_plain(values: list[Value]) -> bool:
    """Whether Python compares the list with another plain list as CEL does: in Python True equals 1, and 2^53 + 1 does
    not equal 2^53 as a double."""
    return set(map(type, values)) <= _PLAIN


_PLAIN: Final[set[type]] = {int, str, bytes, type(None)}


def _equal_optionals(left: Optional, right: Value) -> bool:
    if type(right) is not Optional or left.present != right.present:
        return False
    return not left.present or equal(left.get(), right.get())


def _equal_numbers(double: float, integer: int) -> bool:
    return double == double and _compare_double(double, integer) == 0


# --- order


def compare(left: Value, right: Value) -> int:
    """-1, 0 or 1. Raises EvalError for NaN and for types that are not ordered."""
    kind, other = type(left), type(right)
    if kind is int or kind is Uint:
        if other is int or other is Uint:
            return int(left > right) - int(left < right)
        if other is float:
            return -_compare_checked(right, left)
    elif kind is float:
        if other is float:
            if left != left or right != right:
                raise EvalError("NaN values cannot be ordered")
            return int(left > right) - int(left < right)
        if other is int or other is Uint:
            return _compare_checked(left, right)
    elif kind is other and kind in _ORDERED:
        return int(left > right) - int(left < right)
    raise no_such_overload()


_ORDERED: set[type] = {str, bytes, bool}


def register_ordered(python_type: type) -> None:
    """Registers a Python class whose values can be compared by `<`."""
    _ORDERED.add(python_type)


def is_ordered(value: Value) -> bool:
    kind = type(value)
    return kind in _ORDERED or kind is int or kind is float or kind is Uint


def _compare_checked(double: float, integer: int) -> int:
    if double != double:
        raise EvalError("NaN values cannot be ordered")
    return _compare_double(double, integer)


def _compare_double(double: float, integer: int) -> int:
    """Compares as doubles, as cel-go does: 2^53 and 2^53 + 1 are then equal."""
    if math.isinf(double):
        return 1 if double > 0 else -1
    number = float(integer)
    return int(double > number) - int(double < number)


# --- lists

_EXACT_IN_DOUBLES: Final = 1 << 53


def is_list(value: Value) -> bool:
    return type(value) is list or isinstance(value, ListValue)


def elements(value: Value, function: str = "") -> list[Value]:
    """The elements of any list, not to be changed. Raises EvalError `no such overload` for anything else."""
    if type(value) is list:
        return value
    if isinstance(value, ListValue):
        return value.elements()
    raise no_such_overload(function)


def contains(haystack: list[Value], needle: Value) -> bool:
    """`needle in haystack`"""
    spend(len(haystack))
    kind = type(needle)
    # Python's `in` agrees with CEL's, but True equals 1 in Python, and numbers beyond 2^53 are compared exactly.
    if kind is str or (kind is int and abs(needle) <= _EXACT_IN_DOUBLES):
        if needle not in haystack:
            return False
        if kind is str:
            return True
    if kind is bool:
        return any(type(item) is kind and item == needle for item in haystack)
    return any(equal(item, needle) for item in haystack)


def size_of(value: Value) -> int:
    """The size of a value in costs: its length if it has one, else 1."""
    kind = type(value)
    if kind is str or kind is bytes or kind is list:
        return len(value)
    if isinstance(value, (ListValue, MapValue)):
        return len(value)
    if isinstance(value, Opaque):
        return value.size()
    if kind is Optional and value.present:
        return size_of(value.get())
    return 1
