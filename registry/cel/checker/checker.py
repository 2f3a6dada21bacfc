"""The type checker: infers the type of each node, and the overloads that each call may resolve to.

`check(parsed, {"self": some_object_type})` returns a Checked, whose issues have cel-go's texts and offsets. Without
issues, every node has a type in `types` and every call its overload ids in `overloads`, by node id. Several overloads
remain where `dyn` is involved; the one to call is then chosen at run time. `idents` has the full names of nodes that
resolve to qualified names, such as `google.protobuf.Duration`, or to calls of namespaced functions, such as
`optional.of(x)`, whose target is not a value; `.a` is there with its dot where it is not the local `a`.

Follows cel-go checker/checker.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from registry.cel.checker.checked import Checked, Messages
from registry.cel.checker.declarations import Function, Scopes, declared_functions
from registry.cel.common import types
from registry.cel.common.escaping import RESERVED
from registry.cel.common.messages import MESSAGES
from registry.cel.common.types import Substitutions, Type, TypeKind, TypeTooLargeError
from registry.cel.syntax import ast
from registry.cel.syntax.ast import (
    Call,
    Comprehension,
    Expr,
    FieldEntry,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
)
from registry.cel.syntax.errors import NO_OFFSET, Issue
from registry.cel.syntax.parser import Parsed
from registry.emulation import emulated


def check(
    parsed: Parsed,
    variables: Mapping[str, Type],
    *,
    functions: Mapping[str, Function] | None = None,
    messages: Messages | None = None,
) -> Checked:
    """Type-checks a parsed expression with these variables. The parser's issues are returned unchanged.

    `functions` are those that may be called, by default those of the emulated version.
    """
    if parsed.root is None:
        return Checked(parsed, parsed.issues, {}, {}, {})
    checker = _Checker(variables, declared_functions() if functions is None else functions, messages)
    try:
        checker.check(parsed.root)
        final = checker.final_types()
    except TypeTooLargeError:
        issue = Issue(NO_OFFSET, f"a type consists of more than {types.MAX_SIZE} types")
        return Checked(parsed, (issue,), {}, {}, {})
    return Checked(parsed, tuple(checker.issues), final, checker.overloads, checker.idents, messages)


class _Checker:
    __slots__ = ("_free", "functions", "idents", "issues", "messages", "overloads", "scopes", "substitutions", "types")

    def __init__(
        self, variables: Mapping[str, Type], functions: Mapping[str, Function], messages: Messages | None
    ) -> None:
        self.functions = functions
        self.messages = messages
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, tuple[str, ...]] = {}
        self.idents: dict[int, str] = {}
        self.issues: list[Issue] = []
        self.substitutions = Substitutions()
        self.scopes = Scopes(variables)
        self._free = 0

    def final_types(self) -> dict[int, Type]:
        """The types of all nodes after substitution; type parameters that are still free become dyn."""
        closed: dict[int, Type] = {}
        return {node: self.substitutions.close(of, closed) if of.open else of for node, of in self.types.items()}

    def check(self, node: Expr) -> Type:
        type_ = _CHECKS[type(node)](self, node)
        self.types[node.id] = type_
        return type_

    def report(self, node: Expr, message: str) -> None:
        self.issues.append(Issue(node.offset, message))

    def report_undeclared(self, node: Expr, name: str) -> Type:
        self.report(node, f"undeclared reference to '{name}' (in container '')")
        return types.ERROR

    def mismatch(self, node: Expr, expected: Type, actual: Type) -> None:
        self.report(node, f"expected type '{expected.text}' but found '{actual.text}'")

    def free(self) -> Type:
        """Returns a new type variable."""
        name = f"_var{self._free}"
        self._free += 1
        return types.param(name)

    def literal(self, node: Literal) -> Type:
        return _LITERALS[node.kind]

    def ident(self, node: Ident) -> Type:
        type_ = self.scopes.find(node.name)
        if type_ is None:
            return self.report_undeclared(node, node.name)
        name = node.name.removeprefix(".")
        if name != node.name:
            is_hidden = emulated().is_1_37 and self.scopes.is_local(name)
            self.idents[node.id] = node.name if is_hidden else name
        return type_

    def select(self, node: Select) -> Type:
        if not node.test_only:
            name = _qualified_name(node)
            if name is not None:
                type_ = self.scopes.find(name)
                if type_ is not None:
                    self.idents[node.id] = name.removeprefix(".")
                    return type_
        type_ = self.field(node, node.operand, node.field, False)
        return types.BOOL if node.test_only else self.substitutions.substitute(type_)

    def field(self, node: Expr, operand: Expr, name: str, optional: bool) -> Type:
        """The type of `operand.name`; an optional operand gives an optional field."""
        target = self.substitutions.substitute(self.check(operand))
        if types.is_optional(target):
            target = target.parameters[0]
            optional = True
        match target.kind:
            case TypeKind.MAP:
                type_ = target.parameters[1]
            case TypeKind.STRUCT:
                type_ = self.member(node, target, name)
            case TypeKind.PARAM:
                self.substitutions.assignable(types.DYN, target)
                type_ = types.DYN
            case _:
                if not types.is_dyn_or_error(target):
                    self.report(node, f"type '{target.text}' does not support field selection")
                type_ = types.DYN
        return types.optional_of(type_) if optional else type_

    def member(self, node: Expr, target: Type, name: str) -> Type:
        if target.fields is None:
            self.report(node, f"unexpected failed resolution of '{target.text}'")
            return types.ERROR
        type_ = target.fields.get(name)
        if type_ is None and name in RESERVED:  # Kubernetes allows them unescaped.
            type_ = target.fields.get(f"__{name}__")
        if type_ is None:
            self.report(node, f"undefined field '{name}'")
            return types.ERROR
        return type_

    def call(self, node: Call) -> Type:
        if node.function == ast.OPT_SELECT:
            return self.optional_select(node)
        arguments = tuple([self.check(argument) for argument in node.args])
        if node.target is None:
            function = self.functions.get(node.function.removeprefix("."))
            if function is None:
                return self.report_undeclared(node, node.function)
            return self.resolve(node, function, arguments, False)
        namespace = _qualified_name(node.target)
        if namespace is not None:
            name = f"{namespace.removeprefix('.')}.{node.function}"
            function = self.functions.get(name)
            if function is not None:
                self.idents[node.id] = name
                return self.resolve(node, function, arguments, False)
        target = self.check(node.target)
        function = self.functions.get(node.function)
        if function is None:
            return self.report_undeclared(node, node.function)
        return self.resolve(node, function, (target, *arguments), True)

    def optional_select(self, node: Call) -> Type:
        operand, name = node.args
        assert isinstance(name, Literal)
        assert isinstance(name.value, str)
        self.types[name.id] = types.STRING
        type_ = self.field(node, operand, name.value, True)
        self.overloads[node.id] = ("select_optional_field",)
        return self.substitutions.substitute(type_)

    def resolve(self, node: Call, function: Function, arguments: tuple[Type, ...], member: bool) -> Type:
        """The type of a call: the result type shared by all matching overloads, or dyn if they differ."""
        if function.name in _LOGIC:
            return self.logic(node, function, arguments)
        substitutions = self.substitutions
        result: Type | None = None
        fitting: list[str] = []
        for overload in function.by_shape.get((member, len(arguments)), ()):
            wanted, result_type = overload.arguments, overload.result
            if overload.parameters:
                fresh = Substitutions({name: self.free() for name in overload.parameters})
                wanted = tuple([fresh.substitute(a) if a.open else a for a in wanted])
                result_type = fresh.substitute(result_type)
            if not substitutions.all_assignable(arguments, wanted):
                continue
            fitting.append(overload.id)
            type_ = substitutions.substitute(result_type)
            if result is None:
                result = type_
            elif result.kind is not TypeKind.DYN and not type_.same(result):
                result = types.DYN
        if result is None:
            signature = ", ".join(substitutions.substitute(a, True).text for a in arguments[member:])
            target = f"{substitutions.substitute(arguments[0], True).text}." if member else ""
            self.report(node, f"found no matching overload for '{function.name}' applied to '{target}({signature})'")
            return types.ERROR
        self.overloads[node.id] = tuple(fitting)
        return result

    def logic(self, node: Call, function: Function, arguments: tuple[Type, ...]) -> Type:
        failed = False
        for argument, type_ in zip(node.args, arguments, strict=True):
            if type_ is not types.BOOL and not self.substitutions.assignable(type_, types.BOOL):
                self.mismatch(argument, types.BOOL, type_)
                failed = True
        if failed:
            return types.ERROR
        self.overloads[node.id] = (function.overloads[0].id,)
        return types.BOOL

    def list(self, node: ListExpr) -> Type:
        joined: Type | None = None
        for position, element in enumerate(node.elements):
            type_ = self.check(element)
            if position in node.optional_indices:
                type_ = self.unwrap(element, type_)
            joined = self.join(joined, type_)
        return types.list_of(joined or self.free())

    def map(self, node: MapExpr) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            keys = self.join(keys, self.check(entry.key))
            type_ = self.check(entry.value)
            if entry.optional:
                type_ = self.unwrap(entry.value, type_)
            values = self.join(values, type_)
        if keys is None or values is None:
            keys, values = self.free(), self.free()
        return types.map_of(keys, values)

    def unwrap(self, node: Expr, of: Type) -> Type:
        """The type inside an optional; an operand marked with `?` must be one."""
        if types.is_optional(of):
            return of.parameters[0]
        if of.kind is not TypeKind.DYN:
            self.mismatch(node, types.optional_of(of), of)
        return of

    def join(self, previous: Type | None, current: Type) -> Type:
        """The element type of a list or map with elements of both types."""
        if previous is None or previous is current:
            return current
        if self.substitutions.assignable(previous, current):
            return types.most_general(previous, current)
        return types.DYN  # rules/literals.py reports it where that is an error.

    def struct(self, node: StructExpr) -> Type:
        """A message: `google.protobuf.Duration{seconds: 1}`, another of MESSAGES, or one of the caller's `messages`."""
        known = self.messages.type_of(node.name) if self.messages is not None else None
        if known is not None:
            return self.known_message(node, known)
        type_ = self.scopes.find(node.name)
        if type_ is None:
            return self.report_undeclared(node, node.name)
        message = None
        if type_.kind is not TypeKind.TYPE:
            self.report(node, f"'{type_.runtime_name}' is not a type")
        else:
            # `timestamp` is a name of google.protobuf.Timestamp, too.
            name, of = node.name.removeprefix("."), type_.parameters[0]
            message = MESSAGES.get(name) or MESSAGES.get(of.runtime_name)
            if message is None:
                self.report(node, f"'{of.runtime_name}' is not a message type")
        for entry in node.entries:
            value = self.check(entry.value)
            if message is None:
                continue
            if entry.optional:
                value = self.unwrap(entry.value, value)
            field = message.fields.get(entry.field)
            if field is None:
                self.issues.append(Issue(entry.offset, f"undefined field '{entry.field}'"))
            elif not self.substitutions.assignable(field[0], value):
                self.report_field(entry, field[0], self.substitutions.substitute(value, True))
        return types.ERROR if message is None else message.type

    def known_message(self, node: StructExpr, of: Type) -> Type:
        assert self.messages is not None
        for entry in node.entries:
            value = self.check(entry.value)
            if entry.optional:
                value = self.unwrap(entry.value, value)
            wanted = self.messages.field(node.name, entry.field)
            if wanted is None or not self.substitutions.assignable(wanted, value):
                self.report_field(entry, wanted, self.substitutions.substitute(value, True))
        return of

    def report_field(self, entry: FieldEntry, wanted: Type | None, actual: Type) -> None:
        expected = wanted.text if wanted else ""
        text = f"expected type of field '{entry.field}' is '{expected}' but provided type is '{actual.text}'"
        self.issues.append(Issue(entry.offset, text))

    def comprehension(self, node: Comprehension) -> Type:
        ranged = self.check(node.iter_range)
        accumulator = self.check(node.accu_init)
        first, second = self.variables(node, self.substitutions.substitute(ranged))
        self.scopes.push({node.accu_var: accumulator})
        variables = {node.iter_var: first}
        if node.iter_var2:
            variables[node.iter_var2] = second
        self.scopes.push(variables)
        self.expect(node.loop_condition, types.BOOL)
        self.expect(node.loop_step, accumulator)
        self.scopes.pop()
        result = self.check(node.result)
        self.scopes.pop()
        return self.substitutions.substitute(result)

    def variables(self, node: Comprehension, ranged: Type) -> tuple[Type, Type]:
        """The types of the variables of a loop over `ranged`."""
        match ranged.kind:
            case TypeKind.LIST:
                element = ranged.parameters[0]
                return (types.INT, element) if node.iter_var2 else (element, element)
            case TypeKind.MAP:
                return ranged.parameters[0], ranged.parameters[1]
            case TypeKind.DYN | TypeKind.ERROR | TypeKind.PARAM:
                self.substitutions.assignable(types.DYN, ranged)
                return types.DYN, types.DYN
            case _:
                self.report(
                    node.iter_range,
                    f"expression of type '{ranged.text}' cannot be range of a comprehension "
                    "(must be list, map, or dynamic)",
                )
                return types.ERROR, types.ERROR

    def expect(self, node: Expr, wanted: Type) -> None:
        type_ = self.check(node)
        if type_ is not wanted and not self.substitutions.assignable(wanted, type_):
            self.mismatch(node, wanted, type_)


def _qualified_name(node: Expr) -> str | None:
    """`a.b.c` for a chain of selections, None for anything else."""
    names = []
    while isinstance(node, Select):
        if node.test_only:
            return None
        names.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    names.append(node.name)
    names.reverse()
    return ".".join(names)


_LOGIC = frozenset((ast.LOGICAL_AND, ast.LOGICAL_OR))

_LITERALS = {
    ast.NodeKind.NULL: types.NULL,
    ast.NodeKind.BOOL: types.BOOL,
    ast.NodeKind.INT: types.INT,
    ast.NodeKind.UINT: types.UINT,
    ast.NodeKind.DOUBLE: types.DOUBLE,
    ast.NodeKind.STRING: types.STRING,
    ast.NodeKind.BYTES: types.BYTES,
}

# Each is called with nodes of its own type only.
_CHECKS: dict[type, Callable[[_Checker, Any], Type]] = {
    Literal: _Checker.literal,
    Ident: _Checker.ident,
    Select: _Checker.select,
    Call: _Checker.call,
    ListExpr: _Checker.list,
    MapExpr: _Checker.map,
    StructExpr: _Checker.struct,
    Comprehension: _Checker.comprehension,
}
