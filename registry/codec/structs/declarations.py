"""Reads Go structs from files that declare them as Go does, with the JSON tag of a field in place of its name:

    package v1

    type SecretType string

    type Secret struct
      ,inline metav1.TypeMeta
      metadata metav1.ObjectMeta
      immutable,omitempty *bool
      data,omitempty map[string][]byte
      type,omitempty SecretType

A field of a struct type has no omitempty, because encoding/json never omits a struct. A type that is not a struct is
declared before its use, and so is a struct that another inlines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import resources
from typing import Final

from registry.codec.structs.base import GoType
from registry.codec.structs.scalars import BOOL, BYTES, FLOAT_64, INT_32, INT_64, RAW, STRING, UID, GoScalar
from registry.codec.structs.structs import Field, GoMap, GoSlice, Pointer, Struct

_COMMON: Final[Mapping[str, GoType]] = {
    "string": STRING,
    "bool": BOOL,
    "int32": INT_32,
    "int64": INT_64,
    "float64": FLOAT_64,
    "[]byte": BYTES,
    "JSON": RAW,
    "types.UID": UID,
}


def read_structs(folder: str, name: str, known: Mapping[str, GoType]) -> dict[str, Struct]:
    """Returns the structs that a file in a Python package declares.

    `known` are types of other Go packages, such as `metav1.Time`, and those with a decoder of their own.
    """
    text = resources.files(folder).joinpath(name).read_text(encoding="utf-8")
    package = text.splitlines()[0].removeprefix("package ")
    structs = {struct: Struct(struct, package=package) for struct in re.findall(r"^type (\w+) struct$", text, re.M)}
    types = {**_COMMON, **known, **structs}
    for declaration in re.split(r"^type ", text, flags=re.M)[1:]:
        heading, *fields = declaration.strip().splitlines()
        declared, underlying = heading.split()
        if underlying == "struct":
            structs[declared].extend(tuple(_fields(fields, types)))
        else:
            types[declared] = _named(f"{package}.{declared}", underlying, types)
    return structs


def qualified(package: str, structs: Mapping[str, Struct]) -> dict[str, GoType]:
    """The structs by the names that other packages use: `metav1.ObjectMeta`."""
    return {f"{package}.{name}": struct for name, struct in structs.items()}


def _fields(lines: list[str], types: Mapping[str, GoType]) -> Iterator[Field]:
    for line in lines:
        tag, go_type = line.split()
        name, _, option = tag.partition(",")
        if option == "inline":
            yield from _inlined(types[go_type])
        else:
            yield Field(name, _resolve(go_type, types), required=option != "omitempty")


def _inlined(struct: GoType) -> Iterator[Field]:
    assert isinstance(struct, Struct)
    for field in struct.fields:
        yield replace(field, embedded=f"{struct.name}.{field.embedded}".removesuffix("."))


def _named(go: str, underlying: str, types: Mapping[str, GoType]) -> GoType:
    match _resolve(underlying, types):
        case GoSlice(element=element):
            return GoSlice(element, go)
        case GoMap(element=element):
            return GoMap(element, go)
    assert underlying == "string"
    return GoScalar(go, str, "")


def _resolve(go_type: str, types: Mapping[str, GoType]) -> GoType:
    if go_type in types:
        return types[go_type]
    for prefix, container in (("*", Pointer), ("[]", GoSlice), ("map[string]", GoMap)):
        if go_type.startswith(prefix):
            return container(_resolve(go_type.removeprefix(prefix), types))
    raise LookupError(f"the type {go_type} is not declared")
