"""How high a syntax tree may be, also where the parser itself has nested little: chains of operators and selections."""

from __future__ import annotations

from registry.cel.syntax import ast
from registry.cel.syntax.ast import Call, Expr, Select
from registry.cel.syntax.chains import MAX_DEPTH, TooDeepError

MAX_HEIGHT = 300  # so that recursion over a tree stays within Python's limit

_UNCOUNTED = frozenset((ast.LOGICAL_AND, ast.LOGICAL_OR, ast.LOGICAL_NOT, ast.NEGATE))


def check_height(root: Expr) -> None:
    """Raises TooDeepError for trees too deep for cel-go's walk over its parse tree, or too high for our own recursion.

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
