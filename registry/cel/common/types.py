"""The types of CEL, as the checker uses them.

The `text` of a Type is its form in cel-go's messages: `int`, `list(string)`, `map(string, dyn)`, `optional_type(int)`,
`type(int)`, `!error!`. Two types are the same if their texts are the same, except for the wrappers in them: the
name of an object type is unique in its schema. Object types carry their fields.

Follows cel-go common/types/types.go and checker/format.go.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


class TypeKind(enum.Enum):
    BOOL = "bool"
    BYTES = "bytes"
    DOUBLE = "double"
    DURATION = "duration"
    DYN = "dyn"
    ERROR = "!error!"  # of an expression with an error that has been reported; assignable to and from every type
    INT = "int"
    LIST = "list"
    MAP = "map"
    NULL = "null"
    OPAQUE = "opaque"  # a named type with parameters: optional_type, net.IP
    PARAM = "param"  # a type parameter, or a type variable
    STRING = "string"
    STRUCT = "struct"  # an object of the schema, or a named type without parameters: kubernetes.Quantity
    TIMESTAMP = "timestamp"
    TYPE = "type"
    UINT = "uint"


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """One type. `runtime_name` is the name of `type(x)`; `open` means that it contains type parameters."""

    kind: TypeKind
    text: str
    runtime_name: str
    parameters: tuple[Type, ...] = ()
    fields: Mapping[str, Type] | None = None  # of objects of a schema, by their CEL names
    open: bool = False
    nullable: bool = False  # null is a value of a wrapper
    size: int = 1  # the number of types that it consists of, not counting the fields of an object

    def __repr__(self) -> str:
        return self.text

    def same(self, other: Type) -> bool:
        """Whether both are one type; a wrapper is that of its values."""
        if self is other or self.kind is not other.kind:
            return self is other
        return self.text == other.text or (
            self.runtime_name == other.runtime_name
            and len(self.parameters) == len(other.parameters)
            and all(map(Type.same, self.parameters, other.parameters))
        )


# Twice the depth of any expression. The type of `[1].map(a, {a: a}).map(b, {b: b})` doubles with each macro.
MAX_SIZE: Final = 1000


class TypeTooLargeError(Exception):
    """A type consists of more than MAX_SIZE types."""


def _make(kind: TypeKind, text: str, runtime_name: str, parameters: tuple[Type, ...]) -> Type:
    size = 1
    is_open = False
    for parameter in parameters:
        size += parameter.size
        is_open = is_open or parameter.open
    if size > MAX_SIZE:
        raise TypeTooLargeError
    return Type(kind, text, runtime_name, parameters, open=is_open, size=size)


def _simple(kind: TypeKind, runtime_name: str = "") -> Type:
    return Type(kind, kind.value, runtime_name or kind.value)


BOOL: Final = _simple(TypeKind.BOOL)
BYTES: Final = _simple(TypeKind.BYTES)
DOUBLE: Final = _simple(TypeKind.DOUBLE)
DURATION: Final = _simple(TypeKind.DURATION, "google.protobuf.Duration")
DYN: Final = _simple(TypeKind.DYN)
ERROR: Final = _simple(TypeKind.ERROR)
INT: Final = _simple(TypeKind.INT)
NULL: Final = _simple(TypeKind.NULL, "null_type")
STRING: Final = _simple(TypeKind.STRING)
TIMESTAMP: Final = _simple(TypeKind.TIMESTAMP, "google.protobuf.Timestamp")
UINT: Final = _simple(TypeKind.UINT)
TYPE: Final = _simple(TypeKind.TYPE)


def list_of(element: Type) -> Type:
    return _make(TypeKind.LIST, f"list({element.text})", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return _make(TypeKind.MAP, f"map({key.text}, {value.text})", "map", (key, value))


def type_of(of: Type) -> Type:
    return _make(TypeKind.TYPE, f"type({of.text})", "type", (of,))


def opaque(name: str, *parameters: Type) -> Type:
    text = f"{name}({', '.join(p.text for p in parameters)})" if parameters else name
    return _make(TypeKind.OPAQUE, text, name, parameters)


def optional_of(of: Type) -> Type:
    return opaque("optional_type", of)


def wrapper_of(of: Type) -> Type:
    """The type of a protobuf wrapper: that of its value, or null."""
    return Type(of.kind, f"wrapper({of.text})", of.runtime_name, nullable=True)


def param(name: str) -> Type:
    return Type(TypeKind.PARAM, name, name, open=True)


def struct(name: str, fields: Mapping[str, Type] | None = None) -> Type:
    return Type(TypeKind.STRUCT, name, name, fields=fields)


IP: Final = opaque("net.IP")
CIDR: Final = opaque("net.CIDR")
QUANTITY: Final = struct("kubernetes.Quantity")
SEMVER: Final = struct("kubernetes.Semver")
URL: Final = struct("kubernetes.URL")
FORMAT: Final = struct("kubernetes.NamedFormat")


def is_optional(of: Type) -> bool:
    return of.kind is TypeKind.OPAQUE and of.runtime_name == "optional_type"


def is_dyn_or_error(of: Type) -> bool:
    return of.kind is TypeKind.DYN or of.kind is TypeKind.ERROR


@dataclass(slots=True)
class Substitutions:
    """The bindings of type parameters, by name; grows while an expression is checked.

    `learned` is the undo log of the current call: each parameter bound by it, with its previous binding. If the types
    turn out not to be assignable, the bindings are restored.

    Follows cel-go checker/types.go and checker/mapping.go.
    """

    known: dict[str, Type] = field(default_factory=dict)
    learned: list[tuple[str, Type | None]] = field(default_factory=list)

    def assignable(self, left: Type, right: Type) -> bool:
        """Whether both can be the same type. Binds type parameters accordingly, only if the result is True."""
        self.learned.clear()
        return self._assignable(left, right) or self._unlearn()

    def all_assignable(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        """The same for pairs of types; both tuples must have the same length."""
        self.learned.clear()
        for one, other in zip(left, right, strict=True):
            if not self._assignable(one, other):
                return self._unlearn()
        return True

    def _learn(self, parameter: str, of: Type) -> None:
        self.learned.append((parameter, self.known.get(parameter)))
        self.known[parameter] = of

    def _unlearn(self) -> bool:
        for parameter, before in reversed(self.learned):
            if before is None:
                del self.known[parameter]
            else:
                self.known[parameter] = before
        return False

    def substitute(self, of: Type, unknown_to_dyn: bool = False) -> Type:
        """`of` with its bound parameters replaced; `unknown_to_dyn` replaces the unbound ones with DYN."""
        if not of.open:
            return of
        if of.kind is TypeKind.PARAM:
            known = self.known.get(of.text)
            if known is not None:
                return self.substitute(known, unknown_to_dyn)
            return DYN if unknown_to_dyn else of
        return _with_parameters(of, [self.substitute(p, unknown_to_dyn) for p in of.parameters])

    def close(self, of: Type, closed: dict[int, Type]) -> Type:
        """The same as `substitute(of, True)`. `closed` caches results by the identity of types: nested lists would be
        rebuilt at each level otherwise."""
        if not of.open:
            return of
        closed_type = closed.get(id(of))
        if closed_type is None:
            if of.kind is TypeKind.PARAM:
                known = self.known.get(of.text)
                closed_type = DYN if known is None else self.close(known, closed)
            else:
                closed_type = _with_parameters(of, [self.close(p, closed) for p in of.parameters])
            closed[id(of)] = closed_type
        return closed_type

    def _assignable(self, left: Type, right: Type) -> bool:
        if left is right:
            return True
        if right.kind is TypeKind.PARAM:
            valid, known = self._fits(left, right)
            if valid or known:
                return valid
        if left.kind is TypeKind.PARAM:
            return self._fits(right, left)[0]
        if is_dyn_or_error(left) or is_dyn_or_error(right):
            return True
        if left.kind is TypeKind.NULL:
            return right.nullable or right.kind in _NULLABLE
        if right.kind is TypeKind.NULL:
            return left.nullable or left.kind in _NULLABLE
        if left.kind is not right.kind:
            return False
        if left.kind in _CONTAINERS:
            return (
                left.runtime_name == right.runtime_name
                and len(left.parameters) == len(right.parameters)
                and all(self._assignable(*pair) for pair in zip(left.parameters, right.parameters, strict=True))
            )
        return left.kind is TypeKind.TYPE or left.runtime_name == right.runtime_name

    def _fits(self, of: Type, parameter: Type) -> tuple[bool, bool]:
        """Whether `of` can be bound to `parameter`, and whether the parameter was already bound (or is `of` itself)."""
        if of.same(parameter):
            return True, True
        known = self.known.get(parameter.text)
        if known is None:
            if not self._free_of(parameter, of):
                return False, False
            self._learn(parameter.text, of)
            return True, False
        if of.same(known):
            return True, True
        if not self._assignable(of, known):
            return False, True
        general = most_general(of, known)
        if self._free_of(parameter, general):
            self._learn(parameter.text, general)
        return True, True

    def _free_of(self, parameter: Type, within: Type) -> bool:
        """Whether `parameter` does not occur in `within` (the occurs check)."""
        if not within.open:
            return True
        if within.kind is TypeKind.PARAM:
            if within.text == parameter.text:
                return False
            known = self.known.get(within.text)
            return known is None or self._free_of(parameter, known)
        return all(self._free_of(parameter, p) for p in within.parameters)


def _with_parameters(of: Type, parameters: list[Type]) -> Type:
    match of.kind:
        case TypeKind.LIST:
            return list_of(*parameters)
        case TypeKind.MAP:
            return map_of(*parameters)
        case TypeKind.TYPE:
            return type_of(*parameters)
        case _:
            return opaque(of.runtime_name, *parameters)


_NULLABLE: Final = frozenset((TypeKind.NULL, TypeKind.OPAQUE, TypeKind.STRUCT, TypeKind.DURATION, TypeKind.TIMESTAMP))
_CONTAINERS: Final = frozenset((TypeKind.OPAQUE, TypeKind.LIST, TypeKind.MAP))


def most_general(left: Type, right: Type) -> Type:
    """The less specific of two types that are assignable to each other."""
    return left if _less_specific(left, right) else right


def _less_specific(left: Type, right: Type) -> bool:
    if left.kind in (TypeKind.DYN, TypeKind.PARAM):
        return True
    if right.kind in (TypeKind.DYN, TypeKind.PARAM) or left.kind is not right.kind:
        return False
    if left.kind in _CONTAINERS:
        return (
            left.runtime_name == right.runtime_name
            and len(left.parameters) == len(right.parameters)
            and all(_less_specific(*pair) for pair in zip(left.parameters, right.parameters, strict=True))
        )
    return left.kind is TypeKind.TYPE or left.runtime_name == right.runtime_name
