"""Finds the paths of an object that a filter names, to check them for hidden fields."""

from __future__ import annotations

from collections.abc import Iterator

from registry.cel.common.escaping import unescape
from registry.cel.syntax import ast
from registry.cel.syntax.ast import Call, Expr, Ident, Literal, Select
from registry.query.fields import Path
from registry.query.language import OBJECT, Filter


def paths_of(wanted: Filter) -> Iterator[Path]:
    """Yields each chain of fields that starts at the object. Hidden fields reached through variables are not included:
    evaluation does not see them either."""
    for node in ast.walk(wanted.checked.root):
        path = path_below(node, OBJECT)
        if path:
            yield path


def path_below(node: Expr, variable: str) -> Path | None:
    """Returns the chain of fields of `variable.a.b`; () for the variable, None for anything else."""
    match node:
        case Ident(name=name):
            return () if name.lstrip(".") == variable else None
        case Select(operand=operand, field=field):
            path = path_below(operand, variable)
            return None if path is None else (*path, unescape(field) or field)
        case Call(function=ast.INDEX | ast.OPT_INDEX | ast.OPT_SELECT, args=(operand, key)):
            path = path_below(operand, variable)
            if path is None:
                return None
            # An element of an array stands for the array.
            return (*path, key.value) if isinstance(key, Literal) and isinstance(key.value, str) else path
    return None
