"""The functions and names that rules of Kubernetes 1.36 may use: overloads with argument and result types.

`FUNCTIONS["size"]` is a Function with one Overload for each of `size(list)`, `list.size()` and so on. Overload ids are
those of cel-go and of Kubernetes' libraries; the interpreter and the cost estimation are keyed by them. `IDENTS` are
the names of types that an expression may use as values, as in `type(x) == int`.

functions.txt lists them; families of overloads that differ only in a type are generated here in the same form.

Follows cel-go common/stdlib/standard.go, cel/library.go and ext, and apiserver pkg/cel/library, as combined by
apiserver pkg/cel/environment/base.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Final

from registry.cel.common import types
from registry.cel.common.messages import MESSAGES, NULL_VALUE
from registry.cel.common.types import Type, list_of, map_of, optional_of, param, struct, type_of
from registry.emulation import emulated


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One signature. A member's first argument is its target. `parameters` are names of type parameters."""

    id: str
    function: str
    arguments: tuple[Type, ...]
    result: Type
    member: bool
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """All overloads of a name, in the order of declaration."""

    name: str
    overloads: tuple[Overload, ...]
    by_shape: Mapping[tuple[bool, int], tuple[Overload, ...]]  # by (member, number of arguments with the target)


_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMABLE = ("int", "uint", "double", "duration")

FORMATS: Final = tuple(
    """
    dns1123Label dns1123Subdomain dns1035Label qualifiedName dns1123LabelPrefix dns1123SubdomainPrefix
    dns1035LabelPrefix labelValue uri uuid byte date datetime
    """.split()
)


def _comparisons() -> str:
    """`<` and the other comparisons: each type with itself, and numbers with each other."""
    pairs = """
    bool,bool int,int int,double int,uint uint,uint uint,double uint,int double,double double,int double,uint
    string,string bytes,bytes timestamp,timestamp duration,duration
    """.split()
    lines = []
    for function, word in (("_<_", "less"), ("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals")):
        lines.append(function)
        for left, right in (pair.split(",") for pair in pairs):
            a, b = (_WIDE.get(name, name) for name in (left, right))
            lines.append(f"    {word}_{a if left == right else f'{a}_{b}'}: ({left}, {right}) -> bool")
    return "\n".join(lines)


_WIDE = {"int": "int64", "uint": "uint64"}


def _by_element() -> str:
    """Functions of lists whose elements must be comparable or summable: one overload for each type."""
    lines = []
    for function, overload in (
        ("isSorted", "list_{0}_is_sorted_bool: list({0}).() -> bool"),
        ("max", "list_{0}_max_{0}: list({0}).() -> {0}"),
        ("min", "list_{0}_min_{0}: list({0}).() -> {0}"),
        ("sort", "list_{1}_sort: list({0}).() -> list({0})"),
        ("@sortByAssociatedKeys", "list_{1}_sortByAssociatedKeys: list(T).(list({0})) -> list(T)"),
    ):
        lines.append(function)
        lines += [f"    {overload.format(name, _RUNTIME.get(name, name))}" for name in _COMPARABLE]
    lines.append("sum")
    lines += [f"    list_{name}_sum_{name}: list({name}).() -> {name}" for name in _SUMMABLE]
    return "\n".join(lines)


_RUNTIME = {"duration": types.DURATION.runtime_name, "timestamp": types.TIMESTAMP.runtime_name}


def _formats() -> str:
    return "\n".join(f"format.{name}\n    format.{name}: () -> format" for name in FORMATS)


_NAMED: Final[Mapping[str, Type]] = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "duration": types.DURATION,
    "dyn": types.DYN,
    "int": types.INT,
    "string": types.STRING,
    "timestamp": types.TIMESTAMP,
    "uint": types.UINT,
    "ip": types.IP,
    "cidr": types.CIDR,
    "quantity": types.QUANTITY,
    "semver": types.SEMVER,
    "url": types.URL,
    "format": types.FORMAT,
    **{
        word: struct(f"kubernetes.authorization.{name}")
        for word, name in (
            ("authorizer", "Authorizer"),
            ("path_check", "PathCheck"),
            ("group_check", "GroupCheck"),
            ("resource_check", "ResourceCheck"),
            ("decision", "Decision"),
        )
    },
    **{name: param(name) for name in ("A", "B", "K", "T", "V")},
}
_MAKERS: Final[Mapping[str, Callable[..., Type]]] = {
    "list": list_of,
    "map": map_of,
    "optional": optional_of,
    "type": type_of,
}
_WORD: Final = re.compile(r"\s*([A-Za-z_]+|[(),])")


