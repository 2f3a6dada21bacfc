"""JSONPath as in Kubernetes' printer columns: compiles a path to a function from a value to its matches.

    compile_path(".spec.ports[?(@.name=='http')].port")({"spec": {"ports": [{"name": "http", "port": 80}]}}, Budget())
    [80]

Compiled once, to closures. Missing keys match nothing; what the reference reports as an error when it evaluates (an
index out of bounds, a filter of something that is not a list) raises JsonPathError, which a table shows as an empty
cell.

The work is bounded by the values that are visited, whether they are found or not: recursive descents, wildcards and
unions multiply (`..a..b` visits what is below each `a` again).

Follows client-go util/jsonpath with AllowMissingKeys. The parser is in jsonpath_parser.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from registry.api.tables.jsonpath_parser import ArrayNode, FilterNode, JsonPathError, PathNode, parse
from registry.budget import Budget

__all__ = ["MAX_VISITS", "JsonPathError", "compile_path"]

Json = Any

# The maximum number of values that the evaluation of one path visits: some 10 ms of work.
MAX_VISITS: Final = 100_000
# Characters of a text that count as one value where the text is read.
TEXT_PER_VISIT: Final = 64


# Maps the values found so far to the next ones.
Step = Callable[[list[Json], Budget], list[Json]]


def compile_path(text: str) -> Callable[[Json, Budget], list[Json]]:
    """Returns the function of a path such as `.spec.replicas`. Raises JsonPathError for what cannot be parsed.

    The function raises JsonPathError for what cannot be evaluated, or BudgetExceeded. It does not change the value, but
    its result may share parts of it.
    """
    actions = [_sequence(nodes) for nodes in parse(f"{{{text}}}")]
    first, *others = actions

    def find(value: Json, budget: Budget) -> list[Json]:
        values = first([value], budget)
        for action in others:
            action([value], budget)  # only its errors count
        return values

    return find


def _sequence(nodes: Sequence[PathNode]) -> Step:
    if all(node.kind == "field" for node in nodes):
        return _fields([node.text for node in nodes])
    steps = [_step(node) for node in nodes]

    def run(values: list[Json], budget: Budget) -> list[Json]:
        for step in steps:
            values = step(values, budget)
        return values

    return run


def _fields(names: list[str]) -> Step:
    """A plain path of names, by far the most frequent kind.

    From one value it visits as many values as it has names, which are not counted.
    """

    def run(values: list[Json], budget: Budget) -> list[Json]:
        if len(values) > 1:
            budget.spend(len(values) * len(names))
        for name in names:
            values = [value[name] for value in values if isinstance(value, dict) and name in value]
        return values

    return run


def _step(node: PathNode) -> Step:
    match node.kind:
        case "field":
            return _fields([node.text])
        case "wildcard":
            return _wildcard
        case "recursive":
            return _descend
        case "slice":
            assert node.slice is not None
            return _slice(node.slice)
        case "filter":
            assert node.filter is not None
            return _filter(node.filter)
        case "union":
            return _union([_sequence(nodes) for nodes in node.branches])
        case "text":
            return lambda values, budget: [node.text]
        case "constant":
            return lambda values, budget: [node.constant] * len(values)
    return _refuse(node)


def _refuse(node: PathNode) -> Step:
    def run(values: list[Json], budget: Budget) -> list[Json]:
        raise JsonPathError(f"unrecognized identifier {node.text}")

    return run


def _children(value: Json) -> Collection[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


class Byte(int):
    """A byte of a text, as `*` finds it: a uint8, which equals no other number and is not shown as one."""


def _wildcard(values: list[Json], budget: Budget) -> list[Json]:
    values_below: list[Json] = []
    for value in values:
        children = _children(value)
        if isinstance(value, str):
            budget.spend(len(value))
            children = [Byte(code) for code in value.encode("utf-8", "surrogatepass")]
        budget.spend(1 + len(children))
        values_below.extend(children)
    return values_below


def _union(steps: list[Step]) -> Step:
    def run(values: list[Json], budget: Budget) -> list[Json]:
        union: list[Json] = []
        for step in steps:
            budget.spend(1 + len(values))
            union.extend(step(values, budget))
        return union

    return run


def _descend(values: list[Json], budget: Budget) -> list[Json]:
    """Returns every value that is not empty, itself first, in document order."""
    descendants: list[Json] = []
    budget.spend(len(values))
    stack = values[::-1]
    while stack:
        value = stack.pop()
        children = _children(value)
        if children:
            budget.spend(len(children))
            descendants.append(value)
            stack.extend(reversed([*children]))
        elif isinstance(value, str) and value:
            descendants.append(value)
    return descendants


def _slice(bounds: ArrayNode) -> Step:
    def run(values: list[Json], budget: Budget) -> list[Json]:
        items: list[Json] = []
        budget.spend(len(values))
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise JsonPathError("not an array or slice")
            start, end = _range(bounds, len(value))
            if start == end:
                return items  # the reference stops here, too
            budget.spend(len(range(start, end, bounds.step)))
            items.extend(value[start : end : bounds.step])
        return items

    return run


def _range(bounds: ArrayNode, length: int) -> tuple[int, int]:
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


def _finds_any(steps: list[Step], item: Json, budget: Budget) -> bool:
    """Whether a path finds anything; what is found before a step that fails counts, as in the reference."""
    values = [item]
    for step in steps:
        try:
            values = step(values, budget)
        except JsonPathError:
            break
    return bool(values)


def _filter(condition: FilterNode) -> Step:
    steps = [_step(node) for node in condition.left]
    left = _sequence(condition.left)
    right = _sequence(condition.right)
    holds = _COMPARISONS.get(condition.operator)
    weight = 2 + len(condition.left) + len(condition.right)

    def passes(item: Json, budget: Budget) -> bool:
        if condition.operator == "exists":
            return _finds_any(steps, item, budget)
        lefts, rights = left([item], budget), right([item], budget)
        if not lefts or not rights:
            return False
        if len(lefts) > 1 or len(rights) > 1:
            raise JsonPathError("can only compare one element at a time")
        if holds is None:
            raise JsonPathError(f"unrecognized filter operator {condition.operator}")
        if type(lefts[0]) is str:
            budget.spend(len(lefts[0]) // TEXT_PER_VISIT)
        return holds(lefts[0], rights[0])

    def run(values: list[Json], budget: Budget) -> list[Json]:
        items: list[Json] = []
        for value in values:
            if not isinstance(value, list):
                raise JsonPathError("not an array or slice and cannot be filtered")
            budget.spend(1 + len(value) * weight)
            items.extend(item for item in value if passes(item, budget))
        return items

    return run


def _same_type(compare: Callable[[Any, Any], bool], kinds: tuple[type, ...]) -> Callable[[Json, Json], bool]:
    """Go compares scalars of the same type only, not even an integer with a float, and cannot order booleans."""

    def run(left: Json, right: Json) -> bool:
        if type(left) is not type(right) or type(left) not in kinds:
            raise JsonPathError("incompatible types for comparison")
        return compare(left, right)

    return run


_COMPARISONS: dict[str, Callable[[Json, Json], bool]] = {
    "==": _same_type(operator.eq, (str, int, float, bool)),
    "!=": _same_type(operator.ne, (str, int, float, bool)),
    "<": _same_type(operator.lt, (str, int, float)),
    "<=": _same_type(operator.le, (str, int, float)),
    ">": _same_type(operator.gt, (str, int, float)),
    ">=": _same_type(operator.ge, (str, int, float)),
}
