"""The errors of literals beyond their types.

Constant durations, timestamps, regular expressions and format strings are checked when the expression is written, so
that mistakes do not wait for an object to show. The elements of lists and maps must be of one type, except in
the arguments of format(). Runs on a type-checked tree.

Follows cel-go v0.26 cel/validator.go and ext/formatting.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from registry.cel.checker.checked import Checked
from registry.cel.common.types import Type, TypeKind
from registry.cel.common.values import EvalError
from registry.cel.ext.clock import to_duration, to_timestamp
from registry.cel.syntax import ast
from registry.cel.syntax.ast import Call, Expr, ListExpr, Literal, MapExpr
from registry.cel.syntax.errors import Issue
from registry.schema.regexp_errors import regexp_error


def literal_issues(checked: Checked) -> list[Issue]:
    """The issues of all literals, in no particular order."""
    issues: list[Issue] = []
    formatted: set[int] = set()
    for node in checked.nodes():
        if node.id in formatted or (isinstance(node, Call) and node.function == "format"):
            formatted.update(child.id for child in ast.children(node))
        match node:
            case Call():
                complain = _COMPLAINTS.get(node.function)
                if complain is not None:
                    issues.extend(complain(checked, node))
            case ListExpr() if node.id not in formatted:
                issues.extend(_mixed_types(checked, node.elements, node.optional_indices)[:1])
            case MapExpr() if node.id not in formatted:
                optional = frozenset(i for i, entry in enumerate(node.entries) if entry.optional)
                issues.extend(_mixed_types(checked, [entry.key for entry in node.entries], frozenset()))
                issues.extend(_mixed_types(checked, [entry.value for entry in node.entries], optional))
    return issues


def _mixed_types(checked: Checked, parts: Sequence[Expr], optional: frozenset[int]) -> list[Issue]:
    """Reports the parts whose type differs from that of the first."""
    issues = []
    first: Type | None = None
    for position, part in enumerate(parts):
        of = checked.types[part.id]
        if position in optional and of.parameters:
            of = of.parameters[0]
        if first is None:
            first = of
        elif not first.same(of):
            issues.append(Issue(part.offset, f"expected type '{first.text}' but found '{of.text}'"))
    return issues


def _time(convert: Callable[[object], object]) -> Callable[[Checked, Call], Iterator[Issue]]:
    def complain(_: Checked, node: Call) -> Iterator[Issue]:
        literal = _first_literal(node)
        if literal is None:
            return
        try:
            convert(literal.value)
        except EvalError:
            yield Issue(literal.offset, f"invalid {node.function} argument")

    return complain


def _pattern(_: Checked, node: Call) -> Iterator[Issue]:
    """Checks the first argument of `matches`, as cel-go does, although it is not the pattern in the global function."""
    literal = _first_literal(node)
    if literal is not None and isinstance(literal.value, str) and regexp_error(literal.value) is not None:
        yield Issue(literal.offset, "invalid matches argument")


def _first_literal(node: Call) -> Literal | None:
    first = node.args[0] if node.args else None
    return first if isinstance(first, Literal) else None


def _format(checked: Checked, node: Call) -> Iterator[Issue]:
    """Checks the clauses of a constant format string against the types of the listed arguments."""
    template = node.target
    if (
        not isinstance(template, Literal)
        or not isinstance(template.value, str)
        or len(node.args) != 1
        or not isinstance(node.args[0], ListExpr)
    ):
        return
    arguments = node.args[0].elements
    used = 0
    try:
        for clause in _clauses(template.value, len(arguments)):
            _check_clause(checked, clause, arguments[used])
            used += 1
    except _FormatFault as fault:
        yield Issue(node.offset if fault.node is None else fault.node.offset, str(fault))
        return
    if len(arguments) > used:
        yield Issue(
            node.offset, f"too many arguments supplied to string.format (expected {used}, got {len(arguments)})"
        )


class _FormatFault(Exception):
    def __init__(self, message: str, node: Expr | None = None) -> None:
        super().__init__(message)
        self.node = node


def _clauses(template: str, count: int) -> Iterator[str]:
    """The letters of the clauses: `f` and `s` in `%.2f is %s`."""
    position = template.find("%")
    used = 0
    while position >= 0:
        if template.startswith("%%", position):
            position = template.find("%", position + 2)
            continue
        position += 1
        if position >= len(template):
            raise _FormatFault("unexpected end of string")
        if used >= count:
            raise _FormatFault(f"index {used} out of range")
        position = _after_precision(template, position)
        letter = template[position]
        if letter not in _KINDS:
            raise _FormatFault(f'{_UNPARSED}unrecognized formatting clause "{letter}"')
        yield letter
        used += 1
        position = template.find("%", position + 1)


_UNPARSED = "could not parse formatting clause: "


def _after_precision(template: str, position: int) -> int:
    if template[position] != ".":
        return position
    end = position + 1
    while end < len(template) and template[end] in "0123456789":
        end += 1
    if end >= len(template):
        raise _FormatFault(f"{_UNPARSED}error while parsing precision: could not find end of precision specifier")
    digits = template[position + 1 : end]
    if not digits or len(digits) > 18:
        complaint = "value out of range" if digits else "invalid syntax"
        raise _FormatFault(
            f"{_UNPARSED}error while parsing precision: error while converting precision to integer: "
            f'strconv.Atoi: parsing "{digits}": {complaint}'
        )
    return end


_INTEGERS = (TypeKind.INT, TypeKind.UINT)
_DOUBLES = (TypeKind.DOUBLE, TypeKind.STRING)  # "NaN" and "Infinity" are strings
_PRINTABLE = frozenset(
    (
        TypeKind.LIST,
        TypeKind.MAP,
        TypeKind.INT,
        TypeKind.UINT,
        TypeKind.DOUBLE,
        TypeKind.BOOL,
        TypeKind.STRING,
        TypeKind.TIMESTAMP,
        TypeKind.BYTES,
        TypeKind.DURATION,
        TypeKind.TYPE,
        TypeKind.NULL,
    )
)
_HEXADECIMAL = (
    frozenset((*_INTEGERS, TypeKind.STRING, TypeKind.BYTES)),
    "only integers, byte buffers, and strings can be formatted as hex",
)
_KINDS = {
    "s": (
        _PRINTABLE,
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
        "durations, and timestamps",
    ),
    "d": (frozenset(_INTEGERS), "decimal clause can only be used on integers"),
    "f": (frozenset(_DOUBLES), "fixed-point clause can only be used on doubles"),
    "e": (frozenset(_DOUBLES), "scientific clause can only be used on doubles"),
    "b": (frozenset((*_INTEGERS, TypeKind.BOOL)), "only integers and bools can be formatted as binary"),
    "x": _HEXADECIMAL,
    "X": _HEXADECIMAL,
    "o": (frozenset(_INTEGERS), "octal clause can only be used on integers"),
}


def _check_clause(checked: Checked, clause: str, argument: Expr) -> None:
    kinds, complaint = _KINDS[clause]
    of = checked.types[argument.id]
    if of.kind is not TypeKind.DYN and of.kind not in kinds:
        raise _FormatFault(f"error during formatting: {complaint}, was given {of.runtime_name}", argument)
    if clause == "s":
        for part in ast.children(argument) if isinstance(argument, ListExpr | MapExpr) else ():
            _check_clause(checked, clause, part)


_COMPLAINTS: dict[str, Callable[[Checked, Call], Iterator[Issue]]] = {
    "duration": _time(to_duration),
    "timestamp": _time(to_timestamp),
    "matches": _pattern,
    "format": _format,
}
