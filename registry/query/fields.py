"""Paths to fields, and the fields that a schema has there.

    spec.size        .spec.size        metadata.labels['app.kubernetes.io/name']        spec.tags[*]

A path is a tuple of names; EACH stands for every element of an array. `resolve` gives the field: its schema, the view
by which CEL reads it, and its kind, which says how it is ordered.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from registry.cel.interpreter.view import View
from registry.cel.interpreter.views import view_of
from registry.schema.model import UNSET, Structural
from registry.schema.objectmeta.structural import OBJECT_META, TEXT

Path = tuple[str, ...]

EACH: Final = "[*]"
MAX_LENGTH: Final = 1000
_STEP: Final = re.compile(r"""\.?([A-Za-z0-9_$-]+)|\['([^']*)'\]|\["([^"]*)"\]|(\[\*\])""")
_BRACKET: Final = re.compile(r"[\[\]]")


class FieldPathError(ValueError):
    """The text says what is wrong with a path, for the client."""


class FieldKind(enum.Enum):
    """How values are ordered."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"
    DURATION = "duration"
    BYTES = "bytes"
    INT_OR_STRING = "int-or-string"


@dataclass(frozen=True, slots=True)
class QueryField:
    """A scalar field, or with EACH at the end of its path the elements of an array of scalars."""

    path: Path
    kind: FieldKind
    view: View

    @property
    def is_array(self) -> bool:
        return self.path[-1] == EACH

    @property
    def text(self) -> str:
        return path_text(self.path)


def split(text: str, separator: str) -> list[str]:
    """Splits at separators outside of brackets: `spec.a, metadata.labels['x,y']` has two parts.

    A separator is inside if the next bracket closes.
    """
    parts, start, bracket = [], 0, -1
    position = text.find(separator)
    while position >= 0:
        if bracket < position:
            ahead = _BRACKET.search(text, position)
            bracket = len(text) if ahead is None else ahead.start()
        if not text.startswith("]", bracket):
            parts.append(text[start:position])
            start = position + 1
        position = text.find(separator, position + 1)
    return [*parts, text[start:]]


def parse_path(text: str) -> Path:
    """Parses a path. Raises FieldPathError."""
    if len(text) > MAX_LENGTH:
        raise FieldPathError(f"the path is longer than {MAX_LENGTH} characters")
    steps: list[str] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None or (match[1] and position and text[position] != "."):
            raise FieldPathError(
                f'"{text}" is not a path of a field: found "{text[position]}" at character {position + 1}'
            )
        steps.append(next(part for part in match.groups() if part is not None))
        position = match.end()
    if not steps or steps[0] == EACH:
        raise FieldPathError(f'"{text}" is not a path of a field')
    return tuple(steps)


def path_text(path: Path) -> str:
    """Formats a path: `metadata.labels['a.b/c']`."""
    text = ""
    for step in path:
        if step == EACH:
            text += EACH
        elif _STEP.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"['{step}']"
    return text


def resolve(root: Structural, path: Path) -> QueryField:
    """Returns the field. Raises FieldPathError if the schema has no scalar there. `root` is that of `query_schema`."""
    nodes = list(nodes_along(root, path))
    node = nodes[-1] if len(nodes) == len(path) else None
    kind = kind_of(node) if node is not None else None
    if EACH in path[:-1]:
        raise FieldPathError(
            f'"{path_text(path)}" leads through an array: only the elements of an array of scalars count'
        )
    if node is None:
        raise FieldPathError(f'"{path_text(path)}": the schema has no such field')
    if kind is None:
        raise FieldPathError(f'"{path_text(path)}" is not a scalar field')
    return QueryField(path, kind, view_of(node))


def nodes_along(root: Structural, path: Path) -> Iterator[Structural]:
    """Yields the schemas at each step of a path, as far as there are any."""
    node: Structural | None = root
    for step in path:
        assert node is not None
        if step == EACH:
            node = node.items if node.type == "array" else None
        elif step in node.properties:
            node = node.properties[step]
        elif isinstance(node.additional_properties, Structural) and not node.properties:
            node = node.additional_properties
        else:
            node = None
        if node is None:
            return
        yield node


_BY_FORMAT: Final = {
    "date-time": FieldKind.TIME,
    "date": FieldKind.TIME,
    "duration": FieldKind.DURATION,
    "byte": FieldKind.BYTES,
}
_BY_TYPE: Final = {"integer": FieldKind.INTEGER, "number": FieldKind.NUMBER, "boolean": FieldKind.BOOLEAN}


def kind_of(schema: Structural) -> FieldKind | None:
    if schema.int_or_string:
        return FieldKind.INT_OR_STRING
    if schema.type == "string":
        return _BY_FORMAT.get(schema.format, FieldKind.STRING)
    return _BY_TYPE.get(schema.type)


def values_at(obj: Any, path: Path) -> list[Any]:
    """Returns the values at a path of an object: none, one, or those of an array's elements. Null counts as none."""
    value = obj
    for step in path:
        if step == EACH:
            return [one for one in value if one is not None] if isinstance(value, list) else []
        if not isinstance(value, dict):
            return []
        value = value.get(step)
    return [] if value is None else [value]


def elements_at(obj: Any, path: Path) -> list[Any]:
    """Returns the elements of an array at a path that ends with EACH, including null."""
    values = values_at(obj, path[:-1])
    return values[0] if values and isinstance(values[0], list) else []


def projection(root: Structural, path: Path) -> list[Any]:
    """Returns, as JSON, what of a schema determines the value at a path: equal ones read the same from stored
    bodies."""
    return [
        [
            node.type,
            node.nullable,
            node.format,
            node.int_or_string,
            node.preserve_unknown_fields,
            node.embedded_resource,
            None if node.default is UNSET else [node.default],
        ]
        for node in (root, *nodes_along(root, path))
    ]


# --- the schema of an object, with all of its metadata

# Queries neither compare revisions nor look into managed fields.
_NOT_QUERIED: Final = ("selfLink", "resourceVersion", "managedFields")
METADATA: Final = replace(
    OBJECT_META, properties={name: of for name, of in OBJECT_META.properties.items() if name not in _NOT_QUERIED}
)


@lru_cache(maxsize=1024)
def query_schema(schema: Structural) -> Structural:
    """Returns a version's schema with the apiVersion, kind and metadata of every object; cached for equal schemas."""
    properties = {**schema.properties, "apiVersion": TEXT, "kind": TEXT, "metadata": METADATA}
    return replace(schema, type="object", properties=properties, items=None, additional_properties=None)
