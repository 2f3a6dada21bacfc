"""The costs of function calls without their arguments, and the sizes of their results.

A call that is not listed here costs 1. Kubernetes' estimators are keyed by function name, cel-go's by overload id; the
first that returns a result wins, in this order: cel-go's list and set libraries, Kubernetes, the standard library.

Follows apiserver pkg/cel/library/cost.go, and cel-go v0.26 checker/cost.go, ext/lists.go and ext/sets.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from registry.cel.checker.cost_ranges import (
    FREE,
    LIMIT,
    ONE,
    REGEX,
    TRAVERSAL,
    UNKNOWN,
    Range,
    add,
    fixed,
    multiply,
    times,
    traversal,
)
from registry.cel.common import types
from registry.cel.common.types import Type, TypeKind
from registry.cel.syntax.ast import Expr, Literal, NodeKind


class CallCost(NamedTuple):
    """The cost of a call without its arguments; the size of its result if that is a string, list or map."""

    cost: Range
    size: Range | None = None


class Argument(NamedTuple):
    """An argument: `path` is the path of its schema, or empty; `size` is None if unknown."""

    node: Expr
    type: Type
    path: tuple[str, ...]
    size: Range | None


class CostedCall(NamedTuple):
    """`size_at` is the size that the schema at a path allows; None if there is no such schema."""

    size_at: Callable[[tuple[str, ...]], Range | None]
    overload: str
    target: Argument | None
    arguments: list[Argument]

    def size(self, position: int) -> Range:
        return self._size(self.arguments[position])

    def target_size(self) -> Range:
        assert self.target is not None
        return self._size(self.target)

    def element_size(self) -> Range:
        """The size of the elements of the target, which is a list."""
        assert self.target is not None
        path = self.target.path
        return (self.size_at((*path, "@items")) if path else None) or UNKNOWN

    def _size(self, argument: Argument) -> Range:
        return argument.size or self.size_at(argument.path) or UNKNOWN


def estimate_call(call: CostedCall, function: str) -> CallCost | None:
    """The cost of a call; None if it has the default cost."""
    for estimator in (_EXTENSIONS.get(call.overload), _KUBERNETES.get(function), _STANDARD.get(call.overload)):
        if estimator is not None:
            cost = estimator(call)
            if cost is not None:
                return cost
    return None


_Estimate: TypeAlias = Callable[[CostedCall], CallCost | None]

_LIST_BASE: Final = 10
_MAX_FORMAT: Final = 64  # of the text of a named format
_MAX_FORMAT_REGEX: Final = 128
_ADDRESS: Final[Range] = (4, 16)  # bytes of an IPv4 or IPv6 address
_CHECK: Final = fixed(350_000)


def _of_target(estimate: Callable[[CostedCall], CallCost]) -> _Estimate:
    """The estimate of a member function; a global one of the same name is left to the next estimator."""
    return lambda call: None if call.target is None else estimate(call)


def _with_argument(estimate: Callable[[CostedCall], CallCost]) -> _Estimate:
    return lambda call: estimate(call) if call.arguments else None


# --- cel-go's lists and sets


def _new_list(factor: float, size: Range) -> CallCost:
    return CallCost(add(times(size, factor), fixed(1 + _LIST_BASE)), size)


def _int_literal(argument: Argument, otherwise: int) -> int:
    node = argument.node
    if isinstance(node, Literal) and node.kind is NodeKind.INT:
        assert isinstance(node.value, int)
        return max(node.value, 0)
    return otherwise


def _slice(call: CostedCall) -> CallCost:
    start = _int_literal(call.arguments[0], 0)
    end = _int_literal(call.arguments[1], call.target_size()[1])
    return _new_list(1, fixed((end - start) & LIMIT))  # cel-go's difference wraps around


def _flatten(call: CostedCall) -> CallCost:
    depth = _int_literal(call.arguments[0], LIMIT) if call.arguments else 1
    return _new_list(float(depth), call.target_size())


def _range(call: CostedCall) -> CallCost:
    return _new_list(1, fixed(_int_literal(call.arguments[0], LIMIT)))


def _sort(of: str, by_keys: bool) -> _Estimate:
    factor = 2 + TRAVERSAL if of in ("string", "bytes") else 2.0

    def sort(call: CostedCall) -> CallCost:
        size = call.size(0) if by_keys else call.target_size()
        return _new_list(factor, multiply(size, size))

    return sort


def _set(factor: float) -> _Estimate:
    return lambda call: CallCost(add(times(multiply(call.size(0), call.size(1)), factor), ONE))


_SORTED: Final = (
    *("int", "uint", "double", "bool", "string", "bytes"),
    *(types.DURATION.runtime_name, types.TIMESTAMP.runtime_name),
)
_EXTENSIONS: Final[dict[str, _Estimate]] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": lambda call: _new_list(1, call.target_size()),
    "list_distinct": lambda call: _new_list(2, multiply(call.target_size(), call.target_size())),
    "list_sets_contains_list": _set(1),
    "list_sets_intersects_list": _set(1),
    "list_sets_equivalent_list": _set(2),
    **{f"list_{of}_sort": _sort(of, False) for of in _SORTED},
    **{f"list_{of}_sortByAssociatedKeys": _sort(of, True) for of in _SORTED},
}


# --- Kubernetes


@_of_target
def _each_element(call: CostedCall) -> CallCost:
    """One for each element, plus the cost of comparing it if it is a string; indexOf is also a function of strings."""
    assert call.target is not None
    if not call.target.type.parameters:
        return CallCost(traversal(call.target_size()))
    cost = ONE
    if call.target.type.parameters[0].kind in (TypeKind.STRING, TypeKind.BYTES):
        cost = add(cost, traversal(call.element_size()))
    return CallCost(multiply(call.target_size(), cost))


def _includes(call: CostedCall) -> CallCost | None:
    """A target not known to be a list counts as a list with one element for each unit of its size."""
    if call.target is not None and not call.target.type.parameters:
        return CallCost(multiply(call.target_size(), ONE))
    return _each_element(call)


def _read_argument(factor: float = TRAVERSAL) -> _Estimate:
    return _with_argument(lambda call: CallCost(times(call.size(0), factor)))


def _replace(call: CostedCall) -> CallCost | None:
    """The result is longest if the shortest old text occurs everywhere and is replaced by the longest new text."""
    if call.target is None or len(call.arguments) < 2:
        return None
    size, old, new = call.target_size(), call.size(0), call.size(1)
    most, most_kept = _replacements(size[1], old[0], old[0] != 0 and new[1] <= old[0])
    least, least_kept = _replacements(size[0], old[1], old[1] != 0 and old[1] <= new[0])
    result = add(multiply((least, most), new), (least_kept, most_kept))
    return CallCost(times(size, 2 * TRAVERSAL), result)


def _replacements(length: int, old: int, kept: bool) -> tuple[int, int]:
    """The number of replacements possible in a text of `length`, and how many of its characters remain."""
    if old == 0:  # An empty text matches around every character.
        return min(length + 1, LIMIT), length
    if kept:
        return 0, length
    return math.ceil(float(length) / float(old)), 0


@_of_target
def _split(call: CostedCall) -> CallCost:
    size = call.target_size()
    most = size[1]
    if len(call.arguments) > 1:
        limit = call.arguments[1].node
        if isinstance(limit, Literal) and limit.kind is NodeKind.INT:
            assert isinstance(limit.value, int)
            most = limit.value & LIMIT
    return CallCost(times(size, 2 * TRAVERSAL), (0, most))


@_of_target
def _join(call: CostedCall) -> CallCost:
    assert call.target is not None
    length = call.target_size()
    size = multiply(length, call.element_size()) if call.target.type.parameters else FREE
    if call.arguments:
        size = add(size, multiply(call.size(0), (max(length[0] - 1, 0), max(length[1] - 1, 0))))
    return CallCost(traversal(size), size)


def _regex(text: Range, pattern: Range) -> Range:
    """One more than the text, so that a pattern also costs something on an empty text."""
    return multiply(traversal(add(text, ONE)), times(pattern, REGEX))


def _find(call: CostedCall) -> CallCost | None:
    if call.target is None or not call.arguments:
        return None
    size = call.target_size()
    return CallCost(_regex(size, call.size(0)), (0, size[1]))


def _contains_address(cost: Range, overload_of_text: str) -> _Estimate:
    """`containsIP` and `containsCIDR`, which read an argument that is a text."""
    return _with_argument(
        lambda call: CallCost(add(cost, traversal(call.size(0))) if call.overload == overload_of_text else cost)
    )


_COMPARED: Final = traversal(add(_ADDRESS, _ADDRESS))
_MASKED: Final = add(add(_COMPARED, traversal(_ADDRESS)), ONE)


def _equal(call: CostedCall) -> CallCost | None:
    """`==` of the types that Kubernetes adds; other types use the standard library's."""
    left, right = call.arguments
    if left.type.runtime_name != right.type.runtime_name:
        return None
    if left.type in (types.IP, types.CIDR, types.QUANTITY, types.SEMVER):
        return CallCost(ONE)
    if left.type is types.FORMAT:
        return CallCost(traversal((1, _MAX_FORMAT)))
    if left.type is types.URL:
        return CallCost(traversal((1, (right.size or ONE)[1])))
    return None


