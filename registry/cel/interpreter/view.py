"""How CEL accesses the values of a schema node. Built by views.py; schema_values.py reads values through it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from registry.cel.common.values import EvalError, Value

Json = Any

# The Python types of the kinds of values that are read in place.
CONTAINERS: Final[Mapping[str, type]] = {"object": dict, "map": dict, "list": list}


class View:
    """How CEL accesses the values of one node of a schema.

    `kind` is object (with `properties`), map (with `element`), list (with `element`), or scalar. `plain` is the Python
    type whose values are CEL values unchanged, None if each must be converted. `convert` raises EvalError for a value
    that does not fit the schema; it converts null as in a list item or a map value.
    """

    __slots__ = ("convert", "element", "fields", "keys", "kind", "list_type", "nullable", "plain", "properties")

    def __init__(self, kind: str, nullable: bool) -> None:
        self.kind = kind
        self.nullable = nullable
        self.plain: type | None = None
        self.convert: Callable[[Json], Value] = _cannot_convert
        self.properties: Mapping[str, View] = {}  # by property name
        self.fields: Mapping[str, tuple[str, View]] = {}  # by identifier: (name, view)
        self.element: View | None = None
        self.list_type = ""
        self.keys: tuple[str, ...] = ()


def _cannot_convert(value: Json) -> Value:
    raise EvalError("no value")
