"""Macros: calls that the parser expands to comprehensions, presence tests and conditionals.

`MACROS` maps (name, number of arguments, whether there is a target) to the expansion. A call with another number of
arguments is not a macro, and the checker reports it as undeclared. Every node of an expansion has the offset of the
call's `(`.

The set is that of Kubernetes 1.36 for custom resources: the standard macros, optMap and optFlatMap, sortBy, and the
two-variable ones. Follows cel-go parser/macro.go, cel/library.go, ext/comprehensions.go and ext/lists.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeAlias

from registry.cel.syntax import ast
from registry.cel.syntax.ast import (
    ACCUMULATOR,
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

MAP_INSERT: Final = "cel.@mapInsert"
SORT_BY_KEYS: Final = "@sortByAssociatedKeys"
UNUSED: Final = "#unused"
_SORT_INPUT: Final = "@__sortBy_input__"
_OLD_ACCUMULATOR: Final = "__result__"


class MacroError(Exception):
    """The arguments do not fit the macro."""

    def __init__(self, argument: Expr, message: str) -> None:
        super().__init__(message)
        self.offset = argument.offset
        self.message = message


class TooManyCopiesError(Exception):
    """Macros copied too many nodes: optMap copies its target, which doubles with each link of a chain."""


class Expander:
    """Creates nodes at `offset`, with ids unique in the tree. `copy` may create at most `copies` of them."""

    __slots__ = ("_copies", "_last_id", "offset")

    def __init__(self, copies: int) -> None:
        self.offset = 0
        self._last_id = 0
        self._copies = copies

    def next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    @property
    def size(self) -> int:
        return self._last_id

    def true(self) -> Expr:
        return Literal(self.next_id(), self.offset, NodeKind.BOOL, True)

    def false(self) -> Expr:
        return Literal(self.next_id(), self.offset, NodeKind.BOOL, False)

    def int(self, value: int) -> Expr:
        return Literal(self.next_id(), self.offset, NodeKind.INT, value)

    def ident(self, name: str) -> Expr:
        return Ident(self.next_id(), self.offset, name)

    def result(self) -> Expr:
        return Ident(self.next_id(), self.offset, ACCUMULATOR)

    def list(self, *elements: Expr) -> Expr:
        return ListExpr(self.next_id(), self.offset, elements)

    def call(self, function: str, *arguments: Expr) -> Expr:
        return Call(self.next_id(), self.offset, function, arguments)

    def member(self, function: str, target: Expr, *arguments: Expr) -> Expr:
        return Call(self.next_id(), self.offset, function, arguments, target)

    def fold(
        self,
        iter_range: Expr,
        variables: tuple[str, str],
        init: Expr,
        condition: Expr,
        step: Expr,
        result: Expr | None = None,
    ) -> Expr:
        if result is None:
            result = self.result()
        return Comprehension(
            self.next_id(), self.offset, iter_range, *variables, ACCUMULATOR, init, condition, step, result
        )

    def bind(self, name: str, value: Expr, result: Expr) -> Expr:
        """Binds `name` to `value` in `result`: a loop over nothing."""
        return Comprehension(
            self.next_id(), self.offset, self.list(), UNUSED, "", name, value, self.false(), self.ident(name), result
        )

    def copy(self, node: Expr) -> Expr:
        """A copy of the tree with new ids and the same offsets. Raises TooManyCopiesError."""
        self._copies -= 1
        if self._copies < 0:
            raise TooManyCopiesError
        new = self.next_id()
        if isinstance(node, MapExpr | StructExpr):
            self._last_id += len(node.entries)
        return replace(ast.with_children(node, self.copy), id=new)


Macro: TypeAlias = "Callable[[Expander, Expr | None, tuple[Expr, ...]], Expr]"
_Build: TypeAlias = "Callable[[Expander, Expr, tuple[str, str], tuple[Expr, ...]], Expr]"


def _has(make: Expander, _: Expr | None, arguments: tuple[Expr, ...]) -> Expr:
    argument = arguments[0]
    if not isinstance(argument, Select):
        raise MacroError(argument, "invalid argument to has() macro")
    return Select(make.next_id(), make.offset, argument.operand, argument.field, test_only=True)


def _all(make: Expander, target: Expr, variables: tuple[str, str], rest: tuple[Expr, ...]) -> Expr:
    return make.fold(
        target,
        variables,
        make.true(),
        make.call(ast.NOT_STRICTLY_FALSE, make.result()),
        make.call(ast.LOGICAL_AND, make.result(), rest[0]),
    )


def _exists(make: Expander, target: Expr, variables: tuple[str, str], rest: tuple[Expr, ...]) -> Expr:
    condition = make.call(ast.NOT_STRICTLY_FALSE, make.call(ast.LOGICAL_NOT, make.result()))
    return make.fold(target, variables, make.false(), condition, make.call(ast.LOGICAL_OR, make.result(), rest[0]))


def _exists_one(make: Expander, target: Expr, variables: tuple[str, str], rest: tuple[Expr, ...]) -> Expr:
    step = make.call(ast.CONDITIONAL, rest[0], make.call(ast.ADD, make.result(), make.int(1)), make.result())
    return make.fold(
        target, variables, make.int(0), make.true(), step, make.call(ast.EQUALS, make.result(), make.int(1))
    )


def _map(make: Expander, target: Expr, variables: tuple[str, str], rest: tuple[Expr, ...]) -> Expr:
    """Also transformList: transforms the elements that pass the optional filter."""
    step = make.call(ast.ADD, make.result(), make.list(rest[-1]))
    if len(rest) == 2:
        step = make.call(ast.CONDITIONAL, rest[0], step, make.result())
    return make.fold(target, variables, make.list(), make.true(), step)


def _filter(make: Expander, target: Expr | None, arguments: tuple[Expr, ...]) -> Expr:
    assert target is not None
    name = _variable(arguments[0], "argument is not an identifier")
    step = make.call(ast.ADD, make.result(), make.list(arguments[0]))
    step = make.call(ast.CONDITIONAL, arguments[1], step, make.result())
    return make.fold(target, (name, ""), make.list(), make.true(), step)


def _transform_map(make: Expander, target: Expr, variables: tuple[str, str], rest: tuple[Expr, ...]) -> Expr:
    return _insert_all(make, target, variables, rest, (make.ident(variables[0]), rest[-1]))


def _transform_entry(make: Expander, target: Expr, variables: tuple[str, str], rest: tuple[Expr, ...]) -> Expr:
    return _insert_all(make, target, variables, rest, (rest[-1],))


def _insert_all(
    make: Expander, target: Expr, variables: tuple[str, str], rest: tuple[Expr, ...], inserted: tuple[Expr, ...]
) -> Expr:
    step = make.call(MAP_INSERT, make.result(), *inserted)
    if len(rest) == 2:
        step = make.call(ast.CONDITIONAL, rest[0], step, make.result())
    return make.fold(target, variables, MapExpr(make.next_id(), make.offset, ()), make.true(), step)


def _opt_map(make: Expander, target: Expr | None, arguments: tuple[Expr, ...]) -> Expr:
    return _optional(make, target, arguments, "optMap", lambda bound: make.call("optional.of", bound))


def _opt_flat_map(make: Expander, target: Expr | None, arguments: tuple[Expr, ...]) -> Expr:
    return _optional(make, target, arguments, "optFlatMap", lambda bound: bound)


def _optional(
    make: Expander, target: Expr | None, arguments: tuple[Expr, ...], macro: str, wrap: Callable[[Expr], Expr]
) -> Expr:
    assert target is not None
    name, mapped = arguments
    if not isinstance(name, Ident):
        raise MacroError(name, f"{macro}() variable name must be a simple identifier")
    bound = make.bind(name.name, make.member("value", make.copy(target)), mapped)
    return make.call(ast.CONDITIONAL, make.member("hasValue", target), wrap(bound), make.call("optional.none"))


def _sort_by(make: Expander, target: Expr | None, arguments: tuple[Expr, ...]) -> Expr:
    assert target is not None
    if not isinstance(target, ListExpr | Select | Ident | Comprehension | Call):
        raise MacroError(
            target, "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        )
    keys = _one(_map, "argument is not an identifier")(make, make.ident(_SORT_INPUT), arguments)
    return make.bind(_SORT_INPUT, target, make.member(SORT_BY_KEYS, make.ident(_SORT_INPUT), keys))


def _one(build: _Build, no_name: str) -> Macro:
    """A macro with one variable: its name is the first argument."""

    def expand(make: Expander, target: Expr | None, arguments: tuple[Expr, ...]) -> Expr:
        assert target is not None
        return build(make, target, (_variable(arguments[0], no_name), ""), arguments[1:])

    return expand


def _variable(argument: Expr, no_name: str) -> str:
    if not isinstance(argument, Ident):
        raise MacroError(argument, no_name)
    if argument.name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise MacroError(argument, "iteration variable overwrites accumulator variable")
    return argument.name


def _two(build: _Build) -> Macro:
    """A macro with two variables: index and element, or key and value."""

    def expand(make: Expander, target: Expr | None, arguments: tuple[Expr, ...]) -> Expr:
        assert target is not None
        first, second, *rest = arguments
        for argument in (first, second):
            if not isinstance(argument, Ident):
                raise MacroError(argument, "argument must be a simple name")
        assert isinstance(first, Ident)
        assert isinstance(second, Ident)
        if first.name == second.name:
            raise MacroError(second, f"duplicate variable name: {first.name}")
        names = (_variable(first, ""), _variable(second, ""))
        return build(make, target, names, tuple(rest))

    return expand


_NO_NAME = "argument must be a simple name"
_NO_IDENTIFIER = "argument is not an identifier"

MACROS: Final[Mapping[tuple[str, int, bool], Macro]] = MappingProxyType(
    {
        ("has", 1, False): _has,
        ("all", 2, True): _one(_all, _NO_NAME),
        ("exists", 2, True): _one(_exists, _NO_NAME),
        ("exists_one", 2, True): _one(_exists_one, _NO_NAME),
        ("map", 2, True): _one(_map, _NO_IDENTIFIER),
        ("map", 3, True): _one(_map, _NO_IDENTIFIER),
        ("filter", 2, True): _filter,
        ("all", 3, True): _two(_all),
        ("exists", 3, True): _two(_exists),
        ("exists_one", 3, True): _two(_exists_one),
        ("existsOne", 3, True): _two(_exists_one),
        ("transformList", 3, True): _two(_map),
        ("transformList", 4, True): _two(_map),
        ("transformMap", 3, True): _two(_transform_map),
        ("transformMap", 4, True): _two(_transform_map),
        ("transformMapEntry", 3, True): _two(_transform_entry),
        ("transformMapEntry", 4, True): _two(_transform_entry),
        ("optMap", 2, True): _opt_map,
        ("optFlatMap", 2, True): _opt_flat_map,
        ("sortBy", 2, True): _sort_by,
    }
)
