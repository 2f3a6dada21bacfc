"""JSONPath as Kubernetes has it in printer columns: a path becomes a function from a value to what it finds.

    compile_path(".spec.ports[?(@.name=='http')].port")({"spec": {"ports": [{"name": "http", "port": 80}]}})
    [80]

Compiled once into closures. Missing keys give nothing; what the reference reports as an error when it evaluates (an
index out of bounds, a filter of something that is no list) raises JsonPathError, which a table shows as an empty cell.

Follows client-go util/jsonpath with AllowMissingKeys. The parser is in jsonpath_parse.py.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from registry.api.jsonpath_parse import Filter, JsonPathError, Node, Slice, parse

__all__ = ["JsonPathError", "compile_path", "relaxed"]

Json = Any
# From the values found so far to the next ones.
Step = Callable[[list[Json]], list[Json]]

# Recursive descents multiply: `..a..b` visits what is below each a again.
_MAX_RESULTS = 100_000


def compile_path(text: str) -> Callable[[Json], list[Json]]:
    """The function of a path such as `.spec.replicas`. Raises JsonPathError for what cannot be parsed; so may the
    function for what cannot be evaluated. The value is not changed, and may be shared by the result.
    """
    actions = [_sequence(nodes) for nodes in parse(f"{{{text}}}")]
    first, *others = actions

    def find(value: Json) -> list[Json]:
        found = first([value])
        for action in others:
            action([value])         # only its errors count
        return found
    return find


_RELAXED = re.compile(r"\{\.?([^{}]+)\}\Z|\.?([^{}]+)\Z")


def relaxed(text: str) -> str:
    """The path that people mean by `spec.a`, `.spec.a`, `{spec.a}` or `{.spec.a}`: `.spec.a`. Raises JsonPathError."""
    if not text:
        return text
    match = _RELAXED.match(text)
    if match is None:
        raise JsonPathError("unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or "
                            "'{.name1.name2}'")
    return "." + (match[1] or match[2])


def _sequence(nodes: Sequence[Node]) -> Step:
    if all(node.kind == "field" for node in nodes):
        return _fields([node.text for node in nodes])
    steps = [_step(node) for node in nodes]

    def run(values: list[Json]) -> list[Json]:
        for step in steps:
            values = step(values)
        return values
    return run


def _fields(names: list[str]) -> Step:
    """A plain path of names from one value, by far the most frequent kind."""
    def run(values: list[Json]) -> list[Json]:
        for name in names:
            values = [value[name] for value in values if isinstance(value, dict) and name in value]
        return values
    return run


def _step(node: Node) -> Step:
    match node.kind:
        case "field":
            return _fields([node.text])
        case "wildcard":
            return lambda values: _bounded([child for value in values for child in _children(value)])
        case "recursive":
            return _descend
        case "slice":
            assert node.slice is not None
            return _slice(node.slice)
        case "filter":
            assert node.filter is not None
            return _filter(node.filter)
        case "union":
            steps = [_sequence(nodes) for nodes in node.branches]
            return lambda values: _bounded([found for step in steps for found in step(values)])
        case "text":
            return lambda values: [node.text]
        case "constant":
            return lambda values: [node.constant] * len(values)
    return _refuse(node)


def _refuse(node: Node) -> Step:
    def run(values: list[Json]) -> list[Json]:
        raise JsonPathError(f"unrecognized identifier {node.text}")
    return run


def _children(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _bounded(values: list[Json]) -> list[Json]:
    if len(values) > _MAX_RESULTS:
        raise JsonPathError(f"more than {_MAX_RESULTS} results")
    return values


def _descend(values: list[Json]) -> list[Json]:
    """Every value that holds something, itself first, in document order."""
    found: list[Json] = []
    stack = values[::-1]
    while stack:
        value = stack.pop()
        children = _children(value)
        if children or (isinstance(value, str) and value):
            found.append(value)
            stack.extend(reversed(children))
            _bounded(found)
    return found


def _slice(bounds: Slice) -> Step:
    def run(values: list[Json]) -> list[Json]:
        found: list[Json] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise JsonPathError("not an array or slice")
            start, end = _range(bounds, len(value))
            if start == end:
                return found            # the reference stops here, too
            found.extend(value[start:end:bounds.step])
        return found
    return run


def _range(bounds: Slice, length: int) -> tuple[int, int]:
    start = bounds.start + length if bounds.start < 0 else bounds.start
    end = length if bounds.end is None else bounds.end
    if end < 0 or (end == 0 and bounds.derived):
        end += length
    if start != end:
        if not 0 <= start < length:
            raise JsonPathError(f"array index out of bounds: index {start}, length {length}")
        if not 0 <= end <= length:
            raise JsonPathError(f"array index out of bounds: index {end - 1}, length {length}")
        if start > end:
            raise JsonPathError(f"starting index {start} is greater than ending index {end}")
        if bounds.step <= 0:
            raise JsonPathError("step must be > 0")
    return start, end


def _filter(condition: Filter) -> Step:
    left = _sequence(condition.left)
    right = _sequence(condition.right)
    holds = _COMPARISONS.get(condition.operator)

    def passes(item: Json) -> bool:
        if condition.operator == "exists":
            try:
                return bool(left([item]))
            except JsonPathError:
                return False
        lefts, rights = left([item]), right([item])
        if not lefts or not rights:
            return False
        if len(lefts) > 1 or len(rights) > 1:
            raise JsonPathError("can only compare one element at a time")
        if holds is None:
            raise JsonPathError(f"unrecognized filter operator {condition.operator}")
        return holds(lefts[0], rights[0])

    def run(values: list[Json]) -> list[Json]:
        found: list[Json] = []
        for value in values:
            if not isinstance(value, list):
                raise JsonPathError("not an array or slice and cannot be filtered")
            found.extend(item for item in value if passes(item))
        return found
    return run


def _checked(compare: Callable[[Any, Any], bool], kinds: tuple[type, ...]) -> Callable[[Json, Json], bool]:
    """Go compares scalars of one type only, not even an integer with a float, and has no order of booleans."""
    def run(left: Json, right: Json) -> bool:
        if type(left) is not type(right) or type(left) not in kinds:
            raise JsonPathError("incompatible types for comparison")
        return compare(left, right)
    return run


_COMPARISONS: dict[str, Callable[[Json, Json], bool]] = {
    "==": _checked(operator.eq, (str, int, float, bool)),
    "!=": _checked(operator.ne, (str, int, float, bool)),
    "<": _checked(operator.lt, (str, int, float)),
    "<=": _checked(operator.le, (str, int, float)),
    ">": _checked(operator.gt, (str, int, float)),
    ">=": _checked(operator.ge, (str, int, float)),
}
