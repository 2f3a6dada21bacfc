"""Compiles a checked tree to closures.

`compile_program(checked, {"self": view})` returns a Program; its variables are in the frame in the order of the
mapping, from slot 1 on. A variable with a view is decoded JSON, one without (None) is a CEL value.

Nothing is looked up by name at run time: names are slots, fields of an object are dictionary look-ups, functions are
resolved once, constants are folded, regular expressions compiled. No user text is ever executed as Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from registry.budget import BudgetExceeded
from registry.cel.checker.checked import Checked
from registry.cel.common.messages import MESSAGES, NULL_VALUE, make_message
from registry.cel.common.values import EvalError, Missing, Optional, Uint, Value, evaluation_budget, no_such_overload
from registry.cel.ext.conversions import TYPE_NAMES
from registry.cel.ext.table import CONSTANT_TIME, COSTS, GLOBALS, LIST_COST, MAP_COST, MEMBERS, Implementation
from registry.cel.interpreter import access
from registry.cel.interpreter.calls import (
    alternative,
    costed_call,
    list_of,
    map_of,
    matches_constant,
    plain_call,
    typed_sum,
    with_input_work,
)
from registry.cel.interpreter.code import (
    COST,
    Code,
    Counting,
    Exact,
    Fast,
    Frame,
    Run,
    constant,
    costing,
    failing,
    value_of,
)
from registry.cel.interpreter.loops import compile_loop
from registry.cel.interpreter.operators import OPERATORS
from registry.cel.interpreter.view import View
from registry.cel.syntax.ast import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    NodeKind,
    Select,
    StructExpr,
)

OLD_SELF: Final = "oldSelf"
ABSENT: Final = Missing()  # the value of oldSelf if there is none


class Program:
    """A compiled expression.

    `run(frame)` returns a value or raises EvalError, BudgetExceeded or CostExceeded; frame[COST] is then an upper bound
    of the cost, or the exact cost in an exact program. `frame(*variables)` creates a frame.
    """

    __slots__ = ("_checked", "_exact", "_variables", "cost", "run", "spare")

    def __init__(self, checked: Checked, variables: Mapping[str, View | None], counting: Counting) -> None:
        with evaluation_budget():  # constants are evaluated while compiling
            compiler = _Compiler(checked, variables, counting)
            code = compiler.compile(checked.root)
        self.run: Run = value_of(code)
        self.cost = code.cost
        self.spare = [None] * (compiler.slots - 1 - len(variables))
        self._checked = checked
        self._variables = variables
        self._exact: Program | None = self if counting.exact else None

    def frame(self, *variables: Value) -> Frame:
        return [self.cost, *variables, *self.spare]

    def exact(self) -> Program:
        """The same expression with exact costs. Compiled on the first call."""
        if self._exact is None:
            self._exact = Program(self._checked, self._variables, Exact)
        return self._exact

    def evaluate(self, *variables: Value) -> Value:
        """The value for these variables. Raises EvalError, CostExceeded or BudgetExceeded."""
        with evaluation_budget():
            return self.run(self.frame(*variables))


def compile_program(checked: Checked, variables: Mapping[str, View | None]) -> Program:
    """Compiles a tree that was checked without issues; decoded values of variables must be of the view's kind."""
    return Program(checked, variables, Fast)


