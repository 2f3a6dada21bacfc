"""Extracts from a filter's checked tree the constraints on single fields: the part that an index can answer.

`object.spec.size > 3 && object.spec.color in ["a", "b"] && f(object)` gives a Range of spec.size and a Points of
spec.color. Every object that matches the filter satisfies all constraints; `exact` says that the converse holds as
well, so that the filter need not be evaluated. Only terms known to be equivalent are used: the others are evaluated on
the objects that satisfy the constraints.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from registry.budget import BudgetExceeded
from registry.cel.checker.checked import Checked
from registry.cel.common.escaping import escape, unescape
from registry.cel.common.times import Duration, Timestamp
from registry.cel.common.types import TypeKind
from registry.cel.common.values import CostExceeded, EvalError
from registry.cel.interpreter.compile import compile_program
from registry.cel.syntax import ast
from registry.cel.syntax.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, NodeKind, Select
from registry.query.encoding import MAX_ENTRY, OVERFLOW, PRESENT, behind, encode, prefix_range, successor
from registry.query.fields import EACH, FieldKind, FieldPathError, Path, QueryField, nodes_along, resolve
from registry.query.language import NOW, OBJECT, Filter, search_of, timestamp_of
from registry.query.text import Lookup

# The most constants to look up: each is a range of the index.
MAX_POINTS: Final = 100


@dataclass(frozen=True, slots=True)
class Points:
    """The field has one of these values (sorted components)."""

    field: QueryField
    components: tuple[bytes, ...]
    # The constants themselves, if they are strings.
    texts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """The component is within [start, end)."""

    field: QueryField
    start: bytes
    end: bytes


@dataclass(frozen=True, slots=True)
class Text:
    """The declared fields have the words of a search."""

    lookup: Lookup


Constraint = Points | Interval


class Constraints(NamedTuple):
    """`text` is that of a search, if there is one."""

    per_field: tuple[Constraint, ...]
    exact: bool
    text: Text | None = None


def constraints_of(wanted: Filter, now: datetime.datetime) -> Constraints:
    return _ConstraintReader(wanted, now).conjunction(wanted.checked.root)


# The comparison with its sides swapped.
_FLIPPED: Final[Mapping[str, str]] = {
    ast.EQUALS: ast.EQUALS,
    ast.LESS: ast.GREATER,
    ast.LESS_EQUALS: ast.GREATER_EQUALS,
    ast.GREATER: ast.LESS,
    ast.GREATER_EQUALS: ast.LESS_EQUALS,
}
# The kinds of fields that are compared with constants of only one type: in CEL, and of its values in Python.
_TYPES: Final[Mapping[FieldKind, tuple[TypeKind, type]]] = {
    FieldKind.STRING: (TypeKind.STRING, str),
    FieldKind.INTEGER: (TypeKind.INT, int),
    FieldKind.NUMBER: (TypeKind.DOUBLE, float),
    FieldKind.BOOLEAN: (TypeKind.BOOL, bool),
    FieldKind.TIME: (TypeKind.TIMESTAMP, Timestamp),
    FieldKind.DURATION: (TypeKind.DURATION, Duration),
}
_FIRST: Final = PRESENT
_LAST: Final = successor(PRESENT)


class _ConstraintReader:
    def __init__(self, wanted: Filter, now: datetime.datetime) -> None:
        self._wanted = wanted
        self._checked = wanted.checked
        self._root = wanted.root
        self._now = timestamp_of(now)

    def conjunction(self, node: Expr) -> Constraints:
        """Returns the constraints of the terms of `&&` that can be used."""
        terms = list(_terms(node, ast.LOGICAL_AND))
        text = next((one for one in map(self._text, terms) if one is not None), None)
        read = [self._term(term) for term in terms]
        constraints = [one for one in read if one is not None]
        exact = len(constraints) == len(terms) and all(ok for _, ok in constraints)
        return Constraints(_intersect_all([one for one, _ in constraints]), exact, text)

    def _text(self, node: Expr) -> Text | None:
        search = search_of(self._wanted, node.name) if isinstance(node, Ident) else None
        return Text(search.lookup) if search is not None else None

    def _term(self, node: Expr) -> tuple[Constraint, bool] | None:
        """Returns a constraint, and whether it is exact."""
        match node:
            case Call(function=ast.LOGICAL_OR):
                return self._alternatives(list(_terms(node, ast.LOGICAL_OR)))
            case Call(function=ast.LOGICAL_NOT, args=(operand,)):
                return self._flag(operand, False)
            case Call(function=function, args=(left, right), target=None) if function in _FLIPPED:
                return self._compare(function, left, right) or self._compare(_FLIPPED[function], right, left)
            case Call(function=ast.IN, args=(left, right)):
                return self._in(left, right)
            case Call(function="startsWith", args=(prefix,), target=target) if target is not None:
                return self._prefix(target, prefix)
            case Comprehension():
                return self._exists(node)
            case Select(test_only=False) | Call(function=ast.INDEX):
                return self._flag(node, True)
        return None

    def _alternatives(self, terms: Sequence[Expr]) -> tuple[Constraint, bool] | None:
        """Handles `a == 1 || a == 2`, of one field only."""
        read = [self._term(term) for term in terms]
        points = [one for one in read if one is not None and isinstance(one[0], Points)]
        if len(points) < len(read) or len({one.field.path for one, _ in points}) > 1:
            return None
        first = points[0][0]
        components = sorted({c for one, _ in points if isinstance(one, Points) for c in one.components})
        if len(components) > MAX_POINTS:
            return None
        texts: list[str] | None = []
        for one, _ in points:
            assert isinstance(one, Points)
            texts = None if texts is None or one.texts is None else [*texts, *one.texts]
        return (
            Points(first.field, tuple(components), None if texts is None else tuple(dict.fromkeys(texts))),
            all(exact for _, exact in points),
        )

    def _flag(self, node: Expr, wanted: bool) -> tuple[Constraint, bool] | None:
        field = self._field(node)
        if field is None or field.kind is not FieldKind.BOOLEAN:
            return None
        return Points(field, (encode(FieldKind.BOOLEAN, wanted),)), True

    def _compare(self, function: str, left: Expr, right: Expr) -> tuple[Constraint, bool] | None:
        field = self._field(left)
        if field is None:
            return None
        value = self._constant(right, field.kind)
        if value is _NOTHING:
            return None
        component = encode(field.kind, value)
        if len(component) > MAX_ENTRY // 2:
            return None
        after = behind(component)
        match function:
            case ast.EQUALS:
                return Points(field, (component,), (value,) if isinstance(value, str) else None), True
            case ast.LESS:
                return Interval(field, _FIRST, component), True
            case ast.LESS_EQUALS:
                return Interval(field, _FIRST, after), True
            case ast.GREATER:
                return Interval(field, after, _LAST), True
            case _:
                return Interval(field, component, _LAST), True

    def _in(self, left: Expr, right: Expr) -> tuple[Constraint, bool] | None:
        """Handles `object.a in [constants]`, or `constant in object.list`."""
        field = self._field(left)
        if field is not None and isinstance(right, ListExpr) and right.elements and not right.optional_indices:
            values = [self._constant(element, field.kind) for element in right.elements]
            if any(value is _NOTHING for value in values):
                return None
            components = sorted({encode(field.kind, value) for value in values})
            if len(components) > MAX_POINTS or any(len(component) > MAX_ENTRY // 2 for component in components):
                return None
            texts = tuple(dict.fromkeys(values)) if field.kind is FieldKind.STRING else None
            return Points(field, tuple(components), texts), True
        return self._element(right, left)

    def _exists(self, node: Comprehension) -> tuple[Constraint, bool] | None:
        """Handles `object.list.exists(x, x == constant)`."""
        step = node.loop_step
        init = node.accu_init
        if (
            node.iter_var2
            or not isinstance(init, Literal)
            or init.value is not False
            or not (isinstance(step, Call) and step.function == ast.LOGICAL_OR and len(step.args) == 2)
            or not (isinstance(node.result, Ident) and node.result.name == node.accu_var)
            or not (isinstance(step.args[0], Ident) and step.args[0].name == node.accu_var)
        ):
            return None
        test = step.args[1]
        if not (isinstance(test, Call) and test.function == ast.EQUALS):
            return None
        for left, right in (test.args, reversed(test.args)):
            if isinstance(left, Ident) and left.name == node.iter_var:
                return self._element(node.iter_range, right)
        return None

    def _element(self, array: Expr, constant: Expr) -> tuple[Constraint, bool] | None:
        field = self._field(array, EACH)
        if field is None:
            return None
        value = self._constant(constant, field.kind)
        if value is _NOTHING:
            return None
        component = encode(field.kind, value)
        return (Points(field, (component,)), True) if len(component) <= MAX_ENTRY // 2 else None

    def _prefix(self, target: Expr, prefix: Expr) -> tuple[Constraint, bool] | None:
        field = self._field(target)
        if field is None or field.kind is not FieldKind.STRING:
            return None
        value = self._constant(prefix, FieldKind.STRING)
        if value is _NOTHING or len(value) > MAX_ENTRY // 8:
            return None
        return Interval(field, *prefix_range(value)), True

    # --- fields and constants

    def _field(self, node: Expr, *more: str) -> QueryField | None:
        if isinstance(node, Call) and node.function == "timestamp" and node.target is None and len(node.args) == 1:
            field = self._field(node.args[0])  # the timestamp of a timestamp is itself
            return field if field is not None and field.kind is FieldKind.TIME else None
        path = self._path(node)
        if not path:
            return None
        try:
            return resolve(self._root, (*path, *more))
        except FieldPathError:
            return None

    def _path(self, node: Expr) -> Path | None:
        """Returns the path of `object.a.b["c"]`; () for `object` itself, None for anything else."""
        match node:
            case Ident(name=name):
                return () if name.lstrip(".") == OBJECT else None
            case Select(operand=operand, field=name, test_only=False):
                return self._step(self._path(operand), name)
            case Call(function=ast.INDEX, args=(operand, Literal(kind=NodeKind.STRING, value=str() as key))):
                path = self._path(operand)
                schema = self._schema(path)
                return (*path, key) if path is not None and schema is not None and not schema.properties else None
        return None

    def _step(self, path: Path | None, identifier: str) -> Path | None:
        schema = self._schema(path)
        if path is None or schema is None:
            return None
        if not schema.properties:
            return (*path, identifier)  # a key of a map
        name = unescape(identifier)
        if name is None or name not in schema.properties or escape(name) != identifier:
            return None
        return (*path, name)

    def _schema(self, path: Path | None) -> Any:
        if path is None:
            return None
        nodes = [self._root, *nodes_along(self._root, path)]
        return nodes[-1] if len(nodes) == len(path) + 1 else None

    def _constant(self, node: Expr, kind: FieldKind) -> Any:
        """Returns the value of an expression that does not depend on the object, in the field's type."""
        types = _TYPES.get(kind)
        if kind is FieldKind.NUMBER and isinstance(node, Literal) and node.kind is NodeKind.INT:
            assert isinstance(node.value, int)
            return float(node.value) if abs(node.value) <= _EXACT else _NOTHING
        if types is None or self._checked.types[node.id].kind is not types[0]:
            return _NOTHING
        for below in ast.walk(node):
            if isinstance(below, Ident) and below.name.lstrip(".") != NOW and below.id not in self._checked.idents:
                return _NOTHING
            if isinstance(below, Comprehension):
                return _NOTHING
        if isinstance(node, Literal):
            return node.value
        parsed = dataclasses.replace(self._checked.parsed, root=node)
        alone: Checked = dataclasses.replace(self._checked, parsed=parsed)
        try:
            value = compile_program(alone, {NOW: None}).evaluate(self._now)
        except (EvalError, CostExceeded, BudgetExceeded, RecursionError):
            return _NOTHING
        return value if type(value) is types[1] and value == value else _NOTHING


