"""The syntax tree of CEL: what the parser yields, the checker annotates and the compiler reads.

Nodes are frozen and have two more attributes: an `id` that is unique in its tree (annotations of the
checker, such as the type or the overload of a node, are dicts by id) and the `offset` in code points of the place that
errors about the node point to, which is cel-go's choice: the operator of `a + b`, the `(` of `f(x)`, the `.` of `a.b`,
the `[` of `a[b]` and of a list, the `{` of a map, the first letter of names and literals. A node that comes out of a
macro has the offset of the macro's call, as `x.all(...)` has its `(`. `Source.location` turns an offset into line and
column.

Operators are Calls with cel-go's names, see the constants below; `a.f(b)` is a Call with a `target`. Macros have been
expanded: `has(a.b)` is a Select with `test_only`, `all` and its like are Comprehensions, `[?e]` is an index into
`optional_indices`. Nothing here evaluates or checks.

Follows cel-go common/ast and common/operators.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

# Names of operators in Call.function.
CONDITIONAL: Final = "_?_:_"
LOGICAL_AND: Final = "_&&_"
LOGICAL_OR: Final = "_||_"
LOGICAL_NOT: Final = "!_"
EQUALS: Final = "_==_"
NOT_EQUALS: Final = "_!=_"
LESS: Final = "_<_"
LESS_EQUALS: Final = "_<=_"
GREATER: Final = "_>_"
GREATER_EQUALS: Final = "_>=_"
ADD: Final = "_+_"
SUBTRACT: Final = "_-_"
MULTIPLY: Final = "_*_"
DIVIDE: Final = "_/_"
MODULO: Final = "_%_"
NEGATE: Final = "-_"
INDEX: Final = "_[_]"
IN: Final = "@in"
OPT_INDEX: Final = "_[?_]"  # a[?k]: operand, key
OPT_SELECT: Final = "_?._"  # a.?b: operand, Literal(STRING, "b")
NOT_STRICTLY_FALSE: Final = "@not_strictly_false"  # the loop condition of all and exists

# The accumulator of macros. Users cannot name it: `@` is no letter of identifiers.
ACCUMULATOR: Final = "@result"


class NodeKind(enum.Enum):
    """The kind of a literal. It is needed because Python's int stands for int and uint."""

    NULL = "null"
    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    DOUBLE = "double"
    STRING = "string"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant; `value` is None, bool, int (within int64 or uint64), float, str or bytes, as `kind` says."""

    id: int
    offset: int
    kind: NodeKind
    value: bool | int | float | str | bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class Ident:
    """A name. `.a` (absolute) keeps its dot."""

    id: int
    offset: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """`operand.field`, or with `test_only` what `has(operand.field)` asks. `operand.?field` is a Call of OPT_SELECT."""

    id: int
    offset: int
    operand: Expr
    field: str
    test_only: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """`function(*args)` or `target.function(*args)`, or an operator."""

    id: int
    offset: int
    function: str
    args: tuple[Expr, ...]
    target: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ListExpr:
    """`[a, ?b]`; positions of the elements that were marked with `?` are in `optional_indices`."""

    id: int
    offset: int
    elements: tuple[Expr, ...]
    optional_indices: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class MapEntry:
    """`key: value` in a map; `?key: value` is optional. The offset is that of the colon."""

    id: int
    offset: int
    key: Expr
    value: Expr
    optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class MapExpr:
    """`{k: v, ?k: v}`"""

    id: int
    offset: int
    entries: tuple[MapEntry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FieldEntry:
    """`field: value` in a message; the offset is that of the colon."""

    id: int
    offset: int
    field: str
    value: Expr
    optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class StructExpr:
    """`a.b.Message{field: value}`. Kubernetes has no type that could be made in this way, so checking refuses it."""

    id: int
    offset: int
    name: str
    entries: tuple[FieldEntry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension:
    """A macro with a loop.

    Sets `accu_var` to `accu_init`; for each element of `iter_range` (keys of a map), bound to `iter_var`, stops when
    `loop_condition` is false, else sets `accu_var` to `loop_step`; the value is `result`, which sees `accu_var` only.
    With two variables `iter_var2` is not "": they are index and element, or key and value.
    `accu_init` and `iter_range` do not see the variables of this comprehension.
    """

    id: int
    offset: int
    iter_range: Expr
    iter_var: str
    iter_var2: str
    accu_var: str
    accu_init: Expr
    loop_condition: Expr
    loop_step: Expr
    result: Expr


Expr: TypeAlias = Literal | Ident | Select | Call | ListExpr | MapExpr | StructExpr | Comprehension


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The text of an expression, and where its lines start."""

    text: str
    line_starts: tuple[int, ...] = field(default=())

    @staticmethod
    def of(text: str) -> Source:
        starts = [0]
        position = text.find("\n")
        while position >= 0:
            starts.append(position + 1)
            position = text.find("\n", position + 1)
        return Source(text, tuple(starts))

    def location(self, offset: int) -> tuple[int, int]:
        """(line, column), lines from 1, columns from 0, both in code points: (1, 4) for the fifth character."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1]

    def line(self, number: int) -> str | None:
        """Line `number`, counted from 1, without its line feed; None when there is no such line."""
        if not 1 <= number <= len(self.line_starts):
            return None
        start = self.line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]


def children(node: Expr) -> tuple[Expr, ...]:
    """The expressions directly below `node`, in the order of the text."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.args if node.target is None else (node.target, *node.args)
        case ListExpr():
            return node.elements
        case MapExpr():
            return tuple(part for entry in node.entries for part in (entry.key, entry.value))
        case StructExpr():
            return tuple(entry.value for entry in node.entries)
        case Comprehension():
            return (node.iter_range, node.accu_init, node.loop_condition, node.loop_step, node.result)
        case _:
            return ()


def walk(root: Expr) -> Iterator[Expr]:
    """Every node of the tree, parents before children. Does not recurse."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def rewrite(root: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The tree with each node replaced by what `change` gives for it, children before parents. Recurses."""

    def of(node: Expr) -> Expr:
        return rewrite(node, change)

    match root:
        case Select():
            root = replace(root, operand=of(root.operand))
        case Call():
            target = None if root.target is None else of(root.target)
            root = replace(root, target=target, args=tuple(map(of, root.args)))
        case ListExpr():
            root = replace(root, elements=tuple(map(of, root.elements)))
        case MapExpr():
            root = replace(root, entries=tuple(replace(e, key=of(e.key), value=of(e.value)) for e in root.entries))
        case StructExpr():
            root = replace(root, entries=tuple(replace(e, value=of(e.value)) for e in root.entries))
        case Comprehension():
            root = replace(
                root,
                iter_range=of(root.iter_range),
                accu_init=of(root.accu_init),
                loop_condition=of(root.loop_condition),
                loop_step=of(root.loop_step),
                result=of(root.result),
            )
    return change(root)
