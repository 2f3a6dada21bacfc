"""Checks that a program can be planned: conversions of constants and constant patterns must be valid.

cel-go evaluates `int("5")` and compiles the pattern of `s.find("[a-z]")` when it plans a program. This module does the
same to find the same errors. Constant arithmetic such as 1/0 is left to the evaluation.

Follows cel-go v0.26 interpreter/decorators.go and planner.go.
"""

from __future__ import annotations

from typing import Final

from registry.cel.checker.checked import Checked
from registry.cel.common.maps import Map
from registry.cel.common.types import TypeKind
from registry.cel.common.values import EvalError, TypeValue, Uint, Value
from registry.cel.ext import clock, conversions
from registry.cel.ext.table import GLOBALS
from registry.cel.syntax.ast import Call, Expr, Ident, ListExpr, Literal, MapExpr, NodeKind, Select
from registry.schema.regexp_errors import regexp_error

_CONVERSIONS: Final = frozenset("bool bytes double duration dyn int string timestamp type uint".split())
assert all((name, 1) in GLOBALS for name in _CONVERSIONS), (clock, conversions)

# The names of types that have values at run time. `duration` and `timestamp` exist in the checker only.
_TYPE_NAMES: Final = frozenset(
    """
    bool bytes double google.protobuf.Duration google.protobuf.Empty google.protobuf.Timestamp int list map net.CIDR
    net.IP null_type optional_type string type uint
    """.split()
)


class _NotConstant(Exception):
    pass


def program_error(checked: Checked) -> str | None:
    """Why no program can be planned; None if one can."""
    for node in checked.nodes():
        error: str | None = None
        match node:
            case Ident() | Select():
                error = _undefined_type(checked, node)
            case Call():
                error = _bad_pattern(node) or _bad_conversion(checked, node)
        if error is not None:
            return error
    return None


def _undefined_type(checked: Checked, node: Ident | Select) -> str | None:
    if isinstance(node, Select) and node.id not in checked.idents:
        return None
    if checked.types[node.id].kind is not TypeKind.TYPE:
        return None
    name = (checked.idents.get(node.id) or (node.name if isinstance(node, Ident) else "")).removeprefix(".")
    return None if name in _TYPE_NAMES else f"reference to undefined type: {name}"


def _bad_pattern(node: Call) -> str | None:
    if node.function not in ("find", "findAll", "matches") or not node.args:
        return None
    pattern = node.args[0] if node.target is not None else node.args[-1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return None
    return regexp_error(pattern.value)


def _bad_conversion(checked: Checked, node: Call) -> str | None:
    if node.function not in _CONVERSIONS:
        return None
    try:
        _value(checked, node)
    except _NotConstant:
        return None
    except EvalError as error:
        return str(error)
    return None


def _value(checked: Checked, node: Expr) -> Value:
    """The value of a constant or a type, of a conversion of one, or of a list or map of them."""
    match node:
        case Literal():
            return Uint(node.value) if node.kind is NodeKind.UINT else node.value  # type: ignore[arg-type]
        case ListExpr() if not node.optional_indices:
            return [_value(checked, element) for element in node.elements]
        case MapExpr() if not any(entry.optional for entry in node.entries):
            return Map.of([(_value(checked, entry.key), _value(checked, entry.value)) for entry in node.entries])
        case Call() if node.function in _CONVERSIONS and node.target is None:
            return GLOBALS[node.function, 1](*(_value(checked, argument) for argument in node.args))
        case Ident() if checked.types[node.id].kind is TypeKind.TYPE:
            return TypeValue(node.name)
        case _:
            raise _NotConstant