def _estimate_each(estimate: _Estimate, names: str) -> dict[str, _Estimate]:
    return dict.fromkeys(names.split(), estimate)


_KUBERNETES: Final[dict[str, _Estimate]] = {
    "check": lambda _: CallCost(_CHECK),
    **_estimate_each(_each_element, "isSorted sum max min indexOf lastIndexOf"),
    "includes": _includes,
    "url": lambda call: CallCost(traversal(call.size(0)), call.size(0)) if len(call.arguments) == 1 else None,
    **_estimate_each(
        _of_target(lambda call: CallCost(traversal(call.target_size()), call.target_size())),
        "lowerAscii upperAscii substring trim",
    ),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **_estimate_each(_find, "find findAll"),
    **_estimate_each(_read_argument(), "cidr isIP isCIDR quantity isQuantity semver isSemver"),
    "ip": lambda call: CallCost(ONE) if call.overload == "cidr_ip" else _read_argument()(call),
    "ip.isCanonical": _read_argument(2 * TRAVERSAL),
    "containsIP": _contains_address(_COMPARED, "cidr_contains_ip_string"),
    "containsCIDR": _contains_address(_MASKED, "cidr_contains_cidr_string"),
    "validate": _with_argument(lambda call: CallCost(times(traversal(call.size(0)), _MAX_FORMAT_REGEX * REGEX))),
    "_==_": _equal,
    # Listed because some of these names have overloads in the standard library.
    **_estimate_each(
        lambda _: CallCost(ONE),
        "serviceAccount path group resource subresource namespace name allowed reason error errored",
    ),
}