class _Compiler:
    """One pass over one tree. `names` maps the names in scope to their code; an inner name hides an outer one."""

    def __init__(self, checked: Checked, variables: Mapping[str, View | None], counting: Counting) -> None:
        self.checked = checked
        self.counting = counting
        self.names: dict[str, list[Code]] = {}
        self.variables = variables.keys()
        self.slots = 1
        for name, view in variables.items():
            self.names[name] = [_verify(name, self.slots, view)]
            self.slots += 1

    def bind(self, name: str, view: View | None) -> int:
        """Brings a loop variable into scope and returns its slot."""
        slot = self.slots
        self.slots += 1
        verified = view is not None and access.container_type(view) is not None  # the loop has checked them
        self.names.setdefault(name, []).append(access.variable(slot, view, verified=verified))
        return slot

    def unbind(self, name: str) -> None:
        self.names[name].pop()

    def compile(self, node: Expr) -> Code:
        match node:
            case Literal():
                return constant(_literal(node))
            case Ident():
                return self.name(node, node.name)
            case Select():
                return self.select(node)
            case Call():
                return self.call(node)
            case ListExpr():
                return self.list_literal(node)
            case MapExpr():
                return self.map_literal(node)
            case Comprehension():
                return compile_loop(self, node)
            case StructExpr():
                return self.message(node)

    # --- names and fields

    def name(self, node: Expr, name: str) -> Code:
        name = self.checked.idents.get(node.id, name)
        bare = name.removeprefix(".")
        codes = self.names.get(bare)
        if bare != name:  # the global one, which a local one hides
            codes = codes[:1] if codes and bare in self.variables else None
        name = bare
        if codes:
            code = codes[-1]
            return costing(Code(code.run, code.cost, code.view, attribute=True, slot=code.slot), 1)
        type_ = TYPE_NAMES.get(name)
        if type_ is not None:
            return constant(type_, 1)
        if name == NULL_VALUE:
            return constant(0, 1)
        return failing(EvalError(f"no such attribute(s): {name}"), 1)

    def select(self, node: Select) -> Code:
        if node.id in self.checked.idents:
            return self.name(node, node.field)
        operand = self.compile(node.operand)
        if node.test_only:
            return costing(access.has(operand, node.field), 1 - operand.attribute)
        return costing(access.select(operand, node.field), 2 - operand.attribute)

    # --- lists and maps

    def list_literal(self, node: ListExpr) -> Code:
        items = [self.compile(element) for element in node.elements]
        cost = sum(item.cost for item in items)
        if not node.optional_indices and items and all(item.constant for item in items):
            values = [item.run([]) for item in items]
            return constant(values, cost + LIST_COST)
        return costing(Code(list_of(items, node.optional_indices), cost), LIST_COST)

    def map_literal(self, node: MapExpr) -> Code:
        entries = [(self.compile(e.key), self.compile(e.value), e.optional) for e in node.entries]
        cost = sum(key.cost + value.cost for key, value, _ in entries)
        pairs = [(value_of(key), value_of(value), optional) for key, value, optional in entries]
        return costing(Code(lambda frame: map_of(frame, pairs), cost), MAP_COST)

    def message(self, node: StructExpr) -> Code:
        messages, name = self.checked.messages, node.name
        make: Callable[[str, dict[str, Value]], Value]
        if messages is not None and messages.type_of(name) is not None:
            make = messages.make
        elif name.removeprefix(".") in MESSAGES:
            name, make = name.removeprefix("."), make_message
        else:
            return failing(EvalError(f"unknown type '{name}'"))
        parts = [(entry.field, self.compile(entry.value), entry.optional) for entry in node.entries]
        fields = [(name, value_of(code), optional) for name, code, optional in parts]

        def build(frame: Frame) -> Value:
            values_of_fields = {}
            for field, run, optional in fields:
                value = run(frame)
                if optional:
                    if type(value) is not Optional:
                        raise EvalError(f"cannot initialize optional entry '{field}' from non-optional value {value}")
                    if not value.present:
                        continue
                    value = value.get()
                values_of_fields[field] = value
            return make(name, values_of_fields)

        # cel-go's run-time cost (common.StructCreateBaseCost).
        return costing(Code(build, sum(code.cost for _, code, _ in parts)), 40)

    # --- calls

    def call(self, node: Call) -> Code:
        special = OPERATORS.get(node.function)
        if special is not None and node.target is None:
            return special(self, node)
        name, target = node.function, node.target
        qualified = self.checked.idents.get(node.id)
        if qualified is not None:
            name, target = qualified.removeprefix("."), None
        if target is None:
            return self.function(node, GLOBALS, name.removeprefix("."), [self.compile(a) for a in node.args])
        operand = self.compile(target)
        if name in ("or", "orValue") and len(node.args) == 1:
            return costing(alternative(name, operand, self.counting.branch(self.compile(node.args[0]))), 1)
        return self.function(node, MEMBERS, name, [operand, *map(self.compile, node.args)])

    def function(
        self, node: Call, table: Mapping[tuple[str, int], Implementation], name: str, arguments: list[Code]
    ) -> Code:
        implementation = table.get((name, len(arguments)))
        if implementation is None:
            return failing(no_such_overload(name), sum(a.cost for a in arguments))
        if name == "matches" and arguments[1].constant and type(arguments[1].run([])) is str:
            return matches_constant(arguments)
        if name == "size" and arguments[0].view is not None:
            run = arguments[0].run
            return costing(Code(lambda frame: len(run(frame)), arguments[0].cost), 1)
        if name == "sum":
            implementation = typed_sum(self.checked.overloads.get(node.id, ()))
        cost_of = COSTS.get(name)
        if cost_of is not None:
            code = costed_call(implementation, arguments, cost_of)
        else:
            constant_time = name in CONSTANT_TIME
            code = costing(
                plain_call(implementation if constant_time else with_input_work(implementation), arguments), 1
            )
        if all(a.constant for a in arguments):
            return _fold(code)
        return code


def _verify(name: str, slot: int, view: View | None) -> Code:
    """A variable of the program: the type of its value has been checked, but oldSelf may be absent."""
    code = access.variable(slot, view, verified=True)
    if name != OLD_SELF:
        return code
    run = code.run

    def read(frame: Frame) -> Value:
        if frame[slot] is ABSENT:
            raise EvalError(f"no such attribute(s): {name}")
        return run(frame)

    return Code(read, view=code.view, attribute=True)


def _literal(node: Literal) -> Value:
    return Uint(node.value) if node.kind is NodeKind.UINT else node.value  # type: ignore[arg-type]


def _fold(code: Code) -> Code:
    """Evaluates a call of constants at compile time, unless it fails."""
    frame: Frame = [0]
    try:
        value = code.run(frame)
    except (EvalError, BudgetExceeded):
        return code
    return constant(value, code.cost + frame[COST])