def _intersect_all(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """Merges constraints per field. For arrays, different elements may satisfy them, so those are not merged."""
    by_path: dict[Path, Constraint] = {}
    others: list[Constraint] = []
    for one in constraints:
        known = by_path.get(one.field.path)
        if one.field.is_array:
            others.append(one)
        else:
            by_path[one.field.path] = one if known is None else _intersect(known, one)
    return (*by_path.values(), *others)


def _intersect(left: Constraint, right: Constraint) -> Constraint:
    if isinstance(left, Interval) and isinstance(right, Interval):
        return Interval(
            left.field, max(left.start, right.start), max(min(left.end, right.end), left.start, right.start)
        )
    if isinstance(left, Interval):
        left, right = right, left
    assert isinstance(left, Points)
    if isinstance(right, Interval):
        common = [component for component in left.components if right.start <= component < right.end]
    else:
        common = [component for component in left.components if component in right.components]
    if not common:
        return Interval(left.field, _FIRST, _FIRST)
    texts = None if left.texts is None else tuple(t for t in left.texts if encode(FieldKind.STRING, t) in common)
    return Points(left.field, tuple(common), texts)


_NOTHING: Final = object()
# Integers that doubles represent exactly.
_EXACT: Final = 1 << 53
assert OVERFLOW > _LAST, "no range of values reaches those that are too long"


def _terms(node: Expr, function: str) -> Iterator[Expr]:
    """Yields the operands of a chain of one operator, in order."""
    stack = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, Call) and one.function == function and one.target is None:
            stack.extend(reversed(one.args))
        else:
            yield one
