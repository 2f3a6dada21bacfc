"""Chains of operands and binary operators, their maximum depth, and how high a syntax tree may be.

Follows the precedence of cel-go parser/gen/CEL.g4 and the balancing of parser/helper.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from registry.cel.syntax import ast
from registry.cel.syntax.ast import Call, Expr, Select

MAX_DEPTH: Final = 250  # cel-go's maxRecursionDepth, of each rule of its grammar
RECURSION: Final = f"expression recursion limit exceeded: {MAX_DEPTH}"

_RELATIONS = {
    "<": ast.LESS,
    "<=": ast.LESS_EQUALS,
    ">": ast.GREATER,
    ">=": ast.GREATER_EQUALS,
    "==": ast.EQUALS,
    "!=": ast.NOT_EQUALS,
    "in": ast.IN,
}
_SUMS = {"+": ast.ADD, "-": ast.SUBTRACT}
_PRODUCTS = {"*": ast.MULTIPLY, "/": ast.DIVIDE, "%": ast.MODULO}
_RELATION, _AND = 3, 2
PRECEDENCE = {
    **dict.fromkeys(_PRODUCTS, 5),
    **dict.fromkeys(_SUMS, 4),
    **dict.fromkeys(_RELATIONS, _RELATION),
    "&&": _AND,
    "||": 1,
}
_FUNCTIONS = {**_RELATIONS, **_SUMS, **_PRODUCTS}

Make: TypeAlias = Callable[[int, str, Expr, Expr], Expr]  # from offset, function, left and right


class TooDeepError(Exception):
    """The text is nested deeper than cel-go allows, or its tree is higher than our limit."""


@dataclass(slots=True)
class Depths:
    """The depth of cel-go's parser in the grammar rules of these names."""

    expr: int = 0
    relation: int = 0
    calc: int = 0
    member: int = 0


class Chain:
    """Operands with binary operators between them, during parsing.

    Operators are kept on a stack until one of the same or lower precedence follows. Operands of && and of || are
    collected flat and balanced at the end, as in cel-go, so the length of such chains is not limited.
    """

    __slots__ = ("_make", "and_offsets", "ands", "depths", "operands", "operators", "or_offsets", "ors", "outer")

    def __init__(self, make: Make, depths: Depths, first: Expr) -> None:
        self._make = make
        self.depths = depths
        self.outer = (depths.relation, depths.calc)
        self.operands = [first]
        self.operators: list[tuple[int, str, int]] = []
        self.ors: list[Expr] = []
        self.or_offsets: list[int] = []
        self.ands: list[Expr] = []
        self.and_offsets: list[int] = []

    def operator(self, kind: str, offset: int) -> None:
        """Adds an operator; an operand must follow."""
        precedence = PRECEDENCE[kind]
        self.reduce(precedence)
        if precedence > _AND:
            self.operators.append((precedence, _FUNCTIONS[kind], offset))
            self.deepen(precedence)
            return
        self.depths.relation, self.depths.calc = self.outer
        self.ands.append(self.operands.pop())
        if precedence == _AND:
            self.and_offsets.append(offset)
            return
        self.end_ands()
        self.or_offsets.append(offset)

    def end(self) -> Expr:
        self.reduce(0)
        self.depths.relation, self.depths.calc = self.outer
        last = self.operands.pop()
        if not self.ands and not self.ors:
            return last
        self.ands.append(last)
        self.end_ands()
        return self.balance(ast.LOGICAL_OR, self.ors, self.or_offsets, 0, len(self.or_offsets) - 1)

    def reduce(self, precedence: int) -> None:
        while self.operators and self.operators[-1][0] >= precedence:
            _, function, offset = self.operators.pop()
            right = self.operands.pop()
            self.operands[-1] = self._make(offset, function, self.operands[-1], right)

    def end_ands(self) -> None:
        self.ors.append(self.balance(ast.LOGICAL_AND, self.ands, self.and_offsets, 0, len(self.and_offsets) - 1))
        self.ands, self.and_offsets = [], []

    def balance(self, function: str, terms: list[Expr], offsets: list[int], low: int, high: int) -> Expr:
        if low > high:
            return terms[low]
        middle = (low + high + 1) // 2
        left = self.balance(function, terms, offsets, low, middle - 1)
        right = self.balance(function, terms, offsets, middle + 1, high)
        return self._make(offsets[middle], function, left, right)

    def deepen(self, precedence: int) -> None:
        """Counts the depth of cel-go's left-recursive rules: each further operator of a chain is one level deeper."""
        depths = self.depths
        if precedence == _RELATION:
            depths.relation += 1
            depths.calc = self.outer[1]
        else:
            depths.calc += 1
        # Two more: the rule itself, and the operand on the right of the operator.
        if depths.relation + 2 > MAX_DEPTH or depths.calc + 2 > MAX_DEPTH:
            raise TooDeepError(RECURSION)


MAX_HEIGHT = 300  # so that recursion over a tree stays within Python's limit

_UNCOUNTED = frozenset((ast.LOGICAL_AND, ast.LOGICAL_OR, ast.LOGICAL_NOT, ast.NEGATE))


def check_height(root: Expr) -> None:
    """Raises TooDeepError for trees too deep for cel-go's walk over its parse tree, or too high for our own recursion:
    chains of operators and selections are, where the parser itself has nested little.

    cel-go counts ternaries, relations, sums, selections, indexes and member calls.
    """
    stack = [(root, 1, 0)]
    while stack:
        node, height, counted = stack.pop()
        if isinstance(node, Select) or (
            isinstance(node, Call)
            and node.function not in _UNCOUNTED
            and (node.target is not None or not node.function[0].isalpha())
        ):
            counted += 1
        if counted > MAX_DEPTH or height > MAX_HEIGHT:
            raise TooDeepError("max recursion depth exceeded")
        stack.extend((child, height + 1, counted) for child in ast.children(node))