def _read_type(text: str, position: int = 0) -> tuple[Type, int]:
    """Parses the type at `position` of, for example, `map(K, list(V))`; returns it and the position after it."""
    word = _WORD.match(text, position)
    assert word is not None, text
    position = word.end()
    if text[position : position + 1] != "(":
        return _NAMED[word[1]], position
    parameters = []
    while text[position] != ")":
        parameter, position = _read_type(text, position + 1)
        parameters.append(parameter)
    return _MAKERS[word[1]](*parameters), position + 1


def _read_overload(function: str, line: str) -> Overload:
    overload_id, _, signature = line.strip().partition(": ")
    left, _, right = signature.partition(" -> ")
    target, member, listed = left.rpartition(".(")
    if not member:
        listed = left[1:]
    arguments = []
    if member:
        arguments.append(_read_type(target)[0])
    position = 0
    while listed[position] != ")":
        argument, position = _read_type(listed, position)
        arguments.append(argument)
        if listed[position] == ",":
            position += 1
    result = _read_type(right)[0]
    letters = sorted(set(re.findall(r"\b[A-Z]\b", signature)))
    return Overload(overload_id, function, tuple(arguments), result, bool(member), tuple(letters))


def _read(*tables: str) -> Mapping[str, Function]:
    overloads: dict[str, list[Overload]] = {}
    function = ""
    for line in "\n".join(tables).splitlines():
        if line.startswith(" "):
            overloads.setdefault(function, []).append(_read_overload(function, line))
        elif line and not line.startswith("#"):
            function = line
    functions = {}
    for name, listed in overloads.items():
        shapes: dict[tuple[bool, int], tuple[Overload, ...]] = {}
        for overload in listed:
            shape = (overload.member, len(overload.arguments))
            shapes[shape] = (*shapes.get(shape, ()), overload)
        functions[name] = Function(name, tuple(listed), MappingProxyType(shapes))
    return MappingProxyType(functions)


_LISTED: Final = resources.files(__package__).joinpath("functions.txt").read_text(encoding="utf-8")
_TABLES: Final = (_LISTED, _comparisons(), _by_element(), _formats())
_SINCE_1_37 = """
includes
    list_includes_dyn_dyn: dyn.(dyn) -> bool
"""
# An overload that cel-go 0.29 no longer has: it failed whenever it was evaluated.
_UNTIL_1_36 = "    int64_to_duration: (int) -> duration\n"
FUNCTIONS: Final = _read(*_TABLES)
_FUNCTIONS_1_37: Final = _read(*(table.replace(_UNTIL_1_36, "") for table in _TABLES), _SINCE_1_37)


def declared_functions() -> Mapping[str, Function]:
    """The functions that expressions may call in the emulated version."""
    return _FUNCTIONS_1_37 if emulated().is_1_37 else FUNCTIONS


IDENTS: Final[Mapping[str, Type]] = MappingProxyType(
    {
        "bool": type_of(types.BOOL),
        "bytes": type_of(types.BYTES),
        "double": type_of(types.DOUBLE),
        "duration": type_of(types.DURATION),
        "int": type_of(types.INT),
        "list": type_of(list_of(param("A"))),
        "map": type_of(map_of(param("A"), param("B"))),
        "null_type": type_of(types.NULL),
        "string": type_of(types.STRING),
        "timestamp": type_of(types.TIMESTAMP),
        "type": type_of(types.TYPE),
        "uint": type_of(types.UINT),
        "optional_type": type_of(optional_of(param("V"))),
        "net.IP": type_of(types.IP),
        "net.CIDR": type_of(types.CIDR),
        **{name: type_of(message.type) for name, message in MESSAGES.items()},
        NULL_VALUE: types.INT,
    }
)


# -- scopes
# How many of the scopes are global.
_GLOBAL = 2


class Scopes:
    """Which name means which variable or type: the open scopes, outermost first.

    The dict of a scope is not changed once it is pushed. Follows cel-go checker/scopes.go and the resolution of names
    in checker/env.go.
    """

    __slots__ = ("_scopes",)

    def __init__(self, variables: Mapping[str, Type]) -> None:
        self._scopes: list[Mapping[str, Type]] = [IDENTS, variables]  # the global ones

    def push(self, scope: Mapping[str, Type]) -> None:
        self._scopes.append(scope)

    def pop(self) -> None:
        self._scopes.pop()

    def find(self, name: str) -> Type | None:
        """Finds the innermost variable or type of a name, `a` or `a.b`; of `.a` the global one.

        cel-go 0.26 ignores the dot, and prefers a global `a.b` to the field of a local `a`.
        """
        scopes, bare = self._scopes, name.removeprefix(".")
        if emulated().is_1_37:
            first = name.partition(".")[0]
            if bare != name:
                scopes = self._scopes[:_GLOBAL]
            elif first != name and self.is_local(first):
                return None
        for scope in reversed(scopes):
            type_ = scope.get(bare)
            if type_ is not None:
                return type_
        return None

    def is_local(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes[_GLOBAL:])