# --- the standard library


def _string_to_bytes(call: CostedCall) -> CallCost:
    size = call.size(0)
    return CallCost(traversal(size), (size[0], size[1] * 4 & LIMIT))


def _bytes_to_string(call: CostedCall) -> CallCost:
    size = call.size(0)
    return CallCost(traversal(size), (size[0] // 4, size[1]))


def _quote(call: CostedCall) -> CallCost:
    size = call.size(0)
    return CallCost(traversal(size), (size[0] + 2 & LIMIT, size[1] * 2 + 2 & LIMIT))


def _compare(call: CostedCall) -> CallCost:
    most = min(call.size(0)[1], call.size(1)[1])
    return CallCost(traversal((min(most, 1), most)))


_COMPARISONS: Final = "less_{0} less_equals_{0} greater_{0} greater_equals_{0} "
_STANDARD: Final[dict[str, _Estimate]] = {
    "string_format": _of_target(lambda call: CallCost(traversal(call.target_size()))),
    "string_to_bytes": _string_to_bytes,
    "bytes_to_string": _bytes_to_string,
    "strings_quote": _quote,
    **_estimate_each(lambda call: CallCost(traversal(call.size(0))), "starts_with_string ends_with_string"),
    "in_list": lambda call: CallCost(times(call.size(1), 1)),
    "matches_string": _of_target(lambda call: CallCost(_regex(call.target_size(), call.size(0)))),
    "contains_string": _of_target(
        lambda call: CallCost(multiply(traversal(call.target_size()), traversal(call.size(0))))
    ),
    **_estimate_each(_compare, "equals not_equals " + _COMPARISONS.format("string") + _COMPARISONS.format("bytes")),
}
