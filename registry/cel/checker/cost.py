"""Static cost estimation: the most that one evaluation of an expression can cost.

Costs and sizes are ranges (least, most) of integers that saturate at 2**64-1, which also means "unknown". The sizes of
values in the object are those that the schema allows: each node that is a path into the object is resolved from the
declared type, with the path segments `@items`, `@keys` and `@values` for the contents of lists and maps. The costs of
calls are in cost_functions.py.

Oddities are deliberate: the result must equal kube-apiserver's, since it decides which definitions are accepted.
Follows cel-go v0.26 checker/cost.go and apiextensions-apiserver pkg/apiserver/schema/cel/compilation.go.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from registry.cel.checker.checked import Checked
from registry.cel.checker.cost_functions import Argument, CallCost, CostedCall, estimate_call
from registry.cel.checker.cost_ranges import FREE, ONE, UNKNOWN, Range, add, fixed, multiply, traversal, union
from registry.cel.checker.schema_types import Declared
from registry.cel.common.types import Type, TypeKind, is_optional
from registry.cel.syntax import ast
from registry.cel.syntax.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr

Path: TypeAlias = tuple[str, ...]

_LIST_BASE = fixed(10)
_MAP_BASE = fixed(30)
_STRUCT_BASE = fixed(40)


def estimate(checked: Checked, root: Declared) -> int:
    """The most that `checked` can cost when `self` has the declared type."""
    return _Coster(checked, root).cost(checked.root)[1]


class _Entries(NamedTuple):
    """Sizes of the keys and values of a list or map that the expression constructs."""

    is_list: bool
    key: Range
    value: Range


class _Variable(NamedTuple):
    path: Path
    size: Range | None
    entries: _Entries | None


class _Coster:
    """One estimation. `paths`, `sizes` and `entries` hold the known properties of nodes, by id; `variables` by name."""

    __slots__ = ("checked", "entries", "paths", "root", "sizes", "variables")

    def __init__(self, checked: Checked, root: Declared) -> None:
        self.checked = checked
        self.root = root
        self.paths: dict[int, Path] = {}
        self.sizes: dict[int, Range] = {}
        self.entries: dict[int, _Entries] = {}
        self.variables: dict[str, list[_Variable]] = {}

    def cost(self, node: Expr) -> Range:
        match node:
            case Literal():
                return FREE
            case Ident():
                return self.ident(node)
            case Select():
                return self.select(node)
            case Call():
                return self.call(node)
            case ListExpr():
                return self.list(node)
            case MapExpr():
                return self.map(node)
            case StructExpr():
                total = _STRUCT_BASE
                for entry in node.entries:
                    total = add(total, self.cost(entry.value))
                return total
            case Comprehension():
                return self.bind(node) if _is_bind(node) else self.comprehension(node)

    def ident(self, node: Ident) -> Range:
        name = self.checked.idents.get(node.id, node.name)
        variable = self.variable(name)  # none for `.a`, which is global
        name = name.removeprefix(".")
        self.paths[node.id] = (name,) if variable is None else variable.path
        return ONE

    def select(self, node: Select) -> Range:
        if node.id in self.checked.idents:
            self.paths[node.id] = (self.checked.idents[node.id],)
            return ONE
        cost = self.cost(node.operand)
        if node.test_only:
            return cost  # Kubernetes does not charge for presence tests.
        self.paths[node.id] = (*self.path(node.operand), node.field)
        if self.type(node.operand).kind in (TypeKind.MAP, TypeKind.STRUCT, TypeKind.PARAM):
            cost = add(cost, ONE)
        return cost

    def call(self, node: Call) -> Range:
        if node.function == "dyn":
            cost = add(ONE, self.cost(node.args[0]))
            self.copy_sizes(node, node.args[0])
            return cost
        total = FREE
        costs = [self.cost(argument) for argument in node.args]
        arguments = [self.argument(argument) for argument in node.args]
        overloads = self.checked.overloads.get(node.id, ())
        target = None
        function = self.checked.idents.get(node.id, node.function)
        if node.target is not None and node.id not in self.checked.idents:
            total = self.cost(node.target)
            target = self.argument(node.target)
        whole: Range | None = None
        size: Range | None = None
        for overload in overloads:
            estimate = self.overload(node, function, overload, target, arguments, costs)
            whole = estimate.cost if whole is None else union(whole, estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else union(size, estimate.size)
            if overload in _INDEXED and arguments:
                entries = self.entry_sizes(node.args[0])
                size = None if entries is None else entries.value
                self.paths[node.id] = (*self.path(node.args[0]), _INDEXED[overload])
            if size is None:
                size = self.size(node)
        if size is not None:
            self.sizes[node.id] = size
        return add(total, whole or FREE)

    def overload(
        self,
        node: Call,
        function: str,
        overload: str,
        target: Argument | None,
        arguments: list[Argument],
        costs: list[Range],
    ) -> CallCost:
        if overload in _LOGIC:
            return CallCost((costs[0][0], add(costs[0], costs[1])[1]))
        if overload == "conditional":
            return self.conditional(node, arguments, costs)
        estimate = estimate_call(CostedCall(self.size_at, overload, target, arguments), function)
        if estimate is None:
            if overload in _ADDED and len(arguments) == 2:
                estimate = self.sum(node, overload, arguments)
            else:
                estimate = CallCost(ONE)
        total = estimate.cost
        for cost in costs:
            total = add(total, cost)
        return CallCost(total, estimate.size)

    def conditional(self, node: Call, arguments: list[Argument], costs: list[Range]) -> CallCost:
        _, if_true, if_false = node.args
        self.set_entries(node, _union_entries(self.entry_sizes(if_true), self.entry_sizes(if_false)))
        size = union(arguments[1].size or UNKNOWN, arguments[2].size or UNKNOWN)
        return CallCost(add(costs[0], union(costs[1], costs[2])), size)

    def sum(self, node: Call, overload: str, arguments: list[Argument]) -> CallCost:
        self.set_entries(node, _union_entries(self.entry_sizes(node.args[0]), self.entry_sizes(node.args[1])))
        size = add(arguments[0].size or UNKNOWN, arguments[1].size or UNKNOWN)
        return CallCost(ONE if overload == "add_list" else traversal(size), size)

    def list(self, node: ListExpr) -> Range:
        total = FREE
        value: Range | None = None
        for element in node.elements:
            total = add(total, self.cost(element))
            size = self.size(element) or UNKNOWN
            value = size if value is None else union(value, size)
        self.entries[node.id] = _Entries(True, ONE, value or FREE)
        return add(total, _LIST_BASE)

    def map(self, node: MapExpr) -> Range:
        total = FREE
        keys: Range | None = None
        values: Range | None = None
        for entry in node.entries:
            total = add(add(total, self.cost(entry.key)), self.cost(entry.value))
            key, value = self.size(entry.key) or UNKNOWN, self.size(entry.value) or UNKNOWN
            keys = key if keys is None else union(keys, key)
            values = value if values is None else union(values, value)
        self.entries[node.id] = _Entries(False, keys or FREE, values or FREE)
        return add(total, _MAP_BASE)

    def comprehension(self, node: Comprehension) -> Range:
        total = add(self.cost(node.iter_range), self.cost(node.accu_init))
        self.push(node.accu_var, self.bound(node.accu_init))
        path, entries = self.path(node.iter_range), self.entry_sizes(node.iter_range)
        is_list = self.type(node.iter_range).kind is TypeKind.LIST if entries is None else entries.is_list
        key, value = (None, None) if entries is None else (entries.key, entries.value)
        if node.iter_var2:
            self.push(node.iter_var, _Variable((*path, "@indices" if is_list else "@keys"), key, None))
            self.push(node.iter_var2, _Variable((*path, "@items" if is_list else "@values"), value, None))
        else:
            single = ((*path, "@items"), value) if is_list else ((*path, "@keys"), key)
            self.push(node.iter_var, _Variable(*single, None))
        loop = add(self.cost(node.loop_step), self.cost(node.loop_condition))
        self.variables[node.iter_var].pop()
        if node.iter_var2:
            self.variables[node.iter_var2].pop()
        total = add(total, self.cost(node.result))
        self.variables[node.accu_var].pop()
        rounds = self.size(node.iter_range) or UNKNOWN
        if isinstance(node.accu_init, Literal):
            self.sizes[node.id] = self.size(node.accu_init) or UNKNOWN
        elif isinstance(node.accu_init, ListExpr | MapExpr):
            self.sizes[node.id] = rounds
            self.set_entries(node, self.entry_sizes(node.loop_step))
        return add(total, multiply(rounds, loop))

    def bind(self, node: Comprehension) -> Range:
        total = add(self.cost(node.iter_range), self.cost(node.accu_init))
        self.push(node.accu_var, self.bound(node.accu_init))
        total = add(total, self.cost(node.result))
        self.variables[node.accu_var].pop()
        self.copy_sizes(node, node.result)
        return total

    def bound(self, node: Expr) -> _Variable:
        return _Variable(self.path(node), self.size(node), self.entry_sizes(node))

    def push(self, name: str, variable: _Variable) -> None:
        self.variables.setdefault(name, []).append(variable)

    def variable(self, name: str) -> _Variable | None:
        stack = self.variables.get(name)
        return stack[-1] if stack else None

    def argument(self, node: Expr) -> Argument:
        path = self.path(node)
        if path and path[0] in (ast.ACCUMULATOR, "__result__"):
            path = ()
        return Argument(node, self.type(node), path, self.size(node))

    def type(self, node: Expr) -> Type:
        return self.checked.types[node.id]

    def path(self, node: Expr) -> Path:
        if isinstance(node, Ident):
            variable = self.variable(node.name)
            if variable is not None:
                return variable.path
        return self.paths.get(node.id, ())

    def size(self, node: Expr) -> Range | None:
        """The size of a node: computed before, or else from the literal, the schema or the type, in this order."""
        size = self.sizes.get(node.id)
        if size is not None:
            return size
        match node:
            case Literal():
                return fixed(len(node.value)) if isinstance(node.value, str | bytes) else ONE
            case ListExpr():
                return fixed(len(node.elements))
            case MapExpr():
                return fixed(len(node.entries))
        size = self.size_at(self.path(node))
        if size is not None:
            self.sizes[node.id] = size
            return size
        if _is_scalar(self.type(node)):
            return ONE
        if isinstance(node, Ident):
            variable = self.variable(node.name)
            return None if variable is None else variable.size
        return None

    def size_at(self, path: Path) -> Range | None:
        if not path:
            return None
        declared: Declared | None = self.root
        for name in path[1:]:
            if declared is None:
                return None
            if name in ("@items", "@values"):
                declared = declared.element
            elif name == "@keys":
                declared = declared.key
            else:
                declared = None if declared.fields is None else declared.fields.get(name)
        return None if declared is None else (0, declared.max_elements)

    def entry_sizes(self, node: Expr) -> _Entries | None:
        sizes = self.entries.get(node.id)
        if sizes is None and isinstance(node, Ident):
            variable = self.variable(node.name)
            return None if variable is None else variable.entries
        return sizes

    def set_entries(self, node: Expr, entries: _Entries | None) -> None:
        if entries is not None:
            self.entries[node.id] = entries

    def copy_sizes(self, node: Expr, source: Expr) -> None:
        size = self.size(source)
        if size is not None:
            self.sizes[node.id] = size
        self.set_entries(node, self.entry_sizes(source))


_INDEXED = {"index_list": "@items", "index_map": "@values"}
_LOGIC = frozenset(("logical_and", "logical_or"))
_ADDED = frozenset(("add_string", "add_bytes", "add_list"))
_SCALARS = frozenset(
    (TypeKind.BOOL, TypeKind.DOUBLE, TypeKind.DURATION, TypeKind.INT, TypeKind.TIMESTAMP, TypeKind.UINT)
)


def _is_scalar(of: Type) -> bool:
    while is_optional(of):
        of = of.parameters[0]
    return of.kind in _SCALARS


def _is_bind(node: Comprehension) -> bool:
    return (
        isinstance(node.iter_range, ListExpr)
        and not node.iter_range.elements
        and isinstance(node.loop_condition, Literal)
        and node.loop_condition.value is False
        and node.accu_var != "__result__"
    )


def _union_entries(one: _Entries | None, other: _Entries | None) -> _Entries | None:
    if one is None or other is None:
        return None
    return _Entries(one.is_list, union(one.key, other.key), union(one.value, other.value))
