"""Code for operators. `OPERATORS` maps the function of a call to what compiles it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from registry.cel.common.values import EvalError, Value
from registry.cel.ext.standard import add, divide, modulo, multiply, negate, subtract
from registry.cel.ext.table import STRING_FACTOR
from registry.cel.interpreter import access, logic
from registry.cel.interpreter.code import Code, Frame, Run, charge, costing, value_of
from registry.cel.interpreter.loops import Compiler
from registry.cel.syntax import ast
from registry.cel.syntax.ast import Call, Expr

_Builder = Callable[[Compiler, Call], Code]


def _binary(operation: Callable[[Value, Value], Value], *, text_cost: bool = False) -> _Builder:
    def build(compiler: Compiler, node: Call) -> Code:
        left, right = compiler.compile(node.args[0]), compiler.compile(node.args[1])
        a, b, cost = value_of(left), value_of(right), left.cost + right.cost
        if text_cost:
            return _addition(compiler, a, b, cost)
        return costing(Code(lambda frame: operation(a(frame), b(frame)), cost), 1)

    return build


def _addition(compiler: Compiler, a: Run, b: Run, cost: int) -> Code:
    """`a + b`: for texts the cost is a tenth of the length of the result."""
    exact = compiler.counting.exact

    def plus(frame: Frame) -> Value:
        result = add(a(frame), b(frame))
        kind = type(result)
        if (kind is str or kind is bytes) and (exact or len(result) > 10):
            charge(frame, math.ceil(len(result) * STRING_FACTOR))
        elif exact:
            charge(frame, 1)
        return result

    return Code(plus, cost if exact else cost + 1)


def _logical(build: Callable[[list[Code]], Code]) -> _Builder:
    def flat(compiler: Compiler, node: Call) -> Code:
        terms: list[Expr] = []
        stack: list[Expr] = [node]
        while stack:
            term = stack.pop()
            if isinstance(term, Call) and term.function == node.function and term.target is None:
                stack.extend(reversed(term.args))
            else:
                terms.append(term)
        first, *others = [compiler.compile(term) for term in terms]
        return build([first, *map(compiler.counting.branch, others)])

    return flat


def _membership(compiler: Compiler, node: Call) -> Code:
    needle, haystack = node.args
    if isinstance(haystack, ast.ListExpr) and not haystack.elements:
        return Code(lambda frame: False)  # folded in cel-go: the needle is not evaluated
    return logic.membership(compiler.compile(needle), compiler.compile(haystack))


def _equality(wanted: bool) -> _Builder:
    return lambda compiler, node: logic.equality(
        compiler.compile(node.args[0]), compiler.compile(node.args[1]), compiler.counting, wanted
    )


def _ordering(compiler: Compiler, node: Call) -> Code:
    return logic.ordering(
        node.function, compiler.compile(node.args[0]), compiler.compile(node.args[1]), compiler.counting
    )


def _index(compiler: Compiler, node: Call) -> Code:
    operand, key = compiler.compile(node.args[0]), compiler.compile(node.args[1])
    return costing(access.index(operand, key), 2 - operand.attribute)


def _optional_index(compiler: Compiler, node: Call) -> Code:
    operand, key = compiler.compile(node.args[0]), compiler.compile(node.args[1])
    return costing(access.optional_index(operand, key), 2 - operand.attribute)


def _not_strictly_false(compiler: Compiler, node: Call) -> Code:
    operand = compiler.compile(node.args[0])
    run = value_of(operand)

    def test(frame: Frame) -> bool:
        try:
            return run(frame) is not False
        except EvalError:
            return True

    return costing(Code(test, operand.cost), 1)


def _negation(compiler: Compiler, node: Call) -> Code:
    operand = compiler.compile(node.args[0])
    run = value_of(operand)
    return costing(Code(lambda frame: negate(run(frame)), operand.cost), 1)


OPERATORS: Final[Mapping[str, _Builder]] = {
    ast.LOGICAL_AND: _logical(logic.both),
    ast.LOGICAL_OR: _logical(logic.either),
    ast.LOGICAL_NOT: lambda compiler, node: costing(logic.negation(compiler.compile(node.args[0])), 1),
    ast.CONDITIONAL: lambda compiler, node: logic.conditional(
        compiler.compile(node.args[0]), *(compiler.counting.branch(compiler.compile(a)) for a in node.args[1:])
    ),
    ast.EQUALS: _equality(True),
    ast.NOT_EQUALS: _equality(False),
    ast.LESS: _ordering,
    ast.LESS_EQUALS: _ordering,
    ast.GREATER: _ordering,
    ast.GREATER_EQUALS: _ordering,
    ast.ADD: _binary(add, text_cost=True),
    ast.SUBTRACT: _binary(subtract),
    ast.MULTIPLY: _binary(multiply),
    ast.DIVIDE: _binary(divide),
    ast.MODULO: _binary(modulo),
    ast.NEGATE: _negation,
    ast.INDEX: _index,
    ast.OPT_INDEX: _optional_index,
    ast.OPT_SELECT: _optional_index,
    ast.IN: _membership,
    ast.NOT_STRICTLY_FALSE: _not_strictly_false,
}
