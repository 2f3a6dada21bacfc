"""Simple paths into a schema: `.spec.host` of selectableFields, `.spec['a.b']` of a rule's fieldPath.

Follows ValidFieldPath of apiextensions-apiserver pkg/apiserver/schema/cel/validation.go at v0.36.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]


class SchemaPathError(ValueError):
    """The path does not exist in the schema; the text says why."""


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """`path` as field errors print it, `root` its first segment, `schema` the node at its end."""

    path: str
    root: str
    schema: Schema


# A delimiter, a text in single quotes (which may contain escaped quotes), or what is between delimiters.
_TOKEN = re.compile(r"[.\[\]]|'(?:.*?(?<!\\)'|.*)|[^.\[\]]+", re.DOTALL)


def resolve(json_path: str, schema: Schema, *, brackets: bool = True) -> ResolvedPath:
    """The node at `json_path` in `schema`. An empty path is the schema itself. Raises PathError."""
    tokens = iter(_TOKEN.findall(json_path))
    path, root = "", ""
    for token in tokens:
        if token == ".":
            name = _next(tokens)
        elif token == "[":
            if not brackets:
                raise SchemaPathError("array notation is not allowed")
            name = _unquote(_next(tokens))
        else:
            raise SchemaPathError(f"expected [ or . but got: {token}")
        properties, additional = schema.get("properties"), schema.get("additionalProperties")
        if properties:
            if name not in properties:
                raise SchemaPathError("does not refer to a valid field")
            path, schema = f"{path}.{name}" if path else name, properties[name]
        elif additional is not None:
            path, schema = f"{path}[{name}]", additional if type(additional) is dict else {}
        else:
            raise SchemaPathError("does not refer to a valid field")
        root = root or name
        if token == "[":
            closing = _next(tokens)
            if closing != "]":
                raise SchemaPathError(f"expected ] but got {closing}")
    return ResolvedPath(path, root, schema)


def _next(tokens: Any) -> str:
    token: str | None = next(tokens, None)
    if token is None:
        raise SchemaPathError("unexpected end of JSON path")
    return token


_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def _unquote(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise SchemaPathError(f"expected single quoted string but got {token}")
    out, characters = [], iter(token[1:-1])
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if escaped not in _ESCAPES or not escaped:
                raise SchemaPathError("invalid string literal: invalid escape sequence")
            character = _ESCAPES[escaped]
        out.append(character)
    return "".join(out)
